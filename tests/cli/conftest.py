"""How the tests run a command: in this process, with standard output and error apart."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from grove.cli.main import main

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ran:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str


Grove = Callable[..., Ran]


@pytest.fixture
def grove(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Grove:
    """Run `grove` with these arguments, outside of any cluster."""
    for name in [name for name in os.environ if name.startswith("KUBE")]:
        monkeypatch.delenv(name)

    def run(*arguments: str) -> Ran:
        code = main(arguments)
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    return run


@pytest.fixture
def examples() -> Path:
    return ROOT / "examples"
