"""The work queue: which keys must be reconciled, each at most once at a time.

A key is queued once however often it is added; a key that is being worked on is queued again only when that
work is done; a delayed key has one timer, at the earliest time anybody asked for. Groups of keys take turns
(`turns`). Every operation is O(1) (timers: O(log n) inside the event loop). Knows nothing of what a key
means.
"""

import asyncio
import random
import sys
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from grove.runtime.backoff import delay
from grove.runtime.turns import Turns

K = TypeVar("K", bound=Hashable)

#: The first and the longest wait of a key that keeps failing, in seconds.
FIRST_RETRY = 0.005
LONGEST_RETRY = 60.0


def _together(key: object) -> Hashable:
    return None


class Queue(Generic[K]):
    """A work queue that deduplicates, delays and backs off per key.

    At most `most` keys of one `group` are worked on at a time. `waited` is told how long each key that is
    taken has been due, by the time that `now` tells.
    """

    def __init__(
        self,
        rng: random.Random,
        *,
        group: Callable[[K], Hashable] = _together,
        most: int = sys.maxsize,
        now: Callable[[], float] = lambda: 0.0,
        waited: Callable[[float], object] = lambda seconds: None,
    ) -> None:
        self._rng = rng
        self._now = now
        self._waited = waited
        self._ready: Turns[K] = Turns(group, most=most)
        #: Since when each key that waits is due, the oldest first.
        self._dirty: dict[K, float] = {}
        self._processing: set[K] = set()
        #: When each delayed key is due, and the timer that brings it.
        self._timers: dict[K, tuple[float, asyncio.Handle]] = {}
        self._failures: dict[K, int] = {}
        self._closed = False

    def __len__(self) -> int:
        """How many keys wait for a look, timers not counted."""
        return len(self._dirty)

    @property
    def delayed(self) -> int:
        """How many keys wait for their time to come."""
        return len(self._timers)

    @property
    def oldest(self) -> float:
        """For how many seconds the key that waits longest has been due; 0 if none waits."""
        since = next(iter(self._dirty.values()), None)
        return 0.0 if since is None else max(0.0, self._now() - since)

    def add(self, key: K) -> None:
        """Ask for a look now; an outstanding timer of the key is moot and is cancelled."""
        if self._closed:
            return
        self._cancel_timer(key)
        if key in self._dirty:
            return
        self._dirty[key] = self._now()
        if key not in self._processing:
            self._ready.put(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Queue a key in some seconds. The earliest deadline wins; an already queued key stays queued."""
        if self._closed or key in self._dirty:
            return
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + seconds
        timer = self._timers.get(key)
        if timer is not None:
            if timer[0] <= when:
                return
            timer[1].cancel()
        self._timers[key] = (when, loop.call_at(when, self.add, key))

    async def get(self) -> K:
        """The next key; it is then being worked on until `done`."""
        key = await self._ready.take()
        since = self._dirty.pop(key, None)
        if since is not None:
            self._waited(self._now() - since)
        self._processing.add(key)
        return key

    def done(self, key: K) -> None:
        """The work on the key has ended; if it was added meanwhile it is queued again."""
        self._processing.discard(key)
        self._ready.done(key)
        if key in self._dirty:
            self._ready.put(key)

    def retry(self, key: K, *, at_least: float = 0.0) -> float:
        """Ask for a look after this key's own backoff; answers with the wait in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        wait = max(at_least, delay(failures, first=FIRST_RETRY, cap=LONGEST_RETRY, rng=self._rng))
        self.add_after(key, wait)
        return wait

    def retries(self, key: K) -> int:
        """How often in a row the key has failed."""
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """The key is well again: its next backoff is the shortest."""
        self._failures.pop(key, None)

    def open(self) -> None:
        """From now on somebody takes keys: those that wait already are due since now."""
        self._dirty = dict.fromkeys(self._dirty, self._now())

    def close(self) -> None:
        """Cancel the timers and take nothing in any more."""
        self._closed = True
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _cancel_timer(self, key: K) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer[1].cancel()
