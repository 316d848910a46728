"""What a gang says of pods that are taken away: which, from which node, and why."""

from datetime import UTC, datetime, timedelta

import pytest

from grove.api.pod import Pod
from grove.meta import Manifest
from grove.plan.gang.disruption import disrupted
from grove.plan.places import STUCK_SECONDS
from grove.testing import make

NOW = datetime(2026, 1, 1, tzinfo=UTC)
READY: Manifest = {"type": "Ready", "status": "True"}
CONTAINERS: Manifest = {"type": "ContainersReady", "status": "True"}


def taken(reason: str, message: str = "", status: str = "True") -> Manifest:
    return {"type": "DisruptionTarget", "status": status, "reason": reason, "message": message}


def pod(name: str, *conditions: Manifest, node: str = "n1", phase: str = "Running", since: float = -1) -> Pod:
    manifest = make.pod_manifest(name=name, node=node, phase=phase)
    manifest["status"]["conditions"] = list(conditions or (READY, CONTAINERS))
    if since >= 0:
        manifest["metadata"]["deletionTimestamp"] = (NOW - timedelta(seconds=since)).isoformat()
    return make.view(Pod, manifest)


UNREADY: Manifest = {"type": "Ready", "status": "False"}
EVICTED = taken("EvictionByEvictionAPI", "Eviction API: evicting")
PREEMPTED = taken(
    "PreemptionByScheduler", "default-scheduler: preempting to accommodate a higher priority pod"
)
DRAINED = "evicted through the API, as kubectl drain does"
LOST = (
    "the node does not answer, and unless it does so again Kubernetes deletes the pod when it no longer "
    "tolerates that"
)

SAID: dict[str, tuple[list[Pod], str, str]] = {
    "nothing is wrong": ([pod("a"), pod("b")], "", ""),
    "evicted": ([pod("a", EVICTED), pod("b")], "EvictionByEvictionAPI", f"pod a on node n1: {DRAINED}"),
    "two of one node": (
        [pod("b", EVICTED), pod("a", EVICTED)],
        "EvictionByEvictionAPI",
        f"pods a, b on node n1: {DRAINED}",
    ),
    "of two nodes": (
        [pod("b", EVICTED, node="n2"), pod("a", EVICTED)],
        "EvictionByEvictionAPI",
        f"pod a on node n1: {DRAINED}; pod b on node n2: {DRAINED}",
    ),
    "many of one node": (
        [pod(name, EVICTED) for name in "abcdefg"],
        "EvictionByEvictionAPI",
        f"pods a, b, c, d, e and 2 more on node n1: {DRAINED}",
    ),
    "of many nodes": (
        [pod(f"p{index}", EVICTED, node=f"n{index}") for index in range(5)],
        "EvictionByEvictionAPI",
        "; ".join(f"pod p{index} on node n{index}: {DRAINED}" for index in range(3)) + " and 2 more nodes",
    ),
    "from one node more than is told": (
        [pod(f"p{index}", EVICTED, node=f"n{index}") for index in range(4)],
        "EvictionByEvictionAPI",
        "; ".join(f"pod p{index} on node n{index}: {DRAINED}" for index in range(3)) + " and 1 more node",
    ),
    "preempted": (
        [pod("a", PREEMPTED)],
        "PreemptionByScheduler",
        f"pod a on node n1: preempted ({PREEMPTED['message']})",
    ),
    "driven away by a taint": (
        [pod("a", taken("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"))],
        "DeletionByTaintManager",
        "pod a on node n1: deleted, because its node has a taint that it does not tolerate",
    ),
    "its node is gone": (
        [pod("a", taken("DeletionByPodGC", "PodGC: node no longer exists"), phase="Failed")],
        "DeletionByPodGC",
        "pod a on node n1: deleted (PodGC: node no longer exists)",
    ),
    "ended by its kubelet": (
        [pod("a", taken("TerminationByKubelet", "The node was low on resource: memory."), phase="Failed")],
        "TerminationByKubelet",
        "pod a on node n1: ended by its kubelet (The node was low on resource: memory.)",
    ),
    "for a reason that is not known": (
        [pod("a", taken("Defragmentation", "moved to rack 7"))],
        "Defragmentation",
        "pod a on node n1: Defragmentation (moved to rack 7)",
    ),
    "without any reason": (
        [pod("a", taken(""))],
        "PreemptedByScheduler",
        "pod a on node n1: about to be terminated",
    ),
    "a pod on no node": ([pod("a", EVICTED, node="")], "EvictionByEvictionAPI", f"pod a: {DRAINED}"),
    "no longer so": ([pod("a", READY, taken("PreemptionByScheduler", status="False"))], "", ""),
    "a node that does not answer": (
        [pod("a", UNREADY, CONTAINERS)],
        "NodeNotReady",
        f"pod a on node n1: {LOST}",
    ),
    "what is certain comes first": (
        [pod("a", UNREADY, CONTAINERS), pod("b", EVICTED, node="n2")],
        "EvictionByEvictionAPI",
        f"pod b on node n2: {DRAINED}; pod a on node n1: {LOST}",
    ),
    "a pod that its kubelet calls unready": (
        [pod("a", {**UNREADY, "reason": "ContainersNotReady"}, {**CONTAINERS, "status": "False"})],
        "",
        "",
    ),
    "a pod whose readiness gate is closed": (
        [pod("a", {**UNREADY, "reason": "ReadinessGatesNotReady"}, CONTAINERS)],
        "",
        "",
    ),
    "a pod that starts": ([pod("a", UNREADY)], "", ""),
    "one that terminates in time": (
        [pod("a", EVICTED, since=STUCK_SECONDS - 1)],
        "EvictionByEvictionAPI",
        f"pod a on node n1: {DRAINED}",
    ),
    "one that is stuck is told as such": ([pod("a", EVICTED, since=STUCK_SECONDS + 1)], "", ""),
    "one that has done its work": ([pod("a", EVICTED, phase="Succeeded")], "", ""),
}


@pytest.mark.parametrize(("pods", "reason", "message"), SAID.values(), ids=SAID)
def test_a_gang_says_of_its_pods(pods: list[Pod], reason: str, message: str) -> None:
    said = [(each.type, each.status, each.reason, each.message) for each in disrupted(pods, NOW)]
    assert said == ([("DisruptionTarget", "True", reason, message)] if reason else [])
