"""Until when this process may write: a fence that a client looks at immediately before each write is sent.

Whoever holds the right extends it and shuts the fence when it ends. Time is read from the clock that is given
in, which goes on while the process is stopped: a process that wakes up too late finds the fence shut. Writes
that are under way when it is shut are given up.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from grove.errors import Deposed

_NEVER: Final = float("-inf")


class Fence:
    """Shut until it is extended, and again once that time is over."""

    __slots__ = ("_monotonic", "_under_way", "_until")

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._until = _NEVER
        self._under_way: set[asyncio.Timeout] = set()

    @property
    def until(self) -> float:
        """When it shuts by itself, on the clock that was given in."""
        return self._until

    @property
    def open(self) -> bool:
        """Whether a write may be sent at this moment."""
        return self._monotonic() < self._until

    def extend(self, until: float) -> None:
        """Keep it open until then."""
        self._until = until

    def shut(self) -> None:
        """Let nothing pass any more, and give up what is under way."""
        self._until = _NEVER
        given_up, self._under_way = self._under_way, set()
        for limit in given_up:
            limit.reschedule(asyncio.get_running_loop().time())

    def check(self, what: object) -> None:
        """Raise Deposed unless `what` may be sent at this moment."""
        if not self.open:
            raise Deposed(f"{what} was not sent: this process does not hold the leader lease any more")

    @asynccontextmanager
    async def passing(self, what: object) -> AsyncIterator[None]:
        """Around one attempt of a write: refuse it when the fence is shut, give it up when it is shut."""
        self.check(what)
        try:
            async with asyncio.timeout(None) as limit:
                self._under_way.add(limit)
                try:
                    yield
                finally:
                    self._under_way.discard(limit)
        except TimeoutError:
            raise Deposed(f"{what} was given up: the leader lease ended while it was under way") from None
