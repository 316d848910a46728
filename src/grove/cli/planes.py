"""The three kinds of control plane that `grove up` can work with, behind one small value.

`embedded` is the cluster that needs no cluster; `real` is etcd, kube-apiserver, kube-controller-manager and
kube-scheduler on this machine, with simulated nodes; `kubeconfig` is a cluster that is already there, in
which nothing is changed that was not asked for. What was started or written is gone when the block is left.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from grove.cli.talk import Failed, say
from grove.words import counted, file_problem

if TYPE_CHECKING:
    from grove.embedded.cluster import ClusterOptions
    from grove.embedded.nodes import NodeShape

_IN_CLUSTER: Final = "KUBERNETES_SERVICE_HOST"
_MASTERS: Final = "system:masters"
_ALL_SIMULATED: Final = (
    "the schedulers shown here are simulations on an embedded cluster, not the schedulers' own programs; "
    "no container runs; the operator is the real one"
)
_NODES_SIMULATED: Final = "the nodes are simulations: no container runs"
_BESIDE_REAL_SIMULATED: Final = (
    "Kubernetes' own programs are the real ones; {} and the nodes are simulations, and no container runs"
)


class Kind(StrEnum):
    """Where the API server comes from."""

    EMBEDDED = "embedded"
    REAL = "real"
    KUBECONFIG = "kubeconfig"


async def _for_ever() -> None:
    await asyncio.Event().wait()


@dataclass(frozen=True, slots=True)
class Plane:
    """A control plane that answers."""

    #: How a client finds it; None for what the environment says.
    kubeconfig: str | None
    url: str
    #: What it is, for the line that says that it is up.
    description: str
    context: str | None = None
    #: Whether it is ours alone, to be furnished with Grove's kinds.
    ours: bool = True
    #: What of it is not the real thing, in plain words.
    simulated: str = ""
    #: Returns never while all is well; raises when a part of it ended by itself.
    failed: Callable[[], Awaitable[None]] = _for_ever


@dataclass(frozen=True, slots=True)
class RealRequest:
    """What is asked of a real control plane on this machine."""

    minor: str
    shape: "NodeShape"
    port: int = 0
    data_dir: Path | None = None
    #: The schedulers that are simulated beside the real one, by the names of their backends.
    simulated: tuple[str, ...] = ()
    #: A scheduler of others in place of kube-scheduler.
    scheduler: str = ""
    force: bool = False
    say: Callable[[str], None] = say


@dataclass(frozen=True, slots=True)
class GuestRequest:
    """What is asked of a cluster that is already there."""

    kubeconfig: str | None
    context: str | None
    #: The nodes to play in it; None for none.
    shape: "NodeShape | None" = None


@contextlib.asynccontextmanager
async def embedded_plane(options: "ClusterOptions", kubeconfig: Path) -> AsyncIterator[Plane]:
    """The embedded cluster; its nodes, kubelets and schedulers are simulated."""
    from grove.cli.local import local_cluster

    async with local_cluster(options, kubeconfig) as cluster:
        name = f"Kubernetes {options.kubernetes} (embedded)"
        description = f"{name}{_up_at(cluster.url, options.shape, cluster.number_of_nodes())}"
        yield Plane(str(kubeconfig), cluster.url, description, simulated=_ALL_SIMULATED)


@contextlib.asynccontextmanager
async def real_plane(request: RealRequest, kubeconfig: Path) -> AsyncIterator[Plane]:
    """Kubernetes' own programs, with simulated nodes; raises what keeps them from starting or running."""
    from grove.api.crd import definitions
    from grove.cli.playing import playing
    from grove.embedded.actors.schedulers.simulators import SIMULATORS
    from grove.embedded.remote import RemoteClient, address_from
    from grove.real import Options, RealControlPlane

    _refuse_in_pod(force=request.force)
    brought = [kind for name in request.simulated for kind in SIMULATORS[name].definitions()]
    options = Options(
        minor=request.minor,
        third_party=request.scheduler,
        kinds=(*definitions(), *brought),
        port=request.port,
        directory=request.data_dir,
        keep=request.data_dir is not None,
        say=request.say,
    )
    async with contextlib.AsyncExitStack() as stack:
        plane = await stack.enter_async_context(RealControlPlane(options))
        try:
            plane.kubeconfig(kubeconfig)
        except OSError as error:
            raise Failed(f"the kubeconfig cannot be written: {file_problem(error)}") from None
        stack.callback(kubeconfig.unlink, missing_ok=True)
        own = plane.kubeconfig_for("grove:nodes", (_MASTERS,))
        client = RemoteClient(address_from(own), agent="grove-nodes")
        stack.push_async_callback(client.close)
        version = f"v{plane.release.version}"
        players = await stack.enter_async_context(
            playing(client, request.shape, version=version, schedulers=request.simulated)
        )

        async def failed() -> None:
            await first(plane.wait(), players.failed())

        name = f"Kubernetes {plane.release.version} (real)"
        if plane.third_party is not None:
            name += f" with {plane.third_party.label}"
        description = f"{name}{_up_at(plane.url, request.shape)}"
        yield Plane(
            str(kubeconfig),
            plane.url,
            description,
            simulated=_simulated(request.simulated),
            failed=failed,
        )


