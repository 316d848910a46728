"""Sets of which many pods are ending at this moment: their other children are deleted after those.

A kubelet ends a pod with requests of its own, and an API server that is busy with the deletion of everything
else answers those late. Pods hold nodes, and nothing else does. Nobody waits here: a set is looked at again
when the last of its pods is gone, or when the time is over, also where a look at it failed meanwhile.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from grove.meta import Key
from grove.plan.changes import Delete
from grove.runtime.clock import Clock
from grove.runtime.outcome import remaining

#: So many pods that go at once keep an API server busy.
MANY_PODS: Final = 64
#: Other children wait for them so long at most.
LONGEST_SECONDS: Final = 60.0
#: When none has gone for so long, they take their time to stop, and nothing is busy meanwhile.
PAUSE_SECONDS: Final = 0.5
#: The generation of a set that is gone.
GONE: Final = 0


@dataclass(slots=True)
class _Ending:
    """Pods of one set that have not ended yet, and what waits for them."""

    pods: set[str]
    #: The set's generation, `GONE` without a set: whoever edits it is not kept waiting.
    generation: int
    until: float
    #: When one of the pods last went.
    last: float
    wake: Callable[[Key], None]
    #: The deletions that wait; empty for a set that is gone, whose children are found again.
    later: tuple[Delete, ...] = ()
    #: Wakes the set when the time is over: what a failed look at it returned would be lost.
    timer: asyncio.TimerHandle | None = None


class Endings:
    """The sets of which many pods end, by their name."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._endings: dict[Key, _Ending] = {}

    def begin(self, key: Key, pods: Iterable[str], generation: int, wake: Callable[[Key], None]) -> None:
        """The pods of these UIDs were just deleted; if they are many, other deletions wait for them."""
        ending, now = set(pods), self._clock.monotonic()
        known = self._endings.get(key)
        if len(ending) >= MANY_PODS:
            before = known.pods if known is not None else set()
            self._forget(key)
            self._endings[key] = _Ending(ending | before, generation, now + LONGEST_SECONDS, now, wake)
        elif known is not None:
            # Their deletion failed at first, or they are the rest: nothing waits longer for them.
            known.pods |= ending
            known.generation = generation

    def wait(self, key: Key, later: Sequence[Delete] = ()) -> float:
        """For how many seconds the deletions are to wait; 0 once they need not, and nothing is known then."""
        ending = self._endings.get(key)
        if ending is None:
            return 0.0
        left = remaining(min(ending.until, ending.last + PAUSE_SECONDS), self._clock.monotonic())
        if not ending.pods or not left:
            self._forget(key)
            return 0.0
        ending.later = tuple(later)
        if ending.timer is not None:
            ending.timer.cancel()
        ending.timer = asyncio.get_running_loop().call_later(left, ending.wake, key)
        return left

    def waits(self, key: Key) -> bool:
        """Whether deletions of a set wait."""
        return key in self._endings

    def interrupted(self, key: Key, generation: int) -> tuple[Delete, ...]:
        """What still waited when somebody edited the set; it waits no longer."""
        ending = self._endings.get(key)
        if ending is None or ending.generation == generation:
            return ()
        self._forget(key)
        return ending.later

    def gone(self, pod: str) -> None:
        """The pod of this UID is gone; with the last one its set is looked at."""
        for key, ending in self._endings.items():
            if pod in ending.pods:
                ending.pods.discard(pod)
                ending.last = self._clock.monotonic()
                if not ending.pods:
                    ending.wake(key)
                return

    def _forget(self, key: Key) -> None:
        ending = self._endings.pop(key, None)
        if ending is not None and ending.timer is not None:
            ending.timer.cancel()
