"""Read your own writes: a key is not reconciled before the cache shows what its last reconcile wrote.

Each write leaves a resourceVersion here; the key waits until that resource's informer has come as far, or
has seen the written object itself. A deletion waits until the object is gone or going. A resource without
an informer cannot be waited for and does not block. After the guard a watch that does not tell what was
written is doubted: its informer lists anew, and the key waits for that. After a second guard lists fail as
well: that is logged and the key goes on, since a key that never runs helps nobody.
"""

import asyncio
import heapq
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from math import inf

from grove.meta import Key, Object, Resource
from grove.runtime.cache import Cache
from grove.runtime.informer import Informer
from grove.runtime.store import version_number

log = logging.getLogger(__name__)

GUARD_SECONDS = 30.0


@dataclass(slots=True)
class _Waits:
    """What one key has written and not yet seen."""

    #: For each resource the revision of each write, by the object written (None: the object is not known).
    writes: dict[Resource, dict[Key | None, int]] = field(default_factory=dict)
    deletions: dict[tuple[Resource, Key], str] = field(default_factory=dict)
    #: The objects whose change is a reason to look at this key again.
    targets: set[tuple[Resource, Key]] = field(default_factory=set)
    guard: asyncio.TimerHandle | None = None
    #: Whether the informers that are behind were told to list again.
    doubted: bool = False

    def behind(self) -> set[Resource]:
        """The resources of which something is missing."""
        return {*self.writes, *(resource for resource, _ in self.deletions)}

    def describe(self) -> list[str]:
        written = [f"{resource} at {max(writes.values())}" for resource, writes in self.writes.items()]
        return written + [f"{resource} {key} gone" for resource, key in self.deletions]


