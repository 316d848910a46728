"""Which of a gang's conditions answers why it does not run."""

from dataclasses import dataclass

import pytest

from grove.api import conditions
from grove.meta import Condition
from grove.plan.why_not import WhyNot, why_not


def said(type: str, status: str, reason: str = "Because") -> Condition:
    return Condition(type=type, status=status, reason=reason, message=f"{type} is {status}")


INCOMPLETE = said("Initialized", "False")
COMPLETE = said("Initialized", "True")
UNPLACED = said("Scheduled", "False", "Unschedulable")
UNDECIDED = said("Scheduled", "Unknown")
PLACED = said("Scheduled", "True")
STARTING = said("Ready", "False")
READY = said("Ready", "True")
UNTOLD = said("Scheduled", "False", conditions.PRECONDITION_MISSING)


@dataclass(frozen=True)
class Case:
    said: list[Condition]
    want: WhyNot | None


CASES = {
    "all steps are made": Case([COMPLETE, PLACED, READY], None),
    "missing pods come before the placement": Case(
        [INCOMPLETE, UNPLACED, STARTING], WhyNot("Initialized", INCOMPLETE)
    ),
    "the placement comes before readiness": Case(
        [COMPLETE, UNPLACED, STARTING], WhyNot("Scheduled", UNPLACED)
    ),
    "a placed gang may not be ready": Case([COMPLETE, PLACED, STARTING], WhyNot("Ready", STARTING)),
    "a step that is unknown is not made": Case([COMPLETE, UNDECIDED], WhyNot("Scheduled", UNDECIDED)),
    "the order of the conditions does not matter": Case(
        [STARTING, UNPLACED, COMPLETE], WhyNot("Scheduled", UNPLACED)
    ),
    "what is said comes before what nobody spoke of": Case([UNPLACED], WhyNot("Scheduled", UNPLACED)),
    "the first step of which nobody spoke": Case([COMPLETE], WhyNot("Scheduled")),
    "nobody said anything": Case([], WhyNot("Initialized")),
    "that the scheduler was not told is the cause of every step": Case(
        [INCOMPLETE, UNTOLD, STARTING], WhyNot("Initialized", INCOMPLETE, UNTOLD)
    ),
    "that the scheduler was not told is the cause of its own step": Case(
        [COMPLETE, UNTOLD], WhyNot("Scheduled", UNTOLD, UNTOLD)
    ),
    "what a placed gang's scheduler once could not be told is no cause": Case(
        [INCOMPLETE, said("Scheduled", "True", conditions.BACKEND_NOT_ENABLED)],
        WhyNot("Initialized", INCOMPLETE),
    ),
    "other conditions are no steps": Case([said("Unhealthy", "True"), COMPLETE, PLACED, READY], None),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_which_step_keeps_a_gang_from_running(case: Case) -> None:
    assert why_not(case.said) == case.want


def test_a_caller_may_look_at_the_later_steps_only() -> None:
    assert why_not([INCOMPLETE, UNPLACED], steps=("Scheduled", "Ready")) == WhyNot("Scheduled", UNPLACED)
