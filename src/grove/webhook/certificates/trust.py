"""Since when every caBundle has held an authority, as this process has seen it.

Counted on its own monotonic clock: a process that has just started has seen nothing for long.
"""

from collections.abc import Callable, Iterable
from datetime import timedelta


class Trust:
    """What API servers surely verify by."""

    def __init__(self, monotonic: Callable[[], float], period: timedelta) -> None:
        self._monotonic = monotonic
        self._seconds = period.total_seconds()
        self._since: dict[str, float] = {}

    def saw(self, present: Iterable[str]) -> None:
        """These are in every caBundle at this moment, and no others."""
        now = self._monotonic()
        self._since = {each: self._since.get(each, now) for each in present}

    def lasting(self) -> frozenset[str]:
        """Those that have been for the whole period."""
        now = self._monotonic()
        return frozenset(each for each, since in self._since.items() if now - since >= self._seconds)
