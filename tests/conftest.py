"""What holds for every test: none leaves the process otherwise than it found it."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """Programs of ours that run in this process configure the log, which would hide records from later tests."""
    root = logging.getLogger("grove")
    before = (list(root.handlers), root.level, root.propagate)
    yield
    root.handlers[:], root.level, root.propagate = before
