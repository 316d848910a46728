"""Runs everything in the right order, and ends it in the reverse one.

Up: servers of probes and metrics, caches, (leadership), controllers. A standby has warm caches and is ready.
Down, on a signal or when `stop` is set: controllers drain, events are flushed, the lease is released, caches
and services end, the servers last. If leadership is lost, or a part that must run dies, everything stops
and the reason is raised.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Final, Protocol

from grove.errors import GroveError
from grove.runtime import garbage
from grove.runtime.cache import Cache
from grove.runtime.events import Recorder
from grove.runtime.health import HealthServer, MetricsServer, Readiness
from grove.runtime.lease import LeaderElector
from grove.runtime.loop_delay import measure_loop_delay
from grove.runtime.metrics import Metrics, Sample

log = logging.getLogger(__name__)

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Stopped(GroveError):
    """A part of the manager that must run as long as it does has ended."""

    code = "ERR_STOPPED"


class Runnable(Protocol):
    """What runs only while this process leads; a Controller is one."""

    @property
    def name(self) -> str: ...
    async def run(self) -> None: ...
    def hurry(self) -> None: ...


class Manager:
    """One operator process: what it consists of, and how long each part lives."""

    def __init__(
        self,
        cache: Cache,
        controllers: Sequence[Runnable] = (),
        *,
        metrics: Metrics | None = None,
        recorder: Recorder | None = None,
        elector: LeaderElector | None = None,
        health_address: tuple[str, int] | None = None,
        metrics_address: tuple[str, int] | None = None,
        tune_gc: bool = True,
    ) -> None:
        self.cache = cache
        self.metrics = metrics or Metrics()
        self.readiness = Readiness()
        self.readiness.add("cache", self._cache_missing)
        #: Set once the controllers run.
        self.working = asyncio.Event()
        apart = metrics_address is not None and metrics_address != health_address
        self.health: HealthServer | None = None
        if health_address is not None:
            host, port = health_address
            self.health = HealthServer(self.readiness, None if apart else self.metrics, host=host, port=port)
        #: Where metrics are served; None if that is the address of the probes.
        self.metrics_server: MetricsServer | None = None
        if metrics_address is not None and apart:
            host, port = metrics_address
            self.metrics_server = MetricsServer(self.metrics, host=host, port=port)
        self._controllers = list(controllers)
        self._recorder = recorder
        self._elector = elector
        self._tune_gc = tune_gc
        self._services: list[tuple[str, Callable[[], Awaitable[None]]]] = []
        self._started = False
        self._measure()

    def add_service(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run this all the time, leading or not, until it is cancelled at the end; for example a webhook."""
        self._services.append((name, run))

    async def run(self, stop: asyncio.Event | None = None, *, signals: bool = False) -> None:
        """Run until `stop` is set or, with `signals`, until SIGTERM or SIGINT.

        A second signal skips the grace period.
        """
        stop = stop or asyncio.Event()
        with contextlib.ExitStack() as stack:
            if self._tune_gc:
                stack.enter_context(garbage.tuned(self.metrics))
            if signals:
                stack.enter_context(_stop_on_signals(stop, self._hurry))
            async with self._health_up(), self._metrics_up(), self._background() as background:
                stopping = asyncio.create_task(stop.wait(), name="stop")
                try:
                    await self._live(stopping, background)
                finally:
                    stopping.cancel()

    async def _live(self, stopping: "asyncio.Task[bool]", background: "set[asyncio.Task[None]]") -> None:
        syncing = asyncio.create_task(self.cache.wait_synced(), name="cache sync")
        if not await _until(syncing, stopping, background):
            return
        self._started = True
        log.info("caches synced", extra={"resources": len(self.cache.informers())})
        if self._tune_gc:
            garbage.freeze()
        if self._elector is not None:
            leading = self._elector.run(self._work, on_lost=self._hurry)
            work = asyncio.create_task(leading, name="leadership")
        else:
            self.metrics.leading.labels("").set(1)
            work = asyncio.create_task(self._work(), name="controllers")
        if await _until(work, stopping, background):
            raise Stopped("the controllers ended unexpectedly")
        log.info("stopped")

    async def _work(self) -> None:
        """What only the leader does, until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for controller in self._controllers:
                    group.create_task(controller.run(), name=controller.name)
                log.info(
                    "controllers started", extra={"controllers": [one.name for one in self._controllers]}
                )
                self.working.set()
                await asyncio.get_running_loop().create_future()
        finally:
            self.working.clear()
            if self._recorder is not None:
                # Here and not at the very end: without the lease nothing may be written, news included.
                await self._recorder.flush()

    def _hurry(self) -> None:
        for controller in self._controllers:
            controller.hurry()

    def _cache_missing(self) -> list[str]:
        missing = self.cache.missing()
        return missing or ([] if self._started else ["the caches have not been started yet"])

    @contextlib.asynccontextmanager
    async def _health_up(self) -> AsyncIterator[None]:
        if self.health is None:
            yield
            return
        await self.health.start()
        log.info("health server listens", extra={"host": self.health.host, "port": self.health.port})
        try:
            yield
        finally:
            await self.health.stop()

    @contextlib.asynccontextmanager
    async def _metrics_up(self) -> AsyncIterator[None]:
        """Serve metrics; a port that is taken is said and is no reason not to work."""
        server = self.metrics_server
        if server is None:
            yield
            return
        try:
            await server.start()
            log.info("metrics server listens", extra={"host": server.host, "port": server.port})
        except OSError as error:
            why = f"port {server.port} cannot be listened on ({error.strerror or error}); "
            log.error(
                "metrics are not served",
                extra={"error": f"{why}choose another with server.metrics.port"},
            )
        try:
            yield
        finally:
            await server.stop()

    def _measure(self) -> None:
        """What metrics tell of the process and its cache."""
        self.metrics.at_scrape("grove_ready", lambda: [((), 0.0 if self.readiness.missing() else 1.0)])
        self.metrics.at_scrape("grove_cache_objects", self._cached)
        self.metrics.at_scrape("grove_watch_age_seconds", self._watch_ages)
        if self.health is not None:
            self.metrics.about_the_process()
            self.add_service("loop delay", partial(measure_loop_delay, self.metrics))

    def _cached(self) -> Iterator[Sample]:
        for informer in self.cache.informers():
            yield (str(informer.resource),), len(informer.store)

    def _watch_ages(self) -> Iterator[Sample]:
        for informer in self.cache.informers():
            if (age := informer.age) is not None:
                yield (str(informer.resource),), age

    @contextlib.asynccontextmanager
    async def _background(self) -> "AsyncIterator[set[asyncio.Task[None]]]":
        """The parts that run all the time; they end in the reverse order of this list."""
        parts: list[tuple[str, Callable[[], Awaitable[None]]]] = [("cache", self.cache.run), *self._services]
        if self._recorder is not None:
            parts.append(("events", self._recorder.run))
        tasks = [asyncio.create_task(_named(name, run), name=name) for name, run in parts]
        try:
            yield set(tasks)
        finally:
            for task in reversed(tasks):
                await _cancel_and_join(task)


async def _named(name: str, run: Callable[[], Awaitable[None]]) -> None:
    await run()
    raise Stopped(f"{name} ended unexpectedly")


async def _until(
    task: "asyncio.Task[None]", stopping: "asyncio.Task[bool]", background: "set[asyncio.Task[None]]"
) -> bool:
    """Whether the task ended by itself; otherwise it was asked to stop, and has ended now."""
    try:
        await asyncio.wait({task, stopping, *background}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            for part in background:
                if part.done():
                    part.result()
    finally:
        if task.done():
            ended = True
        else:
            ended = False
            await _cancel_and_join(task)
    if ended:
        task.result()
    return ended


async def _cancel_and_join(task: "asyncio.Task[None]") -> None:
    """Cancel the task and wait for its end; what it fails with on the way out is logged."""
    if task.done():
        return
    task.cancel()
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            # Cancelled again while cleaning up: pass it on, and still wait.
            task.cancel()
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("failed while stopping", extra={"part": task.get_name()}, exc_info=error)


@contextlib.contextmanager
def _stop_on_signals(stop: asyncio.Event, hurry: Callable[[], None]) -> Iterator[None]:
    """The first signal asks for a graceful end; whoever sends a second one does not want to wait for it."""
    loop = asyncio.get_running_loop()

    def stop_on(number: signal.Signals) -> None:
        log.info("asked to stop", extra={"signal": number.name})
        if stop.is_set():
            hurry()
        stop.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop_on, number)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
