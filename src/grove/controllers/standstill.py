"""Gangs of which a scheduler holds only a part, and for how long nothing about that has changed.

A scheduler that dies between two bindings, or that reserves places for several gangs at once, can leave gangs
that hold nodes and wait for one another for ever. After a bounded time such a gang gives its nodes back. Of
several the youngest does so first, so that one of them goes on.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from grove.meta import Key
from grove.runtime.clock import Clock
from grove.runtime.outcome import remaining

#: A part of a gang is on nodes, which takes at most moments when a scheduler binds pod after pod.
PARTIAL_SECONDS: Final = 30.0
#: A scheduler holds places for a part of a gang while it does the same for an older one.
RESERVED_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class _Still:
    what: Hashable
    since: float


class Standstill:
    """Remembers since when each gang has been as it is."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._still: dict[Key, _Still] = {}

    def left(self, gang: Key, what: Hashable, seconds: float) -> float:
        """For how many seconds more a gang may stay as it is; 0 when they have passed."""
        now = self._clock.monotonic()
        known = self._still.get(gang)
        if known is None or known.what != what:
            known = self._still[gang] = _Still(what, now)
        return remaining(known.since + seconds, now)

    def forget(self, gang: Key) -> None:
        """The gang moves on, or is gone."""
        self._still.pop(gang, None)
