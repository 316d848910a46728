"""The informers of one process: one for each resource, each found by its resource or by its type.

Reads are local and never wait. Informers may come and go while the cache runs.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from grove.meta import Object, Resource
from grove.runtime.clock import Clock, SystemClock
from grove.runtime.informer import Informer, Listener
from grove.runtime.ports import Reader
from grove.runtime.store import Store

T = TypeVar("T", bound=Object)


class Cache:
    """All that a process knows of the API server's objects."""

    def __init__(
        self, client: Reader, clock: Clock | None = None, *, rng: random.Random | None = None
    ) -> None:
        self._client = client
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self._informers: dict[Resource, Informer[Object]] = {}
        #: Where `store` found what it was asked for; forgotten when informers come or go.
        self._stores: dict[type[Object], Any] = {}
        self._tasks: dict[Resource, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._changed = asyncio.Event()
        #: Who is told of a resource whenever it is cached.
        self._listeners: dict[Resource, list[Listener[Object]]] = {}

    def listen(self, resource: Resource, listener: Listener[Object]) -> None:
        """Tell of every change of a resource that is cached now, later, or from time to time."""
        self._listeners.setdefault(resource, []).append(listener)
        if (informer := self._informers.get(resource)) is not None:
            informer.subscribe(listener)

    def add(
        self,
        resource: Resource,
        type: type[T],
        *,
        namespace: str = "",
        labels: str = "",
        indexes: Mapping[str, Callable[[T], Iterable[str]]] | None = None,
    ) -> Informer[T]:
        """The informer of a resource, made now or earlier; starts at once if the cache is running.

        Asking again with the same type and selection adds the indexes that are new.
        """
        known = self._informers.get(resource)
        if known is not None:
            if known.type is not type or known.selection != (namespace, labels, ""):
                raise ValueError(
                    f"{resource} is already cached as {known.type.__name__} with selection {known.selection};"
                    " a resource has one informer, so every user of it must ask for the same"
                )
            informer = cast(Informer[T], known)
            for name, function in (indexes or {}).items():
                informer.store.add_index(name, function)
            return informer
        informer = Informer(
            self._client,
            resource,
            type,
            namespace=namespace,
            labels=labels,
            indexes=indexes,
            clock=self._clock,
            # A source of its own for each, so that one informer's failures do not change another's waits.
            rng=random.Random(self._rng.getrandbits(64)),
        )
        self._informers[resource] = cast(Informer[Object], informer)
        for listener in self._listeners.get(resource, ()):
            self._informers[resource].subscribe(listener)
        self._stores.clear()
        self._changed.set()
        if self._group is not None:
            self._start(resource)
        return informer

    def remove(self, resource: Resource) -> None:
        """Stop caching a resource and forget its objects."""
        self._informers.pop(resource, None)
        self._stores.clear()
        task = self._tasks.pop(resource, None)
        if task is not None:
            task.cancel()
        self._changed.set()

    def informer(self, resource: Resource) -> Informer[Object] | None:
        """The informer of this resource, if it is cached."""
        return self._informers.get(resource)

    def informers(self) -> list[Informer[Object]]:
        """All of them, in the order in which they were added."""
        return list(self._informers.values())

    def store(self, type: type[T]) -> Store[T]:
        """The store of the one resource that is cached as this type."""
        # That the store found for a type holds just that type cannot be said of a dict.
        store: Store[T] | None = self._stores.get(type)
        if store is None:
            found = [informer.store for informer in self._informers.values() if informer.type is type]
            if len(found) != 1:
                raise KeyError(
                    f"{len(found)} cached resources have the type {type.__name__};"
                    " ask for the informer of a resource instead"
                )
            store = self._stores[type] = cast("Store[T]", found[0])
        return store

    def missing(self) -> list[str]:
        """One sentence for each resource that is not synced yet, with the reason if it is known."""
        return [
            informer.problem or f"{informer.resource} is still being listed"
            for informer in self._informers.values()
            if not informer.synced.is_set()
        ]

    async def run(self) -> None:
        """Run the informers until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for resource in self._informers:
                    self._start(resource)
                await asyncio.get_running_loop().create_future()
        finally:
            self._group = None
            self._tasks.clear()

    async def wait_synced(self) -> None:
        """Return once every informer has listed its resource, those included that are added meanwhile."""
        while waiting := [item for item in self._informers.values() if not item.synced.is_set()]:
            self._changed.clear()
            tasks = [asyncio.create_task(waiting[0].synced.wait()), asyncio.create_task(self._changed.wait())]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()

    def _start(self, resource: Resource) -> None:
        assert self._group is not None
        informer = self._informers[resource]
        self._tasks[resource] = self._group.create_task(informer.run(), name=f"informer {resource}")
