"""What a reconcile returns: done, or requeue after some seconds.

Waiting is not an error; an exception is a failure.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing more to do until something changes."""


@dataclass(frozen=True, slots=True)
class After:
    """Look again in this many seconds; `why` is for the log."""

    seconds: float
    why: str


Outcome = Done | After

DONE: Final = Done()


def soonest(*outcomes: Outcome) -> Outcome:
    """The first of several looks that are wanted."""
    waits = [each for each in outcomes if isinstance(each, After)]
    return min(waits, key=lambda each: each.seconds) if waits else DONE


def remaining(until: float, now: float) -> float:
    """The seconds between two moments of one clock; what the inaccuracy of floats leaves is no wait."""
    return until - now if until - now > 0.001 else 0.0
