"""Debouncing and throttling: every delay between an event and the work that follows, in one place.

*Debouncing*: events that come in floods (pods of one gang, children of one set) wake a controller once, after
a moment that grows with the size of the flood. *Status throttling*: a status is written once it has settled;
how soon depends on who waits for it (`Urgency`). *Polling*: the few things that no watch tells us of.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from grove.api.pod import Pod
from grove.meta import Key, Resource
from grove.plan.urgency import Urgency
from grove.runtime.clock import Clock
from grove.runtime.outcome import remaining

# Debouncing ---------------------------------------------------------------------------------------

#: For the pods of one gang or clique: so long at least, so much more for each pod, so long at most.
_PODS_LEAST: Final = 0.01
_PODS_EACH: Final = 0.0005
_PODS_MOST: Final = 0.5
#: On a cluster with many pods everybody waits a little longer: nobody notices, and there is less to do.
_CLUSTER_EACH: Final = 0.00002
_CLUSTER_MOST: Final = 0.1
#: For changes that only go into statuses, which are throttled anyway.
_STATUS_LEAST: Final = 0.2
_STATUS_EACH: Final = 0.0005
_STATUS_MOST: Final = 1.0
#: To reconcile a set takes time for each of its gangs, so the pauses in between grow likewise.
_SET_EACH: Final = 0.0004
_SET_MOST: Final = 2.0


def debounce_pods(own: int, all_pods: int) -> float:
    """For a gang or clique with so many pods of its own, on a cluster with so many in all."""
    cluster = min(_CLUSTER_MOST, _CLUSTER_EACH * all_pods)
    return min(_PODS_MOST, _PODS_LEAST + cluster + _PODS_EACH * own)


def debounce_status(own: int, all_pods: int) -> float:
    """The same for changes of pods that only show in a status."""
    return max(_STATUS_LEAST, min(_STATUS_MOST, _STATUS_EACH * all_pods), debounce_pods(own, all_pods))


def debounce_children(gangs: int) -> float:
    """For a set with so many gangs."""
    return min(_SET_MOST, _SET_EACH * gangs)


#: For what a single object says, when more is likely to follow in a moment.
DEBOUNCE_SECONDS: Final = _STATUS_LEAST

# Polling ------------------------------------------------------------------------------------------

#: How often a set looks whether the last unplaced pod of a gang that changes its backend is gone.
MOVING_SECONDS: Final = 0.5
#: When to look again at what its set was just removing.
REMOVING_SECONDS: Final = 1.0
#: How often a preempted gang looks whether the gang that it made room for is placed.
STEPPED_BACK_SECONDS: Final = 2.0
#: How often a clique looks whether its set may have more pods by now.
POD_LIMIT_SECONDS: Final = 15.0

# Status throttling --------------------------------------------------------------------------------

#: So many writes under way at once count as busy.
BUSY_WRITES: Final = 8
SETTLE_SECONDS: Final = 0.5
#: While many statuses of a namespace are held, all of them wait longer: what changes for one gang of hundreds
#: will change again.
SETTLE_SECONDS_EACH: Final = 0.004
SETTLE_SECONDS_MOST: Final = 2.0
#: The longest time that a status is held while other writes are under way.
BUSY_SECONDS: Final = 30.0
#: The longest time that a status without news is held while many pods are being placed.
DEFERRED_SECONDS: Final = 120.0
#: While many pods are being placed, what begins to work for the first time is held for so long for each
#: status that waits, so long at least and at most: one gang tells how it gets on, of hundreds none does.
STARTING_SECONDS_EACH: Final = 0.15
STARTING_SECONDS_LEAST: Final = 5.0
STARTING_SECONDS_MOST: Final = 30.0
#: The operator must be idle for so long before the held statuses are written.
IDLE_SECONDS: Final = 1.0
#: A status of which only the wording changes (a scheduler words its refusal differently at each try) is
#: written so often without delay, and then once in so many seconds.
REWORDED_BURST: Final = 5
REWORDED_SECONDS: Final = 15.0
#: How often a set that is still getting its children computes its status: that takes time for each replica.
CREATING_SECONDS: Final = 2.0
#: So many steps of pods (bound, ready) within so many seconds mean that many pods are being placed.
TRAFFIC_STEPS: Final = 16
TRAFFIC_SECONDS: Final = 2.0


@dataclass(slots=True)
class _Flow:
    """What happens to the pods of one namespace."""

    pods: int = 0
    #: How many of them are not ready, whatever keeps them from it.
    unready: int = 0
    #: When the last of them got further.
    steps: deque[float] = field(default_factory=lambda: deque(maxlen=TRAFFIC_STEPS))


class PodTraffic:
    """In which namespaces many pods are being placed and getting ready right now."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._flows: dict[str, _Flow] = {}

    def saw(self, old: Pod | None, new: Pod | None) -> None:
        """A pod appeared, changed or went; to be subscribed to the pods' informer."""
        pod = new or old
        if pod is None:
            return
        flow = self._flows.setdefault(pod.namespace, _Flow())
        flow.pods += (new is not None) - (old is not None)
        flow.unready += _is_unready(new) - _is_unready(old)
        if old is not None and new is not None and (old.bound, old.ready) != (new.bound, new.ready):
            flow.steps.append(self._clock.monotonic())
        if flow.pods <= 0:
            del self._flows[pod.namespace]

    def heavy(self, namespace: str) -> bool:
        """Whether many pods got further within the last moments."""
        flow = self._flows.get(namespace)
        if flow is None or len(flow.steps) < TRAFFIC_STEPS:
            return False
        return self._clock.monotonic() - flow.steps[0] <= TRAFFIC_SECONDS

    def goes_on(self, namespace: str) -> bool:
        """Whether that will go on: some are not ready yet."""
        return self.heavy(namespace) and self._flows[namespace].unready > 0


