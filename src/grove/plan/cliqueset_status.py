"""What a set says about itself: accepted or not, how many replicas work, and why the others do not. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from grove.api import conditions, labels, names
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.errors import FieldError
from grove.meta import Condition, Manifest, find_condition
from grove.plan.conditions import merged
from grove.plan.hashing import generation_hash


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


def desired_cliqueset_status(cliqueset: PodCliqueSet, facts: SetFacts, *, now: datetime) -> Manifest:
    """The whole status of a set."""
    replicas = range(cliqueset.spec.replicas)
    roles = [template.name for template in cliqueset.standalone_cliques]
    available = [index for index in replicas if _available(_cliques(cliqueset, index, roles, facts.cliques))]
    updates = [_accepted(facts), _availability(cliqueset, available, facts)]
    if facts.topology is not None:
        updates.append(facts.topology)
    generation = cliqueset.metadata.generation
    template = cliqueset.template
    drop = () if facts.topology is not None else (conditions.TOPOLOGY_LEVELS_UNAVAILABLE,)
    return {
        "observedGeneration": generation,
        "replicas": cliqueset.spec.replicas,
        "scheduledReplicas": sum(_placed(cliqueset, index, facts.gangs) for index in replicas),
        "availableReplicas": len(available),
        "updatedReplicas": sum(
            _updated(_cliques(cliqueset, index, roles, facts.cliques)) for index in available
        ),
        "hpaPodSelector": labels.selector(labels.owned_by(cliqueset.name)),
        "currentGenerationHash": generation_hash(
            template.cliques, priority_class=template.priority_class_name
        ),
        "conditions": merged(cliqueset, updates, now=now, drop=drop),
    }


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


def _placed(cliqueset: PodCliqueSet, replica: int, gangs: Mapping[str, PodGang]) -> bool:
    gang = gangs.get(names.base_gang(cliqueset.name, replica))
    scheduled = find_condition(gang.status.conditions, conditions.SCHEDULED) if gang is not None else None
    return scheduled is not None and scheduled.is_true


def _cliques(
    cliqueset: PodCliqueSet, replica: int, roles: Sequence[str], cliques: Mapping[str, PodClique]
) -> list[PodClique | None]:
    """The cliques of one replica that stand alone; None for one that does not exist."""
    return [cliques.get(names.clique(cliqueset.name, replica, role)) for role in roles]


def _available(cliques: Sequence[PodClique | None]) -> bool:
    for clique in cliques:
        if clique is None or clique.terminating or clique.status.ready_replicas < clique.spec.minimum:
            return False
    return True


def _updated(cliques: Sequence[PodClique | None]) -> bool:
    return all(
        clique is not None and clique.status.updated_replicas >= clique.spec.minimum for clique in cliques
    )


def outdated(cliqueset: PodCliqueSet, cliques: Iterable[PodClique]) -> list[FieldError]:
    """What to tell while pods run an older template than the set has: this release does not replace them."""
    old = sum(max(0, clique.status.replicas - clique.status.updated_replicas) for clique in cliques)
    if not old:
        return []
    field = "spec.template.cliques"
    return [
        FieldError(field, f"{old} pods run an older template; a pod takes the new one when it is deleted")
    ]


def unattended(gangs: Iterable[PodGang]) -> list[FieldError]:
    """Gangs that are left to a process of their own backend, which has not looked at them yet."""
    waiting: dict[str, list[str]] = {}
    for gang in gangs:
        told = {condition.type for condition in gang.status.conditions}
        if labels.EXTERNAL_BACKEND in gang.annotations and conditions.SCHEDULED not in told:
            waiting.setdefault(gang.labels.get(labels.SCHEDULER_BACKEND, ""), []).append(gang.name)
    return [
        FieldError(
            "",
            f"{len(names)} gangs (the first is {min(names)}) wait for the process of their backend; does "
            f"`grove backend run {backend}` run?",
        )
        for backend, names in sorted(waiting.items())
    ]