@contextlib.asynccontextmanager
async def guest_plane(request: GuestRequest) -> AsyncIterator[Plane]:
    """A cluster that is already there; played nodes, if asked for, are removed at the end."""
    from grove.cli.connect import connected
    from grove.errors import Unreachable

    async with contextlib.AsyncExitStack() as stack:
        reached = await stack.enter_async_context(
            connected(request.kubeconfig, request.context, manager="grove-up")
        )
        server, name = reached.connection.server, reached.connection.context
        try:
            version = (await reached.client.version()).git_version
        except Unreachable as error:
            raise Failed(f"cannot reach the API server {server} (context {name!r}): {error}") from None
        description = f"Kubernetes {version.removeprefix('v')} (context {name!r}) answers at {server}"
        failed: Callable[[], Awaitable[None]] = _for_ever
        if request.shape is not None:
            failed = await _play_guests(stack, request, request.shape, version)
            many = counted(request.shape.nodes, "simulated node")
            description += f"; {many} joined, on which no container runs"
        yield Plane(
            request.kubeconfig, server, description, context=request.context, ours=False, failed=failed
        )


async def _play_guests(
    stack: contextlib.AsyncExitStack, request: GuestRequest, shape: "NodeShape", version: str
) -> Callable[[], Awaitable[None]]:
    from grove.cli.guests import GuestClient
    from grove.cli.playing import playing_guests
    from grove.embedded.errors import ApiError
    from grove.kube.config import load
    from grove.kube.transport import HttpTransport

    transport = HttpTransport(load(request.kubeconfig, request.context))
    stack.push_async_callback(transport.close)
    client = GuestClient(transport, agent="grove-nodes")
    try:
        players = await stack.enter_async_context(playing_guests(client, shape, version=version))
    except ApiError as error:
        raise Failed(f"nodes cannot be simulated in this cluster: {error.message}") from None
    return players.failed


def _refuse_in_pod(*, force: bool) -> None:
    if os.environ.get(_IN_CLUSTER) and not force:
        raise Failed(
            f"{_IN_CLUSTER} is set: this looks like a pod of a real cluster, where a second control plane "
            "would only confuse; start it anyway with --force"
        )


def _simulated(schedulers: Sequence[str]) -> str:
    """What is not the real thing beside Kubernetes' own programs."""
    from grove.backends.sample import sample_of

    if not schedulers:
        return _NODES_SIMULATED
    return _BESIDE_REAL_SIMULATED.format(", ".join(sample_of(name).title for name in schedulers))


def _up_at(url: str, shape: "NodeShape", there: int | None = None) -> str:
    """Where a cluster is and with which nodes: those that were stored, where it goes on from its data."""
    nodes = f"{counted(shape.nodes, 'node')} of {shape.gpus} GPUs"
    if there is not None and there != shape.nodes:
        nodes = f"the {counted(there, 'node')} that its data directory has"
    return f" is up at {url} with {nodes}; stop it with Ctrl-C"


async def first(*work: Awaitable[None]) -> None:
    """Until one of them ends, well or not; the others are cancelled."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        done.pop().result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
