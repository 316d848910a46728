"""`grove up`: a cluster without a cluster, with the operator at work in it, until it is told to stop."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grove.cli.options import ContextOption, KubeconfigOption
from grove.cli.planes import Kind
from grove.cli.talk import emit, say

if TYPE_CHECKING:
    import asyncio

    from grove.api.config import OperatorConfiguration
    from grove.assembly import Operator
    from grove.cli.connect import Reached
    from grove.cli.planes import Plane
    from grove.embedded.nodes import NodeShape


class Kubernetes(StrEnum):
    """The Kubernetes minors that a local cluster can be."""

    V135 = "1.35"
    V136 = "1.36"
    V137 = "1.37"


#: What means nothing in a cluster that is already there; the nodes' shape does when nodes are played.
_LOCAL_ONLY = ("kubernetes", "data_dir", "write_kubeconfig", "port", "force")
_SHAPE = ("nodes", "gpus", "zones", "racks")
_GUEST_ONLY = ("kubeconfig", "context", "install_crds", "play_nodes")


def up(
    typed: typer.Context,
    control_plane: Annotated[
        Kind,
        typer.Option(
            help="embedded: inside this process; real: etcd and Kubernetes' own programs (make real); "
            "kubeconfig: a cluster that is already there."
        ),
    ] = Kind.EMBEDDED,
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
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    install_crds: Annotated[
        bool, typer.Option("--install-crds", help="Apply Grove's CRDs to the cluster of the kubeconfig.")
    ] = False,
    play_nodes: Annotated[
        bool,
        typer.Option("--play-nodes", help="Add --nodes simulated nodes to the cluster of the kubeconfig."),
    ] = False,
) -> None:
    """Start a local cluster and the operator in it.

    Its nodes and kubelets are simulated; so are its API server and schedulers, unless --control-plane real
    runs Kubernetes' own. KAI Scheduler is simulated in both.

    kubectl works with the kubeconfig that it prints. Everything ends and is removed when it is told to stop
    (Ctrl-C, SIGTERM, a closed terminal); only --data-dir stays, and the logs of a program that failed.

    With --control-plane kubeconfig, only the operator is started, in the cluster that is already there.
    """
    from grove.cli import local
    from grove.cli.loop import run_loop
    from grove.cli.operating import configuration_from, warnings_about
    from grove.runtime import logs

    _check_usage(typed, control_plane, play_nodes=play_nodes)
    if control_plane is not Kind.KUBECONFIG or play_nodes:
        local.require_embedded()
    configuration = configuration_from(config) if config is not None else local.configuration()
    for line in warnings_about(config):
        say(f"grove: {line}")
    logs.configure(
        level=configuration.log_level, format="json" if configuration.log_format == "json" else "text"
    )
    asked = Asked(
        control_plane,
        kubernetes.value,
        (nodes, gpus, zones, racks),
        port=port,
        data_dir=data_dir,
        write_kubeconfig=write_kubeconfig,
        force=force,
        kubeconfig=kubeconfig,
        context=context,
        install_crds=install_crds,
        play_nodes=play_nodes,
    )
    run_loop(_up(asked, configuration, with_operator=operator))


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of the command that say what cluster it is about."""

    kind: Kind
    minor: str
    #: Nodes, GPUs, zones, racks.
    numbers: tuple[int, int, int, int]
    port: int
    data_dir: Path | None
    write_kubeconfig: Path | None
    force: bool
    kubeconfig: str | None
    context: str | None
    install_crds: bool
    play_nodes: bool

    @property
    def shape(self) -> "NodeShape":
        from grove.embedded.nodes import NodeShape

        nodes, gpus, zones, racks = self.numbers
        return NodeShape(nodes=nodes, gpus=gpus, zones=zones, racks=racks)

    def plane(
        self, folder: Path, configuration: "OperatorConfiguration"
    ) -> "AbstractAsyncContextManager[Plane]":
        """The control plane that was asked for; files that are not asked for go to the folder."""
        from grove.cli import planes

        kubeconfig = self.write_kubeconfig or folder / "kubeconfig"
        if self.kind is Kind.KUBECONFIG:
            shape = self.shape if self.play_nodes else None
            return planes.guest_plane(planes.GuestRequest(self.kubeconfig, self.context, shape))
        if self.kind is Kind.REAL:
            request = planes.RealRequest(
                self.minor,
                self.shape,
                port=self.port,
                data_dir=self.data_dir,
                kai="kai" in configuration.scheduler.enabled_backends,
                force=self.force,
            )
            return planes.real_plane(request, kubeconfig)
        from grove.embedded.cluster import ClusterOptions

        nodes, gpus, zones, racks = self.numbers
        options = ClusterOptions(
            kubernetes=self.minor,
            nodes=nodes,
            gpus=gpus,
            zones=zones,
            racks=racks,
            port=self.port,
            data_dir=self.data_dir,
            force=self.force,
        )
        return planes.embedded_plane(options, kubeconfig)


