"""Keeps a store equal to what the API server holds of one resource.

Lists in pages, then watches from there; lists again only when the server no longer remembers where we were,
or when somebody has reason to doubt what the watch tells. A relist is compared with the store, so that what
vanished meanwhile is told as a deletion. Every wait between requests is jittered and grows while things fail:
there is no path that asks twice in a row without a pause. What stands in the way (a missing permission, a
resource that is not served) is said once in the log and kept in `problem`. Never writes to the API server.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar, cast

from grove.errors import ApiError, Forbidden, Gone, NotFound, Stalled
from grove.meta import Key, Manifest, Object, Resource, UntypedObject
from grove.runtime.backoff import Backoff
from grove.runtime.clock import Clock, SystemClock
from grove.runtime.ports import Reader
from grove.runtime.store import Store, version_number

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)

#: Called with (old, new) after the store changed; old is None for an addition, new for a deletion.
Listener = Callable[[T | None, T | None], None]
#: Called after the store got further: with the key that changed, or None when only the revision moved.
Progress = Callable[[Key | None], None]

PAGE = 500
#: Waits after a request that ended early, and after one that cannot succeed until a person acts. The latter
#: begin short too: right after a CRD or a role was made, a real API server says no for a moment.
QUICK = (0.1, 30.0)
SLOW = (0.2, 30.0)
#: A watch that lived this long ends a row of failures, however it ended itself.
HEALTHY_SECONDS = 10.0
#: The server ends a watch after some time between these; different for each, so that they do not all end at
#: once.
WATCH_SECONDS = (300, 600)
#: What an API server answers to a watch before its cache of the kind is filled.
_STARTING = "storage is (re)initializing"
#: After so many events in one go the other tasks get their turn.
BURST = 200


class Informer(Generic[T]):
    """The list-and-watch loop of one resource and the store that it fills."""

    def __init__(
        self,
        client: Reader,
        resource: Resource,
        type: type[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        indexes: Mapping[str, Callable[[T], Iterable[str]]] | None = None,
        keeps: bool = True,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """With `keeps=False` the store stays empty: what is seen is told as added, and deletions are not."""
        self.resource = resource
        self.type = type
        self.selection = (namespace, labels, fields)
        self.store: Store[T] = Store(indexes)
        self.synced = asyncio.Event()
        #: Why the store is not (any more) kept up to date, as a sentence for people; None while all is well.
        self.problem: str | None = None
        self._client = client
        self._keeps = keeps
        self._clock = clock or SystemClock()
        #: When the server last said something of the resource, by the monotonic clock; None before it did.
        self._heard: float | None = None
        self._rng = rng or random.Random()
        self._listeners: list[Listener[T]] = []
        self._progress: list[Progress] = []
        self._position = ""
        #: The time limit of the running watch, of which it has none until it is doubted.
        self._patience: asyncio.Timeout | None = None
        self._limit = PAGE
        self._verb = "list"
        self._stuck_at = ""
        self._quick = Backoff(self._rng, first=QUICK[0], cap=QUICK[1])
        self._slow = Backoff(self._rng, first=SLOW[0], cap=SLOW[1])

    @property
    def age(self) -> float | None:
        """For how many seconds the server has not been heard; None if it never was."""
        return None if self._heard is None else self._clock.monotonic() - self._heard

    def subscribe(self, listener: Listener[T]) -> Callable[[], None]:
        """Call `listener` after every change; what is in the store already is told at once as additions.

        Answers with a function that ends the subscription.
        """
        self._listeners.append(listener)
        for item in self.store:
            self._tell(listener, None, item)
        return lambda: self._listeners.remove(listener)

    def on_progress(self, callback: Progress) -> None:
        """Call `callback` whenever the store got further, also when no object changed."""
        self._progress.append(callback)

    def doubt(self) -> None:
        """List again soon: what the server has was not told by the watch, which may be silently dead."""
        self._position = ""
        if self._patience is not None:
            self._patience.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            wait = await self._round()
            await asyncio.sleep(wait)

    async def _round(self) -> float:
        """List if we must, then watch until the watch ends.

        Answers with how long to wait before the next round.
        """
        try:
            if not self._position:
                self._verb = "list"
                await self._list()
            self._verb = "watch"
            await self._watch()
        except Gone:
            if self._verb == "list":
                # The snapshot behind the pages expired before the last page: take it all in one piece next
                # time.
                self._limit = 0
            self._position = ""
            log.debug("resource version expired, listing again", extra={"resource": str(self.resource)})
        except (Forbidden, NotFound) as error:
            self._report(self._explain(error))
            return self._slow.next()
        except Stalled as silence:
            # Perhaps dead, perhaps nothing to say: asking again shows which, and only then is it a problem.
            log.debug("watch went silent, watching again", extra={"watch": str(silence)})
        except ApiError as error:
            self._report(f"cannot {self._verb} {self.resource}: {error}")
            soon = self._quick.next()
            # For a kind that nobody has asked about yet the API server says so for some milliseconds, and to
            # come back in a second: whoever applies a set right then would wait for two of them.
            return soon if _STARTING in str(error) else max(soon, error.retry_after or 0.0)
        except Exception:
            # Most likely one object that does not decode: nothing here can mend it, but the others must not
            # suffer from a loop that died. Start from the beginning, ever more slowly.
            self._position = ""
            self._report(
                f"cannot {self._verb} {self.resource}: unexpected error, see the log", unexpected=True
            )
        return self._quick.next()

    async def _list(self) -> None:
        seen: set[Key] = set()
        revision = ""
        namespace, labels, fields = self.selection
        pages = self._client.pages(
            self.resource,
            type=self._wire_type(),
            namespace=namespace,
            labels=labels,
            fields=fields,
            limit=self._limit,
        )
        async for page in pages:
            if page.restarted:
                seen.clear()
            revision = page.resource_version or revision
            # A list is a consistent read: one that is older than what we saw means that the server's
            # history was set back (restored from a backup), and then what it says now is the truth.
            set_back = 0 < version_number(revision) < self.store.revision
            for wire in page.items:
                item = self._decode(wire)
                key = item.key
                seen.add(key)
                self._observe(key, item, force=set_back)
            await asyncio.sleep(0)
        for item in self.store:
            if item.key not in seen:
                self._remove(item.key)
        self.store.revision = version_number(revision)
        self._position = revision
        self._limit = PAGE
        self._well()
        if not self.synced.is_set():
            log.debug("cache synced", extra={"resource": str(self.resource), "objects": len(self.store)})
            self.synced.set()
        self._advanced(None)

    async def _watch(self) -> None:
        namespace, labels, fields = self.selection
        events = self._client.watch(
            self.resource,
            type=self._wire_type(),
            namespace=namespace,
            labels=labels,
            fields=fields,
            resource_version=self._position,
            timeout_seconds=self._rng.randint(*WATCH_SECONDS),
        )
        count = 0
        started = self._clock.monotonic()
        try:
            async with asyncio.timeout(None) as self._patience:
                async for event in events:
                    self._well()
                    self._take(event.type, event.object, event.resource_version)
                    count += 1
                    if count % BURST == 0:
                        await asyncio.sleep(0)
        except TimeoutError:
            # The watch was doubted, and an event that arrived just then may have moved the position again.
            self._position = ""
        else:
            # The server ended the watch after the time that we asked for: it is there.
            self._heard = self._clock.monotonic()
        finally:
            self._patience = None
            if self._clock.monotonic() - started >= HEALTHY_SECONDS:
                self._quick.reset()
            # An async generator must be closed here and now, or its connection lives until the collector
            # comes.
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()

    def _take(self, type: str, wire: object, resource_version: str) -> None:
        key = None
        if type != "BOOKMARK":
            item = self._decode(wire)
            key = item.key
            resource_version = resource_version or item.metadata.resource_version
            if type == "DELETED":
                self._forget(key, item)
            else:
                self._observe(key, item)
        revision = version_number(resource_version)
        if revision >= self.store.revision:
            self.store.revision = revision
            self._position = resource_version or self._position
        self._advanced(key)

    def _observe(self, key: Key, item: T, *, force: bool = False) -> None:
        """Take in an object as it was listed or as an event shows it, unless we know a newer one."""
        if not self._keeps:
            self._notify(None, item)
            return
        known = self.store.get(key)
        if known is None:
            self.store.put(item)
            self._notify(None, item)
            return
        before, after = known.metadata, item.metadata
        if before.resource_version == after.resource_version and before.uid == after.uid:
            return
        if not force and version_number(after.resource_version) < version_number(before.resource_version):
            return
        if before.uid != after.uid:
            # Deleted and created again while nobody looked: two objects that share a name, told as such.
            self._remove(key)
            known = None
        self.store.put(item)
        self._notify(known, item)

    def _forget(self, key: Key, item: T) -> None:
        known = self.store.get(key)
        if known is not None and _revision(known) <= _revision(item):
            # The last state is told, as the server sent it: it may say more than the one we knew.
            self.store.discard(key)
            self._notify(item if known.uid == item.uid else known, None)

    def _remove(self, key: Key) -> None:
        known = self.store.discard(key)
        if known is not None:
            self._notify(known, None)

    def _notify(self, old: T | None, new: T | None) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(old, new)
            except Exception:
                self._failed(old, new)

    def _tell(self, listener: Listener[T], old: T | None, new: T | None) -> None:
        try:
            listener(old, new)
        except Exception:
            self._failed(old, new)

    def _failed(self, old: T | None, new: T | None) -> None:
        item = new or old
        log.exception(
            "listener failed", extra={"resource": str(self.resource), "object": item and str(item.key)}
        )

    def _advanced(self, key: Key | None) -> None:
        for callback in self._progress:
            try:
                callback(key)
            except Exception:
                log.exception("progress callback failed", extra={"resource": str(self.resource)})

    def _wire_type(self) -> "type[T]":
        # An UntypedObject is made from the whole manifest, which the client decodes as a plain mapping.
        return cast("type[T]", dict) if issubclass(self.type, UntypedObject) else self.type

    def _decode(self, wire: object) -> T:
        if isinstance(wire, dict):
            return cast(T, UntypedObject.of(cast(Manifest, wire), self.resource))
        return cast(T, wire)

    def _well(self) -> None:
        self._heard = self._clock.monotonic()
        # A list that succeeds does not mend a watch that does not: what was wrong must itself go well again.
        if self.problem is not None and self._stuck_at == self._verb:
            log.info("resource is readable again", extra={"resource": str(self.resource)})
            self.problem = None
            self._slow.reset()

    def _report(self, problem: str, *, unexpected: bool = False) -> None:
        """Keep why we are stuck; say it once, and again only after things were well or otherwise bad."""
        if problem != self.problem:
            log.warning(
                "resource cannot be read",
                extra={"resource": str(self.resource), "problem": problem},
                exc_info=unexpected,
            )
            self.problem = problem
            self._stuck_at = self._verb

    def _explain(self, error: ApiError) -> str:
        group, version, kind = self.resource.gvk
        if isinstance(error, Forbidden):
            where = f"in namespace {self.selection[0]!r}" if self.selection[0] else "in the whole cluster"
            return (
                f"not allowed to {self._verb} {self.resource} {where}: grant the verbs 'list' and 'watch' on"
                f" resource {self.resource.plural!r} of API group {group!r} to the operator's service account"
                f" (the server said: {error})"
            )
        return (
            f"the API server does not serve {self.resource} in version {version}: install the"
            f" CustomResourceDefinition of kind {kind} (the server said: {error})"
        )


def _revision(item: Object) -> int:
    return version_number(item.metadata.resource_version)
