"""A bounded number of requests under way, shared between namespaces.

A namespace that is alone may have all slots. As soon as others write too, each gets an equal share of half
of them (never less than `least`), and a slot that becomes free goes to the namespaces in turn. So one
namespace's thousand writes neither stand in front of another's single one nor fill the API server with
requests that it would have to answer first. Knows nothing of what a request is.
"""

import asyncio
from collections import Counter, deque
from typing import Final

#: A namespace that wrote within so many seconds will probably write again: its share is kept for it.
RECENT_SECONDS: Final = 1.0


class Slots:
    """Slots for all namespaces together; `async with slots.of(namespace)` holds one."""

    def __init__(self, size: int, *, least: int) -> None:
        self._size = size
        self._least = least
        self._held: Counter[str] = Counter()
        self._free = size
        #: Who waits, by namespace; the next to be served first.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        #: When each namespace asked last; the longest ago first.
        self._asked: dict[str, float] = {}

    def of(self, namespace: str) -> "_Slot":
        """One slot for a request that concerns this namespace."""
        return _Slot(self, namespace)

    async def acquire(self, namespace: str) -> None:
        """Wait for a slot."""
        self._asked.pop(namespace, None)
        self._asked[namespace] = asyncio.get_running_loop().time()
        if self._free and namespace not in self._waiting and self._held[namespace] < self._share():
            self._give(namespace)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave(namespace, turn)
            else:
                self.release(namespace)
            raise

    def release(self, namespace: str) -> None:
        """Give a slot back; whoever is next has it at once."""
        self._free += 1
        self._held[namespace] -= 1
        if not self._held[namespace]:
            del self._held[namespace]
        share = self._share()
        while self._free and (next_one := self._next(share)) is not None:
            line = self._waiting.pop(next_one)
            turn = line.popleft()
            if line:
                self._waiting[next_one] = line
            if not turn.done():
                self._give(next_one)
                turn.set_result(None)

    def _next(self, share: int) -> str | None:
        return next((each for each in self._waiting if self._held[each] < share), None)

    def _give(self, namespace: str) -> None:
        self._free -= 1
        self._held[namespace] += 1

    def _leave(self, namespace: str, turn: asyncio.Future[None]) -> None:
        line = self._waiting.get(namespace, deque())
        if turn in line:
            line.remove(turn)
            if not line:
                del self._waiting[namespace]

    def _share(self) -> int:
        """How many slots one namespace may hold now."""
        now = asyncio.get_running_loop().time()
        while self._asked:
            namespace, asked = next(iter(self._asked.items()))
            if now - asked <= RECENT_SECONDS:
                break
            del self._asked[namespace]
            if namespace in self._held or namespace in self._waiting:
                self._asked[namespace] = now
        active = len(self._asked)
        return self._size if active <= 1 else max(self._least, self._size // (2 * active))


class _Slot:
    """Holds one slot for the length of a block."""

    __slots__ = ("_namespace", "_slots")

    def __init__(self, slots: Slots, namespace: str) -> None:
        self._slots = slots
        self._namespace = namespace

    async def __aenter__(self) -> None:
        await self._slots.acquire(self._namespace)

    async def __aexit__(self, *_: object) -> None:
        self._slots.release(self._namespace)
