"""What watches told: the present state of some kinds in one namespace, and everything that led to it.

Waits are driven by events and bounded; nothing polls. Survives restarts of the API server and expired
versions: what was missed in between is found by a new list and marked as such.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from grove.errors import ApiError, Gone
from grove.kube.client import Client
from grove.meta import Manifest, Resource

AGAIN_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Seen:
    """One state of one object, and when it was heard of."""

    at: float
    version: int
    resource: Resource
    type: str
    object: Manifest
    #: Found by a list after a gap: the state may be older than its neighbours here.
    missed: bool = False

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])


class Ledger:
    """Follows kinds in one namespace while its block lasts."""

    def __init__(self, client: Client, *resources: Resource, namespace: str) -> None:
        self.history: list[Seen] = []
        #: How often a watch was answered with 410 and a kind had to be listed again.
        self.relisted = 0
        self.resources = resources
        self._client = client
        self._namespace = namespace
        self._objects: dict[Resource, dict[str, Manifest]] = {each: {} for each in resources}
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Ledger:
        for each in self.resources:
            version = await self._list(each, missed=False)
            self._tasks.append(asyncio.create_task(self._follow(each, version), name=f"ledger of {each}"))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def all(self, resource: Resource) -> list[Manifest]:
        """Every object of the kind, by name."""
        return [item for _, item in sorted(self._objects[resource].items())]

    def get(self, resource: Resource, name: str) -> Manifest | None:
        return self._objects[resource].get(name)

    def of(self, resource: Resource) -> Iterator[Seen]:
        """Everything that was seen of a kind, in the order of the server's versions."""
        yield from sorted(
            (each for each in self.history if each.resource == resource), key=lambda each: each.version
        )

    def first(self, resource: Resource, holds: Callable[[Manifest], bool]) -> Seen | None:
        """The first state of an object of the kind for which something holds."""
        return next(
            (each for each in self.of(resource) if each.type != "DELETED" and holds(each.object)), None
        )

    async def until(
        self, holds: Callable[[], bool], what: str, *, seconds: float, tell: Callable[[], str] = str
    ) -> None:
        """Returns as soon as something holds; looks only when a watch told something."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            self._changed.clear()
            if holds():
                return
            try:
                async with asyncio.timeout_at(deadline):
                    await self._changed.wait()
            except TimeoutError:
                raise AssertionError(f"not within {seconds} s: {what}\n{tell()}") from None

    async def holds(self, law: Callable[[], bool], seconds: float, tell: Callable[[], str] = str) -> None:
        """Something holds for so long, looked at whenever a watch told something."""
        try:
            await self.until(lambda: not law(), "it is broken", seconds=seconds)
        except AssertionError:
            return
        raise AssertionError(tell())

    async def quiet(self, seconds: float, *, within: float = 60.0) -> None:
        """Returns when no watch has told anything for so long."""
        async with asyncio.timeout(within):
            while True:
                self._changed.clear()
                try:
                    async with asyncio.timeout(seconds):
                        await self._changed.wait()
                except TimeoutError:
                    return

    async def _follow(self, resource: Resource, version: str) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                if not version:
                    version = await self._list(resource, missed=True)
                    self._changed.set()
                watch = self._client.watch(
                    resource, type=dict, namespace=self._namespace, resource_version=version
                )
                async for event in watch:
                    version = event.resource_version or version
                    if event.type != "BOOKMARK":
                        self._take(Seen(loop.time(), int(version), resource, event.type, event.object))
            except Gone:
                version = ""
                self.relisted += 1
            except ApiError:
                # Restarting, or closed by a fault: the pause is that of any client.
                pause = asyncio.Event()
                loop.call_later(AGAIN_SECONDS, pause.set)
                await pause.wait()

    async def _list(self, resource: Resource, *, missed: bool) -> str:
        now = asyncio.get_running_loop().time()
        listing = await self._client.list(resource, type=dict, namespace=self._namespace)
        listed = {str(item["metadata"]["name"]): item for item in listing.items}
        for name, old in list(self._objects[resource].items()):
            if name not in listed or listed[name]["metadata"]["uid"] != old["metadata"]["uid"]:
                self._take(Seen(now, int(listing.resource_version), resource, "DELETED", old, missed))
        for name, item in listed.items():
            known = self._objects[resource].get(name)
            version = item["metadata"]["resourceVersion"]
            if known is None or known["metadata"]["resourceVersion"] != version:
                told = "ADDED" if known is None else "MODIFIED"
                self._take(Seen(now, int(version), resource, told, item, missed))
        return listing.resource_version

    def _take(self, seen: Seen) -> None:
        self.history.append(seen)
        if seen.type == "DELETED":
            self._objects[seen.resource].pop(seen.name, None)
        else:
            self._objects[seen.resource][seen.name] = seen.object
        self._changed.set()
