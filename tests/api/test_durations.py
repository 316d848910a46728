"""Durations as Go reads them."""

from datetime import timedelta

import pytest

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
    "2562047h": timedelta(hours=2562047),
}


@pytest.mark.parametrize(("text", "want"), READ.items())
def test_every_form_that_go_takes_is_read(text: str, want: timedelta) -> None:
    assert durations.parse(text) == want


@pytest.mark.parametrize(
    "text",
    [
        "",
        "4",
        "4 h",
        "h",
        "4d",
        "1h30",
        "-",
        "four hours",
        "1h 2m",
        "9" * 40 + "h",
        "2562048h",
        "-2562048h",
        "70000000h",
        "١h",
    ],
)
def test_anything_else_is_refused_by_its_own_name(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        durations.parse(text)
