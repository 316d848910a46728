"""The status of a scaling group: how many of its replicas are placed, ready and up to date. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from grove.api import conditions, labels, names
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.meta import Condition, Manifest, find_condition, is_true
from grove.plan.availability import is_updated
from grove.plan.completion import is_over
from grove.plan.conditions import merged, moment
from grove.plan.last_errors import MOST_ERRORS, CodedError, last_errors
from grove.plan.standing import Standing, availability, standing_conditions
from grove.plan.termination import breached_since, termination_delay
from grove.plan.update.groups import NO_UPDATE, GroupUpdate
from grove.plan.update.revisions import follows
from grove.words import counted

#: How codes of a set's errors end that are about a clique; `ERR_NAME_TAKEN` may be about one.
_OF_CLIQUES: Final = ("_PODCLIQUE", "_NAME_TAKEN")


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """How many replicas of a group are how far."""

    scheduled: int = 0
    available: int = 0
    updated: int = 0
    #: Replicas of which no clique is below its minimum, or that are still starting.
    unbreached: int = 0
    #: The first replica that is not available, and whether it is placed; None when all are.
    waiting: int | None = None
    waiting_placed: bool = False
    #: Whether only pods that have run to their end are missing.
    finished: bool = False


class _Replica(NamedTuple):
    """How far one replica of a group is."""

    unbreached: bool = False
    scheduled: bool = False
    available: bool = False
    updated: bool = False


def desired_group_status(
    group: PodCliqueScalingGroup,
    cliques: Mapping[str, PodClique],
    cliqueset: PodCliqueSet | None = None,
    *,
    update: GroupUpdate = NO_UPDATE,
    now: datetime,
) -> Manifest:
    """The whole status of a group, computed from its cliques by name, and from what its set cannot write."""
    counts = count_replicas(group, cliques)
    errors = group_errors(group, cliques, cliqueset)
    breached = _updating() if update.is_open else _breached(group, counts)
    lost = _lost_since(group, cliques)
    terminated = _terminated(group, breached, cliqueset, lost, now) if lost is not None else []
    updates = [breached, *terminated, *standing_conditions(_standing(group, counts, errors))]
    occasional = {conditions.STALLED: errors, conditions.GANG_TERMINATION_IN_PROGRESS: terminated}
    selector = {
        **labels.owned_by(group.labels.get(labels.PART_OF, "")),
        labels.SCALING_GROUP: group.name,
    }
    return {
        "observedGeneration": group.metadata.generation,
        "replicas": group.spec.replicas,
        "scheduledReplicas": counts.scheduled,
        "availableReplicas": counts.available,
        "updatedReplicas": counts.updated,
        "updateProgress": update.progress,
        "currentPodCliqueSetGenerationHash": follows(group)
        if update.complete
        else group.status.current_pod_clique_set_generation_hash,
        "selector": labels.selector(selector),
        "lastErrors": last_errors(group.status.last_errors, errors, now=now),
        "conditions": merged(
            group,
            [*updates, _available(group, counts)],
            now=now,
            drop=[name for name, told in occasional.items() if not told],
        ),
    }


def _updating() -> Condition:
    return Condition(
        type=conditions.MIN_AVAILABLE_BREACHED,
        status="Unknown",
        reason=conditions.UPDATE_IN_PROGRESS,
        message="replicas are being replaced",
    )


def group_errors(
    group: PodCliqueScalingGroup, cliques: Mapping[str, PodClique], cliqueset: PodCliqueSet | None
) -> list[CodedError]:
    """What keeps a group from having its pods: the errors of its cliques, and why it lacks cliques."""
    told = [
        CodedError(error.code, f"clique {clique.name}: {error.description}")
        for clique in cliques.values()
        for error in clique.status.last_errors
    ]
    if cliqueset is not None and len(cliques) < group.spec.replicas * len(group.spec.clique_names):
        told += [
            CodedError(error.code, error.description)
            for error in cliqueset.status.last_errors
            if error.code.endswith(_OF_CLIQUES)
        ]
    return sorted(told)[:MOST_ERRORS]


def count_replicas(group: PodCliqueScalingGroup, cliques: Mapping[str, PodClique]) -> GroupCounts:
    """Count the replicas of a group of which every clique is placed, ready or up to date."""
    scheduled = available = updated = unbreached = 0
    looked_at = 0
    waiting: tuple[int, bool] | None = None
    ended: tuple[int, bool] | None = None
    for members in _replicas(group, cliques):
        replica = _replica(members)
        unbreached += replica.unbreached
        scheduled += replica.scheduled
        available += replica.available
        updated += replica.updated
        if waiting is None and not replica.available:
            first = (looked_at, replica.scheduled)
            over = is_over(members)
            waiting, ended = (None, ended or first) if over else (first, ended)
        looked_at += 1
    if waiting is None and looked_at < group.spec.replicas:
        waiting = (looked_at, False)
    number, placed = waiting or ended or (None, False)
    finished = waiting is None and ended is not None
    return GroupCounts(scheduled, available, updated, unbreached, number, placed, finished)


def _replica(members: Sequence[PodClique | None]) -> _Replica:
    there = [clique for clique in members if clique is not None and not clique.terminating]
    if len(there) < len(members):
        return _Replica()
    breached = any(is_true(each.status.conditions, conditions.MIN_AVAILABLE_BREACHED) for each in there)
    scheduled = all(each.status.scheduled_replicas >= each.spec.needed for each in there)
    available = scheduled and all(each.status.ready_replicas >= each.spec.needed for each in there)
    updated = available and all(is_updated(each) for each in there)
    return _Replica(not breached, scheduled, available, updated)


def _replicas(
    group: PodCliqueScalingGroup, cliques: Mapping[str, PodClique]
) -> Iterator[Sequence[PodClique | None]]:
    # Beyond the last clique that exists there is nothing to count, whatever the group asks for.
    left = len(cliques)
    for replica in range(group.spec.replicas):
        if left <= 0:
            return
        members = [
            cliques.get(names.group_clique(group.name, replica, role)) for role in group.spec.clique_names
        ]
        left -= len(members) - members.count(None)
        yield members


def _terminated(
    group: PodCliqueScalingGroup,
    breached: Condition,
    cliqueset: PodCliqueSet | None,
    lost: datetime,
    now: datetime,
) -> list[Condition]:
    """That the group was below its minimum for so long that its set replica was recycled."""
    before = find_condition(group.status.conditions, conditions.MIN_AVAILABLE_BREACHED)
    if cliqueset is None or not breached.is_true or before is None or not before.is_true:
        return []
    told = moment(before.last_transition_time) or now
    known = is_true(group.status.conditions, conditions.GANG_TERMINATION_IN_PROGRESS)
    accepted = find_condition(cliqueset.status.conditions, conditions.ACCEPTED)
    # Nothing of a set is recycled while it is refused.
    refused = accepted is not None and accepted.status == "False"
    if not known and (refused or max(told, lost) + termination_delay(cliqueset.template) > now):
        return []
    return [
        Condition(
            type=conditions.GANG_TERMINATION_IN_PROGRESS,
            status="True",
            reason=conditions.GANG_TERMINATION_ACTIVE,
            message="too few replicas worked for longer than terminationDelay; the set replica starts again",
        )
    ]


def _lost_since(group: PodCliqueScalingGroup, cliques: Mapping[str, PodClique]) -> datetime | None:
    """Since when a replica that once worked is broken.

    A group that waits for its first placement lacks its minimum too, and is not recycled for that.
    """
    members = (clique for each in _replicas(group, cliques) for clique in each if clique is not None)
    return min((since for clique in members if (since := breached_since(clique)) is not None), default=None)


def _standing(group: PodCliqueScalingGroup, counts: GroupCounts, errors: Sequence[CodedError]) -> Standing:
    ready = counts.available >= group.spec.replicas
    return Standing(
        ready,
        conditions.ALL_REPLICAS_AVAILABLE if ready else conditions.REPLICAS_UNAVAILABLE,
        f"{counts.available} of {group.spec.replicas} replicas are available{_first_waiting(group, counts)}",
        stalled=errors[0].text if errors else "",
        finished=counts.finished,
    )


def _first_waiting(group: PodCliqueScalingGroup, counts: GroupCounts) -> str:
    """Which replica to look at. It changes with the counts, so that it costs no write of its own."""
    if counts.waiting is None:
        return ""
    above = counts.waiting - group.spec.minimum
    index = labels.number(group.labels, labels.SET_REPLICA_INDEX) or 0
    base = names.base_gang(group.labels.get(labels.PART_OF, ""), index)
    gang = names.scaled_gang(group.name, above) if above >= 0 else base
    state = "is not ready" if counts.waiting_placed else "is not placed"
    return f"; replica {counts.waiting} (gang {gang}) {'has completed' if counts.finished else state}"


def _available(group: PodCliqueScalingGroup, counts: GroupCounts) -> Condition:
    needed = min(group.spec.minimum, group.spec.replicas)
    enough = counts.available >= needed
    return availability(
        enough,
        conditions.SUFFICIENT_GROUP_REPLICAS if enough else conditions.INSUFFICIENT_GROUP_REPLICAS,
        f"{counted(counts.available, 'replica is', 'replicas are')} available, {needed} needed",
    )


def _breached(group: PodCliqueScalingGroup, counts: GroupCounts) -> Condition:
    """Whether fewer replicas work than the base gang needs; a group that is scaled to zero needs none."""
    needed = min(group.spec.minimum, group.spec.replicas)
    enough = counts.unbreached >= needed
    working = counted(counts.unbreached, "replica has", "replicas have")
    return Condition(
        type=conditions.MIN_AVAILABLE_BREACHED,
        status="False" if enough else "True",
        reason=conditions.SUFFICIENT_GROUP_REPLICAS if enough else conditions.INSUFFICIENT_GROUP_REPLICAS,
        message=f"{working} enough pods in every clique, {needed} needed",
    )
