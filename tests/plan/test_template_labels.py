"""Which label a clique keeps, gets back and remembers: nobody's hash is ever compared with another's."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import pytest

from grove.api import labels
from grove.api.clique import PodClique
from grove.api.pod import Pod
from grove.meta import Manifest
from grove.plan.update.template_labels import remembering, template_label
from grove.testing import make

OURS, THEIRS = "ours", "theirs"
EMPTY: Mapping[str, str] = MappingProxyType({})


def manifest(image: str, label: str, annotations: Mapping[str, str] = EMPTY) -> Manifest:
    marks = {labels.TEMPLATE_REVISION: "s", **annotations}
    spec = {"podSpec": {"containers": [{"name": "a", "image": image}]}}
    told = {labels.POD_TEMPLATE_HASH: label} if label else {}
    return make.clique_manifest("t-0-w", 2, spec=spec, labels=told, annotations=marks)


def living(
    image: str, label: str, status: Manifest | None = None, annotations: Mapping[str, str] = EMPTY
) -> PodClique:
    return make.view(PodClique, {**manifest(image, label, annotations), "status": status or {}})


def pods(*carried: str) -> list[Pod]:
    marks = [{labels.POD_TEMPLATE_HASH: each} for each in carried]
    return [make.pod("t-0-w", index, labels=each, node="n") for index, each in enumerate(marks)]


def memory_of(image: str, label: str) -> dict[str, str]:
    """What a clique remembers that had this label for this image, and has another template now."""
    text = remembering(living(image, label), OURS, pods(label))
    assert text is not None
    return {labels.TEMPLATE_LABELS: text}


@dataclass(frozen=True)
class Case:
    living: PodClique
    pods: Sequence[Pod] | None
    want: str
    desired: Manifest = field(default_factory=lambda: manifest("x:1", OURS))


ROLLED_OUT = {"replicas": 2, "currentPodTemplateHash": THEIRS}
AT_WORK = {**ROLLED_OUT, "updateProgress": {"podTemplateHash": OURS, "podCliqueSetGenerationHash": "s"}}
REMEMBERED = memory_of("x:1", THEIRS)
CASES = {
    "ours": Case(living("x:1", OURS), pods(OURS), OURS),
    "ours, while pods are of an earlier template": Case(living("x:1", OURS), pods(THEIRS), OURS),
    "another's, which pods have": Case(living("x:1", THEIRS), pods(THEIRS, "older"), THEIRS),
    "another's, where nobody looked at pods": Case(living("x:1", THEIRS), None, THEIRS),
    "another's, before pods are seen": Case(living("x:1", THEIRS, {"replicas": 2}), pods(), THEIRS),
    "another's, of a clique that had pods": Case(
        living("x:1", THEIRS, {"currentPodTemplateHash": THEIRS}), pods(), THEIRS
    ),
    "another's, of a clique without pods": Case(living("x:1", THEIRS), pods(), OURS),
    "another template": Case(living("x:0", THEIRS), pods(THEIRS), OURS),
    "edited": Case(living("x:1", "edited"), pods(OURS), OURS),
    "removed": Case(living("x:1", ""), pods(OURS), OURS),
    "another's, edited": Case(living("x:1", "edited", ROLLED_OUT), pods(THEIRS), THEIRS),
    "another's, removed": Case(living("x:1", "", ROLLED_OUT), pods(THEIRS), THEIRS),
    "edited, while pods are of an earlier template": Case(
        living("x:1", "edited", AT_WORK), pods(THEIRS), OURS
    ),
    "edited, while pods are of a template that is remembered": Case(
        living("x:1", "edited", ROLLED_OUT, memory_of("x:0", THEIRS)), pods(THEIRS), OURS
    ),
    "a template that is back": Case(
        living("x:0", "new", annotations=REMEMBERED), pods("new", THEIRS), THEIRS
    ),
    "a template that is back, edited": Case(
        living("x:1", OURS, annotations=REMEMBERED), pods(THEIRS), THEIRS
    ),
    "a template that is back, which has got our label": Case(
        living("x:0", "new", annotations=REMEMBERED), pods(THEIRS, OURS), OURS
    ),
    "a third template": Case(
        living("x:1", THEIRS, annotations=REMEMBERED), pods(THEIRS), OURS, manifest("x:3", OURS)
    ),
    "a memory that nobody can read": Case(
        living("x:0", "new", annotations={labels.TEMPLATE_LABELS: "[1"}), pods(THEIRS), OURS
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_label_of_a_clique(case: Case) -> None:
    assert template_label(case.desired, case.living, case.pods) == case.want


def test_only_labels_of_others_are_remembered() -> None:
    assert remembering(living("x:1", OURS), OURS, pods(OURS)) is None
    assert remembering(living("x:1", ""), OURS, pods(OURS)) is None
    assert remembering(living("x:1", "edited"), OURS, pods(OURS)) is None


def test_a_label_that_is_the_hash_of_what_it_stands_for_is_ours_though_nobody_recorded_the_template() -> None:
    found = json.loads(memory_of("x:1", THEIRS)[labels.TEMPLATE_LABELS])
    (meaning,) = found
    assert found == {meaning: THEIRS}
    assert remembering(living("x:1", meaning), "", pods(meaning)) is None


def test_what_others_gave_a_clique_is_no_part_of_what_it_remembers() -> None:
    noted = memory_of("x:1", THEIRS)
    marked = remembering(living("x:1", THEIRS, annotations={"note": "of somebody"}), OURS, pods(THEIRS))
    assert {labels.TEMPLATE_LABELS: marked} == noted


def test_a_clique_remembers_the_latest_templates_only() -> None:
    text, annotations = "", dict[str, str]()
    for number in range(30):
        clique = living(f"x:{number}", f"l{number}", annotations=annotations)
        text = remembering(clique, OURS, pods(f"l{number}")) or ""
        annotations = {labels.TEMPLATE_LABELS: text}
    assert [each for each in ("l29", "l20", "l19") if f'"{each}"' in text] == ["l29", "l20"]
