"""The status of a set: whether it is accepted, how many replicas are available, why others are not. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

import msgspec

from grove.api import conditions, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.errors import (
    ClaimTemplateNotFound,
    FieldError,
    InvalidInput,
    NotEnabled,
    PodLimitReached,
    Unsupported,
    in_one_sentence,
)
from grove.meta import Condition, Manifest, find_condition, is_true
from grove.plan.availability import ReplicaCliques, are_available, is_updated
from grove.plan.completion import has_ended, is_over
from grove.plan.conditions import merged
from grove.plan.last_errors import CodedError, last_errors
from grove.plan.layout import Layout, PlannedGang
from grove.plan.slices import LOOKUP, Pace, Work
from grove.plan.standing import Standing, availability, standing_conditions
from grove.plan.why_not import why_not
from grove.words import counted

#: How much it takes to look at one replica.
_REPLICA: Final = 10 * LOOKUP

#: Why a set is refused, as codes of errors.
_CODES: Final = {
    conditions.UNSUPPORTED: Unsupported.code,
    conditions.BACKEND_NOT_ENABLED: NotEnabled.code,
    conditions.LIMIT_EXCEEDED: PodLimitReached.code,
    # As the Go operator calls it.
    conditions.TOPOLOGY_LEVELS_UNAVAILABLE: "ERR_GET_CLUSTER_TOPOLOGY_LEVELS",
}


@dataclass(frozen=True, slots=True)
class SetFacts:
    """What a set's status is made of."""

    cliques: Mapping[str, PodClique]
    gangs: Mapping[str, PodGang]
    #: How many replicas each scaling group has, by name.
    scaled_to: Mapping[str, int] = field(default_factory=dict)
    #: Why the set is refused; empty when it is accepted.
    refused: Sequence[FieldError] = ()
    refusal: str = conditions.INVALID
    notices: Sequence[FieldError] = ()
    topology: Condition | None = None
    #: What was edited and waits until gangs are placed again.
    pending: Condition | None = None
    #: What an update waits for, how far it is, the hash that it leads to, and the replicas that it is to do.
    update: Condition | None = None
    progress: Manifest | None = None
    generation_hash: str | None = None
    behind: Collection[int] = ()
    #: What of the set is recycled unless it recovers.
    termination: Condition | None = None
    #: What could not be written of the set's own children, in the API server's words.
    failures: Sequence[CodedError] = ()
    name_taken: bool = False
    #: The templates of device claims that do not exist.
    missing_templates: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _Counts:
    """How many replicas are how far; the indexes of those that are available."""

    available: Sequence[int]
    scheduled: int
    updated: int
    #: The first gang that is not ready: the base of a replica that is not available, or else any other; one
    #: whose pods have run to their end only where there is no other.
    waiting: PlannedGang | None = None
    #: Whether only pods that have run to their end are missing.
    finished: bool = False
    #: The first gang that works and has pods for which there is no room.
    growing: str = ""


def cliqueset_status(cliqueset: PodCliqueSet, facts: SetFacts, *, now: datetime) -> Work[Manifest]:
    """The whole status of a set, as work that pauses.

    The work grows with what exists, not with what the set asks for.
    """
    counts = yield from _counted(cliqueset, facts)
    facts = replace(facts, update=_how_far(cliqueset, counts, facts))
    degraded = _degraded(facts)
    why = _first_reason(counts, facts, degraded) or _nothing_wanted(cliqueset, counts, facts)
    available = _availability(cliqueset, counts, why)
    standing = {each.type: each for each in standing_conditions(_standing(counts, facts, degraded, why))}
    occasional = {
        conditions.TOPOLOGY_LEVELS_UNAVAILABLE: facts.topology,
        conditions.EDIT_PENDING: facts.pending,
        conditions.UPDATE_IN_PROGRESS: facts.update,
        conditions.GANG_TERMINATION_PENDING: facts.termination,
        conditions.DEGRADED: degraded,
        conditions.STALLED: standing.pop(conditions.STALLED, None),
    }
    updates = [_accepted(facts), available, *standing.values()]
    updates += [condition for condition in occasional.values() if condition is not None]
    drop = [name for name, condition in occasional.items() if condition is None]
    return {
        "observedGeneration": cliqueset.metadata.generation,
        "replicas": cliqueset.spec.replicas,
        "scheduledReplicas": counts.scheduled,
        "availableReplicas": len(counts.available),
        "updatedReplicas": counts.updated,
        "hpaPodSelector": labels.selector(labels.owned_by(cliqueset.name)),
        "currentGenerationHash": facts.generation_hash,
        "updateProgress": facts.progress,
        "lastErrors": last_errors(cliqueset.status.last_errors, _errors(facts), now=now),
        "conditions": merged(cliqueset, updates, now=now, drop=drop),
    }


