"""When a pod that failed is replaced: the first time at once, then less and less often. Pure.

A pod that fails as soon as it starts, because of a wrong argument or a node that refuses it, would otherwise
be replaced as fast as the cluster can. How many of its predecessors failed in a row stands on the pod itself.
While its replacement waits, the failed pod stays, so that people can look at it; deleting it ends the pause,
and so does an edit of its template.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from grove.api import labels
from grove.api.clique import PodClique
from grove.api.pod import Pod
from grove.plan.conditions import timestamp

#: Between the creations of two pods in one place: after the second failure so long, then twice as long each
#: time. The same pauses as between the restarts of a container.
FIRST_PAUSE_SECONDS: Final = 10.0
LONGEST_PAUSE_SECONDS: Final = 300.0
#: The failure of a pod that lived for so long is the first one again.
FORGIVEN_SECONDS: Final = 600.0


def failures_in_a_row(clique: PodClique, pods: Iterable[Pod], now: datetime) -> dict[str, int]:
    """By name, the pods of the clique that failed on a node, and how many in the place of each did in a row.

    What a scheduler ended before it was placed is the gang's business, which is restarted with pauses.
    """
    template = clique.labels.get(labels.POD_TEMPLATE_HASH)
    return {
        pod.name: _before(pod, now) + 1
        for pod in pods
        if _failed(pod) and pod.labels.get(labels.POD_TEMPLATE_HASH) == template
    }


def resting(clique: PodClique, pods: Sequence[Pod], now: datetime) -> dict[str, float]:
    """By name, the failed pods of the clique that are not replaced yet, and for how many seconds."""
    failed = failures_in_a_row(clique, pods, now)
    return {pod.name: left for pod in pods if pod.name in failed and (left := _left(pod, now)) > 0}


def failed_sentence(clique: PodClique, pods: Sequence[Pod], now: datetime) -> str:
    """Which pods failed again and again, and when the first of them is replaced; empty for none."""
    waiting = resting(clique, pods, now)
    due = [pod for pod in pods if pod.name in waiting]
    found = sorted(due, key=lambda pod: (waiting[pod.name], pod.name))
    if not found:
        return ""
    first, more = found[0], f"; and {len(found) - 1} more" if len(found) > 1 else ""
    times = f"the {_ordinal(_before(first, now) + 1)} in its place in a row"
    return f"{how_it_failed(first)}, {times}, and is replaced at {timestamp(_due(first, now))}{more}"


def how_it_failed(pod: Pod) -> str:
    """What the pod itself says about its end."""
    said = ": ".join(part for part in (pod.status.reason, pod.status.message) if part)
    where = f" on node {pod.spec.node_name}" if pod.bound else ""
    return f"pod {pod.name} failed{where}{f' ({said})' if said else ''}"


def _failed(pod: Pod) -> bool:
    return pod.status.phase == "Failed" and pod.bound and not pod.terminating


def _left(pod: Pod, now: datetime) -> float:
    left = (_due(pod, now) - now).total_seconds()
    # What the inaccuracy of floats leaves is no wait.
    return left if left > 0.001 else 0.0


def _due(pod: Pod, now: datetime) -> datetime:
    before = _before(pod, now)
    pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(before - 1, 10)) if before else 0.0
    return _created(pod, now) + timedelta(seconds=pause)


def _before(pod: Pod, now: datetime) -> int:
    """How many pods in its place have failed in a row before it; those before a long life are forgiven."""
    if (now - _created(pod, now)).total_seconds() > FORGIVEN_SECONDS:
        return 0
    text = pod.annotations.get(labels.FAILURES, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def _created(pod: Pod, now: datetime) -> datetime:
    stamp = pod.metadata.creation_timestamp
    return datetime.fromisoformat(stamp) if stamp else now


def _ordinal(number: int) -> str:
    teens = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