def _check_usage(typed: typer.Context, kind: Kind, *, play_nodes: bool) -> None:
    """An option that would have no effect, or one that would reach somebody's nodes, is wrong usage."""
    given = {
        name
        for name in (*_LOCAL_ONLY, *_SHAPE, *_GUEST_ONLY)
        if (source := typed.get_parameter_source(name)) is not None and source.name == "COMMANDLINE"
    }
    if kind is not Kind.KUBECONFIG:
        for name in _GUEST_ONLY:
            if name in given:
                raise typer.BadParameter(f"{_flag(name)} goes with --control-plane kubeconfig only")
        return
    for name in _LOCAL_ONLY:
        if name in given:
            raise typer.BadParameter(f"{_flag(name)} has no meaning with --control-plane kubeconfig")
    if play_nodes and "nodes" not in given:
        raise typer.BadParameter("--play-nodes adds nodes to the cluster: say with --nodes how many")
    for name in _SHAPE:
        if name in given and not play_nodes:
            raise typer.BadParameter(
                f"{_flag(name)} would change nothing: nodes are added to a cluster that is already there "
                "only with --play-nodes"
            )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


async def _up(asked: Asked, configuration: "OperatorConfiguration", *, with_operator: bool) -> None:
    import tempfile

    from grove.cli.loop import Interrupted, stop_on_signals, unless_stopped

    with stop_on_signals() as stop, tempfile.TemporaryDirectory(prefix="grove-") as folder:
        try:
            await unless_stopped(
                _serve(asked, Path(folder), configuration, with_operator=with_operator), stop
            )
        except Interrupted:
            say("grove: stopped")


async def _serve(
    asked: Asked, folder: Path, configuration: "OperatorConfiguration", *, with_operator: bool
) -> None:
    """Everything, until cancelled; ends by itself only when the operator or the control plane fails."""
    from grove.cli.connect import connected
    from grove.cli.operating import limiter_of, operator_for, working

    limiter = limiter_of(configuration) if with_operator else None
    async with (
        asked.plane(folder, configuration) as plane,
        connected(plane.kubeconfig, plane.context, manager="grove-operator", limiter=limiter) as reached,
    ):
        await _furnish(reached, plane, configuration, install=asked.install_crds)
        say(f"grove: {plane.description}")
        if not with_operator:
            _point_at(plane)
            await plane.failed()
            return
        if not plane.ours:
            await _require_idle(reached, configuration)
        operator = await operator_for(reached, configuration)
        async with working(operator) as task:
            await _watch(plane, operator, task)


async def _furnish(
    reached: "Reached", plane: "Plane", configuration: "OperatorConfiguration", *, install: bool
) -> None:
    """Put Grove's kinds into a cluster of ours; into another when asked to, and say what that one lacks."""
    from grove.cli.lacking import lacking
    from grove.cli.local import install_crds

    if plane.ours or install:
        await install_crds(reached.client, play_kai=plane.plays_kai)
    if not plane.ours:
        for line in await lacking(reached.client, configuration):
            say(f"grove: {line}")


async def _require_idle(reached: "Reached", configuration: "OperatorConfiguration") -> None:
    """Two operators would undo each other's work, unless they elect one."""
    from grove.cli.lacking import at_work
    from grove.cli.talk import Failed

    if not configuration.leader_election.enabled and (other := await at_work(reached.client)):
        raise Failed(f"{other}; stop it first, or give a --config with leaderElection.enabled to stand by")


async def _watch(plane: "Plane", operator: "Operator", task: "asyncio.Task[None]") -> None:
    """Say when the operator works; raise when it or the control plane ends."""
    import asyncio

    broken = asyncio.ensure_future(plane.failed())
    ready = asyncio.ensure_future(operator.manager.working.wait())
    try:
        done, _ = await asyncio.wait({task, broken, ready}, return_when=asyncio.FIRST_COMPLETED)
        if ready in done:
            _point_at(plane)
            await asyncio.wait({task, broken}, return_when=asyncio.FIRST_COMPLETED)
        # A control plane that ended explains an operator that ended; not the other way round.
        (broken if broken.done() else task).result()
    finally:
        for each in (broken, ready):
            each.cancel()
        await asyncio.gather(broken, ready, return_exceptions=True)


def _point_at(plane: "Plane") -> None:
    """Say how kubectl finds the cluster: a line for the shell, unless its own settings find it already."""
    import shlex

    if plane.kubeconfig is None:
        say("grove: ready; kubectl finds the cluster as it did before")
    else:
        emit(f"export KUBECONFIG={shlex.quote(str(Path(plane.kubeconfig).absolute()))}")
