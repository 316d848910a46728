"""What time it is, for everything in the embedded cluster.

Two clocks: the wall clock, and one that follows the running event loop so that virtual time moves
timestamps too. Never sleeps; waiting is the event loop's business.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The current moment, with its time zone (UTC)."""
        ...


class SystemClock:
    """The wall clock of the machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class LoopClock:
    """An epoch plus the running loop's time: under a virtual loop, time passes when the loop says so."""

    def __init__(self, epoch: datetime) -> None:
        self._epoch = epoch

    def now(self) -> datetime:
        return self._epoch + timedelta(seconds=asyncio.get_running_loop().time())


def rfc3339(moment: datetime) -> str:
    """A moment as metav1.Time writes it: whole seconds, `Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(moment: datetime) -> str:
    """A moment as metav1.MicroTime writes it: six digits after the second, `Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_rfc3339(text: str) -> datetime:
    """The moment that an RFC 3339 text names; raises ValueError when it is none."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC)
