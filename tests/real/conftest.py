"""Stand-ins for programs, so that most of this room needs neither Go nor Kubernetes."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Program = Callable[[Path, str], Path]


@pytest.fixture
def program() -> Program:
    """Writes an executable whose body is Python."""

    def write(path: Path, body: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!{sys.executable} -S\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return write
