"""The driver's eyes: watches the pods and the set of a run and lets others wait for what it sees."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Generic, TypeVar

from bench.tally import Milestone, SeenPod, Tally
from grove.api import kinds
from grove.errors import Gone, Stalled
from grove.kube.client import Client
from grove.meta import ObjectMeta, Resource, View

T = TypeVar("T")
See = Callable[[T, float, bool], None]
BookmarkOnly = "BOOKMARK"


class BenchFailed(Exception):
    """The measurement cannot go on; the message says what was waited for and how far it came."""


class SetStatus(View):
    """What the driver reads of a set's status."""

    available_replicas: int = 0


class SetSpec(View):
    """What the driver reads of a set's spec."""

    replicas: int = 0


class SeenSet(View):
    """A set as the driver sees it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: SetSpec = SetSpec()
    status: SetStatus = SetStatus()


class Watcher(Generic[T]):
    """One kind in all namespaces, from the moment of the list until closed."""

    def __init__(self, client: Client, resource: Resource, type: type[T], see: See[T]) -> None:
        self._client = client
        self._resource = resource
        self._type = type
        self._see = see
        self.listed = asyncio.Event()

    async def run(self) -> None:
        """Tell `see` of every change, until cancelled."""
        page = await self._client.list(self._resource, type=self._type, limit=0)
        for item in page.items:
            self._see(item, time.monotonic(), False)
        version = page.resource_version
        self.listed.set()
        while True:
            stream = self._client.watch(self._resource, type=self._type, resource_version=version)
            # No set changes while a floor is measured, and of an idle kind the server sends no bookmarks.
            with contextlib.suppress(Stalled):
                async with aclosing(stream) as events:
                    async for event in events:
                        version = event.resource_version or version
                        if event.type != BookmarkOnly:
                            self._see(event.object, time.monotonic(), event.type == "DELETED")


class Observer:
    """What one run looks like from outside."""

    def __init__(self, client: Client, pods: int, sets: int = 1) -> None:
        self.tally = Tally(pods)
        self._sets = sets
        self._available: set[str] = set()
        self._gone: set[str] = set()
        #: When the status of every set said that all of its replicas are available, and when all were gone.
        self.available: float | None = None
        self.sets_gone: float | None = None
        #: When the first request of the run was sent, and that of its deletion.
        self.began = 0.0
        self.deletion = 0.0
        self._changed = asyncio.Event()
        self._watchers: tuple[Watcher[SeenPod], Watcher[SeenSet]] = (
            Watcher(client, kinds.PODS, SeenPod, self._saw_pod),
            Watcher(client, kinds.CLIQUESETS, SeenSet, self._saw_set),
        )
        self._tasks: list[asyncio.Task[None]] = []

    def _saw_pod(self, pod: SeenPod, at: float, deleted: bool) -> None:
        known = len(self.tally.reached)
        self.tally.saw(pod, at=at, deleted=deleted)
        if len(self.tally.reached) > known:
            self._changed.set()

    def _saw_set(self, seen: SeenSet, at: float, deleted: bool) -> None:
        if deleted:
            self._gone.add(seen.metadata.uid)
        elif 0 < seen.spec.replicas == seen.status.available_replicas:
            self._available.add(seen.metadata.uid)
        if self.available is None and len(self._available) == self._sets:
            self.available = at
        if self.sets_gone is None and len(self._gone) == self._sets:
            self.sets_gone = at
        self._changed.set()

    @asynccontextmanager
    async def watching(self) -> AsyncIterator["Observer"]:
        """Everything that happens from now on is seen; the watches end with the block."""
        self._tasks = [asyncio.create_task(watcher.run()) for watcher in self._watchers]
        try:
            for watcher in self._watchers:
                await self._unless_blind(watcher.listed.wait())
            yield self
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def milestone(self, milestone: Milestone) -> float:
        """When the last pod reached it."""
        await self.until(lambda: milestone in self.tally.reached)
        return self.tally.reached[milestone]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds that only what is seen can change."""
        while not holds():
            self._changed.clear()
            await self._unless_blind(self._changed.wait())

    async def _unless_blind(self, waiting: Awaitable[bool]) -> None:
        waiter = asyncio.ensure_future(waiting)
        try:
            await asyncio.wait({waiter, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiter.cancel()
        for task in self._tasks:
            if task.done():
                with contextlib.suppress(Gone):
                    task.result()
                raise BenchFailed("the driver fell so far behind that it cannot see what happened")
