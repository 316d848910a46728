"""Say how far a long step is: one line that rewrites itself on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

#: How often a line is written where lines cannot be rewritten, for instance in the log of a CI run.
QUIET_SECONDS = 30.0


def say(line: str) -> None:
    """A sentence for the person who waits; data never comes this way."""
    print(line, file=sys.stderr, flush=True)


def elapsed(seconds: float) -> str:
    """`42 s` or `3 min 07 s`."""
    whole = int(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02d} s"


class ProgressLine:
    """The steps of one program: downloading, building, done."""

    def __init__(
        self, label: str, *, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._label = label
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._begin = clock()
        self._last_line = clock()
        self._rewrites = self._stream.isatty()
        self._what = ""

    def update(self, what: str) -> None:
        """Shows the present state if it is time to."""
        now = self._clock()
        took = elapsed(now - self._begin)
        if self._rewrites:
            self._stream.write(f"\r\x1b[K  {self._label}: {what} ({took})")
        elif _step(what) != _step(self._what) or now - self._last_line >= QUIET_SECONDS:
            self._stream.write(f"  {self._label}: {what} ({took})\n")
            self._last_line = now
        self._what = what
        self._stream.flush()

    def finish(self, what: str) -> None:
        """Shows how it ended, on a line that stays."""
        start = "\r\x1b[K" if self._rewrites else ""
        self._stream.write(f"{start}  {self._label}: {what} ({elapsed(self._clock() - self._begin)})\n")
        self._stream.flush()


def _step(what: str) -> str:
    return what.partition(" ")[0].rstrip(",")
