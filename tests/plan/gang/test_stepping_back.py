"""For whom a preempted gang keeps its gates closed, and for how long."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from tests.plan.gang.states import gang, pod, state

from grove.api.pod import Pod
from grove.plan.gang.state import OtherGang, StepBackTime, Wait
from grove.plan.gang.stepping_back import step_back

ROOM = StepBackTime(least=3.0, most=50.0)
LATE = StepBackTime(least=0.0, most=50.0)


def urgent(each: Pod, priority: int = 9) -> Pod:
    return replace(each, spec=replace(each.spec, priority=priority))


def other(*pods: Pod) -> OtherGang:
    return OtherGang(gang(name="vip-0"), pods)


GATED = [pod("a"), pod("b")]
OPEN = pod("x", gates=())
WAITS = other(urgent(OPEN))
FOR_A_MOMENT = "the gang was preempted and waits for a moment"
FOR_THE_OTHER = (
    "the gang was preempted and waits until gang default/vip-0, which has a higher priority, is placed"
)

CASES: dict[str, tuple[StepBackTime, Sequence[Pod], Sequence[OtherGang], Wait | None]] = {
    "a gang that was not preempted goes on": (StepBackTime(), GATED, [WAITS], None),
    "one that was steps back for a moment": (ROOM, GATED, [], Wait(3.0, FOR_A_MOMENT)),
    "and as long as a gang of higher priority waits": (ROOM, GATED, [WAITS], Wait(50.0, FOR_THE_OTHER)),
    "also when the moment is over": (LATE, GATED, [WAITS], Wait(50.0, FOR_THE_OTHER)),
    "nobody waits and the moment is over": (LATE, GATED, [], None),
    "a gang of the same priority is not waited for": (LATE, GATED, [other(OPEN)], None),
    "one that is behind gates of its own cannot be placed now": (
        LATE,
        GATED,
        [other(urgent(pod("x")))],
        None,
    ),
    "one whose pods are on nodes has what it needs": (
        LATE,
        GATED,
        [other(urgent(pod("x", node="n1")))],
        None,
    ),
    "one whose pods are going does not wait": (
        LATE,
        GATED,
        [other(urgent(pod("x", gates=(), deleted=True)))],
        None,
    ),
    "the gang's own priority counts": (LATE, [urgent(pod("a"), 9)], [WAITS], None),
    "without gates there is nothing to keep closed": (ROOM, [OPEN], [WAITS], None),
}


@pytest.mark.parametrize(("time", "pods", "others", "want"), CASES.values(), ids=CASES)
def test_a_preempted_gang(
    time: StepBackTime, pods: Sequence[Pod], others: Sequence[OtherGang], want: Wait | None
) -> None:
    assert step_back(state(gang("a", "b"), pods, step_back=time, others=others)) == want
