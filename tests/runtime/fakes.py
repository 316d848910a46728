"""A scripted API server for the runtime's tests: one resource, a revision, watches, and failures on demand."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from grove.errors import AlreadyExists, Conflict, Gone, NotFound
from grove.kube.client import Client
from grove.kube.reading import Listing
from grove.kube.watch import WatchEvent
from grove.meta import Key, Manifest, Object, ObjectMeta, Resource, manifest_key, resource
from grove.runtime.ports import EventClient, LeaseClient, Reader

T = TypeVar("T")

THINGS = resource("example.org", "v1", "Thing")
OTHERS = resource("example.org", "v1", "Other")


def the_client_fits(client: Client) -> tuple[Reader, LeaseClient, EventClient]:
    """Never called: the type checker proves here that the real client has the verbs that the runtime asks for."""
    return client, client, client


def thing(
    name: str, version: int, *, uid: str = "", labels: dict[str, str] | None = None, going: bool = False
) -> Object:
    return Object(
        metadata=ObjectMeta(
            name=name,
            namespace="ns",
            uid=uid or f"uid-{name}",
            resource_version=str(version),
            labels=labels or {},
            deletion_timestamp="2030-01-01T00:00:00Z" if going else None,
        )
    )


@dataclass(frozen=True)
class Frame(Generic[T]):
    """What a watch delivers: an event, an error, or the end of the stream (None)."""

    event: WatchEvent[T] | Exception | None


class FakeServer:
    """Holds objects, serves lists in pages and any number of watches, and fails when told to."""

    def __init__(self) -> None:
        self.objects: dict[Key, Object] = {}
        self.revision = 10
        self.page_size = 2
        self.requests: list[tuple[float, str]] = []
        #: Called before each request with its verb; may raise.
        self.fail: Callable[[str], None] = lambda verb: None
        #: Called between pages.
        self.between_pages: Callable[[], None] = lambda: None
        self.connected = asyncio.Event()
        #: What the server remembers, for watches that begin in the past.
        self.history: list[WatchEvent[Object]] = []
        self._held: list[WatchEvent[Object]] | None = None
        self._queues: list[asyncio.Queue[Frame[Object]]] = []

    @property
    def silent(self) -> bool:
        """While true, changes are held back from the watches, as by a slow connection; none is ever lost."""
        return self._held is not None

    @silent.setter
    def silent(self, silent: bool) -> None:
        held, self._held = self._held or [], (self._held or []) if silent else None
        if not silent:
            for event in held:
                self._emit(event)

    def count(self, verb: str) -> int:
        return sum(1 for _, what in self.requests if what == verb)

    def put(self, name: str, **fields: object) -> Object:
        self.revision += 1
        item = thing(name, self.revision, **fields)  # type: ignore[arg-type]
        kind = "MODIFIED" if item.key in self.objects else "ADDED"
        self.objects[item.key] = item
        self._emit(WatchEvent(kind, item, str(self.revision)))
        return item

    def delete(self, name: str) -> None:
        self.revision += 1
        known = self.objects.pop(Key("ns", name))
        gone = thing(name, self.revision, uid=known.uid)
        self._emit(WatchEvent("DELETED", gone, str(self.revision)))

    def bookmark(self) -> None:
        self._emit(WatchEvent("BOOKMARK", Object(), str(self.revision)))

    def send(self, frame: WatchEvent[Object] | Exception | None) -> None:
        """Put something of the test's own into every open watch."""
        for queue in self._queues:
            queue.put_nowait(Frame(frame))

    def _emit(self, event: WatchEvent[Object]) -> None:
        if self._held is not None:
            self._held.append(event)
            return
        self.history.append(event)
        self.send(event)

    def _request(self, verb: str) -> None:
        self.requests.append((asyncio.get_running_loop().time(), verb))
        self.fail(verb)

    async def pages(
        self,
        resource: Resource,
        *,
        type: type[T],
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        limit: int = 500,
    ) -> AsyncIterator[Listing[T]]:
        self._request("list")
        items = [self._shape(item, type) for item in self.objects.values()]
        revision = str(self.revision)
        size = self.page_size if limit else max(1, len(items))
        for start in range(0, max(1, len(items)), size):
            if start:
                self.between_pages()
            await asyncio.sleep(0.001)
            yield Listing(items[start : start + size], revision, "", None)

    async def watch(
        self,
        resource: Resource,
        *,
        type: type[T],
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        resource_version: str,
        timeout_seconds: int = 300,
    ) -> AsyncIterator[WatchEvent[T]]:
        self._request("watch")
        queue: asyncio.Queue[Frame[Object]] = asyncio.Queue()
        for past in self.history:
            if int(past.resource_version) > int(resource_version):
                queue.put_nowait(Frame(past))
        self._queues.append(queue)
        self.connected.set()
        try:
            async with asyncio.timeout(timeout_seconds):
                while True:
                    event = (await queue.get()).event
                    if event is None:
                        return
                    if isinstance(event, Exception):
                        raise event
                    yield WatchEvent(event.type, self._shape(event.object, type), event.resource_version)
        except TimeoutError:
            return
        finally:
            self._queues.remove(queue)

    def _shape(self, item: Object, type: type[T]) -> T:
        if type is not dict:
            return cast(T, item)
        meta = item.metadata
        fields = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}
        return cast(T, {"metadata": {**fields, "resourceVersion": meta.resource_version}, "spec": {"x": 1}})


