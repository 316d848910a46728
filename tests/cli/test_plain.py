"""What the operator is started with is read without typer's reader, and means the same."""

import subprocess
import sys
from typing import Any

import pytest
import typer.main

from grove.cli.main import app
from grove.cli.plain import plainly
from grove.cli.run import run


def by_typer(words: list[str]) -> dict[str, Any]:
    """What typer makes of the words, without what was not given."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    context = commands["run"].make_context("run", list(words))
    return {name: value for name, value in context.params.items() if value not in (None, "")}


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--config", "operator.yaml"],
        ["--config=operator.yaml", "-n", "grove-system"],
        ["--namespace", "a=b", "--kubeconfig=x=y"],
        ["--log-level", "debug", "--log-format=json", "--context", "test"],
    ],
    ids=" ".join,
)
def test_plain_options_mean_what_typer_makes_of_them(words: list[str]) -> None:
    assert plainly(run, words) == by_typer(words)


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["-h"],
        ["operator.yaml"],
        ["--config"],
        ["--config="],
        ["--config", "--namespace"],
        ["--config", "a", "--config", "b"],
        ["--log-level", "loud"],
        ["--log-level", "DEBUG"],
        ["--configuration", "a"],
        ["-n=x"],
        ["-nx"],
        ["--", "--config", "a"],
    ],
    ids=" ".join,
)
def test_everything_else_is_left_to_typer(words: list[str]) -> None:
    assert plainly(run, words) is None


def test_the_operator_does_not_hold_the_reader_of_the_command_line() -> None:
    script = (
        "import sys; from grove.cli.main import main; "
        "code = main(['run', '--config', 'missing.yaml']); "
        "print(code, sorted(name for name in sys.modules if name.split('.')[0].startswith('pydantic')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout == "1 []\n"
    assert "missing.yaml" in done.stderr
