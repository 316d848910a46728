"""`grove version`: which Grove this is."""

import platform
from typing import Annotated

import typer

from grove import __version__
from grove.cli.talk import Format, dumped, emit


def show(asked: bool) -> None:
    """Print the version before anything else is looked at."""
    if asked:
        emit(f"grove {__version__}")
        raise typer.Exit


def version(
    output: Annotated[
        Format | None, typer.Option("--output", "-o", help="Print as data instead of as a line.")
    ] = None,
) -> None:
    """Print the version of Grove."""
    if output is None:
        emit(f"grove {__version__}")
    else:
        emit(dumped({"grove": __version__, "python": platform.python_version()}, output))
