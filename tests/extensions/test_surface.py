"""A third party's backend is as good as a built-in wherever backends are named; a broken one says why."""

import logging
from pathlib import Path

import pytest
import yaml
from tests.extensions.packages import backend_source, install

from grove.api import kinds
from grove.api.config import load
from grove.cli.main import main
from grove.errors import InvalidConfiguration
from grove.testing import make
from grove.testing.world import World, WorldOptions, configuration_for, run_world

SET = yaml.safe_dump(make.cliqueset_manifest("train", {"worker": 2}))


def rendered(site: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    file = site.parent / "set.yaml"
    file.write_text(SET)
    code = main(["render", "-f", str(file), *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_render_shows_what_it_makes_of_a_set(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(site, "acme-grove", backend_source("acme"), points={"acme": "acme_grove:Backend"})
    code, out, _ = rendered(site, capsys, "--backend", "acme")
    assert code == 0
    pods = [each for each in yaml.safe_load(out)["items"] if each["kind"] == "Pod"]
    assert {each["spec"]["schedulerName"] for each in pods} == {"acme-scheduler"}


def test_render_compares_it_with_the_others(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(site, "acme-grove", backend_source("acme"), points={"acme": "acme_grove:Backend"})
    _, out, _ = rendered(site, capsys, "--backend", "all")
    items = yaml.safe_load(out)["items"]
    assert "acme" in {each["metadata"]["annotations"]["grove.io/scheduler-backend"] for each in items}


def test_render_says_what_is_wrong_with_a_broken_one_and_works_for_others(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(site, "acme-grove", "import nothing_of_this_name", points={"acme": "acme_grove:Backend"})
    code, out, err = rendered(site, capsys, "--backend", "acme")
    assert (code, out) == (1, "")
    assert err.startswith("grove: acme-grove 1.0: the entry point 'acme' of grove.backends")
    assert rendered(site, capsys, "--backend", "kai")[0] == 0


def test_an_operator_works_beside_a_broken_package_and_logs_its_sentence(
    site: Path, caplog: pytest.LogCaptureFixture
) -> None:
    install(site, "acme-grove", "import nothing_of_this_name", points={"acme": "acme_grove:Backend"})

    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}))

        async def running() -> bool:
            return await world.phase("train-0") == "Running"

        await world.until(running, "the gang runs")

    with caplog.at_level(logging.WARNING):
        run_world(story)
    told = [vars(each)["error"] for each in caplog.records if "cannot be used" in each.message]
    assert len(told) == 1
    assert "acme-grove 1.0: the entry point 'acme'" in told[0]


def test_an_operator_does_not_start_with_a_profile_that_cannot_be_used(site: Path) -> None:
    install(site, "acme-grove", "import nothing_of_this_name", points={"acme": "acme_grove:Backend"})
    text = configuration_for("acme")

    async def story(world: World) -> None:
        raise AssertionError("it started")

    with pytest.raises(InvalidConfiguration, match=r"profiles\[1\].name: acme-grove 1.0: the entry point"):
        run_world(story, WorldOptions(configuration=load(text)))


def test_a_set_that_names_the_third_partys_scheduler_gets_its_pods(site: Path) -> None:
    install(site, "acme-grove", backend_source("acme"), points={"acme": "acme_grove:Backend"})
    text = configuration_for("acme-scheduler")
    roles = [make.template("worker", 2, pod={"schedulerName": "acme-scheduler"})]

    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", roles))

        async def there() -> bool:
            return len(await world.pods()) == 2

        await world.until(there, "the pods exist")
        gang = await world.get(kinds.GANGS, "train-0")
        assert gang is not None
        assert gang["metadata"]["labels"]["grove.io/scheduler-backend"] == "acme"
        gates = {
            gate["name"] for pod in await world.pods() for gate in pod["spec"].get("schedulingGates", ())
        }
        assert gates <= {"acme.example.com/gang"}

    run_world(story, WorldOptions(schedulers=("kai",), configuration=load(text)))
