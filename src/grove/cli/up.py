"""`grove up`: a cluster without a cluster, with the operator at work in it, until it is told to stop."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from grove.cli import up_options as options
from grove.cli.asked import Asked, minor_for
from grove.cli.log_options import LogFormatOption, LogLevelOption, log_as
from grove.cli.options import ContextOption, KubeconfigOption
from grove.cli.planes import Kind
from grove.cli.talk import emit, say

if TYPE_CHECKING:
    import asyncio

    from grove.api.config import OperatorConfiguration
    from grove.assembly import Operator
    from grove.cli.connect import Reached
    from grove.cli.operating import LogAs
    from grove.cli.planes import Plane


def up(
    typed: typer.Context,
    control_plane: options.ControlPlane = Kind.EMBEDDED,
    nodes: options.Nodes = 4,
    gpus: options.Gpus = 8,
    zones: options.Zones = 1,
    racks: options.Racks = 2,
    kubernetes: options.WhichKubernetes = None,
    scheduler: options.WhichScheduler = options.KUBE_SCHEDULER,
    data_dir: options.DataDir = None,
    write_kubeconfig: options.WriteKubeconfig = None,
    operator: options.WithOperator = True,
    force: options.Force = False,
    port: options.Port = 0,
    config: options.Config = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    install_crds: options.InstallCrds = False,
    play_nodes: options.PlayNodes = False,
    log_level: LogLevelOption = None,
    log_format: LogFormatOption = None,
) -> None:
    """Start a local cluster and the operator in it.

    Its nodes and kubelets are simulated; so are its API server and schedulers, unless --control-plane real
    runs Kubernetes' own, with kube-scheduler or with the --scheduler of others.

    kubectl works with the kubeconfig that it prints. Everything ends and is removed when it is told to stop
    (Ctrl-C, SIGTERM, a closed terminal); only --data-dir stays, and the logs of a program that failed.

    With --control-plane kubeconfig, only the operator is started, in the cluster that is already there.
    """
    options.check_usage(typed, control_plane, play_nodes=play_nodes)
    other = "" if scheduler == options.KUBE_SCHEDULER else scheduler
    asked = Asked(
        control_plane,
        minor_for(other, kubernetes.value if kubernetes else None),
        other,
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
    _run(asked, config, log_as(log_level, log_format), with_operator=operator)


def _run(asked: Asked, config: str | None, logs: "LogAs", *, with_operator: bool) -> None:
    """Read the configuration, then run until told to stop."""
    from grove.cli import local
    from grove.cli.loop import run_loop
    from grove.cli.operating import configuration_from, warnings_about

    if asked.kind is not Kind.KUBECONFIG or asked.play_nodes:
        local.require_embedded()
    usual = local.configuration(asked.scheduler, real=asked.kind is Kind.REAL)
    configuration = configuration_from(config) if config is not None else usual
    for line in (*warnings_about(config, configuration), *_unserved(asked, configuration)):
        say(f"grove: {line}")
    logs(configuration)
    run_loop(_up(asked, configuration, with_operator=with_operator))


def _unserved(asked: Asked, configuration: "OperatorConfiguration") -> list[str]:
    """Says so when sets could go to a scheduler that neither runs nor is played here."""
    if asked.kind is not Kind.REAL:
        return []
    from grove.embedded.actors.schedulers.simulators import BESIDE_REAL
    from grove.extensions import registry_for

    registry = registry_for(configuration.scheduler)
    # Kubernetes' own is always enabled; that alone says nothing.
    here = {asked.scheduler or "default", "default", *BESIDE_REAL}
    found = [
        f"no scheduler serves {each.name} here; start one with --scheduler {each.name}"
        for each in registry.enabled
        if each.name not in here
    ]
    if asked.scheduler and registry.default.name == "default":
        found.append(
            f"only {asked.scheduler} runs here, but sets that name no scheduler go to default; "
            f"scheduler.defaultProfileName: {asked.scheduler} in the configuration changes that"
        )
    return found


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
        await install_crds(reached.client)
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
        say("grove: ready; kubectl reaches the cluster as before")
    else:
        emit(f"export KUBECONFIG={shlex.quote(str(Path(plane.kubeconfig).absolute()))}")
