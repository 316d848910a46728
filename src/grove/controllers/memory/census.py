"""How many gangs and sets there are in which state, and which of them waits longest, as metrics.

Counted with every change that the cache tells of, so that a scrape costs what it answers and not what the
cluster holds. Only the process whose controllers run answers: a sum over all replicas counts each gang
once.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from datetime import datetime
from typing import Final, NamedTuple, TypeVar

from grove.api import conditions, labels
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PENDING, PodGang
from grove.backends.registry import BUILT_INS
from grove.meta import Condition, Object, find_condition
from grove.plan.conditions import moment
from grove.runtime.clock import Clock
from grove.runtime.metrics import Metrics, Sample

K = TypeVar("K", bound=Hashable)

#: What stands for a reason that a scheduler made up, or for a backend that nobody knows.
OTHER: Final = "Other"
#: The reason of what has not been reported on yet.
NEW: Final = "New"
_KNOWN_REASONS: Final = frozenset(reason for entry in conditions.TABLE for reason in entry.reasons)


class _GangState(NamedTuple):
    phase: str
    backend: str
    reason: str


class Census:
    """Counts gangs and sets, and knows since when they wait."""

    def __init__(
        self,
        metrics: Metrics,
        clock: Clock,
        *,
        enabled: Callable[[str], bool],
        answers: Callable[[], bool],
    ) -> None:
        """`enabled` tells whether a backend of this name is; `answers` whether this process is to tell."""
        self._clock = clock
        self._enabled = enabled
        self._answers = answers
        #: By UID, so that what is counted is also what is taken off again.
        self._gangs: dict[str, _GangState] = {}
        self._sets: dict[str, str] = {}
        self._by_state: Counter[_GangState] = Counter()
        self._by_reason: Counter[str] = Counter()
        #: Since when each gang is not placed, and each update under way, in seconds since 1970.
        self._pending: dict[tuple[str, str], dict[str, float]] = {}
        self._updates: dict[str, dict[str, float]] = {}
        metrics.at_scrape("grove_gangs", self._told(self._by_state.items))
        metrics.at_scrape("grove_gang_oldest_pending_seconds", self._told(self._oldest_pending))
        metrics.at_scrape("grove_cliquesets", self._told(self._set_counts))
        metrics.at_scrape("grove_cliqueset_oldest_update_seconds", self._told(self._oldest_updates))

    def saw_gang(self, old: Object | None, new: Object | None) -> None:
        """A gang changed; to be subscribed to the informer."""
        if old is not None and (before := self._gangs.pop(old.uid, None)) is not None:
            _less(self._by_state, before)
            _without(self._pending, (before.backend, before.reason), old.uid)
        if not isinstance(new, PodGang):
            return
        state = self._state(new)
        self._gangs[new.uid] = state
        self._by_state[state] += 1
        if state.phase == PENDING:
            scheduled = find_condition(new.status.conditions, conditions.SCHEDULED)
            since = _since(scheduled, new)
            self._pending.setdefault((state.backend, state.reason), {})[new.uid] = since

    def saw_set(self, old: Object | None, new: Object | None) -> None:
        """A set changed; to be subscribed to the informer."""
        if old is not None and (before := self._sets.pop(old.uid, None)) is not None:
            _less(self._by_reason, before)
            for reason in tuple(self._updates):
                _without(self._updates, reason, old.uid)
        if not isinstance(new, PodCliqueSet):
            return
        ready = find_condition(new.status.conditions, conditions.READY)
        reason = _reason(ready)
        self._sets[new.uid] = reason
        self._by_reason[reason] += 1
        update = find_condition(new.status.conditions, conditions.UPDATE_IN_PROGRESS)
        if update is not None and update.is_true:
            self._updates.setdefault(_reason(update), {})[new.uid] = _since(update, new)

    def _state(self, gang: PodGang) -> _GangState:
        status, backend = gang.status, gang.labels.get(labels.SCHEDULER_BACKEND, "")
        if backend and backend not in BUILT_INS and not self._enabled(backend):
            backend = OTHER
        phase = status.phase or PENDING
        condition = find_condition(
            status.conditions, conditions.SCHEDULED if phase == PENDING else conditions.READY
        ) or find_condition(status.conditions, conditions.INITIALIZED)
        return _GangState(phase, backend, _reason(condition))

    def _told(self, samples: Callable[[], Iterable[Sample]]) -> Callable[[], Iterable[Sample]]:
        return lambda: samples() if self._answers() else ()

    def _set_counts(self) -> Iterator[Sample]:
        for reason, count in self._by_reason.items():
            yield (reason,), count

    def _oldest_pending(self) -> Iterator[Sample]:
        now = self._clock.now().timestamp()
        for state, waiting in self._pending.items():
            yield state, max(0.0, now - min(waiting.values()))

    def _oldest_updates(self) -> Iterator[Sample]:
        now = self._clock.now().timestamp()
        for reason, running in self._updates.items():
            yield (reason,), max(0.0, now - min(running.values()))


def _reason(condition: Condition | None) -> str:
    """The reason of a condition as a label value."""
    if condition is None:
        return NEW
    return condition.reason if condition.reason in _KNOWN_REASONS else OTHER


def _since(condition: Condition | None, about: Object) -> float:
    """Since when a condition is as it is; without one the age of the object counts."""
    told = moment(condition.last_transition_time) if condition is not None else None
    return (told or datetime.fromisoformat(about.metadata.creation_timestamp)).timestamp()


def _less(counter: Counter[K], key: K) -> None:
    """Take one off; what nothing is left of is not told any more."""
    counter[key] -= 1
    if not counter[key]:
        del counter[key]


def _without(groups: dict[K, dict[str, float]], key: K, uid: str) -> None:
    members = groups.get(key)
    if members is not None and members.pop(uid, None) is not None and not members:
        del groups[key]
