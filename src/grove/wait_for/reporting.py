"""Says what is waited for: a line in the log whenever it changes, and the last one in the pod's status."""

import contextlib
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

LOGGER = "grove-initc"
#: What a kubelet reads of a termination message.
_MOST_BYTES = 4096


class Reporter:
    """The log of the program and its termination message."""

    def __init__(self, termination_message: Path, *, format: str = "json", out: TextIO | None = None) -> None:
        self._message = termination_message
        self._format = format
        self._out = out or sys.stderr
        self._last = ""

    def tell(self, sentence: str, *, level: str = "info") -> None:
        """Say it, unless it was the last thing that was said."""
        if sentence == self._last:
            return
        self._last = sentence
        self._leave(sentence)
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"level": level, "ts": stamp, "logger": LOGGER, "msg": sentence}
        print(
            json.dumps(line) if self._format == "json" else f"{stamp} {sentence}", file=self._out, flush=True
        )

    def _leave(self, sentence: str) -> None:
        """Let the kubelet find it when the container ends. The file is the kubelet's: it is never created."""
        content = sentence.encode()[:_MOST_BYTES]
        with contextlib.suppress(OSError):
            file = os.open(self._message, os.O_WRONLY)
            try:
                # Shortened after it is written: a signal in between must not leave it empty.
                os.write(file, content)
                os.ftruncate(file, len(content))
            finally:
                os.close(file)
