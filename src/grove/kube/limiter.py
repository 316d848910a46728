"""Keep one client from flooding the API server: a token bucket that serves in the order of arrival.

Promises fairness and that nobody sleeps while tokens are left. Waits only through `asyncio.sleep`, so that
virtual time works.
"""

import asyncio
from typing import Final

DEFAULT_RATE: Final = 1000.0
DEFAULT_BURST: Final = 2000


class Limiter:
    """A token bucket; a rate of 0 switches it off."""

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, rate: float = DEFAULT_RATE, burst: int = DEFAULT_BURST) -> None:
        if rate < 0 or burst < 1:
            raise ValueError(f"a limiter needs a rate >= 0 and a burst >= 1, not {rate} and {burst}")
        self._rate = rate
        self._burst = float(burst)
        self._tokens = self._burst
        self._at: float | None = None

    @classmethod
    def off(cls) -> "Limiter":
        """A limiter that never waits."""
        return cls(rate=0)

    def change(self, rate: float, burst: int) -> None:
        """Another rate and burst from now on; who waits already waits as long as it was told."""
        fresh = Limiter(rate, burst)
        self._rate, self._burst = fresh._rate, fresh._burst
        self._tokens = min(self._tokens, self._burst)

    async def acquire(self) -> float:
        """Take one token, waiting for it behind everyone who asked before; how many seconds that took."""
        wait = self._reserve()
        if wait <= 0.0:
            return 0.0
        try:
            await asyncio.sleep(wait)
        except asyncio.CancelledError:
            self._tokens += 1.0  # the reservation was not used
            raise
        return wait

    def _reserve(self) -> float:
        """Seconds until the token just taken exists; debts grow in the order of arrival, hence FIFO."""
        if self._rate == 0:
            return 0.0
        now = asyncio.get_running_loop().time()
        if self._at is None or now < self._at:  # the first call, or another event loop with another clock
            self._at = now
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate) - 1.0
        self._at = now
        return -self._tokens / self._rate
