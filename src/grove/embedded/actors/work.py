"""A queue of keys with delays: what an actor still has to look at.

A key waits at most once, is looked at by one worker at a time, comes back after a failure with growing
pauses, and at the moment that its `step` asked for. Knows nothing about API objects.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from grove.embedded.actors.objects import is_stale
from grove.embedded.errors import ApiError

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 30.0


class Work(Generic[K]):
    """Runs `step(key)` for every added key; a number that `step` returns brings it back after so long."""

    def __init__(self, name: str, step: Callable[[K], Awaitable[float | None]], *, workers: int = 8) -> None:
        self._name = name
        self._step = step
        self._workers = workers
        self._ready: dict[K, None] = {}
        self._busy: set[K] = set()
        self._again: set[K] = set()
        self._failures: dict[K, int] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._signal = asyncio.Event()

    def add(self, key: K) -> None:
        self._stop_timer(key)
        if key in self._busy:
            self._again.add(key)
            return
        self._ready[key] = None
        self._signal.set()

    def add_after(self, key: K, delay: float) -> None:
        """Bring the key back after `delay` seconds, or earlier if an earlier moment is already set."""
        if delay <= 0:
            self.add(key)
            return
        if key in self._ready:
            return
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None and timer.when() <= loop.time() + delay:
            return
        self._stop_timer(key)
        self._timers[key] = loop.call_later(delay, self.add, key)

    def forget(self, key: K) -> None:
        self._stop_timer(key)
        self._ready.pop(key, None)
        self._failures.pop(key, None)

    @property
    def idle(self) -> bool:
        return not self._ready and not self._busy

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._work())
        finally:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    async def _work(self) -> None:
        while True:
            while not self._ready:
                self._signal.clear()
                await self._signal.wait()
            key = next(iter(self._ready))
            del self._ready[key]
            self._busy.add(key)
            delay = await self._try(key)
            self._busy.discard(key)
            if key in self._again:
                self._again.discard(key)
                self.add(key)
            elif delay is not None:
                self.add_after(key, delay)

    async def _try(self, key: K) -> float | None:
        try:
            delay = await self._step(key)
        except ApiError as error:
            level = logging.DEBUG if is_stale(error) or error.status in (429, 503) else logging.WARNING
            log.log(level, "refused", extra={"actor": self._name, "key": key, "why": error.message})
            return self._pause(key)
        except (OSError, TimeoutError) as error:
            log.debug("unreachable", extra={"actor": self._name, "key": key, "why": str(error)})
            return self._pause(key)
        except Exception:
            log.exception("failed", extra={"actor": self._name, "key": key})
            return self._pause(key)
        self._failures.pop(key, None)
        return delay

    def _pause(self, key: K) -> float:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        return float(min(FIRST_PAUSE * 2 ** min(failures, 20), LONGEST_PAUSE))

    def _stop_timer(self, key: K) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
