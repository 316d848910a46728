"""How far the update of a set is, as its status tells it to clients. Pure."""

from datetime import datetime

from grove.api import labels, names
from grove.api.cliqueset import PodCliqueSetUpdateProgress
from grove.meta import Manifest
from grove.plan.conditions import timestamp
from grove.plan.update.pods import has_outdated
from grove.plan.update.replicas import SetUpdate, is_new_template
from grove.plan.update.revisions import (
    follows,
)
from grove.plan.update.state import UpdateState


def update_progress(update: SetUpdate, *, now: datetime) -> Manifest | None:
    """The progress as the set's status tells it; None where there never was an update."""
    state = update.state
    if state is None:
        return None
    status = state.cliqueset.status
    before, stamp = status.update_progress, timestamp(now)
    changed = status.current_generation_hash not in (None, update.present.hash)
    begins = changed and (is_new_template(state, update.present) or not update.finished)
    ended = before is None or before.update_ended_at is not None
    reopens = not state.cliqueset.on_delete and not update.finished and ended
    started = stamp if begins or reopens or before is None else before.update_started_at or stamp
    if before is None and not begins and not reopens:
        return None
    return {
        "updateStartedAt": started,
        "updateEndedAt": _ended(update, before, stamp, begins=begins or reopens),
        **_counts(update, state),
        "surplusReplicas": update.surplus.left,
        "currentlyUpdating": [_turn(each, before, stamp) for each in update.turns] or None,
    }


def _ended(
    update: SetUpdate, before: PodCliqueSetUpdateProgress | None, stamp: str, *, begins: bool
) -> str | None:
    assert update.state is not None
    if not update.finished and not update.state.cliqueset.on_delete:
        return None
    known = before.update_ended_at if before is not None and not begins else None
    return known or stamp


def _turn(replica: int, before: PodCliqueSetUpdateProgress | None, stamp: str) -> Manifest:
    turns = before.currently_updating if before is not None else ()
    known = next((each for each in turns if each.replica_index == replica), None)
    started = known.update_started_at if known is not None else None
    return {"replicaIndex": replica, "updateStartedAt": started or stamp}


def _replica_of(state: UpdateState, name: str) -> int:
    found = names.set_replica(state.cliqueset.name, name)
    return -1 if found is None else found


def _counts(update: SetUpdate, state: UpdateState) -> Manifest:
    """How many standalone cliques and scaling groups follow with all of their pods."""
    cliqueset, target = state.cliqueset, update.present.hash
    replicas, template = cliqueset.spec.replicas, cliqueset.template
    late: set[str] = set()
    if update.behind:
        late = {
            (labels.SCALING_GROUP in clique.labels and clique.labels[labels.SCALING_GROUP]) or clique.name
            for clique in state.cliques.values()
            if follows(clique) not in (None, target) or has_outdated(clique, state.pods_of)
        }
        late |= {name for name, group in state.groups.items() if follows(group) not in (None, target)}
    # Replicas that are there for the update only do not count, nor do those that go.
    counted = [name for name in (*state.cliques, *state.groups) if _replica_of(state, name) < replicas]
    standalone = [
        name
        for name in counted
        if name in state.cliques and labels.SCALING_GROUP not in state.cliques[name].labels
    ]
    return {
        "updatedPodCliquesCount": sum(name not in late for name in standalone),
        "totalPodCliquesCount": replicas * len(template.standalone_cliques),
        "updatedPodCliqueScalingGroupsCount": sum(
            name in state.groups and name not in late for name in counted
        ),
        "totalPodCliqueScalingGroupsCount": replicas * len(template.pod_clique_scaling_groups),
    }
