"""KAI's verdict, in the words that the real scheduler was heard to use."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from tests.backends import clusters
from tests.backends.clusters import on

from grove.api.pod import Pod
from grove.backends.base import Reading, Verdict
from grove.backends.kai import KaiBackend
from grove.backends.kai.queue import QUEUE, QUEUES
from grove.backends.kai.topology import TOPOLOGIES
from grove.meta import Manifest
from grove.testing import make

GANG = make.gang("g", {"leader": 2, "worker": 2})
NO = Verdict.UNSCHEDULABLE

SHORT = (
    "Resources were found for 1 pods from all sub-groups while sub-group worker requires 2 pods for gang "
    "scheduling. Additional pods cannot be scheduled in this sub-group due to: no nodes with enough resources "
    "were found: 2 node(s) didn't have enough resources: GPUs.."
)
FULL = (
    "small quota has reached the allowable limit of GPUs. Limit is 16 GPUs, currently 16 GPUs allocated and "
    "workload requested 16 GPUs"
)
RACK = (
    "node-group z1.r1 can allocate only 3 of 4 required pods. topology topo, requirement "
    "topology.kubernetes.io/rack couldn't be satisfied for job <default/rack>."
)


def conditions(*reasons: tuple[str, str], **condition: object) -> list[Manifest]:
    """One PodGroup whose scheduling condition has these reasons."""
    said = {
        "type": "UnschedulableOnNodePool",
        "nodePool": "default",
        "status": "True",
        "reason": "Unschedulable",
        "reasons": [{"reason": reason, "message": message} for reason, message in reasons],
        **condition,
    }
    return [{"kind": "PodGroup", "status": {"schedulingConditions": [said]}}]


def pods(*, node: str = "", unschedulable: str = "", gates: Sequence[str] = ()) -> list[Pod]:
    return [
        make.pod(clique, index, gang=GANG, node=node, unschedulable=unschedulable, gates=gates)
        for clique in ("leader", "worker")
        for index in range(2)
    ]


@dataclass(frozen=True)
class Case:
    want: Reading
    pods: Sequence[Pod]
    objects: Sequence[Manifest] = ()


CASES = {
    "one short": Case(
        Reading(NO, "Unschedulable", f"0 of 4 pods placed; {SHORT[:-1]}"),
        pods(unschedulable=f"PodSchedulingErrors: {SHORT}"),
        conditions(("PodSchedulingErrors", SHORT)),
    ),
    "one short, by the pods alone": Case(
        Reading(NO, "Unschedulable", f"0 of 4 pods placed; {SHORT[:-1]}"),
        pods(unschedulable=f"PodSchedulingErrors: {SHORT}"),
    ),
    "no rack has room": Case(
        Reading(NO, "Unschedulable", f"0 of 4 pods placed; {RACK}"),
        pods(),
        conditions(("PodSchedulingErrors", RACK)),
    ),
    "no rack has room, as KAI 0.12 lists it": Case(
        Reading(
            NO,
            "Unschedulable",
            "0 of 4 pods placed; node-group a can allocate only 2 of 4 required pods. node-group b can "
            f"allocate only 1 of 4 required pods. {RACK}",
        ),
        pods(),
        conditions(
            ("Not enough resources for the workload", "node-group b can allocate only 1 of 4 required pods"),
            ("Not enough resources for the workload", "node-group a can allocate only 2 of 4 required pods"),
            ("PodSchedulingErrors", RACK[:-1]),
            message="Unable to schedule podgroup: node-group a can allocate only 2 of 4 required pods. \n"
            f"node-group b can allocate only 1 of 4 required pods. \n{RACK}",
        ),
    ),
    "one domain was tried and is too small": Case(
        Reading(
            NO, "Unschedulable", "0 of 4 pods placed; node-group a can allocate only 2 of 4 required pods."
        ),
        pods(),
        conditions(
            ("Not enough resources for the workload", "node-group a can allocate only 2 of 4 required pods")
        ),
    ),
    "an unknown level": Case(
        Reading(NO, "Unschedulable", "0 of 4 pods placed; Unable to schedule podgroup."),
        pods(),
        conditions(message="Unable to schedule podgroup"),
    ),
    "no such queue": Case(
        Reading(NO, "QueueDoesNotExist", "0 of 4 pods placed; Queue 'nope' does not exist."),
        pods(unschedulable="PodSchedulingErrors: x"),
        conditions(("PodSchedulingErrors", "x"), ("QueueDoesNotExist", "Queue 'nope' does not exist")),
    ),
    "the queue is full": Case(
        Reading(NO, "OverLimit", f"0 of 4 pods placed; {FULL}."),
        pods(unschedulable=f"OverLimit: {FULL}."),
        conditions(("OverLimit", FULL), message=f"OverLimit: {FULL}."),
    ),
    "the queue is full, by the pods alone": Case(
        Reading(NO, "OverLimit", f"0 of 4 pods placed; {FULL}."), pods(unschedulable=f"OverLimit: {FULL}.")
    ),
    "the condition stays after scheduling": Case(
        Reading(Verdict.SCHEDULED, "Scheduled", "4 of 4 pods placed."),
        pods(node="n1"),
        conditions(("PodSchedulingErrors", SHORT)),
    ),
    "a condition that no longer holds": Case(
        Reading(
            Verdict.WAITING,
            "WaitingForScheduler",
            "0 of 4 pods placed; the scheduler has not decided yet.",
        ),
        pods(),
        conditions(("PodSchedulingErrors", SHORT), status="False"),
    ),
    "behind gates": Case(
        Reading(
            Verdict.WAITING,
            "SchedulingGated",
            "0 of 4 pods placed; 4 still behind scheduling gates.",
        ),
        pods(gates=["grove.io/podgang"]),
    ),
    "some pods missing": Case(Reading(Verdict.WAITING, "WaitingForPods", "2 of 4 pods exist."), pods()[:2]),
    "null lists": Case(
        Reading(Verdict.WAITING, "WaitingForPods", "0 of 4 pods exist."),
        (),
        [{"kind": "PodGroup", "status": {"schedulingConditions": None}}],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_reading(case: Case) -> None:
    assert KaiBackend().read(GANG, case.objects, case.pods, on(clusters.KAI_012)) == case.want


def test_a_queue_that_does_not_exist_is_named_because_kai_says_nothing() -> None:
    gang = make.gang("g", {"leader": 2, "worker": 2}, annotations={QUEUE: "nope"})
    known = replace(on(clusters.KAI_012), observed={QUEUES: ({"metadata": {"name": "default-queue"}},)})
    assert KaiBackend().read(gang, (), pods(), known) == Reading(
        NO,
        "QueueDoesNotExist",
        "0 of 4 pods placed; KAI has no queue 'nope'; create it, or correct kai.scheduler/queue.",
    )


def test_a_missing_queue_is_no_matter_to_a_gang_that_is_placed_and_unknown_queues_to_none() -> None:
    none = replace(on(clusters.KAI_012), observed={QUEUES: ()})
    assert KaiBackend().read(GANG, (), pods(node="n1"), none).verdict == Verdict.SCHEDULED
    assert KaiBackend().read(GANG, (), pods(), on(clusters.KAI_012)).reason == "WaitingForScheduler"


TOPOLOGY = {"metadata": {"name": "c"}, "spec": {"levels": [{"nodeLabel": "example.com/zone"}]}}
PACKED = {
    "no such Topology": ("d", "example.com/zone", "KAI has no Topology 'd'"),
    "no such level": ("c", "example.com/rack", "KAI's Topology 'c' has no level example.com/rack"),
    "all there": ("c", "example.com/zone", ""),
}


@pytest.mark.parametrize(("named", "level", "want"), PACKED.values(), ids=PACKED)
def test_a_topology_that_kai_lacks_is_named_because_kai_only_says_that_it_is_unable(
    named: str, level: str, want: str
) -> None:
    gang = make.gang(
        "g",
        [make.podgroup("leader", 2), make.podgroup("worker", 2, preferred=level)],
        annotations={"grove.io/topology-name": named},
    )
    known = replace(on(clusters.KAI_012), observed={TOPOLOGIES: (TOPOLOGY,)})
    said = KaiBackend().read(gang, conditions(message="Unable to schedule podgroup"), pods(), known)
    if not want:
        assert said.reason == "Unschedulable"
        return
    assert (said.verdict, said.reason) == (NO, "TopologyNotFound")
    assert want in said.message
    assert KaiBackend().read(gang, (), pods(node="n1"), known).verdict == Verdict.SCHEDULED


def test_kai_queues_and_topologies_are_watched() -> None:
    assert [str(each.resource) for each in KaiBackend().traits(on(clusters.KAI_012)).observes] == [
        "queues.scheduling.run.ai",
        "topologies.kai.scheduler",
    ]
