"""Exponential backoff, capped and jittered; the random source is injected.

Never zero, so that nothing built on it can become a hot loop.
"""

import random

#: Beyond this many doublings every cap in this package has been reached; it keeps 2**n small.
_MAX_DOUBLINGS = 32


def delay(attempt: int, *, first: float, cap: float, rng: random.Random) -> float:
    """The wait before attempt `attempt` (0 is the first retry): between half and all of the doubled step."""
    step: float = min(cap, first * 2 ** min(attempt, _MAX_DOUBLINGS))
    return step * rng.uniform(0.5, 1.0)


class Backoff:
    """Counts failures in a row and says how long to wait after each."""

    def __init__(self, rng: random.Random, *, first: float, cap: float) -> None:
        self._rng = rng
        self._first = first
        self._cap = cap
        self.failures = 0

    def next(self) -> float:
        """The wait after one more failure."""
        wait = delay(self.failures, first=self._first, cap=self._cap, rng=self._rng)
        self.failures += 1
        return wait

    def reset(self) -> None:
        """All is well again: the next wait is the shortest."""
        self.failures = 0
