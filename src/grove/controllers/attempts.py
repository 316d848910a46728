"""When a gang must be tried anew under another name, for schedulers that start a gang only once.

A pod that the gang lists and loses before any is placed spoils the attempt: the scheduler gave up, or the
place that was held went with the pod. The gang then forgets its pods and counts one attempt more; cliques
replace what is left over from the old one, and all of them start together again. Decides; others write.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from grove.api import kinds, labels
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Backend, Incarnating, offers
from grove.backends.shape import incarnation
from grove.plan.changes import Patch
from grove.plan.gangs import podgroup_manifest

#: The second attempt follows at once; a scheduler that refuses each of them must not be kept busy.
FIRST_PAUSE_SECONDS: Final = 5.0
LONGEST_PAUSE_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Pods of one clique that ordinary planning must not judge by themselves."""

    #: Failed, but kept where they are until the gang begins its next attempt: they say why.
    kept: Collection[str] = frozenset()
    #: Alive, but waiting in an attempt that is over.
    outlived: Collection[str] = frozenset()


NO_LEFTOVERS: Final = Leftovers()


def due_in(gang: PodGang, pods: Sequence[Pod], backend: Backend | None, now: datetime) -> float | None:
    """In how many seconds the next attempt may begin; None while the present one is not spoilt."""
    listed = {reference.name for group in gang.spec.podgroups for reference in group.pod_references}
    if not listed or not offers(backend, Incarnating):
        return None
    standing = [pod for pod in pods if pod.name in listed and not _lost(pod)]
    if len(standing) == len(listed) or any(pod.bound for pod in standing):
        return None
    members = [pod for pod in pods if labels.POD_CLIQUE in pod.labels and not pod.terminating]
    begun = max((_created(pod, now) for pod in members), default=now)
    return max(0.0, _pause(incarnation(gang)) - (now - begun).total_seconds())


def next_attempt(gang: PodGang) -> Patch:
    """The gang as it was before its pods existed, one attempt later."""
    groups = [podgroup_manifest(group, gang.namespace, ()) for group in gang.spec.podgroups]
    number = str(incarnation(gang) + 1)
    return Patch(
        kinds.GANGS,
        gang.key,
        {"metadata": {"annotations": {labels.INCARNATION: number}}, "spec": {"podgroups": groups}},
        resource_version=gang.metadata.resource_version,
    )


def leftovers(
    pods: Sequence[Pod], gang: PodGang, backend: Backend, whole: Callable[[], Sequence[Pod]]
) -> Leftovers:
    """What a clique's pods have to do with the gang's attempts; `whole` finds the pods of the whole gang."""
    if not offers(backend, Incarnating):
        return NO_LEFTOVERS
    ended = frozenset(pod.name for pod in pods if backend.given_up(pod, gang))
    if ended and any(pod.bound and not _lost(pod) for pod in whole() if labels.POD_CLIQUE in pod.labels):
        # The gang runs: there will be no next attempt, and what failed is replaced like any other pod.
        ended = frozenset()
    return Leftovers(ended, frozenset(pod.name for pod in pods if backend.outlived(pod, gang)))


def present(pods: Sequence[Pod], gang: PodGang, backend: Backend | None) -> Sequence[Pod]:
    """The pods that take part in the present attempt."""
    if not offers(backend, Incarnating):
        return pods
    return [pod for pod in pods if not backend.outlived(pod, gang)]


def _lost(pod: Pod) -> bool:
    return pod.terminating or pod.status.phase == "Failed"


def _created(pod: Pod, now: datetime) -> datetime:
    stamp = pod.metadata.creation_timestamp
    return datetime.fromisoformat(stamp) if stamp else now


def _pause(attempts: int) -> float:
    return min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(attempts - 1, 10)) if attempts else 0.0
