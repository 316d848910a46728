"""Which pods of a gang are being taken away, from which node and why, in plain words. Pure.

All of it is read from the pods: whoever takes one away says so in its condition `DisruptionTarget`, and a pod
whose node no longer answers is marked unready by the node controller, which gives no reason. So no node is
read, and a cordon, which takes no pod away, is no disruption.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from grove.api import conditions
from grove.api.pod import Pod
from grove.meta import Condition
from grove.plan.places import is_on_lost_node, is_stuck
from grove.words import counted

#: What the reasons of Kubernetes mean, and whether the message beside them says more.
_WORDS: Final = {
    "PreemptionByScheduler": ("preempted", True),
    "EvictionByEvictionAPI": ("evicted through the API, as kubectl drain does", False),
    "DeletionByTaintManager": ("deleted, because its node has a taint that it does not tolerate", False),
    "DeletionByPodGC": ("deleted", True),
    "TerminationByKubelet": ("ended by its kubelet", True),
}
_LOST: Final = (
    "the node does not answer, and unless it does so again Kubernetes deletes the pod when it no longer "
    "tolerates that"
)
_MOST_NAMES: Final = 5
_MOST_GROUPS: Final = 3


class Disruption(NamedTuple):
    """Why a pod is taken away, or will be."""

    reason: str
    words: str


def disruption_of(pod: Pod) -> Disruption | None:
    """Why a pod is being taken away; None for one that is not."""
    said = pod.condition(conditions.DISRUPTION_TARGET)
    if said is not None and said.is_true:
        reason = said.reason or conditions.PREEMPTED
        words, tells_more = _WORDS.get(said.reason, (said.reason or "about to be terminated", True))
        return Disruption(reason, f"{words} ({said.message})" if tells_more and said.message else words)
    return Disruption(conditions.NODE_NOT_READY, _LOST) if is_on_lost_node(pod) else None


def disrupted(pods: Iterable[Pod], now: datetime) -> list[Condition]:
    """That pods of the gang are being taken away. Of what is stuck `StuckPods` tells."""
    found = [
        pod
        for pod in pods
        if pod.status.phase != "Succeeded" and disruption_of(pod) is not None and not is_stuck(pod, now)
    ]
    if not found:
        return []
    told = _groups(found)
    reason = told[0].reason
    kind = conditions.DISRUPTION_TARGET
    return [Condition(type=kind, status="True", reason=reason, message=disruption_sentence(found))]


def disruption_sentence(pods: Sequence[Pod]) -> str:
    """Which pods are taken away, from which nodes and why."""
    groups = _groups(pods)
    left = len(groups) - _MOST_GROUPS
    more = f" and {counted(left, 'more node')}" if left > 0 else ""
    return "; ".join(map(_told, groups[:_MOST_GROUPS])) + more


class _Group(NamedTuple):
    """Pods that are taken away from one node for one reason."""

    reason: str
    node: str
    words: str
    names: tuple[str, ...]


def _groups(pods: Iterable[Pod]) -> list[_Group]:
    found: dict[tuple[bool, str, Disruption], list[str]] = {}
    for pod in pods:
        if (why := disruption_of(pod)) is not None:
            # What is certain comes before what a node may still prevent.
            last = why.reason == conditions.NODE_NOT_READY
            found.setdefault((last, pod.spec.node_name, why), []).append(pod.name)
    return [
        _Group(why.reason, node, why.words, tuple(sorted(names)))
        for (_, node, why), names in sorted(found.items())
    ]


def _told(group: _Group) -> str:
    names = group.names
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    subject = f"{'pod' if len(names) == 1 else 'pods'} {', '.join(names[:_MOST_NAMES])}{more}"
    where = f" on node {group.node}" if group.node else ""
    return f"{subject}{where}: {group.words}"
