"""When a gang is restarted: it gets another revision, hence scheduler objects of other names and new pods.

A gang of which nothing is on a node is restarted when its present start is used up: it ran and lost all of
its pods, a scheduler that starts a gang only once has lost one, an object of it is being deleted, or pods of
it were orphaned. A gang of which a part is on nodes and nothing moves any more gives its nodes back first.
Decides; others write.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from grove.api import conditions, kinds, labels
from grove.api.gang import PodGang
from grove.api.minimum import above_minimum
from grove.api.pod import Pod
from grove.api.revision import restarts, revision_of
from grove.backends.base import Context, Lifecycle
from grove.plan.changes import Patch
from grove.plan.gang.gates import listed, reference_count
from grove.plan.gang.references import podgroup_manifest
from grove.plan.gang.standalone import is_standalone

#: The second start follows at once; a scheduler that refuses each of them must not be kept busy.
FIRST_PAUSE_SECONDS: Final = 5.0
LONGEST_PAUSE_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class Restart:
    """That a gang is to be restarted, in how many seconds and why."""

    seconds: float
    why: str


def restart_of(
    gang: PodGang,
    pods: Sequence[Pod],
    lifecycle: Lifecycle,
    context: Context,
    *,
    leaving: Sequence[str],
    strays: Sequence[Pod] = (),
    whole: bool = False,
    now: datetime,
) -> Restart | None:
    """Whether the present start of a gang is used up; `leaving` are objects of it that are being deleted.

    `strays` are pods that nobody owns any more: a scheduler goes on counting those of the present start.
    `whole` says that its cliques know of it as placed, which the gang itself may never have seen.
    """
    if is_standalone(gang):
        # Its pods are not ours to create.
        return None
    members = [pod for pod in pods if labels.POD_CLIQUE in pod.labels]
    standing = [pod for pod in members if pod.keeps_place]
    if not reference_count(gang) or any(pod.bound for pod in standing):
        return None
    used = any(pod.bound and revision_of(pod) == context.revision for pod in members)
    if used or whole or says_placed(gang):
        return Restart(0.0, "all of its placed pods are gone")
    if leaving:
        verb = "is" if len(leaving) == 1 else "are"
        return Restart(0.0, f"{', '.join(leaving)} {verb} being deleted")
    if any(revision_of(pod) == context.revision for pod in strays):
        return Restart(0.0, "pods that belong to nobody any more are a part of its start")
    is_listed = listed(gang)
    if not lifecycle.starts_once or sum(map(is_listed, standing)) == reference_count(gang):
        return None
    left = _pause_left(gang, members, now)
    return Restart(left, "its scheduler starts a gang only once, and a pod of it was lost")


def restart_patch(gang: PodGang) -> Patch:
    """The gang as it was before its pods existed, one restart later."""
    groups = [podgroup_manifest(group, ()) for group in gang.spec.podgroups]
    number = str(restarts(gang) + 1)
    return Patch(
        kinds.GANGS,
        gang.key,
        {"metadata": {"annotations": {labels.RESTARTS: number}}, "spec": {"podgroups": groups}},
        resource_version=gang.metadata.resource_version,
    )


def kept(pods: Sequence[Pod], members: Sequence[Pod], lifecycle: Lifecycle) -> Collection[str]:
    """The pods of a clique that the scheduler ended; they say why, and stay until the next start."""
    ended = {pod.name for pod in pods} & lifecycle.keep
    if ended and any(pod.bound and pod.keeps_place for pod in members if labels.POD_CLIQUE in pod.labels):
        # The gang runs and is not restarted; what failed is replaced like any other pod.
        return ()
    return ended


def bound_by_podgroup(pods: Sequence[Pod]) -> Mapping[str, int]:
    """How many pods of each podgroup are on a node."""
    found: dict[str, int] = {}
    for pod in pods:
        if pod.bound and pod.active and (podgroup := pod.labels.get(labels.POD_CLIQUE)):
            found[podgroup] = found.get(podgroup, 0) + 1
    return found


def ungrouped(gang: PodGang, pods: Sequence[Pod]) -> Mapping[str, int]:
    """How many living pods of each podgroup's minimum belong to no native gang; only those that have some.

    A pod above the minimum may count for it: a role that shrinks keeps it and not one that was lost before.
    """
    alone = [pod for pod in pods if not pod.in_native_gang and pod.active and labels.POD_CLIQUE in pod.labels]
    if not alone:
        return {}
    above = above_minimum(gang)
    found = Counter(pod.labels[labels.POD_CLIQUE] for pod in alone if not above(pod))
    spare = Counter(pod.labels[labels.POD_CLIQUE] for pod in alone if above(pod) and pod.bound)
    for group in gang.spec.podgroups:
        lower = max(0, len(group.pod_references) - spare[group.name])
        found[group.name] += min(spare[group.name], max(0, group.min_replicas - lower))
    return +found


def says_placed(gang: PodGang) -> bool:
    """Whether the gang says of its present start that it was placed."""
    told, now = (conditions.SCHEDULED, conditions.UNHEALTHY), gang.metadata.generation
    return any(
        each.is_true and (each.observed_generation or 0) >= now
        for each in gang.status.conditions
        if each.type in told
    )


def _pause_left(gang: PodGang, members: Sequence[Pod], now: datetime) -> float:
    """How many seconds more a start that was used up lasts, from when its last pod was made."""
    alive = [pod for pod in members if not pod.terminating]
    begun = max((_created(pod, now) for pod in alive), default=now)
    # The API server's clock and ours may differ.
    passed = max(0.0, (now - begun).total_seconds())
    return max(0.0, _pause(restarts(gang)) - passed)


def _created(pod: Pod, now: datetime) -> datetime:
    stamp = pod.metadata.creation_timestamp
    return datetime.fromisoformat(stamp) if stamp else now


def _pause(starts: int) -> float:
    return min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(starts - 1, 10)) if starts else 0.0
