"""Durations as Go reads and prints them."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grove.api import durations

READ = {
    "4h0m0s": timedelta(hours=4),
    "4h": timedelta(hours=4),
    "90s": timedelta(seconds=90),
    "1m30s": timedelta(seconds=90),
    "250ms": timedelta(milliseconds=250),
    "1.5h": timedelta(minutes=90),
    "-1m": timedelta(minutes=-1),
    "0": timedelta(),
    "10µs": timedelta(microseconds=10),
}


@pytest.mark.parametrize(("text", "want"), READ.items())
def test_every_form_that_go_takes_is_read(text: str, want: timedelta) -> None:
    assert durations.parse(text) == want


@pytest.mark.parametrize(
    "text", ["", "4", "4 h", "h", "4d", "1h30", "-", "four hours", "1h 2m", "9" * 40 + "h"]
)
def test_anything_else_is_refused_by_its_own_name(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        durations.parse(text)


PRINTED = {
    timedelta(hours=4): "4h0m0s",
    timedelta(minutes=1): "1m0s",
    timedelta(seconds=90): "1m30s",
    timedelta(seconds=5): "5s",
    timedelta(): "0s",
    timedelta(milliseconds=250): "250ms",
    timedelta(seconds=1.5): "1.5s",
    timedelta(hours=-1): "-1h0m0s",
}


@pytest.mark.parametrize(("duration", "want"), PRINTED.items())
def test_a_duration_is_printed_as_go_prints_it(duration: timedelta, want: str) -> None:
    assert durations.canonical(duration) == want


@given(st.integers(min_value=0, max_value=10**9))
def test_what_is_printed_is_read_back(seconds: int) -> None:
    duration = timedelta(seconds=seconds)
    assert durations.parse(durations.canonical(duration)) == duration
