"""The own-write filter: recognises the operator's own status writes when a watch delivers them.

A status that changes without us needs a look: somebody edited it, or a write whose answer was lost took
effect all the same. One of our own does not, and there are thousands of those. The watch may be faster than
the answer to the write, so while a write is under way the decision waits for its answer.
"""

from collections.abc import Callable

from grove.meta import Key, Resource

_Target = tuple[Resource, Key]


class OwnWrites:
    """The status writes of this process that were not seen yet."""

    def __init__(self) -> None:
        #: How many writes of each are under way.
        self._under_way: dict[_Target, int] = {}
        #: The version that the last answered write gave it, until it is seen.
        self._answered: dict[_Target, str] = {}
        #: Objects that went while a write was under way: its answer will never be seen.
        self._gone: set[_Target] = set()
        #: Versions that came before the answer that would explain them, and what to do if none does.
        self._unexplained: dict[_Target, dict[str, Callable[[], None]]] = {}

    def writing(self, resource: Resource, key: Key) -> None:
        """A write begins."""
        target = (resource, key)
        self._under_way[target] = self._under_way.get(target, 0) + 1

    def wrote(self, resource: Resource, key: Key, version: str) -> None:
        """A write has ended and gave the object this version; "" if nobody knows whether it took effect."""
        target = (resource, key)
        waiting = self._unexplained.get(target, {})
        if version and waiting.pop(version, None) is None:
            self._answered[target] = version
        self._under_way[target] -= 1
        if not self._under_way[target]:
            del self._under_way[target]
            if target in self._gone:
                self._gone.discard(target)
                self._answered.pop(target, None)
            for look in self._unexplained.pop(target, {}).values():
                look()

    def saw(self, resource: Resource, key: Key, version: str, look: Callable[[], None]) -> None:
        """The watch shows this version: look, unless it is an echo of ours."""
        target = (resource, key)
        if self._answered.get(target) == version:
            del self._answered[target]
            return
        if target in self._under_way:
            self._unexplained.setdefault(target, {})[version] = look
        else:
            look()

    def gone(self, resource: Resource, key: Key) -> None:
        """The object is gone, and nothing of it will be seen any more."""
        target = (resource, key)
        self._answered.pop(target, None)
        if target in self._under_way:
            self._gone.add(target)
