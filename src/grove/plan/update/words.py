"""What a set says of its update: what it waits for. Pure; how far it is, the set's status adds."""

from grove.api import conditions, labels
from grove.api.cliqueset import PodCliqueSet
from grove.meta import Condition, Manifest
from grove.plan.last_errors import CodedError
from grove.plan.termination import termination_delay
from grove.plan.update.budget import budget_of
from grove.plan.update.recycled import patience
from grove.plan.update.replicas import SetUpdate
from grove.plan.update.surplus import holding_room
from grove.plan.why_not import why_not
from grove.words import duration_in_words


def update_condition(update: SetUpdate) -> Condition | None:
    """That an update goes on; None when there is none, or when it is left to whoever deletes pods."""
    state = update.state
    if state is None or update.finished:
        return None
    cliqueset = state.cliqueset
    if cliqueset.on_delete:
        return None
    if cliqueset.update_paused:
        return _condition(conditions.UPDATE_PAUSED, f"paused by the annotation {labels.UPDATE_PAUSED}")
    if not update.is_recorded:
        message = f"ControllerRevision {update.record} must be made first"
        return _condition(conditions.ROLLING_RECREATE, message)
    at_work = update.turns or update.waits_for
    if not at_work and update.settling:
        return _condition(conditions.ROLLING_RECREATE, "their cliques are yet to say so")
    if not at_work:
        return _condition(conditions.ROLLING_RECREATE, "the next follow at once")
    # Of several that have their turn, one that finds no room while others of the set hold some.
    replica = (*update.surplus.short, *at_work)[0]
    message = _needed(update, replica)
    why = _why_not(update, replica)
    message = f"{message}: {why}" if why else message
    held = holding_room(budget_of(cliqueset), update.surge, update.crowding)
    message = f"{message.rstrip('.')}; {held}" if held else message
    return _condition(conditions.ROLLING_RECREATE, message)


def disbelieved(update: SetUpdate | None) -> list[CodedError]:
    """The records of templates that replicas follow and that somebody replaced by others."""
    found = update.disbelieved if update is not None else ()
    return [
        CodedError(
            "ERR_GET_CONTROLLERREVISION",
            f"ControllerRevision {each.name} does not hold the template that it is named for: replicas that "
            f"follow it keep the pod templates that they have",
        )
        for each in found
    ]


def update_news(cliqueset: PodCliqueSet, progress: Manifest | None) -> tuple[bool, bool]:
    """Whether a progress says for the first time that an update began, and that one is over.

    Pods that are left to whoever deletes them have no update that begins or ends.
    """
    if progress is None or cliqueset.on_delete:
        return False, False
    before = cliqueset.status.update_progress
    started, ended = progress["updateStartedAt"], progress["updateEndedAt"]
    is_new = before is None or before.update_started_at != started
    return is_new, ended is not None and (is_new or before is None or before.update_ended_at != ended)


def _needed(update: SetUpdate, replica: int) -> str:
    assert update.state is not None
    if replica in update.recycled:
        seconds = patience(termination_delay(update.state.cliqueset.template)).total_seconds()
        until = f"until it has been available for {duration_in_words(seconds)}"
        return f"replica {replica} was recycled during its update; it keeps its turn {until}"
    if replica in update.turns:
        surplus = "surplus " if replica >= update.state.cliqueset.spec.replicas else ""
        return f"{surplus}replica {replica} is being updated"
    if replica >= update.state.cliqueset.spec.replicas:
        return f"surplus replica {replica} must be available first"
    return f"replica {replica} must be available again first"


def _condition(reason: str, message: str) -> Condition:
    return Condition(type=conditions.UPDATE_IN_PROGRESS, status="True", reason=reason, message=message)


def _why_not(update: SetUpdate, replica: int) -> str:
    """What keeps the gangs of a replica from running, in the words of the first that does not."""
    state = update.state
    assert state is not None
    for planned in state.layout.gangs(replica):
        gang = state.gangs.get(planned.name)
        found = why_not(gang.status.conditions) if gang is not None else None
        if gang is not None and found is not None and found.condition is not None:
            return f"gang {gang.name}: {found.condition.message or found.condition.reason}"
    return ""
