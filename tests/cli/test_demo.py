"""`grove demo`: it shows every step, ends well, and leaves nothing behind."""

import re

import pytest
from tests.docs.transcripts import agrees, difference, steps

from grove.cli.showing import MILESTONES

from .conftest import ROOT
from .processes import started


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the demonstration prints; it ended well."""
    with started("demo", folder=tmp_path_factory.mktemp("demo")) as process:
        told = process.output.read()
        assert process.end() == 0, process.said
        assert not process.anything_left()
    return told


def test_the_demonstration_shows_every_milestone_of_each_gang_and_ends_well(told: str) -> None:
    assert "\x1b" not in told
    others = ("on-koordinator-0", "on-volcano-0", "on-yunikorn-0")
    grouped = ("llm-0", "llm-0-prefill-0", "llm-1", "llm-1-prefill-0")
    for gang in (*grouped, "leader-workers-0", *others, "packed-0", "too-big-0"):
        for milestone in MILESTONES:
            if milestone != "objects":
                assert re.search(rf"^ *\d+\.\d\ds  {milestone} +{gang}[ :]", told, re.MULTILINE), (
                    gang,
                    milestone,
                )
    assert "the schedulers shown here are simulations on an embedded cluster" in told.splitlines()[0]
    assert "scheduling.k8s.io/v1alpha2" in told
    assert "scheduling.run.ai/v2alpha2" in told
    assert "scheduling.sigs.k8s.io/v1alpha1" in told
    assert "scheduling.volcano.sh/v1beta1" in told
    why, joined = told.index("why not    too-big-0"), told.index("big-node joined")
    assert why < joined < told.index("running    too-big-0")
    assert "└─ PodGang too-big-0  replica 0  Running" in told


def test_the_demonstration_shows_a_scaled_gang_that_waits_for_its_base(told: str) -> None:
    said = "0 of 2 pods placed; its base gang llm-1 must be placed first."
    waits, joined = told.index(f"why not    llm-1-prefill-0: {said}"), told.index("more-0 joined")
    assert waits < joined
    assert told.index("why not    llm-1: 0 of 5 pods placed; 0/9 nodes are available") < joined
    for set_replica in ("llm-0", "llm-1"):
        bound = told.index(f"bound      {set_replica}:")
        released = told.index(f"released   {set_replica}-prefill-0:")
        assert bound < released
    assert "   └─ PodGang llm-1-prefill-0  replica 1 of llm-1-prefill  Running" in told


def test_the_demonstration_prints_what_the_readme_shows(told: str) -> None:
    (shown,) = [step for step in steps(ROOT / "README.md") if step.command == "make demo"]
    assert agrees(shown.shown, told), difference(shown, told)


def test_the_examples_that_ship_are_those_in_the_repository() -> None:
    shipped = ROOT / "src" / "grove" / "cli" / "examples"
    names = sorted(file.name for file in shipped.glob("*.yaml"))
    assert names == sorted(file.name for file in (ROOT / "examples").glob("*.yaml"))
    for name in names:
        assert (shipped / name).read_text() == (ROOT / "examples" / name).read_text()
