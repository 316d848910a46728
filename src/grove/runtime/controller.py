"""The loop of one controller: take a key, reconcile it, decide when to look again.

A key is never reconciled twice at the same time, and not before the cache shows what its last reconcile
wrote. Namespaces take turns: one with many keys does not keep the others waiting. Failures are retried with
a backoff per key, except `Terminal` ones, which only a change of the object can mend. On the way out, running
reconciles may finish within a grace period. Knows nothing of what a reconcile does.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from itertools import count
from operator import attrgetter

from prometheus_client import Counter

from grove.errors import (
    AlreadyExists,
    Conflict,
    Deposed,
    Gone,
    GroveError,
    NotFound,
    ServerError,
    Terminal,
    TooManyRequests,
    Unreachable,
    Waiting,
)
from grove.meta import Key
from grove.runtime import logs
from grove.runtime.barrier import Barrier
from grove.runtime.cache import Cache
from grove.runtime.clock import Clock
from grove.runtime.metrics import Metrics
from grove.runtime.outcome import After, Outcome
from grove.runtime.queue import Queue

log = logging.getLogger(__name__)

Reconcile = Callable[[Key], Awaitable[Outcome]]

#: How many keys of one namespace are worked on at once; for the other namespaces there are half as many more.
WORKERS = 16
SPARE = 2
GRACE_SECONDS = 10.0

#: Part of a normal day: somebody else was faster, or the cache was a step behind.
_RACES = (Conflict, AlreadyExists, Deposed, NotFound, Gone, Waiting)
#: The server has a bad moment.
_OUTAGES = (Unreachable, ServerError, TooManyRequests)


class Controller:
    """Runs `reconcile` for every key that is enqueued."""

    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        *,
        clock: Clock,
        cache: Cache,
        workers: int = WORKERS,
        metrics: Metrics | None = None,
        rng: random.Random | None = None,
        grace: float = GRACE_SECONDS,
    ) -> None:
        self.name = name
        self.grace = grace
        self._reconcile = reconcile
        self._clock = clock
        self._workers = workers
        self._metrics = metrics or Metrics()
        self._queue: Queue[Key] = Queue(
            rng or random.Random(),
            group=attrgetter("namespace"),
            most=workers,
            now=clock.monotonic,
            waited=self._metrics.queue_wait.labels(name).observe,
        )
        self.barrier = Barrier(cache, wake=self._queue.add, timed_out=self._barrier_timed_out)
        self._busy: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._at_work = False
        self._ids = count(1)
        #: The last terminal complaint of each key, so that it is said once and not at every look.
        self._complaints: dict[Key, str] = {}
        self._looks = 0
        self._answer_scrapes()
        # Found once: finding them takes longer than counting.
        self._seconds = self._metrics.reconcile_seconds.labels(name)
        self._results: dict[str, Counter] = {}

    def _answer_scrapes(self) -> None:
        """What is told when somebody reads it and costs nothing before."""
        metrics = self._metrics
        metrics.queue_depth.labels(self.name).set_function(lambda: len(self._queue))
        metrics.queue_oldest.labels(self.name).set_function(
            # A standby collects keys that nobody is to take yet.
            lambda: self._queue.oldest if self._at_work else 0.0
        )
        metrics.running.labels(self.name).set_function(lambda: self._looks)

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nothing waits to run, behind the barrier included; timers do not count."""
        return not self._busy and not len(self._queue) and not self.barrier.parked

    def enqueue(self, key: Key) -> None:
        """Reconcile this key soon."""
        self._queue.add(key)

    def enqueue_after(self, key: Key, seconds: float) -> None:
        """Reconcile this key in some seconds, unless it is reconciled before."""
        self._queue.add_after(key, seconds)

    async def run(self) -> None:
        """Work until cancelled; then let running reconciles finish within the grace period.

        And cancel the rest.
        """
        self._stopping = False
        self._at_work = True
        self._queue.open()
        workers = [
            asyncio.create_task(self._work(), name=f"{self.name} worker {number}")
            for number in range(self._workers + max(1, self._workers // SPARE))
        ]
        try:
            done, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_COMPLETED)
            for worker in done:
                worker.result()
        finally:
            await self._drain(workers)

    def hurry(self) -> None:
        """Grant no grace any more: running reconciles are cancelled as soon as the controller stops."""
        self.grace = 0.0
        if self._stopping:
            for worker in self._busy:
                worker.cancel()

    async def _drain(self, workers: list[asyncio.Task[None]]) -> None:
        self._stopping = True
        self._at_work = False
        self._queue.close()
        self.barrier.close()
        for worker in workers:
            if worker not in self._busy:
                worker.cancel()
        try:
            if self._busy and self.grace > 0:
                await asyncio.wait(self._busy, timeout=self.grace)
        finally:
            for worker in self._busy:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _work(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        while not self._stopping:
            key = await self._queue.get()
            if self.barrier.pending(key):
                self._metrics.barrier_waits.labels(self.name).inc()
                self.barrier.park(key)
                self._queue.done(key)
                continue
            self._busy.add(task)
            try:
                await self._look(key)
            finally:
                self._busy.discard(task)
                self._queue.done(key)
            # A reconcile that only read the cache never gave way; leases and watches must not starve behind
            # it.
            await asyncio.sleep(0)

    async def _look(self, key: Key) -> None:
        """One reconcile, with its log fields bound and its outcome turned into what happens next."""
        started = self._clock.monotonic()
        result = "cancelled"
        self._looks += 1
        with logs.bound(controller=self.name, key=str(key), reconcile=f"{self.name}-{next(self._ids)}"):
            try:
                result = await self._attempt(key)
            finally:
                self._looks -= 1
                self._count(result)
                self._seconds.observe(self._clock.monotonic() - started)

    def _count(self, result: str) -> None:
        counter = self._results.get(result)
        if counter is None:
            counter = self._results[result] = self._metrics.reconciles.labels(self.name, result)
        counter.inc()

    async def _attempt(self, key: Key) -> str:
        try:
            outcome = await self._reconcile(key)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Not we were cancelled but something that the reconcile awaited: a failure like any other.
            log.error("reconcile awaited something that was cancelled", exc_info=True)
            return self._retry(key, "error")
        except Terminal as error:
            return self._terminal(key, error)
        except Exception as error:
            return self._failed(key, error)
        self._queue.forget(key)
        self._complaints.pop(key, None)
        if isinstance(outcome, After):
            log.debug("requeued", extra={"seconds": outcome.seconds, "why": outcome.why})
            self._queue.add_after(key, outcome.seconds)
            return "after"
        return "done"

    def _terminal(self, key: Key, error: Terminal) -> str:
        if self._complaints.get(key) != str(error):
            self._complaints[key] = str(error)
            log.error(
                "cannot be reconciled until it changes", extra={"code": error.code, "error": str(error)}
            )
        self._queue.forget(key)
        return "terminal"

    def _failed(self, key: Key, error: Exception) -> str:
        if isinstance(error, _RACES):
            wait = self._retry_wait(key)
            log.debug(
                "reconcile conflicted with another write, trying again",
                extra={"error": str(error), "seconds": wait},
            )
            return "conflict"
        if isinstance(error, _OUTAGES):
            wait = self._retry_wait(key, at_least=error.retry_after or 0.0)
            log.info(
                "API server unavailable or overloaded, trying again",
                extra={"error": str(error), "seconds": wait},
            )
            return "unavailable"
        told, self._complaints[key] = self._complaints.get(key), str(error)
        # Our own errors explain themselves; a defect needs its stack trace. An error that repeats is logged
        # once.
        log.log(
            logging.DEBUG if told == str(error) else logging.ERROR,
            "reconcile failed, trying again",
            extra={"error": f"{type(error).__name__}: {error}", "failures": self._queue.retries(key) + 1},
            exc_info=not isinstance(error, GroveError) or error.is_defect,
        )
        return self._retry(key, "error")

    def _retry(self, key: Key, result: str) -> str:
        self._retry_wait(key)
        return result

    def _retry_wait(self, key: Key, *, at_least: float = 0.0) -> float:
        self._metrics.retries.labels(self.name).inc()
        return self._queue.retry(key, at_least=at_least)

    def _barrier_timed_out(self, key: Key) -> None:
        self._metrics.barrier_timeouts.labels(self.name).inc()
