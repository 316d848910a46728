"""The update of one scaling group: which of its replicas is replaced now, and how far it has come. Pure.

Replicas that do not serve are replaced at once; those that serve one after the other, the lowest first, each
when the one before it serves again. Which one it is stands in the group's status before its cliques get the
new template. All pods of a replica whose template changed are replaced together.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from grove.api import labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.pod import Pod
from grove.api.scaling_group import PodCliqueScalingGroup, PodCliqueScalingGroupUpdateProgress
from grove.meta import Manifest
from grove.plan.conditions import timestamp
from grove.plan.hashing import generation_hash
from grove.plan.update.pods import Turn, has_outdated, useful_pods
from grove.plan.update.revisions import follows

#: The pods of a clique.
PodsOf = Callable[[PodClique], Sequence[Pod]]


@dataclass(frozen=True, slots=True)
class GroupUpdate:
    """How far the update of a scaling group has come."""

    #: As in the status; None where there never was an update.
    progress: Manifest | None = None
    #: Whether replicas of it are being replaced.
    is_open: bool = False
    #: Whether another replica was chosen, which gets the new template once the status says so.
    chosen: bool = False
    #: Whether all replicas that there should be follow the present template with all of their pods.
    complete: bool = False


NO_UPDATE: Final = GroupUpdate()


def has_turn(cliqueset: PodCliqueSet, replica: int | None) -> bool:
    """Whether the update of a set is at work on this replica, and may take something of it down."""
    progress = cliqueset.status.update_progress
    if progress is None or progress.update_ended_at is not None:
        return False
    if cliqueset.on_delete or cliqueset.update_paused:
        return False
    return any(each.replica_index == replica for each in progress.currently_updating)


def by_replica(cliques: Iterable[PodClique]) -> dict[int, list[PodClique]]:
    """The cliques of a scaling group, by its replica; those that are going are left out."""
    found: dict[int, list[PodClique]] = {}
    for clique in cliques:
        number = labels.number(clique.labels, labels.SCALING_GROUP_REPLICA_INDEX)
        if number is not None and not clique.terminating:
            found.setdefault(number, []).append(clique)
    return found


def is_serving(members: Iterable[PodClique], pods_of: PodsOf) -> bool:
    """Whether every clique of a replica has enough pods that serve or have done their work."""
    return all(useful_pods(pods_of(clique)) >= clique.spec.needed for clique in members)


def may_restart(
    group: PodCliqueScalingGroup, number: int, members: Sequence[PodClique], pods_of: PodsOf
) -> bool:
    """Whether a replica of a group may be taken down in its set replica's turn: chosen, or not serving."""
    return _chosen(group) == number or not is_serving(members, pods_of)


def clique_turn(
    clique: PodClique,
    cliqueset: PodCliqueSet | None,
    group: PodCliqueScalingGroup | None,
    siblings: Iterable[PodClique],
    pods_of: PodsOf,
) -> Turn:
    """What the update of its set allows a clique now; `siblings` are all cliques of its scaling group."""
    if cliqueset is None:
        return Turn.WAIT
    if cliqueset.on_delete:
        return Turn.ON_DELETE
    if not has_turn(cliqueset, labels.number(clique.labels, labels.SET_REPLICA_INDEX)):
        return Turn.WAIT
    if not _follows_present(clique, cliqueset):
        # Its set is about to change it, and its pods may be what it asks for then.
        return Turn.WAIT
    if labels.SCALING_GROUP not in clique.labels:
        return Turn.ONE_BY_ONE
    number = labels.number(clique.labels, labels.SCALING_GROUP_REPLICA_INDEX)
    if group is None or number is None:
        return Turn.WAIT
    members = by_replica(siblings).get(number, ())
    return Turn.TOGETHER if may_restart(group, number, members, pods_of) else Turn.WAIT


def _follows_present(clique: PodClique, cliqueset: PodCliqueSet) -> bool:
    """Whether a clique has the template that its set asks for now, not one that the set has given up since.

    A clique may have it before the status of its set tells of it.
    """
    known, template = follows(clique), cliqueset.template
    if known in (None, cliqueset.status.current_generation_hash):
        return True
    return known == generation_hash(template.cliques, priority_class=template.priority_class_name)


def _chosen(group: PodCliqueScalingGroup) -> int | None:
    progress = group.status.update_progress
    if progress is None or progress.update_ended_at is not None:
        return None
    if progress.pod_clique_set_generation_hash != follows(group):
        # Chosen for another template; whether it is still down decides.
        return None
    selected = progress.ready_replica_indices_selected_to_update
    return selected.current if selected is not None else None


