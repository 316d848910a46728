"""What a set says about itself: accepted or not, how many replicas work, and why the others do not. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from grove.api import conditions, labels, names
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.errors import FieldError
from grove.meta import Condition, Manifest, find_condition
from grove.plan.conditions import merged
from grove.plan.hashing import generation_hash
from grove.plan.slices import LOOKUP, Pace, Work, at_once

#: How much it takes to look at one replica.
_REPLICA: Final = 10 * LOOKUP


@dataclass(frozen=True, slots=True)
class SetFacts:
    """What a set's status is made of."""

    cliques: Mapping[str, PodClique]
    gangs: Mapping[str, PodGang]
    #: Why the set is refused; empty when it is accepted.
    refused: Sequence[FieldError] = ()
    refusal: str = conditions.INVALID
    notices: Sequence[FieldError] = ()
    topology: Condition | None = None
    #: What was edited and waits until gangs are placed anew.
    pending: Condition | None = None


@dataclass(frozen=True, slots=True)
class _Counts:
    """How many replicas are how far; the indexes of those that are available."""

    available: Sequence[int]
    scheduled: int
    updated: int


def desired_cliqueset_status(cliqueset: PodCliqueSet, facts: SetFacts, *, now: datetime) -> Manifest:
    """The whole status of a set."""
    return at_once(cliqueset_status(cliqueset, facts, now=now))


def cliqueset_status(cliqueset: PodCliqueSet, facts: SetFacts, *, now: datetime) -> Work[Manifest]:
    """The same as work that pauses; it grows with what exists, not with what the set asks for."""
    counts = yield from _counted(cliqueset, facts)
    updates = [_accepted(facts), _availability(cliqueset, counts.available, facts)]
    occasional = {
        conditions.TOPOLOGY_LEVELS_UNAVAILABLE: facts.topology,
        conditions.EDIT_PENDING: facts.pending,
    }
    updates += [each for each in occasional.values() if each is not None]
    generation = cliqueset.metadata.generation
    template = cliqueset.template
    drop = [name for name, each in occasional.items() if each is None]
    return {
        "observedGeneration": generation,
        "replicas": cliqueset.spec.replicas,
        "scheduledReplicas": counts.scheduled,
        "availableReplicas": len(counts.available),
        "updatedReplicas": counts.updated,
        "hpaPodSelector": labels.selector(labels.owned_by(cliqueset.name)),
        "currentGenerationHash": generation_hash(
            template.cliques, priority_class=template.priority_class_name
        ),
        "conditions": merged(cliqueset, updates, now=now, drop=drop),
    }


def _counted(cliqueset: PodCliqueSet, facts: SetFacts) -> Work[_Counts]:
    roles = [template.name for template in cliqueset.standalone_cliques]
    # Beyond the last child that exists there is nothing to count.
    left = len(facts.cliques) + len(facts.gangs)
    pace = Pace()
    available: list[int] = []
    scheduled = updated = 0
    for index in range(cliqueset.spec.replicas):
        if not left:
            break
        if pace.spent(_REPLICA):
            yield
        cliques = [facts.cliques.get(names.clique(cliqueset.name, index, role)) for role in roles]
        gang = facts.gangs.get(names.base_gang(cliqueset.name, index))
        left -= len(cliques) - cliques.count(None) + (gang is not None)
        scheduled += _placed(gang)
        if _available(cliques):
            available.append(index)
            updated += _updated(cliques)
    return _Counts(available, scheduled, updated)


def _accepted(facts: SetFacts) -> Condition:
    if facts.refused:
        message = "; ".join(str(error) for error in facts.refused)
        return Condition(type=conditions.ACCEPTED, status="False", reason=facts.refusal, message=message)
    message = "; ".join(str(notice) for notice in facts.notices)
    return Condition(
        type=conditions.ACCEPTED,
        status="True",
        reason=conditions.VALID,
        message=message or "every field is understood and supported",
    )


def _availability(cliqueset: PodCliqueSet, available: Sequence[int], facts: SetFacts) -> Condition:
    wanted = cliqueset.spec.replicas
    if len(available) == wanted:
        return Condition(
            type=conditions.AVAILABLE,
            status="True",
            reason=conditions.ALL_REPLICAS_AVAILABLE,
            message=f"{wanted} of {wanted} replicas are available",
        )
    message = f"{len(available)} of {wanted} replicas are available"
    there = set(available)
    first = next(index for index in range(wanted) if index not in there)
    why = _why_not(cliqueset, first, facts)
    return Condition(
        type=conditions.AVAILABLE,
        status="False",
        reason=conditions.REPLICAS_UNAVAILABLE,
        message=f"{message}; {why}" if why else message,
    )


def _why_not(cliqueset: PodCliqueSet, replica: int, facts: SetFacts) -> str:
    """The most telling sentence about one replica: what keeps its gang from being placed, or ready."""
    name = names.base_gang(cliqueset.name, replica)
    gang = facts.gangs.get(name)
    if gang is None:
        return ""
    for story in (conditions.INITIALIZED, conditions.SCHEDULED, conditions.READY):
        condition = find_condition(gang.status.conditions, story)
        if condition is not None and not condition.is_true:
            return f"gang {name}: {condition.message or condition.reason}"
    return ""


def _placed(gang: PodGang | None) -> bool:
    scheduled = find_condition(gang.status.conditions, conditions.SCHEDULED) if gang is not None else None
    return scheduled is not None and scheduled.is_true


def _available(cliques: Sequence[PodClique | None]) -> bool:
    for clique in cliques:
        if clique is None or clique.terminating or clique.status.ready_replicas < clique.spec.needed:
            return False
    return True


def _updated(cliques: Sequence[PodClique | None]) -> bool:
    return all(
        clique is not None and clique.status.updated_replicas >= clique.spec.needed for clique in cliques
    )
