"""A fair queue: groups of waiting items are served in turn.

A group with thousands of items delays the next item of another group by one. At most `most` items of one
group are out at a time, so that a group whose items take long leaves room for the others. Within a group
the order is that of arrival. Every operation is O(1).
"""

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """Lines of items, one for each group; whoever takes an item says when it is done with."""

    def __init__(self, group: Callable[[T], Hashable], *, most: int) -> None:
        self._group = group
        self._most = most
        #: The groups that have items and may give one out, the next to be served first.
        self._lines: dict[Hashable, deque[T]] = {}
        #: The groups that have items and as many out as they may.
        self._held: dict[Hashable, deque[T]] = {}
        self._out: Counter[Hashable] = Counter()
        self._takers: deque[asyncio.Future[None]] = deque()

    def put(self, item: T) -> None:
        """Add an item at the end of its group's line."""
        group = self._group(item)
        if group in self._held:
            self._held[group].append(item)
            return
        self._lines.setdefault(group, deque()).append(item)
        self._file(group)
        self._wake()

    async def take(self) -> T:
        """The next item of the group whose turn it is."""
        while not self._lines:
            taker = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                with contextlib.suppress(ValueError):
                    self._takers.remove(taker)
                if not taker.cancelled():
                    # Woken and cancelled in the same moment: somebody else must have the item.
                    self._wake()
                raise
        group, line = next(iter(self._lines.items()))
        item = line.popleft()
        del self._lines[group]
        self._out[group] += 1
        if line:
            self._lines[group] = line
            self._file(group)
        return item

    def done(self, item: T) -> None:
        """An item that was taken is no longer out."""
        group = self._group(item)
        self._out[group] -= 1
        if not self._out[group]:
            del self._out[group]
        if (line := self._held.pop(group, None)) is not None:
            self._lines[group] = line
            self._wake()

    def _file(self, group: Hashable) -> None:
        if self._out[group] >= self._most:
            self._held[group] = self._lines.pop(group)

    def _wake(self) -> None:
        while self._takers and self._lines:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return
