"""A PodCliqueSet in, every object out: one folder for each case, reviewed as a diff.

The folder's name begins with what the cluster offers: a Kubernetes minor, `none` for no gang API, or a backend.
"""

from pathlib import Path

import pytest
import yaml

from grove.backends.registry import BUILT_INS
from grove.cli.documents import parse
from grove.cli.given import given_in
from grove.cli.rendering import cluster, judge_manifest, render_set
from grove.errors import InvalidInput
from grove.meta import Manifest

HERE = Path(__file__).parent
CASES = sorted(folder.parent for folder in HERE.glob("*/in.yaml"))


def minor_of(case: Path) -> str:
    offer = case.name.partition("-")[0]
    return "1.36" if offer in BUILT_INS else offer


def rendered(case: Path) -> list[Manifest]:
    """Every object that would exist, after what is said besides; or why the set is refused."""
    documents = parse((case / "in.yaml").read_text(), "in.yaml")
    (cliqueset,) = [each.manifest for each in documents if each.kind == "PodCliqueSet"]
    try:
        judged = judge_manifest(cliqueset, given_in(documents), cluster(minor_of(case)))
        result = render_set(judged)
    except InvalidInput as refused:
        return [{"refused": [str(each) for each in refused.errors]}]
    said = {"warnings": list(judged.notices), "losses": [str(each) for each in result.losses]}
    spoken = {name: lines for name, lines in said.items() if lines}
    return [*([spoken] if spoken else []), *result.objects]


class Plain(yaml.SafeDumper):
    """Repeats what is the same instead of pointing to it."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def dumped(documents: list[Manifest]) -> str:
    return yaml.dump_all(documents, Dumper=Plain, sort_keys=False, width=110, explicit_start=True)


def test_there_are_cases_for_every_way_of_scheduling() -> None:
    offers = {"1.35", "1.36", "1.37", "none", *BUILT_INS} - {"default"}
    assert {case.name.partition("-")[0] for case in CASES} == offers


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_set_becomes_exactly_these_objects(case: Path, rewrite: bool) -> None:
    out = case / "out.yaml"
    text = dumped(rendered(case))
    if rewrite:
        out.write_text(text)
    assert out.read_text() == text, (
        "review with: pytest tests/golden --rewrite-goldens && git diff tests/golden"
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_rendering_twice_gives_the_same(case: Path) -> None:
    assert dumped(rendered(case)) == dumped(rendered(case))
