"""The status of a gang: its phase, whether it is placed and ready, and if not, why not. Pure."""

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from grove.api import conditions, labels
from grove.api.gang import PENDING, RUNNING, STARTING, SUCCEEDED, PodGang
from grove.api.pod import Pod
from grove.backends.shape import NODES_LACK
from grove.meta import Condition, Manifest, find_condition
from grove.plan.conditions import merged
from grove.plan.gang.disruption import disrupted
from grove.plan.gang.gates import reference_count
from grove.plan.standing import Standing, availability, standing_conditions
from grove.plan.why_not import why_not
from grove.words import counted


@dataclass(frozen=True, slots=True)
class GangFacts:
    """What the gang controller found out: everything its status is made of."""

    pods: Sequence[Pod]
    #: How many pods each clique of the gang wants; a clique that does not exist yet is missing here.
    wanted: Mapping[str, int]
    #: Whether references are complete (or were, once) and the scheduler's objects are in place.
    initialized: bool
    #: The scheduler's word: verdict `Scheduled` or not, with a reason and its own sentence.
    scheduled: bool = False
    reason: str = ""
    message: str = ""
    placement_score: float | None = None
    #: Conditions that come from translation: losses, no guarantee, ownership conflict, refusal.
    extra: tuple[Condition, ...] = field(default=())
    #: What keeps the cliques from creating their pods, in their own words.
    troubles: Sequence[str] = ()
    #: Which pods must be gone before others can take their places; empty for none.
    awaited: str = ""
    #: The cliques that each clique starts after.
    starts_after: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: What went wrong in this look and is tried again.
    failing: str = ""
    #: Whether the gang has just been restarted: nothing of what it was counts any more.
    restarted: bool = False


#: What the API server takes as a condition's reason.
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")

#: Conditions that are only there while they have something to say.
_OCCASIONAL = (
    conditions.UNHEALTHY,
    conditions.DISRUPTION_TARGET,
    conditions.OWNERSHIP_CONFLICT,
    conditions.GANG_GUARANTEE,
    conditions.TRANSLATION_LOSS,
    conditions.BACKEND_CHANGE_PENDING,
    conditions.STRAY_PODS,
    conditions.STUCK_PODS,
    conditions.PODS_ABOVE_MINIMUM_PENDING,
    conditions.DEGRADED,
    conditions.STALLED,
)


def desired_gang_status(gang: PodGang, facts: GangFacts, *, now: datetime) -> Manifest:
    """The whole status of a gang."""
    standing = _standing(gang, facts)
    ready, *rest = standing_conditions(standing)
    updates = [_initialized(gang, facts), _scheduled(facts), ready, *facts.extra]
    updates += [*_unhealthy(gang, facts), *disrupted(facts.pods, now), *_above_minimum(facts)]
    updates += [availability(standing.ready, standing.reason, ""), *rest]
    told = {update.type for update in updates}
    phase = PENDING
    if facts.scheduled:
        phase = RUNNING if ready.is_true else STARTING
        phase = SUCCEEDED if standing.finished else phase
    return {
        "observedGeneration": gang.metadata.generation,
        "phase": phase,
        "message": _dominant(updates),
        "placementScore": facts.placement_score,
        "conditions": merged(gang, updates, now=now, drop=[name for name in _OCCASIONAL if name not in told]),
    }


def _dominant(updates: Sequence[Condition]) -> str:
    """The sentence that answers "why is it not running"; `Scheduled` itself says which pods are missing."""
    found = why_not(updates, steps=(conditions.SCHEDULED, conditions.READY))
    said = {update.type: update for update in updates}
    if found is not None and found.condition is not None:
        message, disruption = found.condition.message, said.get(conditions.DISRUPTION_TARGET)
        return message if disruption is None else f"{message.rstrip('.')}; {disruption.message}"
    trouble = said.get(conditions.DEGRADED) or said.get(conditions.OWNERSHIP_CONFLICT)
    if trouble is not None:
        return trouble.message
    message, more = said[conditions.SCHEDULED].message, said.get(conditions.PODS_ABOVE_MINIMUM_PENDING)
    return message if more is None else f"{message.rstrip('.')}; {more.message}"


@dataclass(frozen=True, slots=True)
class Counts:
    """How many pods of each clique are placed, and how many of these are ready or have succeeded."""

    placed: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    ready: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    succeeded: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))


def counts(pods: Sequence[Pod]) -> Counts:
    """Count pods by clique. One that succeeded is placed: it has done its work and keeps its place."""
    found = Counts()
    for pod in pods:
        clique = pod.labels.get(labels.POD_CLIQUE, "")
        if pod.keeps_place and pod.bound:
            found.placed[clique] += 1
            found.succeeded[clique] += pod.succeeded
            found.ready[clique] += pod.active and pod.ready
    return found


def _initialized(gang: PodGang, facts: GangFacts) -> Condition:
    before = find_condition(gang.status.conditions, conditions.INITIALIZED)
    lists = reference_count(gang) > 0 and not facts.restarted
    wanted = sum(facts.wanted.values())
    there = sum(pod.keeps_place for pod in facts.pods)
    missing = len(gang.spec.podgroups) - len(facts.wanted)
    if facts.initialized or (lists and before is not None and before.is_true):
        # It stays: gates are open, and clients read that the gang was complete once.
        complete = facts.initialized or (there >= wanted and not missing)
        message = "every pod exists and is listed" if complete else _WAS_COMPLETE
        return Condition(
            type=conditions.INITIALIZED,
            status="True",
            reason=conditions.PODS_CREATED,
            message=_NOTHING_WANTED if _wants_nothing(gang, facts) else message,
        )
    message = f"{there} of {wanted} pods exist"
    if missing:
        message += f"; {missing} of {len(gang.spec.podgroups)} cliques do not exist yet"
    if facts.awaited:
        message += f"; {facts.awaited}"
    if told := [*facts.troubles, *filter(None, [facts.failing])]:
        message += f"; {'; '.join(dict.fromkeys(told))}"
    return Condition(
        type=conditions.INITIALIZED,
        status="False",
        reason=conditions.PODS_CREATION_PENDING,
        message=message,
    )


