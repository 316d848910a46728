"""Koordinator's verdict, in the words that the real scheduler was heard to use."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from tests.backends.clusters import on

from grove.api.pod import Pod
from grove.backends.base import Reading, Verdict
from grove.backends.koordinator import KoordinatorBackend
from grove.meta import Manifest
from grove.testing import make
from grove.testing.kits.koordinator import KOORDINATOR

BACKEND = KoordinatorBackend()
GATE = BACKEND.scheduling_gate
GANG = make.gang("gang", {"gang-leader": 2, "gang-worker": 2})
NO = Verdict.UNSCHEDULABLE

NODES = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
#: The pods of the role that finds no room.
FIRST, SECOND = (make.pod("gang-worker", index, gang=GANG).key for index in range(2))
REJECTED = (
    '0/1 nodes are available: 1 GangGroup "default/gang-leader,default/gang-worker" gets rejected due to member '
    f'Pod "{FIRST}" is unschedulable with reason "{NODES}", alreadyWaitForBound: 3.'
)
RACKS = (
    "no candidate topology nodes can accommodate job, desiredOfferSlot: 4, topology topologyNode RackLayer/r1: "
    "3;topology topologyNode RackLayer/r2: 2, 0/4 nodes are available: 4 Insufficient nvidia.com/gpu."
)
QUOTA = (
    "Insufficient quotas, quotaName: small, runtime: nvidia.com/gpu:16, used: nvidia.com/gpu:16, pod's request: "
    "nvidia.com/gpu:8, exceedDimensions: [nvidia.com/gpu]"
)
NO_VICTIMS = "preemption: 0/4 nodes are available: 4 No preemption victims found for incoming pod."
QUOTA_REJECTED = (
    f'0/4 nodes are available: GangGroup "default/gang-worker" gets rejected due to member Pod "{FIRST}" is '
    f'unschedulable with reason "0/4 nodes are available: 4 {QUOTA}.", alreadyWaitForBound: 0. preemption: 0/4 '
    "nodes are available: 4 Preemption is not helpful for scheduling."
)


UNCOUNTED = (
    "koord-scheduler does not count all of its pods; if that stays, a PodGroup was replaced by hand: "
    "delete it, Grove creates it again"
)


def pods(*words: str, node: str = "", gates: Sequence[str] = ()) -> list[Pod]:
    """The four pods of the gang; the words are given to them in order, the last of them to the rest."""
    places = [(clique, index) for clique in ("gang-leader", "gang-worker") for index in range(2)]
    said = [*words, *[words[-1] if words else ""] * 4]
    return [
        make.pod(clique, index, gang=GANG, node=node, unschedulable=text, gates=gates)
        for (clique, index), text in zip(places, said, strict=False)
    ]


def podgroups(*phases: str) -> list[Manifest]:
    return [{"kind": "PodGroup", "status": {"phase": phase}} for phase in phases]


def waiting(why: str = "the scheduler has not decided yet.", placed: int = 0) -> Reading:
    return Reading(Verdict.WAITING, "WaitingForScheduler", f"{placed} of 4 pods placed; {why}")


@dataclass(frozen=True)
class Case:
    want: Reading
    pods: Sequence[Pod]
    objects: Sequence[Manifest] = ()


CASES = {
    "one short": Case(
        Reading(
            NO,
            "Unschedulable",
            f"0 of 4 pods placed; a pod of gang-worker: {NODES}",
        ),
        pods(REJECTED, NODES, REJECTED),
    ),
    "the next try names another pod of the role": Case(
        Reading(NO, "Unschedulable", f"0 of 4 pods placed; a pod of gang-worker: {NODES}"),
        pods(REJECTED.replace(str(FIRST), str(SECOND)).replace("Bound: 3", "Bound: 2")),
    ),
    "the pod that does not fit speaks for itself": Case(
        Reading(NO, "Unschedulable", f"0 of 4 pods placed; {NODES}"), pods(NODES)
    ),
    "a quotation in the quotation": Case(
        Reading(NO, "Unschedulable", '0 of 4 pods placed; pod default/a: node "n1" is odd.'),
        pods(
            'gets rejected due to member Pod "default/a" is unschedulable with reason '
            '"node \\"n1\\" is odd", alreadyWaitForBound: 0'
        ),
    ),
    "no rack has room": Case(
        Reading(
            NO,
            "Unschedulable",
            "0 of 4 pods placed; no single topology domain has room for 4 pods; RackLayer/r1 has room for 3; "
            "RackLayer/r2 has room for 2; 0/4 nodes are available: 4 Insufficient nvidia.com/gpu.",
        ),
        pods(NODES, RACKS, NODES),
    ),
    "the quota is used up": Case(
        Reading(NO, "ShareUsedUp", f"0 of 4 pods placed; a pod of gang-worker: {QUOTA}."),
        pods(QUOTA_REJECTED, f"0/4 nodes are available: {QUOTA}. {NO_VICTIMS}", QUOTA_REJECTED),
    ),
    "the quota is used up, and only the pod that has no share of it speaks": Case(
        Reading(NO, "ShareUsedUp", f"0 of 4 pods placed; {QUOTA}."),
        pods(f"0/4 nodes are available: {QUOTA}. {NO_VICTIMS}"),
    ),
    "an unknown layer": Case(
        Reading(NO, "Unschedulable", "0 of 4 pods placed; no single topology domain has room for 4 pods."),
        pods("no candidate topology nodes can accommodate job, desiredOfferSlot: 4, , "),
    ),
    "the words stay after scheduling": Case(
        Reading(Verdict.SCHEDULED, "Scheduled", "4 of 4 pods placed."), pods(REJECTED, node="n1")
    ),
    "behind gates": Case(
        Reading(Verdict.WAITING, "SchedulingGated", "0 of 4 pods placed; 4 still behind scheduling gates."),
        pods(REJECTED, gates=[GATE]),
    ),
    "what is held back on purpose is not waited for": Case(
        Reading(NO, "Unschedulable", f"0 of 4 pods placed; {NODES}"),
        [*pods(NODES), make.pod("gang-worker", 2, gang=GANG, gates=[GATE])],
    ),
    "some pods missing": Case(Reading(Verdict.WAITING, "WaitingForPods", "2 of 4 pods exist."), pods()[:2]),
    "silence": Case(waiting(), pods(), podgroups("Scheduling", "PreScheduling")),
    "pods that are not counted": Case(waiting(UNCOUNTED), pods(), podgroups("Pending", "PreScheduling")),
    "the word about gates that are open by now": Case(
        waiting(UNCOUNTED),
        [
            make.pod(
                clique,
                index,
                gang=GANG,
                unschedulable="Scheduling is blocked due to non-empty scheduling gates",
                unschedulable_reason="SchedulingGated",
            )
            for clique in ("gang-leader", "gang-worker")
            for index in range(2)
        ],
        podgroups("Pending", "Pending"),
    ),
    "nobody looks at the podgroups": Case(
        waiting("its PodGroups have no status: does koord-scheduler run?"), pods(), [{"kind": "PodGroup"}]
    ),
    "podgroups recreated under a running gang": Case(
        waiting(
            UNCOUNTED,
            placed=3,
        ),
        [*pods(node="n1")[:3], pods()[3]],
        podgroups("Pending", "Pending"),
    ),
    "one pod replaced": Case(
        waiting(placed=3), [*pods(node="n1")[:3], pods()[3]], podgroups("Running", "Scheduling")
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_reading(case: Case) -> None:
    assert BACKEND.read(GANG, case.objects, case.pods, on(KOORDINATOR)) == case.want
