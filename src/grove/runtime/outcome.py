"""What a reconcile answers: it is done, or it wants to look again later.

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
    """The one of several that wants to look again first."""
    return min(
        (each for each in outcomes if isinstance(each, After)), key=lambda each: each.seconds, default=DONE
    )