def plan_group_update(
    group: PodCliqueScalingGroup,
    cliques: Mapping[str, PodClique],
    cliqueset: PodCliqueSet | None,
    pods_of: PodsOf,
    *,
    now: datetime,
) -> GroupUpdate:
    """Which replica has its turn next, and the progress to report."""
    members = _members(group, cliques)
    updated = frozenset(number for number, each in members.items() if _is_updated(group, each, pods_of))
    old = sorted(members.keys() - updated)
    complete = len(updated) >= group.spec.replicas
    before, target = group.status.update_progress, follows(group) or ""
    ended = before is None or before.update_ended_at is not None
    current = before is not None and before.pod_clique_set_generation_hash == target
    counts = _counts(group, members, updated)
    if cliqueset is not None and cliqueset.on_delete and (old or not current) and (old or before):
        return GroupUpdate(_on_delete(before if current else None, target, counts, now), complete=complete)
    replica = labels.number(group.labels, labels.SET_REPLICA_INDEX)
    turn = cliqueset is not None and has_turn(cliqueset, replica)
    on_delete = cliqueset is not None and cliqueset.on_delete
    selected = _unfinished(before, members, updated, pods_of)
    if on_delete or (not old and ended) or (old and not turn and (ended or not current)):
        # Nothing to do, or not yet: what was done last stays in the status.
        is_open = selected is not None and not on_delete
        return GroupUpdate(_kept(before, counts), is_open=is_open, complete=complete)
    chosen = _next(group, old, members, pods_of) if turn and selected is None else None
    over = not old and selected is None
    started = before.update_started_at if before is not None and current and not ended else None
    known = None if over else _selection(before if current else None, selected, chosen)
    progress = {
        "updateStartedAt": started or timestamp(now),
        "updateEndedAt": timestamp(now) if over else None,
        "podCliqueSetGenerationHash": target,
        **counts,
        "readyReplicaIndicesSelectedToUpdate": known,
    }
    at_work = turn or selected is not None
    return GroupUpdate(progress, at_work and not over, chosen is not None, complete)


def _members(
    group: PodCliqueScalingGroup, cliques: Mapping[str, PodClique]
) -> Mapping[int, Sequence[PodClique]]:
    """The cliques of the replicas that the group should have, by replica."""
    found = by_replica(cliques.values())
    return {number: each for number, each in found.items() if number < group.spec.replicas}


def _is_updated(group: PodCliqueScalingGroup, members: Sequence[PodClique], pods_of: PodsOf) -> bool:
    target = follows(group)
    if target is not None and any(follows(clique) not in (None, target) for clique in members):
        return False
    return not any(has_outdated(clique, pods_of) for clique in members)


def _unfinished(
    before: PodCliqueScalingGroupUpdateProgress | None,
    members: Mapping[int, Sequence[PodClique]],
    updated: frozenset[int],
    pods_of: PodsOf,
) -> int | None:
    """The replica that was chosen last, until it serves again; also if another template came since."""
    selected = before.ready_replica_indices_selected_to_update if before is not None else None
    if selected is None or before is None or before.update_ended_at is not None:
        return None
    number = selected.current
    if number not in members:
        # Scaled away.
        return None
    done = number in updated and is_serving(members[number], pods_of)
    return None if done else number


def _next(
    group: PodCliqueScalingGroup,
    old: Sequence[int],
    members: Mapping[int, Sequence[PodClique]],
    pods_of: PodsOf,
) -> int | None:
    """The next replica that serves and is to be replaced; none while fewer serve than the set needs."""
    serving = {number for number, each in members.items() if is_serving(each, pods_of)}
    needed = min(group.spec.minimum, group.spec.replicas)
    if len(serving) < needed:
        return None
    return next((number for number in old if number in serving), None)


def _selection(
    before: PodCliqueScalingGroupUpdateProgress | None, selected: int | None, chosen: int | None
) -> Manifest | None:
    known = before.ready_replica_indices_selected_to_update if before is not None else None
    done = list(known.completed) if known is not None else []
    if chosen is not None and known is not None:
        done = [*(number for number in done if number != chosen), known.current]
    current = chosen if chosen is not None else selected
    if current is None:
        current = known.current if known is not None else None
    return None if current is None else {"current": current, "completed": done or None}


def _counts(
    group: PodCliqueScalingGroup, members: Mapping[int, Sequence[PodClique]], updated: frozenset[int]
) -> Manifest:
    return {
        "updatedPodCliquesCount": sum(len(members[number]) for number in updated),
        "totalPodCliquesCount": group.spec.replicas * len(group.spec.clique_names),
    }


def _kept(before: PodCliqueScalingGroupUpdateProgress | None, counts: Manifest) -> Manifest | None:
    """A progress as it stands in the status, with the counts of now."""
    if before is None:
        return None
    return {
        "updateStartedAt": before.update_started_at,
        "updateEndedAt": before.update_ended_at,
        "podCliqueSetGenerationHash": before.pod_clique_set_generation_hash,
        **counts,
        "readyReplicaIndicesSelectedToUpdate": _selection(before, None, None),
    }


def _on_delete(
    before: PodCliqueScalingGroupUpdateProgress | None, target: str, counts: Manifest, now: datetime
) -> Manifest:
    return {
        "updateStartedAt": (before.update_started_at if before else None) or timestamp(now),
        "updateEndedAt": (before.update_ended_at if before else None) or timestamp(now),
        "podCliqueSetGenerationHash": target,
        **counts,
        "readyReplicaIndicesSelectedToUpdate": None,
    }
