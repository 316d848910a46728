"""For how long a gang may hold a part of what it needs while nothing changes."""

from tests.controllers.clocks import HandClock

from grove.controllers.standstill import PARTIAL_SECONDS, RESERVED_SECONDS, Standstill
from grove.meta import Key

GANG = Key("default", "train-0")


def test_the_time_runs_from_the_first_look_and_ends_at_none() -> None:
    clock = HandClock()
    standstill = Standstill(clock)
    assert standstill.left(GANG, (1, "r"), 30) == 30
    clock.seconds += 20
    assert standstill.left(GANG, (1, "r"), 30) == 10
    clock.seconds += 10
    assert standstill.left(GANG, (1, "r"), 30) == 0
    clock.seconds += 500
    assert standstill.left(GANG, (1, "r"), 30) == 0


def test_a_gang_of_which_more_was_placed_gets_the_whole_time_again() -> None:
    clock = HandClock()
    standstill = Standstill(clock)
    standstill.left(GANG, (1, "r"), 30)
    clock.seconds += 29
    assert standstill.left(GANG, (2, "r"), 30) == 30


def test_a_gang_that_was_started_anew_gets_the_whole_time_again() -> None:
    clock = HandClock()
    standstill = Standstill(clock)
    standstill.left(GANG, (1, "r"), 30)
    clock.seconds += 29
    assert standstill.left(GANG, (1, "s"), 30) == 30


def test_gangs_do_not_share_their_time() -> None:
    clock = HandClock()
    standstill = Standstill(clock)
    standstill.left(GANG, (1, "r"), 30)
    clock.seconds += 29
    assert standstill.left(Key("default", "train-1"), (1, "r"), 30) == 30
    assert standstill.left(Key("elsewhere", "train-0"), (1, "r"), 30) == 30
    assert standstill.left(GANG, (1, "r"), 30) == 1


def test_a_gang_that_moved_on_is_forgotten() -> None:
    clock = HandClock()
    standstill = Standstill(clock)
    standstill.left(GANG, (1, "r"), 30)
    clock.seconds += 29
    standstill.forget(GANG)
    standstill.forget(GANG)
    assert standstill.left(GANG, (1, "r"), 30) == 30


def test_a_part_on_nodes_is_given_more_time_than_places_that_are_only_held() -> None:
    assert 0 < RESERVED_SECONDS < PARTIAL_SECONDS
