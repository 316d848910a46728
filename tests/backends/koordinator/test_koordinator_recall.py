"""What koord-scheduler must be shown again when a PodGroup came back."""

from dataclasses import dataclass, field

import pytest

from grove.api.labels import RECREATED, RESYNCED_FOR
from grove.api.pod import Pod
from grove.backends.base import Context, GangSnapshot
from grove.backends.koordinator.backend import POD_GROUP_LABEL, SENTINEL, KoordinatorBackend
from grove.meta import Manifest
from grove.testing import make
from grove.testing.virtual_time import EPOCH

BACKEND = KoordinatorBackend()


def group(name: str, *, recreated: bool = True, phase: str = "Pending") -> Manifest:
    marks = {RECREATED: "true"} if recreated else {}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "annotations": marks},
        "spec": {"minMember": 2},
        "status": {"phase": phase} if phase else {},
    }


def pod(name: str, *, of: str = "a", node: str = "", shown: str = "", phase: str = "Pending") -> Pod:
    metadata: Manifest = {"name": name, "namespace": "default", "uid": name}
    metadata["labels"] = {POD_GROUP_LABEL: of} if of else {}
    metadata["annotations"] = {RESYNCED_FOR: shown} if shown else {}
    return make.view(
        Pod, {"metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": {"phase": phase}}
    )


@dataclass(frozen=True)
class Case:
    objects: list[Manifest]
    pods: list[Pod]
    #: Whether there is something to do at all, and whether the objects stay as they came back.
    waits: bool = False
    touched: dict[str, str] = field(default_factory=dict)
    replaced: list[str] = field(default_factory=list)


CASES = {
    "no object came back": Case([group("a", recreated=False)], [pod("one")]),
    "nobody is touched before Koordinator has seen the new one": Case(
        [group("a", phase="")], [pod("one")], waits=True
    ),
    "of a waiting gang all are touched": Case(
        [group("a")],
        [pod("one"), pod("two", shown="uid-of-an-older-one")],
        waits=True,
        touched={"one": "uid-a", "two": "uid-a"},
    ),
    "what was touched is known, and the object may be whole": Case(
        [group("a")], [pod("one", shown="uid-a"), pod("two", shown="uid-a")]
    ),
    "a pod that is no member, or of another object, or done, is left alone": Case(
        [group("a"), group("b", recreated=False)],
        [pod("one", of=""), pod("two", of="b"), pod("x", phase="Failed")],
    ),
    "of a placed gang first those with nodes are touched": Case(
        [group("a")], [pod("one", node="n"), pod("two")], waits=True, touched={"one": "uid-a"}
    ),
    "then those that wait are replaced": Case(
        [group("a")], [pod("one", node="n", shown="uid-a"), pod("two")], replaced=["two"]
    ),
    "a gang is placed where any of its objects has pods with nodes": Case(
        [group("a"), group("b", recreated=False)],
        [pod("one"), pod("two", of="b", node="n")],
        replaced=["one"],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_must_be_shown_again(case: Case) -> None:
    snapshot = GangSnapshot(make.gang("train-0"), case.pods, Context(), EPOCH, case.objects)
    found = BACKEND.lifecycle(snapshot)
    touched = {each.name: marks.annotations[RESYNCED_FOR] for each, marks in found.touch}
    replaced = [each.name for each in found.replace]
    assert (found.hold_back, touched, replaced) == (case.waits, case.touched, case.replaced)


def test_what_comes_back_can_place_nothing_and_says_that_it_came_back() -> None:
    translated = {"kind": "PodGroup", **group("a", recreated=False)}
    snapshot = GangSnapshot(make.gang("train-0"), (), Context(), EPOCH, translated=[translated])
    (found,) = BACKEND.lifecycle(snapshot).recreated.values()
    assert found["spec"]["minMember"] == SENTINEL
    assert found["metadata"]["annotations"] == {RECREATED: "true"}
    assert translated == {"kind": "PodGroup", **group("a", recreated=False)}