def _counted(cliqueset: PodCliqueSet, facts: SetFacts) -> Work[_Counts]:
    # Beyond the last child that exists there is nothing to count.
    left = len(facts.cliques) + len(facts.gangs)
    pace, layout = Pace(), Layout(cliqueset.name, cliqueset.template, facts.scaled_to)
    available: list[int] = []
    scheduled = updated = 0
    # The base gang of the first replica that is not available, and the first gang that waits in the others;
    # and the first of which nothing more is to come.
    unavailable = unready = ended = None
    growing = ""
    for index in range(cliqueset.spec.replicas):
        if not left:
            unavailable = unavailable or layout.base_gang(index)
            break
        if pace.spent(_REPLICA):
            yield
        planned = list(layout.gangs(index))
        replica = ReplicaCliques.of(planned, facts.cliques)
        left -= replica.there + len([gang for gang in planned if gang.name in facts.gangs])
        scheduled += _placed(facts.gangs.get(planned[0].name))
        if replica.available(layout, index):
            available.append(index)
            updated += index not in facts.behind and _updated(replica)
            waits = _first_waiting(planned, facts)
            if waits is not None and is_over(replica.all()):
                ended = ended or waits
            else:
                unready = unready or waits
            growing = growing or _first_growing(planned, facts)
        elif is_over(replica.all()):
            ended = ended or planned[0]
        else:
            unavailable = unavailable or planned[0]
    waiting = unavailable or unready
    return _Counts(available, scheduled, updated, waiting or ended, bool(ended and not waiting), growing)


def _how_far(cliqueset: PodCliqueSet, counts: _Counts, facts: SetFacts) -> Condition | None:
    """That an update goes on, with how many replicas it has done and how many of those are available.

    The second number is `updatedReplicas`, so that the sentence and the field never seem to disagree.
    """
    if facts.update is None:
        return None
    wanted = cliqueset.spec.replicas
    done = wanted - len(facts.behind)
    told = f"{done} of {counted(wanted, 'replica')} updated, {counts.updated} of them available"
    return msgspec.structs.replace(facts.update, message=f"{told}; {facts.update.message}")


#: What gangs say that keeps a set from being what it asks for, in the order in which it is told.
_BAD: Final = (conditions.DEGRADED, conditions.OWNERSHIP_CONFLICT)


def _degraded(facts: SetFacts) -> Condition | None:
    """What of the set cannot be written or kept up; what it has goes on running."""
    told = [*facts.missing_templates, *(error.text for error in facts.failures)]
    for clique in facts.cliques.values():
        told += [
            f"clique {clique.name}: {error.description}"
            for error in clique.status.last_errors
            if error.code != ClaimTemplateNotFound.code
        ]
    for gang in facts.gangs.values():
        bad = {each.type: each for each in gang.status.conditions if each.type in _BAD and each.is_true}
        told += [f"gang {gang.name}: {bad[name].message}" for name in _BAD if name in bad]
    if not told:
        return None
    first, more = told[0], len(told) - 1
    reason = conditions.NAME_TAKEN if facts.name_taken else conditions.SYNC_FAILED
    return Condition(
        type=conditions.DEGRADED,
        status="True",
        reason=conditions.CLAIM_TEMPLATE_NOT_FOUND if facts.missing_templates else reason,
        message=f"{first}; and {counted(more, 'problem')} more" if more else first,
    )


