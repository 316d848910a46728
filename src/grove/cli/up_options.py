"""The options of `grove up`, and which of them go together."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from grove.backends import folders
from grove.cli.planes import Kind


class Kubernetes(StrEnum):
    """The Kubernetes minors that a local cluster can be."""

    V135 = "1.35"
    V136 = "1.36"
    V137 = "1.37"


KUBE_SCHEDULER: Final = "kube-scheduler"
#: The schedulers that a real control plane can run: Kubernetes' own, which the backend `default` is for, or
#: that of another backend.
SCHEDULERS: Final = (KUBE_SCHEDULER, *(name for name in folders() if name != "default"))


def _known_scheduler(name: str) -> str:
    if name not in SCHEDULERS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(SCHEDULERS)}.")
    return name


ControlPlane = Annotated[
    Kind,
    typer.Option(
        help="embedded: inside this process; real: etcd and Kubernetes' own programs (make real); "
        "kubeconfig: a cluster that is already there."
    ),
]
Nodes = Annotated[int, typer.Option(min=0, max=5000, help="How many nodes.")]
Gpus = Annotated[int, typer.Option(min=0, help="GPUs of each node.")]
Zones = Annotated[int, typer.Option(min=1, help="Zones that the nodes are spread over.")]
Racks = Annotated[int, typer.Option(min=1, help="Racks that the nodes are spread over.")]
WhichKubernetes = Annotated[
    Kubernetes | None,
    typer.Option(
        help="Kubernetes minor to provide; 1.36 if omitted, or the newest that --scheduler is run on.",
        show_default=False,
    ),
]
WhichScheduler = Annotated[
    str,
    typer.Option(
        metavar=f"<{'|'.join(SCHEDULERS)}>",
        callback=_known_scheduler,
        help="With --control-plane real, the scheduler's own programs in place of kube-scheduler "
        "(make real SCHEDULERS=...).",
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(help="Keep the objects here, to go on with them next time.", show_default=False),
]
WriteKubeconfig = Annotated[
    Path | None,
    typer.Option(help="Write the kubeconfig here instead of to a temporary file.", show_default=False),
]
WithOperator = Annotated[bool, typer.Option(help="Run the operator too.")]
Force = Annotated[bool, typer.Option("--force", help="Start even inside a pod of a real cluster.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port of the API server; 0 for any.")]
Config = Annotated[
    str | None,
    typer.Option(
        help="OperatorConfiguration file; the schedulers of the cluster if omitted.", show_default=False
    ),
]
InstallCrds = Annotated[
    bool, typer.Option("--install-crds", help="Apply Grove's CRDs to the cluster of the kubeconfig.")
]
PlayNodes = Annotated[
    bool, typer.Option("--play-nodes", help="Add --nodes simulated nodes to the cluster of the kubeconfig.")
]

#: What means nothing in a cluster that is already there; the nodes' shape does when nodes are played.
_LOCAL_ONLY: Final = ("kubernetes", "scheduler", "data_dir", "write_kubeconfig", "port", "force")
_SHAPE: Final = ("nodes", "gpus", "zones", "racks")
_GUEST_ONLY: Final = ("kubeconfig", "context", "install_crds", "play_nodes")


def check_usage(typed: typer.Context, kind: Kind, *, play_nodes: bool) -> None:
    """An option that would have no effect, or one that would reach somebody's nodes, is wrong usage."""
    given = {
        name
        for name in (*_LOCAL_ONLY, *_SHAPE, *_GUEST_ONLY)
        if (source := typed.get_parameter_source(name)) is not None and source.name == "COMMANDLINE"
    }
    if kind is Kind.KUBECONFIG:
        _check_guest(given, play_nodes=play_nodes)
        return
    for name in _GUEST_ONLY:
        if name in given:
            raise typer.BadParameter(f"{_flag(name)} goes with --control-plane kubeconfig only")
    if "scheduler" in given and kind is not Kind.REAL:
        raise typer.BadParameter(
            "--scheduler goes with --control-plane real only: the embedded cluster simulates every scheduler"
        )


def _check_guest(given: set[str], *, play_nodes: bool) -> None:
    for name in _LOCAL_ONLY:
        if name in given:
            raise typer.BadParameter(f"{_flag(name)} has no meaning with --control-plane kubeconfig")
    if play_nodes and "nodes" not in given:
        raise typer.BadParameter("--play-nodes adds nodes to the cluster: give their number with --nodes")
    for name in _SHAPE:
        if name in given and not play_nodes:
            raise typer.BadParameter(
                f"{_flag(name)} would change nothing: nodes are added to a cluster that is already there "
                "only with --play-nodes"
            )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