def gone() -> Gone:
    return Gone("too old resource version", status=410)


class FakeObjects:
    """Creates, replaces and patches manifests, with resourceVersions; every request can be delayed or failed."""

    def __init__(self) -> None:
        self.objects: dict[Key, Manifest] = {}
        self.revision = 0
        self.writes: list[tuple[str, Manifest]] = []
        #: Awaited before each request is carried out, and again before it is answered, with its verb.
        self.before: Callable[[str], object] = lambda verb: None

    async def _pause(self, verb: str) -> None:
        answer = self.before(verb)
        if asyncio.iscoroutine(answer):
            await answer

    async def get(self, resource: Resource, key: Key, *, type: type[T]) -> T:
        await self._pause("get")
        if key not in self.objects:
            raise NotFound(f"{resource} {key} not found", status=404)
        return cast(T, self.objects[key])

    async def create(self, resource: Resource, manifest: Manifest, *, type: type[T] | None = None) -> T:
        await self._pause("create")
        key = manifest_key(manifest)
        if key in self.objects:
            raise AlreadyExists(f"{resource} {key} already exists", status=409)
        return cast(T, self._store("create", key, manifest))

    async def replace(self, resource: Resource, manifest: Manifest, *, type: type[T]) -> T:
        await self._pause("replace")
        key = manifest_key(manifest)
        if key not in self.objects:
            raise NotFound(f"{resource} {key} not found", status=404)
        if manifest["metadata"]["resourceVersion"] != self.objects[key]["metadata"]["resourceVersion"]:
            raise Conflict(f"{resource} {key} changed", status=409)
        return cast(T, self._store("replace", key, manifest))

    async def merge_patch(self, resource: Resource, key: Key, patch: Manifest) -> object:
        await self._pause("merge_patch")
        if key not in self.objects:
            raise NotFound(f"{resource} {key} not found", status=404)
        return self._store("merge_patch", key, {**self.objects[key], **patch})

    def _store(self, verb: str, key: Key, manifest: Manifest) -> Manifest:
        self.revision += 1
        stored = {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": str(self.revision)}}
        self.objects[key] = stored
        self.writes.append((verb, stored))
        return stored


async def pass_time(seconds: float) -> None:
    """Let virtual time pass."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    timer = loop.call_later(seconds, done.set_result, None)
    try:
        await done
    finally:
        timer.cancel()