def _accepted(facts: SetFacts) -> Condition:
    if facts.refused:
        message = in_one_sentence(facts.refused)
        return Condition(type=conditions.ACCEPTED, status="False", reason=facts.refusal, message=message)
    message = "; ".join(str(notice) for notice in facts.notices)
    return Condition(
        type=conditions.ACCEPTED,
        status="True",
        reason=conditions.VALID,
        message=message or "every field is understood and supported",
    )


def _first_reason(counts: _Counts, facts: SetFacts, degraded: Condition | None) -> str:
    """What stands in the way of the set, in one sentence: which gang of it waits for what."""
    if facts.refused:
        return f"refused: {in_one_sentence(facts.refused)}"
    if degraded is not None:
        return f"degraded: {degraded.message}"
    if counts.waiting is not None:
        return _why_not(counts.waiting, facts)
    more = _above_minimum(facts.gangs[counts.growing]) if counts.growing else None
    return f"gang {counts.growing}: {more.message}" if more is not None else ""


def _nothing_wanted(cliqueset: PodCliqueSet, counts: _Counts, facts: SetFacts) -> str:
    """Why a set that lacks nothing has no pods; empty if it wants some."""
    if not cliqueset.spec.replicas:
        return "the set is scaled to zero"
    everything = len(counts.available) == cliqueset.spec.replicas
    if not everything or any(clique.spec.replicas for clique in facts.cliques.values()):
        return ""
    return "every role is scaled to zero, so that there are no pods"


def _availability(cliqueset: PodCliqueSet, counts: _Counts, why: str) -> Condition:
    """How many replicas work and, in a word that `kubectl get` shows, what stands in the way of the set."""
    wanted = cliqueset.spec.replicas
    everything = len(counts.available) == wanted
    message = f"{len(counts.available)} of {wanted} replicas are available"
    return availability(
        everything,
        conditions.ALL_REPLICAS_AVAILABLE if everything else conditions.REPLICAS_UNAVAILABLE,
        f"{message}; {why}" if why else message,
    )


def _standing(counts: _Counts, facts: SetFacts, degraded: Condition | None, why: str) -> Standing:
    """Whether every gang is ready: also those above the minimum, and by the spec as it is now.

    Gangs of an earlier template are not by that spec, whether the update goes on or stands still.
    """
    gangs_ready = counts.waiting is None and not facts.refused
    finished = counts.finished and facts.update is None and not facts.refused
    ready = gangs_ready and facts.update is None
    reason = conditions.ALL_GANGS_READY if ready else conditions.GANGS_NOT_READY
    reason = conditions.PODS_SUCCEEDED if finished else reason
    if gangs_ready and facts.update is not None:
        reason, message = conditions.UPDATE_IN_PROGRESS, facts.update.message
    else:
        message = "every gang is ready" if ready else "not every gang is ready"
    return Standing(
        ready,
        facts.refusal if facts.refused else reason,
        why or message,
        stalled=why if facts.refused or degraded is not None else "",
        stalled_reason=degraded.reason if degraded is not None and not facts.refused else facts.refusal,
        finished=finished,
    )


def _errors(facts: SetFacts) -> list[CodedError]:
    """Why the set is refused, what it refers to in vain, and which of its children cannot be written."""
    code = _CODES.get(facts.refusal, InvalidInput.code)
    refused = [CodedError(code, str(error)) for error in facts.refused]
    missing = [CodedError(ClaimTemplateNotFound.code, text) for text in facts.missing_templates]
    return [*refused, *missing, *facts.failures]


