"""What held when, and which pauses count."""

from datetime import UTC, datetime, timedelta

import pytest

from grove.api import kinds
from grove.testing.timelines import Past, Timeline

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def timeline(*changes: float) -> Timeline:
    """One that begins to hold at the first time, no longer holds at the second, and so on."""
    made = Timeline()
    for index, seconds in enumerate(changes):
        made.note(at(seconds), index % 2 == 0)
    return made


#: Changes, the time that is asked about, the longest pause that does not count, and since when it held.
BEGAN = {
    "what never held": ((), 50, 5, None),
    "what holds": ((10,), 50, 5, 10),
    "what ended long ago": ((10, 20), 50, 5, None),
    "what ended just now": ((10, 47), 50, 5, 10),
    "a short pause does not count": ((10, 20, 24), 50, 5, 10),
    "several short pauses do not count": ((10, 20, 24, 30, 33, 47), 50, 5, 10),
    "a long pause counts": ((10, 20, 26), 50, 5, 26),
    "what came later does not count": ((10, 20, 60), 22, 5, 10),
    "what ended later had not ended": ((10, 60), 50, 5, 10),
}


@pytest.mark.parametrize(("changes", "asked", "gap", "want"), BEGAN.values(), ids=BEGAN)
def test_since_when_something_held(
    changes: tuple[float, ...], asked: float, gap: float, want: float | None
) -> None:
    found = timeline(*changes).began(at(asked), timedelta(seconds=gap))
    assert found == (at(want) if want is not None else None)


def test_what_held_or_lacked_throughout_did_not_change_since_then() -> None:
    holding, lacking = timeline(10), timeline(10, 20)
    assert [holding.held_since(at(each)) for each in (9, 10, 11)] == [False, True, True]
    assert [lacking.lacked_since(at(each)) for each in (19, 20, 21)] == [False, True, True]
    assert not holding.lacked_since(at(30))
    assert not lacking.held_since(at(30))
    assert timeline().lacked_since(at(0))


def test_a_mark_tells_what_happened_in_one_moment_apart() -> None:
    made = timeline(10)
    mark = made.mark
    made.note(at(10), False)
    assert not made.held_after(mark)
    made.note(at(10), True)
    made.note(at(10), False)
    assert made.held_after(mark)


def test_the_past_of_an_object_has_the_state_that_was_the_present_one_then() -> None:
    past = Past()
    for seconds in (10, 20, 30):
        obj = {"metadata": {"namespace": "default", "name": "train"}, "at": seconds}
        past.note(at(seconds), kinds.CLIQUESETS, obj, gone=seconds == 30)
    seen = {
        asked: [
            state and state["at"] for state in past.since(at(asked), kinds.CLIQUESETS, "default", "train")
        ]
        for asked in (5, 15, 20, 40)
    }
    assert seen == {5: [10, 20, None], 15: [10, 20, None], 20: [20, None], 40: [None]}
