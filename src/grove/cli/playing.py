"""Play the kubelets of nodes on a control plane that has none: Nodes, their pods' lives, schedulers.

The players are those of the embedded cluster, and act through the API server like anybody else. On a cluster
of our own they play every node; on somebody else's only the nodes that this command has made, which go again
at the end. Never writes to another node, nor to a pod that is on one.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from grove.backends.sample import sample_of
from grove.cli.guests import GuestClient, OnlyNodes
from grove.cli.talk import Failed, say
from grove.embedded.actors import waiting
from grove.embedded.actors.kubelet import Kubelet
from grove.embedded.actors.mirror import Mirrors
from grove.embedded.actors.nodes import NodeKeeper, NodeOptions
from grove.embedded.actors.objects import NODES, labels_of, uid_of
from grove.embedded.actors.schedulers.simulator import Actor, Surroundings
from grove.embedded.actors.schedulers.simulators import SIMULATORS
from grove.embedded.clock import SystemClock, rfc3339
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import ActorClient
from grove.embedded.nodes import NodeShape, node_objects
from grove.embedded.remote import RemoteClient
from grove.words import counted

#: On the nodes that we made in somebody else's cluster: ours to play and to remove.
PLAYED: Final = "embedded.grove.io/played"
#: A node controller that watches leases gives up after 40 s.
_HEARTBEAT_SECONDS: Final = 10.0
_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class Players:
    """Who plays at this moment."""

    tasks: tuple["asyncio.Task[None]", ...]

    async def failed(self) -> NoReturn:
        """Returns never; raises when a player ends although nobody asked it to."""
        done, _ = await asyncio.wait(self.tasks, return_when=asyncio.FIRST_COMPLETED)
        ended = done.pop()
        why = ended.exception()
        raise Failed(f"the simulated {ended.get_name()} ended: {why or 'for no known reason'}") from why


@contextlib.asynccontextmanager
async def playing(
    client: RemoteClient, shape: NodeShape, *, version: str, schedulers: Sequence[str] = ()
) -> AsyncIterator[Players]:
    """Every node of a cluster that is ours alone, those of the shape first; and these schedulers."""
    for name in schedulers:
        await SIMULATORS[name].install(client)
    await _each(_create(client, node) for node in _shaped(shape, version))
    options, accounts = NodeOptions(version=version), waiting.issued_by(client)
    async with _running(client, options, accounts, schedulers) as players:
        yield players


@contextlib.asynccontextmanager
async def playing_guests(client: GuestClient, shape: NodeShape, *, version: str) -> AsyncIterator[Players]:
    """Nodes of ours in somebody else's cluster, and nothing but these; they are removed at the end."""
    nodes = [_marked(node) for node in _shaped(shape, version)]
    names = frozenset(str(node["metadata"]["name"]) for node in nodes)
    guarded = OnlyNodes(client, names)
    for node in nodes:
        await _claim(client, node["metadata"]["name"])
    try:
        await _each(_create(client, node) for node in nodes)
        options = NodeOptions(version=version, heartbeat_seconds=_HEARTBEAT_SECONDS)
        # Pods that wait look for others on all nodes, and as us: tokens are not ours to ask for here.
        async with _running(guarded, options, waiting.always(client)) as players:
            yield players
    finally:
        await _remove(client, names)


@contextlib.asynccontextmanager
async def _running(
    client: ActorClient, options: NodeOptions, accounts: waiting.Accounts, schedulers: Sequence[str] = ()
) -> AsyncIterator[Players]:
    clock, mirrors = SystemClock(), Mirrors(client)
    actors: list[tuple[str, Actor]] = [
        ("nodes", NodeKeeper(client, clock, mirrors=mirrors, options=options)),
        ("kubelets", Kubelet(client, clock, mirrors=mirrors, wait=waiting.in_process(accounts))),
    ]
    around = Surroundings(
        lambda _: client, clock, mirrors, options.version.removeprefix("v").rpartition(".")[0]
    )
    for name in schedulers:
        title = sample_of(name).title
        actors += [(title, actor) for actor in SIMULATORS[name].actors(around).values()]
    tasks = tuple(asyncio.create_task(actor.run(), name=name) for name, actor in actors)
    try:
        yield Players(tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await mirrors.close()


def _shaped(shape: NodeShape, version: str) -> list[Manifest]:
    return node_objects(shape, version=version, now=rfc3339(SystemClock().now()))


def _marked(node: Manifest) -> Manifest:
    name = f"grove-{node['metadata']['name']}"
    labels = {**node["metadata"]["labels"], "kubernetes.io/hostname": name, PLAYED: "true"}
    return {**node, "metadata": {"name": name, "labels": labels}}


async def _create(client: ActorClient, node: Manifest) -> None:
    try:
        await client.create(NODES.collection(), node)
    except ApiError as error:
        # Kept from an earlier run.
        if error.reason != "AlreadyExists":
            raise


async def _claim(client: ActorClient, name: str) -> None:
    """Raises when there is a node of that name which is not ours."""
    try:
        node = await client.get(NODES.path(("", name)))
    except ApiError as error:
        if error.status == 404:
            return
        raise
    if labels_of(node).get(PLAYED) != "true":
        raise Failed(
            f"the cluster has a node {name!r} that grove did not make: it is left alone, no node is simulated"
        )


async def _remove(client: ActorClient, names: Collection[str]) -> None:
    """Take our nodes away again; the cluster's own controllers then collect the pods that were there."""
    left: list[str] = []

    async def remove(name: str) -> None:
        path = NODES.path(("", name))
        try:
            node = await client.get(path)
            if labels_of(node).get(PLAYED) == "true":
                await client.delete(path, {"preconditions": {"uid": uid_of(node)}})
        except ApiError as error:
            if error.status != 404:
                left.append(name)
        except (OSError, TimeoutError):
            left.append(name)

    await _each(remove(name) for name in sorted(names))
    if left:
        say(f"grove: could not remove {counted(len(left), 'node')}: kubectl delete nodes -l {PLAYED}=true")


async def _each(work: Iterable[Coroutine[None, None, None]]) -> None:
    """Do all of it, a few at a time; the first failure ends the rest."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(each: Coroutine[None, None, None]) -> None:
        async with slots:
            await each

    all_of_it = list(work)
    tasks = [asyncio.create_task(one(each)) for each in all_of_it]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in all_of_it:
            # What was never begun would complain that nobody waited for it.
            each.close()
