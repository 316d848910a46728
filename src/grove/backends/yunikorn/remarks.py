"""Why YuniKorn leaves a pod without a node, from the pod's condition and YuniKorn's events about it.

The condition is the same sentence for every cause, and a pod whose queue has used up its share has none. The
events say more. "Does not fit in queue" is said in both cases, because all nodes together are the share of
the root: with the condition it is the nodes that lack room, without it the queue. What nodes with room hold
against a pod is said too; about nodes without room nothing is.

Events follow the condition by up to two seconds. When a share is free again, YuniKorn says that too; but an
event that is repeated keeps its first text, and so a repeated one about a share is not the last word.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from grove.api.pod import Pod
from grove.backends.base import Context

UNSCHEDULABLE: Final = "Unschedulable"
#: A share is used up, of the queue or of the user; it must be enlarged, or other work in it must end.
SKIPPED: Final = "SchedulingSkipped"

_SAID_OF_ALL: Final = "request is waiting for cluster resources become available"
_QUEUE: Final = re.compile(r"does not fit in queue '([^']*)'")
_USER: Final = "exceeds the available user quota"
_AMOUNTS: Final = re.compile(r"requested map\[(.*?)\], available map\[(.*?)\]")
#: Not in the way (any more), or said about a pod that goes.
_NO_CAUSE: Final = ("has become schedulable in queue", "fits in the available user quota", "Preempted by ")
_REFUSED: Final = re.compile(r"Unschedulable request '[^']*':? *")
#: Stands before what a node holds against a pod, which says the same.
_PLUGIN: Final = re.compile(r"failed plugin: '[^']*'\s*")


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a pod waits: a reason for the gang's condition, and a sentence without its full stop."""

    reason: str
    text: str
    #: The most telling comes first.
    rank: int


def main_cause(pods: Iterable[Pod], context: Context) -> Cause | None:
    """The cause that explains most; None when YuniKorn has said nothing of what waits."""
    waiting = (pod for pod in pods if not pod.bound and pod.active)
    found = [cause for pod in waiting if (cause := cause_of(pod, context)) is not None]
    # Of several that explain as much always the same one, in whatever order the pods are listed.
    return min(found, key=lambda cause: (cause.rank, cause.text), default=None)


def cause_of(pod: Pod, context: Context) -> Cause | None:
    """Why this pod has no node; None when YuniKorn has not said anything about it."""
    told = pod.condition("PodScheduled")
    refused = told is not None and told.status == "False" and told.reason in (UNSCHEDULABLE, SKIPPED)
    if remarked := _remarked(pod, context, refused=refused):
        return remarked
    if told is None or not refused:
        return None
    text = told.message.strip().rstrip(".")
    if told.reason == SKIPPED:
        return Cause(SKIPPED, text, 0)
    if text != _SAID_OF_ALL:
        return Cause(UNSCHEDULABLE, text, 1)
    if context.remarks is None:
        where = f"no node takes pod {pod.name}, for its room, labels or taints: its events say which"
    else:
        where = f"no node has room for pod {pod.name}, as YuniKorn's events name no other cause so far"
    return Cause(UNSCHEDULABLE, f"{where} (YuniKorn: {text})", 2)


def _remarked(pod: Pod, context: Context, *, refused: bool) -> Cause | None:
    """The cause that an event names; `refused` says that the condition speaks of nodes."""
    remark = (context.remarks or {}).get(pod.uid)
    if remark is None or any(words in remark.text for words in _NO_CAUSE):
        return None
    text = remark.text.strip().rstrip(";.").replace(pod.uid, pod.name)
    queue = _QUEUE.search(text)
    if (queue or _USER in text) and remark.repeated and refused:
        return None
    if queue and refused:
        short = _shortage(text)
        return Cause(UNSCHEDULABLE, f"the nodes have not enough {short} left for pod {pod.name}", 2)
    if queue or _USER in text:
        who = f"queue {queue.group(1)!r}" if queue else "the user's quota"
        return Cause(SKIPPED, f"{who} has not enough {_shortage(text)} left for pod {pod.name}", 0)
    if _REFUSED.match(text):
        failures = _PLUGIN.sub("", _REFUSED.sub("", text))
        return Cause(UNSCHEDULABLE, f"no node that has room takes pod {pod.name}: {failures}", 1)
    return Cause(UNSCHEDULABLE, f"YuniKorn about pod {pod.name}: {text}", 1)


def _shortage(text: str) -> str:
    """The resources of which too little is available, as `nvidia.com/gpu (8 requested, 0 available)`."""
    found = _AMOUNTS.search(text)
    asked, left = (_amounts(each) for each in found.groups()) if found else ({}, {})
    short = [
        f"{name} ({value:g} requested, {left[name]:g} available)"
        for name, value in asked.items()
        if name in left and value > left[name]
    ]
    return ", ".join(short) or "resources"


def _amounts(text: str) -> dict[str, float]:
    """What YuniKorn prints as `memory:1024 vcore:500`; its cores are thousandths."""
    found: dict[str, float] = {}
    for name, _, value in (each.rpartition(":") for each in text.split()):
        try:
            amount = float(value)
        except ValueError:
            continue
        found["cpu" if name == "vcore" else name] = amount / 1000 if name == "vcore" else amount
    return found