class Barrier:
    """Holds keys back until the cache has caught up with their writes; `wake` is called when it has."""

    def __init__(
        self,
        cache: Cache,
        *,
        wake: Callable[[Key], None] = lambda key: None,
        timed_out: Callable[[Key], None] = lambda key: None,
        guard_seconds: float = GUARD_SECONDS,
    ) -> None:
        self._cache = cache
        self._wake = wake
        self._timed_out = timed_out
        self._guard_seconds = guard_seconds
        self._waits: dict[Key, _Waits] = {}
        self._attached: dict[Resource, Informer[Object]] = {}
        # Which parked keys to look at again when a revision is reached, or when an object changes.
        self._by_revision: dict[Resource, list[tuple[int, int, Key]]] = {}
        self._by_object: dict[tuple[Resource, Key], set[Key]] = {}
        self._tickets = count()
        #: When each resource was last listed again because its watch did not tell what was written.
        self._doubts: dict[Resource, float] = {}

    @property
    def parked(self) -> int:
        """How many keys wait here to be woken."""
        return sum(1 for waits in self._waits.values() if waits.guard is not None)

    def wrote(self, key: Key, resource: Resource, resource_version: str, *, about: Key | None = None) -> None:
        """The reconcile of `key` wrote an object (`about`, if given) and was answered with this version."""
        revision = version_number(resource_version)
        informer = self._attach(resource)
        if informer is None or informer.store.revision >= revision:
            return
        writes = self._waits.setdefault(key, _Waits()).writes.setdefault(resource, {})
        writes[about] = max(revision, writes.get(about, 0))
        heapq.heappush(self._by_revision.setdefault(resource, []), (revision, next(self._tickets), key))
        if about is not None:
            self._link((resource, about), key)

    def deleted(self, key: Key, resource: Resource, object_key: Key, uid: str) -> None:
        """The reconcile of `key` deleted this object."""
        if self._attach(resource) is None or self._gone(resource, object_key, uid):
            return
        self._waits.setdefault(key, _Waits()).deletions[resource, object_key] = uid
        self._link((resource, object_key), key)

    def pending(self, key: Key) -> bool:
        """Whether the cache is still behind what this key wrote."""
        waits = self._waits.get(key)
        if waits is None:
            return False
        for resource in [
            resource for resource in waits.writes if self._seen(resource, waits.writes[resource])
        ]:
            del waits.writes[resource]
        if waits.writes:
            return True
        while waits.deletions:
            target, uid = next(iter(waits.deletions.items()))
            if not self._gone(*target, uid):
                # Asked whenever one of thousands goes: the first that is still there stands for the others.
                return True
            del waits.deletions[target]
        self._drop(key)
        return False

    def wake(self, key: Key) -> None:
        """Ask for a look at this key."""
        self._wake(key)

    def park(self, key: Key) -> None:
        """Wake this pending key when the cache has caught up, or when the guard runs out."""
        waits = self._waits.get(key)
        if waits is not None and waits.guard is None:
            self._set_guard(key, waits)

    def close(self) -> None:
        """Forget all waits and their timers."""
        for key in list(self._waits):
            self._drop(key)

    def _seen(self, resource: Resource, writes: dict[Key | None, int]) -> bool:
        informer = self._cache.informer(resource)
        if informer is None or informer.store.revision >= max(writes.values()):
            return True
        while writes:
            about, revision = next(iter(writes.items()))
            item = informer.store.get(about) if about is not None else None
            if item is None or version_number(item.metadata.resource_version) < revision:
                # Asked whenever one of hundreds is seen: the first that is not stands for the others.
                return False
            del writes[about]
        return True

    def _gone(self, resource: Resource, object_key: Key, uid: str) -> bool:
        informer = self._cache.informer(resource)
        item = informer.store.get(object_key) if informer is not None else None
        return item is None or item.terminating or (uid != "" and item.uid != uid)

    def _attach(self, resource: Resource) -> Informer[Object] | None:
        informer = self._cache.informer(resource)
        if informer is not None and self._attached.get(resource) is not informer:
            self._attached[resource] = informer
            informer.on_progress(partial(self._progress, resource, informer))
        return informer

    def _progress(self, resource: Resource, informer: Informer[Object], changed: Key | None) -> None:
        due: dict[Key, None] = {}
        if heap := self._by_revision.get(resource):
            revision = informer.store.revision
            while heap and heap[0][0] <= revision:
                due[heapq.heappop(heap)[2]] = None
        if changed is not None:
            # Nobody waits for most of what changes.
            if keys := self._by_object.get((resource, changed)):
                due.update(dict.fromkeys(sorted(keys)))
        else:
            # After a list anything may have gone.
            for target, keys in self._by_object.items():
                if target[0] == resource:
                    due.update(dict.fromkeys(sorted(keys)))
        for key in due:
            self._settle(key)

    def _settle(self, key: Key) -> None:
        waits = self._waits.get(key)
        parked = waits is not None and waits.guard is not None
        # Asked in any case: a key that is never reconciled again must not leave its waits behind.
        if not self.pending(key) and parked:
            self._wake(key)

    def _set_guard(self, key: Key, waits: _Waits) -> None:
        loop = asyncio.get_running_loop()
        waits.guard = loop.call_later(self._guard_seconds, self._give_up, key)

    def _give_up(self, key: Key) -> None:
        waits = self._waits.get(key)
        if waits is None:
            return
        waits.guard = None
        if not self.pending(key):
            self._wake(key)
            return
        if not waits.doubted:
            self._doubt(key, waits)
            return
        log.warning(
            "own writes did not appear in a new list either, going on",
            extra={"key": str(key), "missing": waits.describe(), "seconds": 2 * self._guard_seconds},
        )
        self._drop(key)
        self._wake(key)

    def _doubt(self, key: Key, waits: _Waits) -> None:
        """The watches that should have told what was written are not believed any more, and the key waits."""
        log.warning(
            "own writes did not appear in the cache in time, listing again",
            extra={"key": str(key), "missing": waits.describe(), "seconds": self._guard_seconds},
        )
        self._timed_out(key)
        waits.doubted = True
        self._set_guard(key, waits)
        now = asyncio.get_running_loop().time()
        for resource in sorted(waits.behind()):
            informer = self._cache.informer(resource)
            # Many keys wait for one watch: it is listed again once for all of them.
            if informer is not None and now - self._doubts.get(resource, -inf) >= self._guard_seconds:
                self._doubts[resource] = now
                informer.doubt()

    def _drop(self, key: Key) -> None:
        waits = self._waits.pop(key, None)
        if waits is None:
            return
        if waits.guard is not None:
            waits.guard.cancel()
        for target in waits.targets:
            keys = self._by_object[target]
            keys.discard(key)
            if not keys:
                del self._by_object[target]

    def _link(self, target: tuple[Resource, Key], key: Key) -> None:
        self._waits[key].targets.add(target)
        self._by_object.setdefault(target, set()).add(key)
