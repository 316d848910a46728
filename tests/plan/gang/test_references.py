"""Which pods a gang lists, and when it is complete."""

import pytest

from grove.api import labels
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.plan.gang.references import complete, references, referencing_podgroups
from grove.testing import make

LEADER, WORKER = "train-0-leader", "train-0-worker"
PRESENT, EARLIER = "bcdfghjklm", "nprstvwxyz"


def gang(*workers: Pod, uids: bool = True) -> PodGang:
    """A gang that lists one leader and these workers."""
    groups = [make.podgroup(LEADER, 1), make.podgroup(WORKER, 2)]
    for group, listed in zip(groups, ([pod("l", clique=LEADER)], workers), strict=True):
        group["podReferences"] = [
            {"namespace": each.namespace, "name": each.name} | ({"uid": each.uid} if uids else {})
            for each in listed
        ]
    return make.gang("train-0", groups)


def pod(name: str, revision: str = PRESENT, clique: str = WORKER, **fields: object) -> Pod:
    marks = {labels.GANG_REVISION: revision} if revision else {}
    return make.pod(clique, 0, name=name, annotations=marks, **{"uid": f"uid-{name}", **fields})  # type: ignore[arg-type]


LISTED: dict[str, tuple[Pod, bool]] = {
    "a pod that waits": (pod("a"), True),
    "a pod on a node": (pod("a", node="n1"), True),
    "a pod that succeeded": (pod("a", node="n1", phase="Succeeded"), True),
    "a pod that failed, which is about to be replaced": (pod("a", phase="Failed"), False),
    "a pod that is going": (pod("a", deleted=True), False),
    "a pod that waits in an earlier start": (pod("a", EARLIER), False),
    "a pod on a node of an earlier start": (pod("a", EARLIER, node="n1"), True),
    "a pod that waits and says no revision": (pod("a", ""), False),
    "a pod of a role that the gang does not know": (pod("a", clique="train-0-router"), False),
}


@pytest.mark.parametrize(("each", "want"), LISTED.values(), ids=LISTED)
def test_who_takes_part_in_the_present_start(each: Pod, want: bool) -> None:
    assert references(gang(), [each], PRESENT) == {LEADER: [], WORKER: [each] if want else []}


def test_in_a_gang_of_somebody_else_pods_need_no_revision() -> None:
    assert references(gang(), [pod("a", "")])[WORKER] == [pod("a", "")]


def test_pods_are_listed_in_the_order_of_their_names() -> None:
    found = references(gang(), [pod("c"), pod("a"), pod("b")], PRESENT)
    assert [each.name for each in found[WORKER]] == ["a", "b", "c"]


def test_a_gang_is_complete_when_every_clique_is_there_with_all_of_its_pods() -> None:
    found = references(gang(), [pod("l", clique=LEADER), pod("a"), pod("b")], PRESENT)
    assert complete(gang(), found, {LEADER: 1, WORKER: 2})
    assert not complete(gang(), found, {LEADER: 1, WORKER: 3})
    assert not complete(gang(), found, {WORKER: 2}), "the clique of the leader does not exist yet"


def test_a_reference_carries_the_uid_of_its_pod() -> None:
    pods = [pod("l", clique=LEADER), pod("b"), pod("a")]
    written = referencing_podgroups(gang(), references(gang(), pods, PRESENT))
    assert written is not None
    assert written[1] == {
        "name": WORKER,
        "podReferences": [
            {"namespace": "default", "name": "a", "uid": "uid-a"},
            {"namespace": "default", "name": "b", "uid": "uid-b"},
        ],
        "minReplicas": 2,
    }


LEADING = pod("l", clique=LEADER)
AGAIN = {
    "the same pods": (gang(pod("a"), pod("b")), [pod("a"), pod("b")], False),
    "another pod": (gang(pod("a"), pod("b")), [pod("a"), pod("c")], True),
    "one pod more": (gang(pod("a")), [pod("a"), pod("b")], True),
    "a later pod of the same name": (gang(pod("a")), [pod("a", uid="uid-of-a-later-pod")], True),
    "references without UIDs get them": (gang(pod("a"), uids=False), [pod("a")], True),
}


@pytest.mark.parametrize(("of", "workers", "want"), AGAIN.values(), ids=AGAIN)
def test_references_are_written_only_when_they_differ(of: PodGang, workers: list[Pod], want: bool) -> None:
    found = references(of, [LEADING, *workers], PRESENT)
    assert (referencing_podgroups(of, found) is not None) is want
