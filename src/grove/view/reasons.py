"""Why a set, a gang or a clique is not as it should be, the dominant reason first. Pure.

Which step keeps a gang from running is decided in `plan.why_not`; here it gets its words and stands before
everything else that the gang has to say.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple

from grove.api import conditions
from grove.api.clique import LastError, PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import RUNNING, PodGang
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.meta import Condition, find_condition
from grove.plan.deleted_set import deletion_sentence
from grove.plan.why_not import why_not
from grove.view.model import Reason
from grove.view.rollout import Stage, rollout
from grove.words import duration_in_words

_DEADLINE: Final = re.compile(r"at (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")
#: What a gang that has not made a step does instead.
_STEPS: Final = {
    conditions.INITIALIZED: "waits for its pods",
    conditions.SCHEDULED: "not placed",
    conditions.READY: "not ready",
}


class _Sign(NamedTuple):
    """A condition that is worth telling when it has this status."""

    type: str
    status: str
    words: str
    blocking: bool = True


_OF_SETS: Final = (
    _Sign(conditions.ACCEPTED, "False", "refused"),
    _Sign(conditions.DEGRADED, "True", "degraded"),
    _Sign(conditions.TOPOLOGY_LEVELS_UNAVAILABLE, "True", "topology"),
    _Sign(conditions.GANG_TERMINATION_PENDING, "True", "below its minimum"),
    _Sign(conditions.EDIT_PENDING, "True", "edit pending", blocking=False),
    _Sign(conditions.UPDATE_IN_PROGRESS, "True", "update in progress", blocking=False),
)
_OF_GANGS: Final = (
    _Sign(conditions.OWNERSHIP_CONFLICT, "True", "another writer owns a field of its scheduler object"),
    _Sign(conditions.DISRUPTION_TARGET, "True", "disrupted"),
    _Sign(conditions.UNHEALTHY, "True", "lost pods"),
    # What runs goes on running; where it does not run, the step that it waits for says why.
    _Sign(conditions.DEGRADED, "True", "degraded", blocking=False),
    _Sign(conditions.BACKEND_CHANGE_PENDING, "True", "move to another scheduler pending", blocking=False),
    _Sign(conditions.STRAY_PODS, "True", "stray pods", blocking=False),
    _Sign(conditions.STUCK_PODS, "True", "stuck pods", blocking=False),
    _Sign(conditions.PODS_ABOVE_MINIMUM_PENDING, "True", "not all pods placed", blocking=False),
    _Sign(conditions.GANG_GUARANTEE, "False", "no gang guarantee", blocking=False),
    _Sign(conditions.TRANSLATION_LOSS, "True", "not fully expressible for its scheduler", blocking=False),
)


def reasons_of_cliqueset(cliqueset: PodCliqueSet, now: datetime) -> tuple[Reason, ...]:
    """Why a set is not carried out as it is written, or does not stay as it is."""
    if cliqueset.terminating:
        return (Reason("being deleted", deletion_sentence(cliqueset)),)
    found = _signs(cliqueset.status.conditions, _OF_SETS)
    found = [_counting_down(each, now) for each in found]
    if cliqueset.status.observed_generation is None:
        found.append(Reason("no operator has reconciled it yet"))
    update = rollout(cliqueset)
    if update.stage is Stage.OUTDATED:
        # No condition says so: what is left is the user's, and the operator's part is done at once.
        found.append(Reason(f"update {update.stage}", update.message, blocking=False))
    return tuple(found)


def _counting_down(reason: Reason, now: datetime) -> Reason:
    """A deadline as the time that is left."""
    if reason.source != conditions.GANG_TERMINATION_PENDING:
        return reason

    def left(found: re.Match[str]) -> str:
        seconds = (datetime.fromisoformat(found[1]) - now).total_seconds()
        return f"in {duration_in_words(seconds)}" if seconds > 0 else "now"

    return replace(reason, message=_DEADLINE.sub(left, reason.message))


def reasons_of_gang(gang: PodGang) -> tuple[Reason, ...]:
    """Why a gang does not run, then what else it has to say; empty when it runs and nothing is amiss."""
    waits = waiting_for(gang)
    others = _signs(gang.status.conditions, _OF_GANGS)
    if waits is None:
        return tuple(others)
    # A failure to write the scheduler's objects is told both by the step that it prevents and as Degraded.
    return (
        waits,
        *(each for each in others if each.source != conditions.DEGRADED or each.message not in waits.message),
    )


def waiting_for(gang: PodGang) -> Reason | None:
    """The step that keeps a gang from running; None when it runs."""
    if gang.status.phase == RUNNING:
        return None
    found = why_not(gang.status.conditions)
    if found is None:
        return None
    if found.cause is not None:
        # Its pods wait because its scheduler cannot be asked: the cause is more useful than the symptom.
        return _told("not submitted to its scheduler", found.cause)
    words = _STEPS[found.step]
    if found.condition is None:
        return Reason(words, "no reason reported yet")
    if found.condition.reason == conditions.PODS_SUCCEEDED:
        # It did what it was made for.
        return _told("completed", found.condition, blocking=False)
    return _told(words, found.condition)


def reasons_of_clique(clique: PodClique) -> tuple[Reason, ...]:
    """What went wrong when the clique's pods were last written, and that somebody has scaled it to zero."""
    errors = tuple(map(_failed, clique.status.last_errors))
    if not clique.spec.replicas:
        return (*errors, Reason("scaled to zero", blocking=False))
    return errors


def reasons_of_scaling_group(group: PodCliqueScalingGroup) -> tuple[Reason, ...]:
    """What went wrong with the group's cliques, and that somebody has scaled it below its minimum."""
    errors = tuple(map(_failed, group.status.last_errors))
    if not group.spec.replicas:
        return (*errors, Reason("scaled to zero", blocking=False))
    if group.spec.replicas < group.spec.minimum:
        told = f"{group.spec.replicas} of at least {group.spec.minimum} replicas are asked for"
        return (*errors, Reason("scaled below its minimum", told, blocking=False))
    return errors


def _failed(error: LastError) -> Reason:
    return Reason(error.code, error.description, error.code, error.code)


def _signs(said: Sequence[Condition], signs: Sequence[_Sign]) -> list[Reason]:
    found = []
    for sign in signs:
        condition = find_condition(said, sign.type)
        if condition is not None and condition.status == sign.status:
            found.append(_told(sign.words, condition, blocking=sign.blocking))
    return found


def _told(words: str, condition: Condition, *, blocking: bool = True) -> Reason:
    return Reason(words, condition.message, condition.type, condition.reason, blocking)
