"""A local picture of one resource, kept up to date by list and watch.

Promises: after `synced`, `objects` follows the server in order; every change is told to each listener as
(old, new), also those that a new list reveals after a break. Survives expired versions, dropped streams
and refusals by listing again with growing pauses. Never writes to the server; listeners must not change
objects.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import cast

from grove.embedded.actors.objects import Key, Resource, key_of
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import ActorClient

log = logging.getLogger(__name__)

Listener = Callable[[Manifest | None, Manifest | None], None]

PAGE = 1000
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0


class Mirror:
    """The objects of one resource, in all namespaces."""

    def __init__(self, client: ActorClient, resource: Resource) -> None:
        self.resource = resource
        self.objects: dict[Key, Manifest] = {}
        self.synced = asyncio.Event()
        self._client = client
        self._listeners: list[Listener] = []
        self._version = ""

    def get(self, key: Key) -> Manifest | None:
        return self.objects.get(key)

    def __iter__(self) -> Iterator[Manifest]:
        return iter(list(self.objects.values()))

    def subscribe(self, listener: Listener) -> None:
        """Tell every change from now on, beginning with what is already there."""
        self._listeners.append(listener)
        for obj in list(self.objects.values()):
            self._tell(listener, None, obj)

    def unsubscribe(self, listener: Listener) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    async def run(self) -> None:
        """Follow the server until cancelled."""
        pause = FIRST_PAUSE
        while True:
            try:
                if not self._version:
                    await self._relist()
                if await self._follow():
                    pause = FIRST_PAUSE
                    continue
            except ApiError as error:
                if error.status == 410:
                    self._version = ""
                if error.status == 404:
                    self._forget_all()
                log.debug("watch broke", extra={"resource": self.resource.plural, "why": error.message})
            except (OSError, TimeoutError) as error:
                log.debug("watch broke", extra={"resource": self.resource.plural, "why": str(error)})
            except Exception:
                # Whatever a client raises, a mirror that stopped would leave its actor blind for good.
                log.exception("watch failed", extra={"resource": self.resource.plural})
                self._version = ""
            # Also after an empty stream: a server that ends watches at once must not make us spin.
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _relist(self) -> None:
        fresh: dict[Key, Manifest] = {}
        query = {"limit": str(PAGE)}
        path = self.resource.collection()
        while True:
            page = await self._client.list(path, **query)
            for obj in page.get("items") or ():
                fresh[key_of(obj)] = self._slim(obj)
            token = page["metadata"].get("continue")
            if not token:
                break
            query["continue"] = token
        for key in [key for key in self.objects if key not in fresh]:
            self._change(key, None)
        for key, obj in fresh.items():
            self._change(key, obj)
        self._version = str(page["metadata"].get("resourceVersion") or "0")
        self.synced.set()

    async def _follow(self) -> bool:
        """One watch until the server ends it; whether it brought anything."""
        brought = False
        stream = self._client.watch(
            self.resource.collection(), resourceVersion=self._version, allowWatchBookmarks="true"
        )
        async with aclosing(cast("Closable", stream)):
            async for event in stream:
                brought = True
                self._take(event["type"], event["object"])
        return brought

    def _take(self, kind: str, obj: Manifest) -> None:
        if kind == "ERROR":
            raise ApiError(int(obj.get("code") or 500), obj.get("reason") or "", obj.get("message") or "")
        self._version = str(obj["metadata"].get("resourceVersion") or self._version)
        if kind == "BOOKMARK":
            return
        self._change(key_of(obj), None if kind == "DELETED" else self._slim(obj))

    def _slim(self, obj: Manifest) -> Manifest:
        # Half of a pod is managedFields, and no actor reads them.
        obj["metadata"].pop("managedFields", None)
        if self.resource.kind:
            # Items of a list do not repeat what the list says.
            obj.setdefault("apiVersion", self.resource.api_version)
            obj.setdefault("kind", self.resource.kind)
        return obj

    def _change(self, key: Key, new: Manifest | None) -> None:
        old = self.objects.get(key)
        if new is None:
            self.objects.pop(key, None)
            if old is None:
                return
        else:
            version = new["metadata"].get("resourceVersion")
            if old is not None and version and old["metadata"].get("resourceVersion") == version:
                return
            self.objects[key] = new
            if old is not None and old["metadata"].get("uid") != new["metadata"].get("uid"):
                # Deleted and created again while we did not look: listeners must see both.
                self._tell_all(old, None)
                old = None
        self._tell_all(old, new)

    def _forget_all(self) -> None:
        """The resource is not served (any more), so none of its objects exists."""
        for key in list(self.objects):
            self._change(key, None)
        self._version = ""
        self.synced.set()

    def _tell_all(self, old: Manifest | None, new: Manifest | None) -> None:
        for listener in tuple(self._listeners):
            self._tell(listener, old, new)

    def _tell(self, listener: Listener, old: Manifest | None, new: Manifest | None) -> None:
        try:
            listener(old, new)
        except Exception:
            log.exception("listener failed", extra={"resource": self.resource.plural})


class Closable:
    """What an async generator has and `AsyncIterator` does not promise."""

    async def aclose(self) -> None: ...


class Mirrors:
    """One running mirror per resource, shared by all actors that were given the same `Mirrors`."""

    def __init__(self, client: ActorClient) -> None:
        self._client = client
        self._mirrors: dict[Resource, Mirror] = {}
        self._tasks: dict[Resource, asyncio.Task[None]] = {}

    def of(self, resource: Resource) -> Mirror:
        """The mirror of that resource; the first call starts it."""
        mirror = self._mirrors.get(resource)
        if mirror is None:
            mirror = Mirror(self._client, resource)
            self._mirrors[resource] = mirror
            task = asyncio.get_running_loop().create_task(mirror.run(), name=f"mirror {resource.plural}")
            self._tasks[resource] = task
        return mirror

    async def synced(self, *resources: Resource) -> None:
        for resource in resources:
            await self.of(resource).synced.wait()

    async def drop(self, resource: Resource) -> None:
        """Stop following a resource that is no longer served."""
        self._mirrors.pop(resource, None)
        task = self._tasks.pop(resource, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def close(self) -> None:
        for resource in list(self._tasks):
            await self.drop(resource)
