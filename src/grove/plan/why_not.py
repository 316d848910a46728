"""Which of a gang's conditions answers why the gang does not run. Pure.

The only place that decides it. The statuses of gangs and sets, `grove tree` and the demonstration ask here,
so that all of them name the same reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from grove.api import conditions
from grove.meta import Condition, find_condition

#: What a gang goes through until it runs, in this order; each step is a condition.
STEPS: Final = (conditions.INITIALIZED, conditions.SCHEDULED, conditions.READY)

#: Reasons of `Scheduled` that say that the scheduler could not be told of the gang at all.
NOT_HANDED_OVER: Final = frozenset(
    {
        conditions.PRECONDITION_MISSING,
        conditions.BACKEND_NOT_ENABLED,
        conditions.UNSUPPORTED,
        conditions.SYNC_FAILED,
        conditions.OWNERSHIP_CONFLICT,
    }
)


@dataclass(frozen=True, slots=True)
class WhyNot:
    """The step that keeps a gang from running, and what the gang says about it."""

    step: str
    #: The condition of this step; None when nobody has written it yet.
    condition: Condition | None = None
    #: The condition that the scheduler could not be told of the gang, which is why no step is made.
    cause: Condition | None = None


def why_not(said: Sequence[Condition], *, steps: Sequence[str] = STEPS) -> WhyNot | None:
    """The first step that is said not to be made, or else the first that nobody spoke of; None if all are."""
    found = {step: find_condition(said, step) for step in steps}
    for step, condition in found.items():
        if condition is not None and not condition.is_true:
            return WhyNot(step, condition, _cause(said))
    return next((WhyNot(step) for step, condition in found.items() if condition is None), None)


def _cause(said: Sequence[Condition]) -> Condition | None:
    scheduled = find_condition(said, conditions.SCHEDULED)
    if scheduled is None or scheduled.is_true or scheduled.reason not in NOT_HANDED_OVER:
        return None
    return scheduled
