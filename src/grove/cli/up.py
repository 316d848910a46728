"""`grove up`: a cluster without a cluster, with the operator at work in it, until it is told to stop."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grove.cli.talk import emit, say

if TYPE_CHECKING:
    from grove.api.config import OperatorConfiguration
    from grove.embedded.cluster import ClusterOptions


class Kubernetes(StrEnum):
    """The Kubernetes minors that the embedded cluster can be."""

    V135 = "1.35"
    V136 = "1.36"
    V137 = "1.37"


def up(
    nodes: Annotated[int, typer.Option(min=0, max=5000, help="How many nodes.")] = 4,
    gpus: Annotated[int, typer.Option(min=0, help="GPUs of each node.")] = 8,
    zones: Annotated[int, typer.Option(min=1, help="Zones that the nodes are spread over.")] = 1,
    racks: Annotated[int, typer.Option(min=1, help="Racks that the nodes are spread over.")] = 2,
    kubernetes: Annotated[Kubernetes, typer.Option(help="Which Kubernetes to be.")] = Kubernetes.V136,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Keep the objects here, to go on with them next time.", show_default=False),
    ] = None,
    write_kubeconfig: Annotated[
        Path | None,
        typer.Option(help="Write the kubeconfig here instead of to a temporary file.", show_default=False),
    ] = None,
    operator: Annotated[bool, typer.Option(help="Run the operator too.")] = True,
    force: Annotated[
        bool, typer.Option("--force", help="Start even inside a pod of a real cluster.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the API server; 0 for any.")] = 0,
    config: Annotated[
        str | None,
        typer.Option(help="OperatorConfiguration file; both schedulers if omitted.", show_default=False),
    ] = None,
) -> None:
    """Start a local cluster and the operator in it.

    Its nodes, kubelets and schedulers are simulated; its API is the real thing.

    kubectl works with the kubeconfig that it prints. Everything ends and is removed when it is told to stop
    (Ctrl-C, SIGTERM, a closed terminal); only --data-dir stays.
    """
    from grove.cli import local
    from grove.cli.loop import run_loop
    from grove.cli.operating import configuration_from, warnings_about
    from grove.runtime import logs

    local.require_embedded()
    from grove.embedded.cluster import ClusterOptions

    configuration = configuration_from(config) if config is not None else local.configuration()
    for line in warnings_about(config):
        say(f"grove: {line}")
    logs.configure(
        level=configuration.log_level, format="json" if configuration.log_format == "json" else "text"
    )
    options = ClusterOptions(
        kubernetes=kubernetes.value,
        nodes=nodes,
        gpus=gpus,
        zones=zones,
        racks=racks,
        port=port,
        data_dir=data_dir,
        force=force,
    )
    run_loop(_up(options, write_kubeconfig, configuration if operator else None))


async def _up(
    options: "ClusterOptions", kubeconfig: Path | None, configuration: "OperatorConfiguration | None"
) -> None:
    import tempfile

    from grove.cli.loop import Interrupted, stop_on_signals, unless_stopped

    with stop_on_signals() as stop, tempfile.TemporaryDirectory(prefix="grove-") as folder:
        try:
            await unless_stopped(
                _serve(options, kubeconfig or Path(folder) / "kubeconfig", configuration), stop
            )
        except Interrupted:
            say("grove: stopped")


async def _serve(
    options: "ClusterOptions", kubeconfig: Path, configuration: "OperatorConfiguration | None"
) -> None:
    """Everything, until cancelled; ends by itself only when the operator fails."""
    import asyncio

    from grove.cli.connect import connected
    from grove.cli.local import install_crds, local_cluster
    from grove.cli.operating import limiter_of, operator_for, working

    async with local_cluster(options, kubeconfig) as cluster:
        limiter = limiter_of(configuration) if configuration is not None else None
        async with connected(str(kubeconfig), None, manager="grove-operator", limiter=limiter) as reached:
            await install_crds(reached.client)
            say(
                f"grove: Kubernetes {options.kubernetes} (embedded) is up at {cluster.url} with "
                f"{options.nodes} nodes of {options.gpus} GPUs; stop it with Ctrl-C"
            )
            if configuration is None:
                _point_at(kubeconfig)
                await asyncio.Event().wait()
                return
            operator = await operator_for(reached, configuration)
            async with working(operator) as task:
                ready = asyncio.ensure_future(operator.manager.working.wait())
                await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
                ready.cancel()
                if not task.done():
                    _point_at(kubeconfig)
                await asyncio.wait({task})
                task.result()


def _point_at(kubeconfig: Path) -> None:
    """Say how kubectl finds the cluster: a line for the shell."""
    import shlex

    emit(f"export KUBECONFIG={shlex.quote(str(kubeconfig.absolute()))}")
