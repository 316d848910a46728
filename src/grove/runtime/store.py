"""The cached objects of one resource, with named indexes.

Readers get views that never change; only the informer writes. Indexes are kept up to date with every write,
so that a lookup costs what it returns. `revision` is how far the informer has seen: every change up to it
is in the store.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from grove.meta import Key, Object
from grove.runtime.sharing import share

T = TypeVar("T", bound=Object)


def version_number(resource_version: str) -> int:
    """A resourceVersion as a number that can be compared; 0 when the server gave none."""
    return int(resource_version) if resource_version.isdecimal() else 0


class Store(Generic[T]):
    """The last seen state of each object of one resource."""

    def __init__(self, indexes: Mapping[str, Callable[[T], Iterable[str]]] | None = None) -> None:
        self._objects: dict[Key, T] = {}
        self._functions: dict[str, Callable[[T], Iterable[str]]] = {}
        self._buckets: dict[str, dict[str, dict[Key, T]]] = {}
        #: The highest resourceVersion up to which everything has been seen.
        self.revision = 0
        for name, function in (indexes or {}).items():
            self.add_index(name, function)

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        """A snapshot, so that the loop that reads may also await."""
        return iter(list(self._objects.values()))

    def __contains__(self, key: object) -> bool:
        return key in self._objects

    def get(self, key: Key) -> T | None:
        """The object that lives there, if it has been seen."""
        return self._objects.get(key)

    def index(self, name: str, value: str) -> list[T]:
        """The objects that the named index files under this value."""
        buckets = self._buckets.get(name)
        if buckets is None:
            known = ", ".join(sorted(self._functions)) or "none"
            raise KeyError(f"there is no index {name!r}; this store has {known}")
        bucket = buckets.get(value)
        return [*bucket.values()] if bucket is not None else []

    def count(self, name: str, value: str) -> int:
        """How many objects the named index files under this value."""
        return len(self._buckets[name].get(value, ()))

    def add_index(self, name: str, function: Callable[[T], Iterable[str]]) -> None:
        """File every object, present and future, under the values that `function` gives.

        A known name is kept.
        """
        if name in self._functions:
            return
        self._functions[name] = function
        self._buckets[name] = {}
        for key, item in self._objects.items():
            self._file(name, key, None, item)

    def put(self, item: T) -> T | None:
        """Remember an object; answers with what was there. Only the informer calls this."""
        key = item.key
        old = self._objects.get(key)
        share(item, old)
        self._objects[key] = item
        for name in self._functions:
            self._file(name, key, old, item)
        return old

    def discard(self, key: Key) -> T | None:
        """Forget an object; answers with what was there. Only the informer calls this."""
        old = self._objects.pop(key, None)
        if old is not None:
            for name in self._functions:
                self._file(name, key, old, None)
        return old

    def _file(self, name: str, key: Key, old: T | None, new: T | None) -> None:
        function, buckets = self._functions[name], self._buckets[name]
        after = tuple(function(new)) if new is not None else ()
        if old is not None:
            for value in function(old):
                # What is filed under the same value as before keeps its place in the bucket.
                if value not in after and (bucket := buckets.get(value)) is not None:
                    bucket.pop(key, None)
                    if not bucket:
                        del buckets[value]
        if new is not None:
            for value in after:
                bucket = buckets.get(value)
                if bucket is None:
                    bucket = buckets[value] = {}
                bucket[key] = new