_WAS_COMPLETE: Final = "every pod existed and was listed when the gates opened; not every pod exists now"
_NOTHING_WANTED: Final = "every role of the gang is scaled to zero, so that it needs no pods"


def _wants_nothing(gang: PodGang, facts: GangFacts) -> bool:
    """Whether all roles of a gang are scaled to zero; a clique that does not exist yet may want pods."""
    return not gang.minimum and not any(facts.wanted.get(group.name, 1) for group in gang.spec.podgroups)


def _scheduled(facts: GangFacts) -> Condition:
    reason, message = facts.reason, facts.message
    if not _REASON.fullmatch(reason):
        # A scheduler's own words where a name belongs: the API server would refuse the whole status.
        reason, message = conditions.SCHEDULER_ERROR, f"{reason}: {message}" if reason else message
    return Condition(
        type=conditions.SCHEDULED,
        status="True" if facts.scheduled else "False",
        reason=reason,
        message=message,
    )


def _standing(gang: PodGang, facts: GangFacts) -> Standing:
    found = counts(facts.pods)
    ready, done = found.ready, found.succeeded
    lacking = {
        group.name: f"{group.name}: {ready[group.name]} of {group.min_replicas} pods are ready"
        + (f", {done[group.name]} succeeded" if done[group.name] else "")
        for group in gang.spec.podgroups
        if ready[group.name] + done[group.name] < group.min_replicas
    }
    completed = sum(done.values())
    finished = not lacking and completed > 0 and not any(pod.active for pod in facts.pods)
    if lacking:
        told = [
            f"{text}{_waiting(facts.starts_after.get(name, ()), lacking)}" for name, text in lacking.items()
        ]
        reason, message = conditions.PODS_NOT_READY, "; ".join(told)
    elif finished:
        reason = conditions.PODS_SUCCEEDED
        message = f"{completed} of {counted(sum(found.placed.values()), 'pod')} succeeded"
    else:
        reason = conditions.ALL_PODS_READY
        message = f"{counted(sum(ready.values()), 'pod is', 'pods are')} ready"
        if _wants_nothing(gang, facts):
            message = _NOTHING_WANTED
        message += f", {completed} succeeded" if completed else ""
    is_ready = reason == conditions.ALL_PODS_READY
    stalled_reason, stalled = _stalled(facts)
    return Standing(is_ready, reason, message, stalled, stalled_reason, finished)


def _stalled(facts: GangFacts) -> tuple[str, str]:
    """What keeps the gang from going on until somebody changes something: reason and message, or nothing."""
    for condition in facts.extra:
        if condition.type in (conditions.DEGRADED, conditions.OWNERSHIP_CONFLICT):
            return condition.reason, condition.message
    if facts.troubles and not facts.initialized:
        return conditions.POD_CREATE_FAILED, facts.troubles[0]
    return "", ""


def _waiting(parents: Sequence[str], lacking: Collection[str]) -> str:
    """Which parents of a clique its pods wait for."""
    missing = [name for name in parents if name in lacking]
    more = f" and {len(missing) - _MOST_PARENTS} more" if len(missing) > _MOST_PARENTS else ""
    return f" (they start after {', '.join(missing[:_MOST_PARENTS])}{more})" if missing else ""


_MOST_PARENTS: Final = 3


def _above_minimum(facts: GangFacts) -> list[Condition]:
    """That pods of a placed gang find no room: its minimum runs, and nothing else would tell of them."""
    if not facts.scheduled:
        return []
    said = [
        told.message
        for pod in facts.pods
        if pod.active and not pod.bound
        if (told := pod.condition("PodScheduled")) is not None and told.reason == "Unschedulable"
    ]
    if not said:
        return []
    kind, why = conditions.PODS_ABOVE_MINIMUM_PENDING, Counter(sorted(said)).most_common(1)[0][0]
    why = nodes.group() if (nodes := NODES_LACK.search(why)) is not None else why
    waiting = counted(len(said), "pod above the minimum waits", "pods above the minimum wait")
    message = f"{waiting}: {why.rstrip('.')}." if why else f"{waiting}."
    return [Condition(type=kind, status="True", reason=conditions.UNSCHEDULABLE, message=message)]


def _unhealthy(gang: PodGang, facts: GangFacts) -> list[Condition]:
    """A gang that was placed and has lost so many pods that it no longer is."""
    before = find_condition(gang.status.conditions, conditions.SCHEDULED)
    already = find_condition(gang.status.conditions, conditions.UNHEALTHY)
    fell = before is not None and before.is_true
    if facts.scheduled or facts.restarted or not reference_count(gang):
        return []
    if not (fell or (already is not None and already.is_true)):
        return []
    if any(facts.wanted.get(group.name, sys.maxsize) < group.min_replicas for group in gang.spec.podgroups):
        # Scaled down on purpose: nothing was lost. A clique that does not exist is a loss, not a wish.
        return []
    placed = counts(facts.pods).placed
    lost = [
        f"{group.name}: {placed[group.name]} of {group.min_replicas} pods are placed"
        for group in gang.spec.podgroups
        if placed[group.name] < group.min_replicas
    ]
    return [
        Condition(
            type=conditions.UNHEALTHY, status="True", reason=conditions.PODS_FAILING, message="; ".join(lost)
        )
    ]
