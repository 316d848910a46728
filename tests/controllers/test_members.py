"""Which pods belong to a gang: by the UIDs of their owners, not by labels alone."""

import pytest
from tests.controllers.stores import cache

from grove.api import kinds, labels
from grove.api.clique import PodClique
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.controllers.members import cliques_of, of_one_set, pods_of, stray_pods_of
from grove.meta import Manifest, Object
from grove.testing import make

ROLE = "train-0-worker"


def owned(manifest: Manifest, kind: str, name: str, uid: str) -> Manifest:
    reference = {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "controller": True}
    return {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": [reference]}}


def gang(set_uid: str = "uid-set", *, standalone: bool = False) -> PodGang:
    groups = {ROLE: 2}
    if standalone:
        return make.view(PodGang, make.gang_manifest("train-0", groups))
    ours = make.gang_manifest("train-0", groups, cliqueset="train")
    return make.view(PodGang, owned(ours, "PodCliqueSet", "train", set_uid))


def clique(set_uid: str = "uid-set", **fields: object) -> PodClique:
    manifest = make.clique_manifest(ROLE, 2, uid="uid-clique", **fields)  # type: ignore[arg-type]
    return make.view(PodClique, owned(manifest, "PodCliqueSet", "train", set_uid))


def pod(name: str, owner: str = "uid-clique", **marks: str) -> Pod:
    manifest = make.pod_manifest(ROLE, 0, name=name, uid=f"uid-{name}", gang=gang())
    manifest["metadata"]["labels"].update(marks)
    return make.view(Pod, owned(manifest, kinds.CLIQUES.kind, ROLE, owner) if owner else manifest)


def placeholder(name: str, manager: str = labels.MANAGER) -> Pod:
    manifest = make.pod_manifest(ROLE, 0, name=name, uid=f"uid-{name}", gang=gang())
    del manifest["metadata"]["labels"][labels.POD_CLIQUE]
    manifest["metadata"]["labels"][labels.MANAGED_BY] = manager
    return make.view(Pod, manifest)


CASES: dict[str, tuple[list[Object], list[str]]] = {
    "pods that its clique owns": ([clique(), pod("a"), pod("b")], ["a", "b"]),
    "pods of another clique of this name": ([clique(), pod("a", "uid-earlier")], []),
    "pods of nobody": ([clique(), pod("a", "")], []),
    "a pod whose label somebody changed": ([clique(), pod("a", **{labels.POD_CLIQUE: "x"})], ["a"]),
    "what a scheduler made to hold a place": ([clique(), placeholder("tg-0")], ["tg-0"]),
    "what somebody else labelled like that": ([clique(), placeholder("tg-0", "x")], []),
    "pods of a clique of an earlier set": ([clique("uid-other-set"), pod("a")], []),
    "pods of a clique that goes": ([clique(deleted=True), pod("a")], []),
    "no clique": ([pod("a")], []),
}


@pytest.mark.parametrize(("objects", "want"), CASES.values(), ids=CASES)
def test_the_pods_of_a_gang(objects: list[Object], want: list[str]) -> None:
    assert sorted(each.name for each in pods_of(cache(*objects), gang())) == want


def test_whoever_makes_a_gang_by_hand_labels_its_pods() -> None:
    assert [each.name for each in pods_of(cache(pod("a", "")), gang(standalone=True))] == ["a"]
    assert cliques_of(cache(clique()), gang(standalone=True)) == []


def test_a_pod_counts_for_the_clique_that_owns_it_whatever_its_labels_say() -> None:
    (found,) = pods_of(cache(clique(), pod("a", **{labels.POD_CLIQUE: "x"})), gang())
    assert found.labels[labels.POD_CLIQUE] == ROLE


def test_strangers_carry_the_labels_and_belong_to_nobody() -> None:
    there = cache(clique(), pod("a"), pod("b", ""), pod("c", "uid-earlier"))
    members = pods_of(there, gang())
    assert [each.name for each in stray_pods_of(there, gang(), members)] == ["b"]


def test_children_that_lost_their_owner_are_taken_for_the_same_set() -> None:
    lost = make.clique(ROLE, 2, labels=labels.owned_by("train"))
    assert of_one_set(cache(), lost, gang())
    assert of_one_set(cache(), clique(), gang())
    assert not of_one_set(cache(), clique("uid-other"), gang())


@pytest.mark.parametrize("marks", [{}, labels.owned_by("other")], ids=["no-label", "of-another-set"])
def test_a_clique_without_an_owner_that_the_set_does_not_know_belongs_to_somebody_else(
    marks: dict[str, str],
) -> None:
    assert not of_one_set(cache(), make.clique(ROLE, 2, labels=marks), gang())
