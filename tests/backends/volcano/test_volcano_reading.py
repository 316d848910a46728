"""Volcano's verdict, in the words that the real scheduler was heard to use."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from tests.backends.volcano.volcanoes import queue, seen, volcano

from grove.api.pod import Pod
from grove.backends.base import Reading, Verdict
from grove.backends.volcano import VolcanoBackend
from grove.meta import Manifest
from grove.testing import make

GANG = make.gang("g", {"leader": 2, "worker": 2})
NO = Verdict.UNSCHEDULABLE

SHORT = (
    "1/4 tasks in gang unschedulable: pod group is not ready, 4 Pending, 4 minAvailable; "
    "Pending: 1 Unschedulable, 3 Schedulable"
)
NODES = "0/2 nodes are unavailable: 2 Insufficient nvidia.com/gpu."
RACK = f"{SHORT}. Origin reason is rack-worker-1: In hyperNode rack-r2: {NODES}"
FALSE_ALARM = "0/4 tasks in gang unschedulable: pod group is ready, 4 Running, 4 minAvailable"


def condition(type_: str, message: str = "", at: int = 0, **fields: object) -> Manifest:
    reason = "NotEnoughResources" if type_ == "Unschedulable" else "tasks in gang are ready to be scheduled"
    told = {
        "type": type_,
        "status": "True",
        "reason": reason,
        "lastTransitionTime": f"2026-01-01T00:00:{at:02}Z",
    }
    return {**told, "message": message, **fields}


def podgroup(*conditions: Manifest, phase: str = "Inqueue") -> list[Manifest]:
    return [{"kind": "PodGroup", "status": {"phase": phase, "conditions": list(conditions)}}]


def pods(*, node: str = "", gates: Sequence[str] = (), last: str = "", others: str = "") -> list[Pod]:
    """Four pods; the last one has found no node, the others would have."""
    found = []
    for clique, index in (("leader", 0), ("leader", 1), ("worker", 0), ("worker", 1)):
        lost = (clique, index) == ("worker", 1)
        words = last if lost else others
        reason = "Unschedulable" if lost else "Schedulable"
        found.append(
            make.pod(
                clique,
                index,
                gang=GANG,
                node=node,
                gates=gates,
                unschedulable=words,
                unschedulable_reason=reason,
            )
        )
    return found


def just_released() -> list[Pod]:
    """Pods whose gates are open but whom nobody has looked at: they still say that they are gated."""
    return [
        make.pod(
            clique,
            index,
            gang=GANG,
            unschedulable="Scheduling is blocked",
            unschedulable_reason="SchedulingGated",
        )
        for clique in ("leader", "worker")
        for index in range(2)
    ]


@dataclass(frozen=True)
class Case:
    want: Reading
    pods: Sequence[Pod]
    objects: Sequence[Manifest] = ()


UNDECIDED = Reading(
    Verdict.WAITING, "WaitingForScheduler", "0 of 4 pods placed; the scheduler has not decided yet."
)
CASES = {
    "one short: what the gang lacks and what the nodes lack": Case(
        Reading(NO, "Unschedulable", f"0 of 4 pods placed; {SHORT}; {NODES}"),
        pods(
            last=NODES, others="Pod default/x can possibly be assigned to n1, once minAvailable is satisfied"
        ),
        podgroup(condition("Unschedulable", SHORT)),
    ),
    "one short, and no node is named: the queue has no share left": Case(
        Reading(
            NO,
            "Unschedulable",
            f"0 of 4 pods placed; {SHORT}; Volcano names no node, as it does when queue 'default' has no share left, which is "
            "at most what all nodes have.",
        ),
        pods(last=SHORT.partition(": ")[2]),
        podgroup(condition("Unschedulable", SHORT)),
    ),
    "one short, by the pods alone": Case(
        Reading(NO, "Unschedulable", f"0 of 4 pods placed; {NODES}"), pods(last=NODES), podgroup()
    ),
    "no rack has room: said once": Case(
        Reading(NO, "Unschedulable", f"0 of 4 pods placed; {RACK}"),
        pods(last=NODES),
        podgroup(condition("Unschedulable", RACK)),
    ),
    "no rack has room, and the others repeat it: nothing is left to explain": Case(
        Reading(NO, "Unschedulable", f"0 of 4 pods placed; {RACK}"),
        pods(last=RACK.partition(": ")[2]),
        podgroup(condition("Unschedulable", RACK)),
    ),
    "a reason that needs another cure": Case(
        Reading(NO, "NotEnoughPodsOfTask", "0 of 4 pods placed; Not enough valid pods of task leader."),
        pods(),
        podgroup(
            condition("Unschedulable", "Not enough valid pods of task leader", reason="NotEnoughPodsOfTask")
        ),
    ),
    "conditions stay after scheduling": Case(
        Reading(Verdict.SCHEDULED, "Scheduled", "4 of 4 pods placed."),
        pods(node="n1"),
        podgroup(condition("Unschedulable", SHORT, 1), condition("Scheduled", at=2), phase="Running"),
    ),
    "bound, and Volcano still says Inqueue": Case(
        Reading(Verdict.SCHEDULED, "Scheduled", "4 of 4 pods placed."), pods(node="n1"), podgroup()
    ),
    "the false alarm after success is no reason": Case(
        UNDECIDED, pods(), podgroup(condition("Unschedulable", FALSE_ALARM))
    ),
    "what was said before the last success is stale": Case(
        UNDECIDED,
        pods(),
        podgroup(condition("Unschedulable", SHORT, 1), condition("Scheduled", at=2), phase="Unknown"),
    ),
    "what was said after the last success counts": Case(
        Reading(NO, "Unschedulable", f"0 of 4 pods placed; {SHORT}."),
        pods(),
        podgroup(condition("Scheduled", at=1), condition("Unschedulable", SHORT, 2), phase="Unknown"),
    ),
    "behind gates Volcano's complaint is about the gates": Case(
        Reading(Verdict.WAITING, "SchedulingGated", "0 of 4 pods placed; 4 still behind scheduling gates."),
        pods(gates=["scheduling.volcano.sh/podgroup"]),
        podgroup(condition("Unschedulable", SHORT)),
    ),
    "just released: the complaint is still about the gates": Case(
        UNDECIDED, just_released(), podgroup(condition("Unschedulable", SHORT))
    ),
    "not admitted to its queue": Case(
        Reading(
            Verdict.WAITING,
            "Queued",
            "0 of 4 pods placed; Volcano has not admitted the gang to queue 'default' yet.",
        ),
        pods(),
        podgroup(phase="Pending"),
    ),
    "admitted, not placed yet": Case(UNDECIDED, pods(), podgroup()),
    "a condition that does not hold": Case(
        UNDECIDED, pods(), podgroup(condition("Unschedulable", SHORT, status="False"))
    ),
    "some pods missing": Case(Reading(Verdict.WAITING, "WaitingForPods", "2 of 4 pods exist."), pods()[:2]),
    "null lists": Case(UNDECIDED, pods(), [{"kind": "PodGroup", "status": {"conditions": None}}]),
    "a success that the pods deny": Case(
        UNDECIDED, pods(), podgroup(condition("Scheduled"), phase="Running")
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_reading(case: Case) -> None:
    assert VolcanoBackend().read(GANG, case.objects, case.pods, volcano()) == case.want


def test_where_a_domain_is_required_and_no_node_is_named_both_causes_are() -> None:
    gang = make.gang(
        "g", [make.podgroup("leader", 2), make.podgroup("worker", 2, required="example.com/rack")]
    )
    told = VolcanoBackend().read(
        gang, podgroup(condition("Unschedulable", SHORT)), pods(last=SHORT.partition(": ")[2]), volcano()
    )
    assert told.message.endswith(
        "Volcano names no node, as it does when no single example.com/rack has room for all pods that must share it, or queue 'default' "
        "has no share left, which is at most what all nodes have."
    )


def test_of_several_resources_none_is_named_as_the_one_that_is_short() -> None:
    resources = {"limits": {"cpu": "1", "nvidia.com/gpu": "8"}}
    pod = {"containers": [{"name": "main", "image": "x", "resources": resources}]}
    context = replace(volcano(), cliqueset=make.cliqueset(cliques=[make.template("worker", 2, pod=pod)]))
    told = VolcanoBackend().read(
        GANG, podgroup(condition("Unschedulable", SHORT)), pods(last=SHORT.partition(": ")[2]), context
    )
    assert "no share left of a resource that the pods ask for (Volcano does not say which)," in told.message
    assert "cpu" not in told.message


#: What Volcano said of a gang of two in a queue that had given out its capability of 16 GPUs.
USED_UP = (
    "2/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable; "
    "Pending: 2 Unschedulable"
)
SMALL = make.gang("g", {"worker": 2}, annotations={"scheduling.volcano.sh/queue-name": "small"})
#: What the queue may give out, what the pods ask for, the reason, and what is said of the queue.
LIMITS: dict[str, tuple[dict[str, str], dict[str, str], str, str]] = {
    "a capability of what is asked for": (
        {"nvidia.com/gpu": "16"},
        {"nvidia.com/gpu": "8"},
        "ShareUsedUp",
        "no share left of nvidia.com/gpu, which is at most its capability (nvidia.com/gpu 16) and what all nodes "
        "have",
    ),
    "one of several resources has a capability": (
        {"nvidia.com/gpu": "16", "memory": "1Gi"},
        {"nvidia.com/gpu": "8", "cpu": "1"},
        "ShareUsedUp",
        "no share left of a resource that the pods ask for (Volcano does not say which), which is at most its "
        "capability (nvidia.com/gpu 16) and what all nodes have",
    ),
    "a capability of something else": (
        {"memory": "1Gi"},
        {"nvidia.com/gpu": "8"},
        "Unschedulable",
        "no share left of nvidia.com/gpu, which is at most what all nodes have",
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_queue_that_somebody_limited_is_named_with_its_capability(name: str) -> None:
    capability, asked, reason, share = LIMITS[name]
    pod = {"containers": [{"name": "main", "image": "x", "resources": {"limits": asked}}]}
    context = replace(
        volcano(observed=seen(queues=(queue("default"), queue("small", **capability)))),
        cliqueset=make.cliqueset(cliques=[make.template("worker", 2, pod=pod)]),
    )
    words = USED_UP.partition(": ")[2]
    waiting = [make.pod("worker", index, gang=SMALL, unschedulable=words) for index in range(2)]
    said = VolcanoBackend().read(SMALL, podgroup(condition("Unschedulable", USED_UP)), waiting, context)
    assert said == Reading(
        NO,
        reason,
        f"0 of 2 pods placed; {USED_UP}; Volcano names no node, as it does when queue 'small' has {share}.",
    )
