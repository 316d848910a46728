"""Durations as Kubernetes writes them: `4h0m0s`, `1m30s`, `250ms`.

`parse` takes every form that Go takes.
"""

import re
from datetime import timedelta
from typing import Final

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
#: What Go counts in 64 bits of nanoseconds, about 292 years; a date that much later can still be written.
_LONGEST: Final = timedelta(microseconds=(2**63 - 1) // 1000)


def parse(text: str) -> timedelta:
    """The duration that the text says; raises ValueError, with the reason, when it says none."""
    sign, digits = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    if digits == "0":
        return timedelta()
    seconds, position = 0.0, 0
    while position < len(digits):
        part = _PART.match(digits, position)
        if part is None:
            break
        seconds += float(part[1]) * _UNITS[part[2]]
        position = part.end()
    if position != len(digits) or not digits:
        raise ValueError(f"{text!r} is not a duration; write it like 4h0m0s, 90s or 1m30s")
    if seconds > _LONGEST.total_seconds():
        raise ValueError(f"{text!r} is longer than a duration can be, which is 2562047h")
    return sign * timedelta(seconds=seconds)
