"""The native scheduler's verdict, in the words that real schedulers were heard to use."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from tests.backends import clusters
from tests.backends.clusters import on

from grove.api.gang import PodGang
from grove.api.kinds import GANGS
from grove.api.pod import Pod
from grove.backends.base import Cluster, Reading, Verdict
from grove.backends.default import DefaultBackend
from grove.meta import Manifest
from grove.testing import make

BACKEND = DefaultBackend()
GANG = make.gang("g", {"worker": 4})
PAIR = make.gang("g", {"leader": 1, "worker": 3})

POD_135 = (
    "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: "
    "0/2 nodes are available: 2 Preemption is not helpful for scheduling."
)
GROUP_136 = (
    "0/1 placements are available, first placement status: pod group is unschedulable, "
    "No preemption victims found for incoming preemptor"
)
POD_136 = (
    "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, "
    "preemption: not eligible due to workload aware preemption enabled"
)
GROUP_137 = (
    "pod group is unschedulable, 0/1 placements are available, first placement status: minCount (4) cannot be "
    "satisfied: 0 scheduled, 3 remaining, pod group preemption: no victims"
)
GPU = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
TAINT = (
    "0/5 nodes are available: 2 Insufficient nvidia.com/gpu, 3 node(s) had untolerated taint "
    "{node.kubernetes.io/unreachable: }. preemption: 0/5 nodes are available: 5 No preemption victims found."
)


def group(name: str, message: str, *, type_: str = "PodGroupScheduled", **condition: str) -> Manifest:
    said = {"type": type_, "status": "False", "reason": "Unschedulable", "message": message, **condition}
    return {"kind": "PodGroup", "metadata": {"name": name}, "status": {"conditions": [said]}}


def pods(*messages: str, gang: PodGang = GANG, **fields: str) -> list[Pod]:
    """Pods of the worker podgroup: one per message; `@n` stands for bound, empty for no word at all."""
    made = []
    for index, message in enumerate(messages):
        if message.startswith("@"):
            made.append(make.pod("worker", index, gang=gang, node=message[1:]))
        else:
            reason = fields.get("reason", "Unschedulable")
            made.append(
                make.pod("worker", index, gang=gang, unschedulable=message, unschedulable_reason=reason)
            )
    return made


GATED = [make.pod("worker", index, gang=GANG, gates=["scheduling.k8s.io/workload"]) for index in range(4)]
NO = Verdict.UNSCHEDULABLE


@dataclass(frozen=True)
class Case:
    want: Reading
    cluster: Cluster
    pods: Sequence[Pod] = ()
    objects: Sequence[Manifest] = field(default=())
    gang: PodGang = GANG


CASES = {
    "no pods yet": Case(Reading(Verdict.WAITING, "WaitingForPods", "0 of 4 pods exist."), clusters.V136),
    "behind gates": Case(
        Reading(
            Verdict.WAITING,
            "SchedulingGated",
            "0 of 4 pods placed; 4 still behind scheduling gates.",
        ),
        clusters.V137,
        GATED,
    ),
    "held without a word": Case(
        Reading(
            Verdict.WAITING,
            "WaitingForScheduler",
            "0 of 4 pods placed; the scheduler has not decided yet.",
        ),
        clusters.V137,
        pods("", "", "", ""),
    ),
    "all bound": Case(
        Reading(Verdict.SCHEDULED, "Scheduled", "4 of 4 pods placed."), clusters.V136, pods(*["@n"] * 4)
    ),
    "all bound, the condition is stale": Case(
        Reading(Verdict.SCHEDULED, "Scheduled", "4 of 4 pods placed."),
        clusters.V136,
        pods(*["@n"] * 4),
        [group("g-worker-r1", GROUP_136)],
    ),
    "a condition that says yes binds no pod": Case(
        Reading(
            Verdict.WAITING,
            "WaitingForScheduler",
            "3 of 4 pods placed; the scheduler has not decided yet.",
        ),
        clusters.V136,
        pods("@n", "@n", "@n", ""),
        [group("g-worker-r1", "", status="True", reason="Scheduled")],
    ),
    "1.35: only the pod that did not fit speaks": Case(
        Reading(NO, "Unschedulable", "0 of 4 pods placed; 0/2 nodes are available: 2 Insufficient cpu."),
        clusters.V135,
        pods("", "", "", POD_135),
    ),
    "1.36: the group's word and the pods'": Case(
        Reading(NO, "Unschedulable", "0 of 4 pods placed; 0/2 nodes are available: 2 Insufficient cpu."),
        clusters.V136,
        pods(POD_136, POD_136, POD_136, POD_136),
        [group("g-worker-r1", GROUP_136)],
    ),
    "1.36: the group's word alone": Case(
        Reading(
            NO,
            "Unschedulable",
            "0 of 4 pods placed; 0/1 placements are available, first placement status: pod group is unschedulable.",
        ),
        clusters.V136,
        pods("", "", "", ""),
        [group("g-worker-r1", GROUP_136)],
    ),
    "1.37: one pod names the nodes, its siblings repeat the group": Case(
        Reading(NO, "Unschedulable", f"0 of 4 pods placed; {GPU}"),
        clusters.V137_PLAIN,
        pods(GPU, GROUP_137, GROUP_137, GROUP_137),
        [group("g-worker-r1", GROUP_137, type_="PodGroupInitiallyScheduled")],
    ),
    "1.37: the group's word alone": Case(
        Reading(
            NO,
            "Unschedulable",
            "0 of 4 pods placed; pod group is unschedulable, 0/1 placements are available, first placement "
            "status: minCount (4) cannot be satisfied: 0 scheduled, 3 remaining.",
        ),
        clusters.V137_PLAIN,
        pods("", "", "", ""),
        [group("g-worker-r1", GROUP_137, type_="PodGroupInitiallyScheduled")],
    ),
    "several topology domains": Case(
        Reading(
            NO,
            "Unschedulable",
            f"0 of 4 pods placed; none of 3 topology domains has room for the whole group; {GPU}",
        ),
        clusters.V137_TOPOLOGY,
        pods(GPU, "", "", ""),
        [group("g-worker-r1", "0/3 placements are available, …", type_="PodGroupInitiallyScheduled")],
    ),
    "dots within the nodes' reasons": Case(
        Reading(
            NO,
            "Unschedulable",
            "0 of 4 pods placed; 0/5 nodes are available: 2 Insufficient nvidia.com/gpu, 3 node(s) had "
            "untolerated taint {node.kubernetes.io/unreachable: }.",
        ),
        clusters.V135,
        pods(TAINT, TAINT, "", GPU),
    ),
    "a scheduler's error is called so": Case(
        Reading(
            NO,
            "SchedulerError",
            "0 of 4 pods placed; pod priority 0 does not match pod group priority 100.",
        ),
        clusters.V137_PLAIN,
        pods(GPU, "", "", ""),
        [
            group(
                "g-worker-r1",
                "pod priority 0 does not match pod group priority 100",
                type_="PodGroupInitiallyScheduled",
                reason="SchedulerError",
            )
        ],
    ),
    "a placed podgroup's old condition is not the reason": Case(
        Reading(
            Verdict.WAITING,
            "WaitingForScheduler",
            "3 of 4 pods placed; the scheduler has not decided yet.",
        ),
        clusters.V137,
        [*pods("@n", "@n", "@n", gang=PAIR), make.pod("leader", 0, gang=PAIR)],
        [group("g-worker-r1", GROUP_137, type_="PodGroupInitiallyScheduled")],
        PAIR,
    ),
    "a leaf of a tree": Case(
        Reading(NO, "Unschedulable", f"1 of 4 pods placed; {GPU}"),
        clusters.V137,
        [*pods(GPU, "", "", gang=PAIR), make.pod("leader", 0, gang=PAIR, node="n")],
        [{"kind": "CompositePodGroup", "metadata": {"name": "g"}, "status": {}}],
        PAIR,
    ),
    "pods beyond the minimum do not stand in for others": Case(
        Reading(Verdict.WAITING, "WaitingForPods", "3 of 4 pods exist."),
        clusters.V136,
        pods("@n", "@n", "@n", "@n", "@n", gang=PAIR),
        (),
        PAIR,
    ),
    "finished and leaving pods do not count": Case(
        Reading(Verdict.WAITING, "WaitingForPods", "2 of 4 pods exist."),
        clusters.V136,
        [
            *pods("@n", "@n"),
            make.pod("worker", 2, gang=GANG, node="n", phase="Failed"),
            make.pod("worker", 3, gang=GANG, node="n", deleted=True),
        ],
    ),
    "without a gang API the pods speak for themselves": Case(
        Reading(NO, "Unschedulable", f"2 of 4 pods placed; {GPU}"),
        clusters.BARE,
        pods("@n", "@n", GPU, GPU),
    ),
    "an old refusal says nothing about a gang whose pods are replaced": Case(
        Reading(Verdict.WAITING, "WaitingForPods", "3 of 4 pods exist."),
        clusters.V136,
        pods("@n", "@n", GPU),
        [group("g-worker-r1", GROUP_136)],
    ),
    "null lists": Case(
        Reading(Verdict.WAITING, "WaitingForPods", "0 of 4 pods exist."),
        clusters.V136,
        (),
        [{"kind": "PodGroup", "metadata": {"name": "g-worker-r1"}, "status": {"conditions": None}}],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_reading(case: Case) -> None:
    assert BACKEND.read(case.gang, case.objects, case.pods, on(case.cluster)) == case.want


def test_a_gang_without_podgroups_waits_for_them() -> None:
    empty = make.view(PodGang, make.object_manifest(GANGS, "g", {"podgroups": []}))
    assert BACKEND.read(empty, (), (), on(clusters.V136)).verdict is Verdict.WAITING
    assert BACKEND.translate(empty, on(clusters.V137)).manifests == ()
