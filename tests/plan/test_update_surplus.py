"""How many replicas an update adds, and which of them it gives up for want of room."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import msgspec
import pytest
from tests.plan.test_update_replicas import asked, limits, state, world

from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.meta import Condition, Manifest
from grove.plan.update.budget import Budget
from grove.plan.update.progress import update_progress
from grove.plan.update.replicas import SetUpdate, plan_update
from grove.plan.update.state import UpdateState
from grove.plan.update.surplus import holding_room, surplus_kept, surplus_needed, waits_for_room
from grove.plan.update.words import update_condition
from grove.testing import make

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
NO_ROOM = Condition(type="Scheduled", status="False", reason="Unschedulable", message="0/4 nodes.")


def saying(gang: PodGang, *told: Condition) -> PodGang:
    return msgspec.structs.replace(gang, status=msgspec.structs.replace(gang.status, conditions=told))


@dataclass(frozen=True)
class Case:
    """A set of four that is being updated, with replicas 4 and up beyond them."""

    strategy: Manifest
    turns: Collection[int] = (0,)
    #: The replicas that find no room.
    short: Collection[int] = ()
    broken: Collection[int] = ()
    unplaced: Collection[int] = ()
    #: How many surplus replicas exist, and how many the status says are left.
    there: int = 4
    left: int | None = None
    paused: bool = False
    template: str = "two"
    want: int = 4
    want_left: int | None = None
    want_turns: tuple[int, ...] = (0,)


NONE_DOWN, ONE_DOWN = limits(maxUnavailable=0, maxSurge="100%"), limits(maxUnavailable=1, maxSurge=4)
CASES = {
    "with room all stay, and each that serves lets one more be down": Case(
        NONE_DOWN, broken={0}, unplaced={7}, want_turns=(0, 1, 2)
    ),
    "those that find no room stay while nothing waits for what they might take": Case(
        NONE_DOWN, broken={0}, short={5, 6, 7}, unplaced={5, 6, 7}
    ),
    "while a replica that has its turn finds none, as many stay as stand in": Case(
        NONE_DOWN, broken={0}, short={0}, want=1, want_left=1
    ),
    "also of those that serve none goes that is needed": Case(
        NONE_DOWN, turns=(0, 1), broken={0, 1}, short={1}, want=2, want_left=2, want_turns=(0, 1)
    ),
    "one that does not serve is no stand-in": Case(NONE_DOWN, broken={0, 4}, short={0}, want=2, want_left=2),
    "one that is broken without the update is stood in for too": Case(
        NONE_DOWN, broken={0, 3}, short={0}, want=2, want_left=2
    ),
    "where the replica alone may be down all go": Case(ONE_DOWN, broken={0}, short={0}, want=0, want_left=0),
    "what was given up is not made again": Case(NONE_DOWN, broken={0}, there=1, left=1, want=1, want_left=1),
    "not even when more are asked for": Case(ONE_DOWN, turns=(), there=0, left=0, want=0, want_left=0),
    "fewer that are asked for count": Case(
        limits(maxUnavailable=0, maxSurge=2), there=2, left=2, want=2, want_turns=(0, 1)
    ),
    "the next update adds as many as it may": Case(
        NONE_DOWN, there=1, left=1, template="one", unplaced={5, 6, 7}, turns=(0,), want=4
    ),
    "a pause keeps those that are there": Case(
        NONE_DOWN, broken={0}, short={0}, there=2, paused=True, want=2
    ),
    "a replica that never had room keeps nobody from anything": Case(
        ONE_DOWN, turns=(3,), unplaced={3}, short={3}, want_turns=(3, 0, 1, 2)
    ),
}


def set_of(case: Case) -> PodCliqueSet:
    found = asked("two", 4, turns=case.turns, strategy=case.strategy, paused=case.paused)
    recorded = plan_update(UpdateState(asked("one", 1), world(1, "one").layout(0))).present.hash
    status = msgspec.to_builtins(found.status)
    status["updateProgress"]["surplusReplicas"] = case.left
    if case.template == "one":
        status["currentGenerationHash"] = recorded
    return make.view(PodCliqueSet, {**msgspec.to_builtins(found), "status": status})


def planned(case: Case) -> SetUpdate:
    cliqueset = set_of(case)
    seen = world(4 + case.there, "two", updated=range(4, 4 + case.there))
    found = state(seen, cliqueset, broken=case.broken, unplaced=case.unplaced)
    gangs = {
        name: saying(gang, NO_ROOM) if int(name.rpartition("-")[2]) in case.short else gang
        for name, gang in found.gangs.items()
    }
    return plan_update(replace(found, gangs=gangs))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_surplus_replicas_make_room_for_those_that_have_their_turn(case: Case) -> None:
    found = planned(case)
    assert (found.surge, found.surplus.left) == (case.want, case.want_left)
    assert found.turns == case.want_turns
    progress = update_progress(found, now=NOW)
    assert progress is not None
    assert progress["surplusReplicas"] == case.want_left


KEPT: dict[str, tuple[Sequence[bool], int, int]] = {
    "none where none is needed": ((True, True), 0, 0),
    "the first": ((True, True), 1, 1),
    "up to the one that serves": ((False, True, True), 1, 2),
    "as many as are needed where fewer serve": ((False, False, False), 2, 2),
    "no more than there are": ((True,), 3, 1),
    "all that serve where more are needed": ((False, False, True, False), 2, 3),
}


@pytest.mark.parametrize("case", KEPT.values(), ids=KEPT)
def test_the_first_stay(case: tuple[Sequence[bool], int, int]) -> None:
    serving, needed, want = case
    assert surplus_kept(serving, needed) == want


def test_an_update_that_may_take_nothing_down_always_needs_a_surplus_replica() -> None:
    assert [surplus_needed(Budget(0, 3), down) for down in (0, 1, 2)] == [1, 1, 2]
    assert [surplus_needed(Budget(1, 3), down) for down in (0, 1, 2)] == [0, 0, 1]


TOLD = {
    "no room": ((NO_ROOM,), True),
    "no share": ((msgspec.structs.replace(NO_ROOM, reason="OverLimit"),), True),
    "its pods are being made": ((msgspec.structs.replace(NO_ROOM, reason="WaitingForPods"),), False),
    "placed": ((msgspec.structs.replace(NO_ROOM, status="True"),), False),
    "nothing yet": ((), False),
    "no room for pods above the minimum": (
        (Condition(type="PodsAboveMinimumPending", status="True", reason="Unschedulable"),),
        True,
    ),
}


@pytest.mark.parametrize("case", TOLD.values(), ids=TOLD)
def test_what_a_gang_says_when_it_waits_for_room(case: tuple[Sequence[Condition], bool]) -> None:
    told, want = case
    assert waits_for_room(saying(make.gang("t-0"), *told)) is want


def test_the_set_names_the_replica_that_finds_no_room_those_that_hold_some_and_the_ways_out() -> None:
    case = Case(NONE_DOWN, turns=(0, 1), broken={1}, short={1}, there=2, left=2)
    told = update_condition(planned(case))
    assert told is not None
    assert told.message == (
        "replica 1 is being updated: gang t-1: 0/4 nodes; "
        "surplus replicas 4 and 5 hold room: set maxSurge to 1 or raise maxUnavailable to free some of it"
    )


def test_it_says_so_once_those_that_are_given_up_are_gone() -> None:
    told = update_condition(planned(Case(NONE_DOWN, broken={0}, short={0})))
    assert told is not None
    assert "surplus" not in told.message


WAYS = {
    "the last one that none may be down without": (Budget(0, 1), 1, [4], "raise maxUnavailable to free it"),
    "one": (Budget(1, 1), 1, [4], "set maxSurge to 0 or raise maxUnavailable to free it"),
}


@pytest.mark.parametrize("case", WAYS.values(), ids=WAYS)
def test_a_way_out_is_one_that_is_not_refused(case: tuple[Budget, int, list[int], str]) -> None:
    budget, count, placed, want = case
    assert holding_room(budget, count, placed) == f"surplus replica 4 holds room: {want}"
    assert holding_room(budget, count, []) == ""