def _is_unready(pod: Pod | None) -> bool:
    return pod is not None and pod.active and not pod.ready


class WriteLoad:
    """How many writes are under way, statuses aside: how busy the operator is with making progress."""

    def __init__(self) -> None:
        self._writes = 0
        self._listeners: list[Callable[[], None]] = []

    @property
    def busy(self) -> bool:
        return self._writes >= BUSY_WRITES

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever the operator is no longer busy."""
        self._listeners.append(listener)

    def began(self) -> None:
        self._writes += 1

    def ended(self) -> None:
        self._writes -= 1
        if self._writes == BUSY_WRITES - 1:
            for listener in self._listeners:
                listener()


class Wakes(Protocol):
    """Whatever can have an object reconciled again."""

    def wake(self, key: Key) -> None: ...


Subject = tuple[Resource, Key]


class StatusThrottle:
    """Decides for how long a status is held back, and wakes those whose status was when it is time."""

    def __init__(
        self,
        clock: Clock,
        traffic: PodTraffic,
        load: WriteLoad,
        *,
        lagged: Callable[[Resource, float], None] = lambda resource, seconds: None,
    ) -> None:
        """`lagged` is told of each status that is written for how long it had something new to say."""
        self._clock = clock
        self._lagged = lagged
        self._traffic = traffic
        self._load = load
        load.subscribe(self.idle)
        #: Since when there has been something to write, and of how many in each namespace.
        self._since: dict[Subject, float] = {}
        self._held: Counter[str] = Counter()
        #: For statuses that were reworded lately: when the last of those writes counts no more.
        self._spent: dict[Subject, float] = {}
        #: Held until the operator is idle, and how to wake them.
        self._until_idle: dict[Subject, Wakes] = {}
        #: Held until pods are no longer placed, how to wake them, and what they had to say.
        self._deferred: dict[Subject, tuple[Wakes, Urgency]] = {}
        self._timer: asyncio.Handle | None = None

    @property
    def oldest(self) -> float:
        """For how many seconds the status that waits longest has had something to say; 0 if none waits."""
        return max(0.0, self._clock.monotonic() - min(self._since.values())) if self._since else 0.0

    def wait(self, subject: Subject, barrier: Wakes, urgency: Urgency, *, reworded: bool = False) -> float:
        """For how many seconds still this status is held back; `reworded` if only its messages changed."""
        now, busy, namespace = self._clock.monotonic(), self._load.busy, subject[1].namespace
        if subject not in self._since:
            self._held[namespace] += 1
        _, before = self._deferred.pop(subject, (None, urgency))
        if before is not urgency:
            # Only now there is news, and perhaps not yet all of it.
            self._since[subject] = now
        since = self._since.setdefault(subject, now)
        if urgency is Urgency.IMMEDIATE:
            return 0.0
        if urgency is Urgency.SOON:
            limit = SETTLE_SECONDS
        elif (urgency is Urgency.DEFERRED and busy) or self._waits_for_pods(subject, urgency):
            self._deferred[subject] = barrier, urgency
            self.idle()
            limit = DEFERRED_SECONDS if urgency is Urgency.DEFERRED else self._starting(namespace)
        elif busy:
            # Woken when the operator is idle; to ask from time to time would itself be much work.
            self._until_idle[subject] = barrier
            limit = BUSY_SECONDS
        else:
            held = self._held[namespace]
            limit = max(SETTLE_SECONDS, min(SETTLE_SECONDS_MOST, SETTLE_SECONDS_EACH * held))
        limited = self._limited(subject, now) if reworded else 0.0
        return max(remaining(since + limit, now), limited)

    def _waits_for_pods(self, subject: Subject, urgency: Urgency) -> bool:
        """Whether a status is held because many pods are being placed in its namespace.

        What waits is told last: it may be a group, which learns from its cliques that it works.
        """
        namespace = subject[1].namespace
        if urgency is Urgency.STARTING:
            return self._traffic.goes_on(namespace)
        return urgency is Urgency.DEFERRED and self._traffic.heavy(namespace)

    def _starting(self, namespace: str) -> float:
        """For how many seconds what begins to work is held while many pods are being placed there."""
        held = STARTING_SECONDS_EACH * self._held[namespace]
        return max(STARTING_SECONDS_LEAST, min(STARTING_SECONDS_MOST, held))

    def _limited(self, subject: Subject, now: float) -> float:
        """For how many seconds a status waits because it was reworded too often."""
        full = now + (REWORDED_BURST - 1) * REWORDED_SECONDS
        return remaining(self._spent.get(subject, now), full)

    def written(self, subject: Subject, *, reworded: bool = False) -> None:
        """The status is written now."""
        now = self._clock.monotonic()
        self._lagged(subject[0], now - self._since.get(subject, now))
        if reworded:
            self._spent[subject] = max(self._spent.get(subject, now), now) + REWORDED_SECONDS
        self.settled(subject)

    def forget(self, subject: Subject) -> None:
        """The object is gone."""
        self._spent.pop(subject, None)
        self.settled(subject)

    def settled(self, subject: Subject) -> None:
        """The status has nothing new to say."""
        if self._since.pop(subject, None) is not None:
            namespace = subject[1].namespace
            self._held[namespace] -= 1
            if not self._held[namespace]:
                del self._held[namespace]
        self._until_idle.pop(subject, None)
        self._deferred.pop(subject, None)

    def idle(self) -> None:
        """Few writes are under way; if that lasts, the held statuses are written."""
        if self._timer is None and (self._until_idle or self._deferred):
            self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._wake)

    def _wake(self) -> None:
        self._timer = None
        if self._load.busy:
            # We are told when that is over.
            return
        woken, self._until_idle = self._until_idle, {}
        for subject, (barrier, urgency) in list(self._deferred.items()):
            if not self._waits_for_pods(subject, urgency):
                woken[subject] = barrier
                del self._deferred[subject]
        for (_, key), barrier in woken.items():
            barrier.wake(key)
        self.idle()
