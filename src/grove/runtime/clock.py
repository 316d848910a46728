"""What time it is, as a value that is passed in.

`now()` is for timestamps that people and other programs read; `monotonic()` is for measuring how long
something took. Neither is ever derived from the other, except under a virtual loop where both are the
loop's time.
"""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol


class Clock(Protocol):
    """Tells the wall time and a monotonic time."""

    def now(self) -> datetime:
        """The wall time, aware and in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment that never moves."""
        ...


#: Where there is one, the clock that goes on while the machine sleeps: a lease runs out meanwhile, too.
_STEADY: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.clock_gettime(_STEADY)


class LoopClock:
    """A clock that is the running event loop's: `epoch` plus the loop's time. For virtual time."""

    def __init__(self, epoch: datetime) -> None:
        self._epoch = epoch

    def now(self) -> datetime:
        return self._epoch + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


def rfc3339(moment: datetime) -> str:
    """The moment as metav1.Time writes it: whole seconds, UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(moment: datetime) -> str:
    """The moment as metav1.MicroTime writes it: six digits after the point, UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
