"""`grove demo`: gangs being scheduled on a local cluster, told as it happens."""

from enum import StrEnum
from typing import Annotated

import typer

from grove.cli.up_options import Kubernetes


class Stand(StrEnum):
    """The control planes on which the demonstration can be given."""

    EMBEDDED = "embedded"
    REAL = "real"


def demo(
    control_plane: Annotated[
        Stand,
        typer.Option(
            help="embedded: inside this process; real: etcd and Kubernetes' own programs (make real)."
        ),
    ] = Stand.EMBEDDED,
    kubernetes: Annotated[Kubernetes, typer.Option(help="Kubernetes minor to provide.")] = Kubernetes.V136,
    force: Annotated[
        bool, typer.Option("--force", help="Start even inside a pod of a real cluster.")
    ] = False,
) -> None:
    """Show gangs being scheduled, in seconds and without a cluster.

    Starts a local cluster and the operator, applies an example for each scheduler, shows what happens as
    the API server tells it, and leaves nothing behind. Fails if anything expected does not happen in time.
    """
    from grove.cli.loop import Interrupted, run_loop
    from grove.cli.showing import show
    from grove.runtime import logs

    logs.configure(level="error", format="text")
    try:
        run_loop(show(kubernetes.value, real=control_plane is Stand.REAL, force=force))
    except Interrupted:
        raise typer.Exit(130) from None
