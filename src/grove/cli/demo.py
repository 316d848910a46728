"""`grove demo`: gangs being scheduled on the embedded cluster, told as it happens."""

from typing import Annotated

import typer

from grove.cli.up import Kubernetes


def demo(
    kubernetes: Annotated[Kubernetes, typer.Option(help="Which Kubernetes to be.")] = Kubernetes.V136,
    force: Annotated[
        bool, typer.Option("--force", help="Start even inside a pod of a real cluster.")
    ] = False,
) -> None:
    """Show gangs being scheduled, in seconds and without a cluster.

    Starts an embedded cluster and the operator, applies an example for each scheduler, shows what happens as
    the API server tells it, and leaves nothing behind. Fails if anything expected does not happen in time.
    """
    from grove.cli.loop import Interrupted, run_loop
    from grove.cli.showing import show
    from grove.runtime import logs

    logs.configure(level="error", format="text")
    try:
        run_loop(show(kubernetes.value, force=force))
    except Interrupted:
        raise typer.Exit(130) from None
