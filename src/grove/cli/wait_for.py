"""`grove wait-for`: the program of the init container, where the whole of Grove is installed."""

import typer

from grove.wait_for.main import main


def wait_for(context: typer.Context) -> None:
    """Wait until the pods of other cliques are ready."""
    raise typer.Exit(main(context.args))
