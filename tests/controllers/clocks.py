"""A clock that a test sets by hand."""

from datetime import UTC, datetime


class HandClock:
    """Its monotonic time is what the test says; its wall time stands still."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.seconds