def _first_waiting(planned: Sequence[PlannedGang], facts: SetFacts) -> PlannedGang | None:
    """The first scaled gang that lacks ready pods, in a replica that has its minimum.

    Asked of the cliques, as availability is, so that both change with the same write.
    """
    for gang in planned:
        if gang.base and not are_available([facts.cliques.get(clique.name) for clique in gang.cliques]):
            return gang
    return None


def _first_growing(planned: Sequence[PlannedGang], facts: SetFacts) -> str:
    """The first gang that works and has pods for which there is no room."""
    for planned_gang in planned:
        gang = facts.gangs.get(planned_gang.name)
        if gang is not None and _above_minimum(gang) is not None:
            return gang.name
    return ""


def _above_minimum(gang: PodGang) -> Condition | None:
    """What a gang says of pods above its minimum that find no room."""
    found = find_condition(gang.status.conditions, conditions.PODS_ABOVE_MINIMUM_PENDING)
    return found if found is not None and found.is_true else None


def _why_not(planned: PlannedGang, facts: SetFacts) -> str:
    """The most telling sentence about one gang: what keeps it from being placed, or ready."""
    name, gang = planned.name, facts.gangs.get(planned.name)
    if gang is None:
        return f"gang {name} does not exist yet"
    found = why_not(gang.status.conditions)
    if found is None:
        return _what_has_ended(planned, facts)
    if found.condition is None:
        return ""
    # Not the cause: while pods are missing, Initialized counts them and ends with the cause.
    message = found.condition.message or found.condition.reason
    disruption = find_condition(gang.status.conditions, conditions.DISRUPTION_TARGET)
    if disruption is not None and disruption.is_true:
        message = f"{message.rstrip('.')}; {disruption.message}"
    return f"gang {name}: {message}"


def _what_has_ended(planned: PlannedGang, facts: SetFacts) -> str:
    """Which pods of a gang that runs have succeeded, so that fewer than its minimum are ready; or nothing."""
    for each in planned.cliques:
        clique = facts.cliques.get(each.name)
        if clique is None or not has_ended(clique):
            continue
        told = find_condition(clique.status.conditions, conditions.READY)
        return f"gang {planned.name}: {clique.name}: {told.message}" if told is not None else ""
    return ""


def _placed(gang: PodGang | None) -> bool:
    return gang is not None and is_true(gang.status.conditions, conditions.SCHEDULED)


def _updated(replica: ReplicaCliques) -> bool:
    return all(clique is not None and is_updated(clique) for clique in replica.all())


def outdated(cliqueset: PodCliqueSet, cliques: Iterable[PodClique]) -> list[FieldError]:
    """What to tell while pods run an older template than the set has and only their deletion updates them."""
    if not cliqueset.on_delete:
        return []
    old = sum(max(0, clique.status.replicas - clique.status.updated_replicas) for clique in cliques)
    if not old:
        return []
    field = "spec.template.cliques"
    return [
        FieldError(
            field,
            f"{counted(old, 'pod runs', 'pods run')} an older template; "
            "a pod takes the new one when it is deleted",
        )
    ]


def unattended(gangs: Iterable[PodGang]) -> list[FieldError]:
    """Gangs that are left to a process of their own backend, which has not looked at them yet."""
    waiting: dict[str, list[str]] = {}
    for gang in gangs:
        if labels.EXTERNAL_BACKEND not in gang.metadata.annotations:
            continue
        if conditions.SCHEDULED not in {condition.type for condition in gang.status.conditions}:
            waiting.setdefault(gang.labels.get(labels.SCHEDULER_BACKEND, ""), []).append(gang.name)
    return [
        FieldError(
            "",
            f"{counted(len(names), f'gang ({min(names)}) waits', f'gangs (the first is {min(names)}) wait')} "
            f"for the process of their backend; does `grove backend run {backend}` run?",
        )
        for backend, names in sorted(waiting.items())
    ]
