"""Optional informers, started and stopped with the enabled backends; startup does not wait for them."""

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Generic, TypeVar

from grove.meta import Object
from grove.runtime.informer import Informer

K = TypeVar("K")
T = TypeVar("T", bound=Object)


class Watches(Generic[K, T]):
    """One informer for each wanted key, each in a task of its own while `run` does."""

    def __init__(self, name: str, make: Callable[[K], Informer[T]]) -> None:
        self._name = name
        self._make = make
        self._informers: dict[K, Informer[T]] = {}
        self._tasks: dict[K, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    def __getitem__(self, key: K) -> Informer[T]:
        return self._informers[key]

    def want(self, needed: Collection[K]) -> None:
        """From now on these are watched, and no others."""
        for gone in self._informers.keys() - set(needed):
            del self._informers[gone]
            if (task := self._tasks.pop(gone, None)) is not None:
                task.cancel()
        for new in sorted(set(needed) - self._informers.keys(), key=str):
            self._informers[new] = self._make(new)
            self._start(new)

    async def run(self) -> None:
        """Keep watching until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for each in self._informers:
                    self._start(each)
                forever: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
                await forever
        finally:
            self._group = None
            self._tasks.clear()

    def _start(self, key: K) -> None:
        if self._group is not None:
            informer = self._informers[key]
            name = f"{self._name} {informer.resource}"
            self._tasks[key] = self._group.create_task(informer.run(), name=name)
