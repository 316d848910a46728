"""Find sets, gangs and all that belongs to them in a cluster, by the labels that they carry. Reads only."""

import asyncio
from collections.abc import Sequence
from typing import Final

from grove.api import kinds, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.backends.base import Cluster, Context
from grove.backends.registry import BUILT_INS
from grove.cli.talk import Failed
from grove.errors import Forbidden, NotFound
from grove.extensions import installed
from grove.kube.client import Client
from grove.meta import Manifest, Resource, resource
from grove.view.pods import ShownPod
from grove.view.world import World

NODES: Final = resource("", "v1", "Node", namespaced=False)


async def find(client: Client, namespace: str, name: str = "", *, nodes: bool = False) -> World:
    """The sets and gangs of a namespace (of all, when it is blank), or one set, and what is below.

    With `nodes` also the nodes, as far as one may see them.
    """
    fields = f"metadata.name={name}" if name else ""
    try:
        sets = await client.list_all(kinds.CLIQUESETS, type=PodCliqueSet, namespace=namespace, fields=fields)
    except NotFound:
        raise Failed(
            f"the cluster does not serve {kinds.CLIQUESETS}; "
            "install Grove's CRDs first: grove crds | kubectl apply --server-side -f -"
        ) from None
    if name and not sets:
        return World(())
    # Without a name also gangs that belong to no set, which others made, with pods of theirs.
    ours = f"{labels.MANAGED_BY}={labels.MANAGER}"
    selector = f"{ours},{labels.PART_OF}={name}" if name else ours
    everything = selector if name else ""
    gangs, cliques, groups, pods, objects = await asyncio.gather(
        client.list_all(kinds.GANGS, type=PodGang, namespace=namespace, labels=everything),
        client.list_all(kinds.CLIQUES, type=PodClique, namespace=namespace, labels=selector),
        client.list_all(
            kinds.SCALING_GROUPS, type=PodCliqueScalingGroup, namespace=namespace, labels=selector
        ),
        client.list_all(
            kinds.PODS, type=ShownPod, namespace=namespace, labels=selector if name else labels.POD_GANG
        ),
        _scheduler_objects(client, namespace, selector),
    )
    seen = await _nodes(client) if nodes else []
    return World(sets, gangs, cliques, pods, objects, seen, scaling_groups=groups)


async def _nodes(client: Client) -> list[Manifest]:
    try:
        return await client.list_all(NODES, type=dict)
    except Forbidden:
        return []


async def scheduler_resources(client: Client) -> Sequence[Resource]:
    """The kinds that any installed backend writes in this cluster."""
    discovery = await client.discover()
    context = Context(Cluster(discovery.served))
    backends = [make() for make in BUILT_INS.values()]
    backends += [each.backend for each in installed() if each.backend is not None]
    found = [each for backend in backends for each in backend.resources(context)]
    return [each for each in dict.fromkeys(found) if context.cluster.serves(each)]


async def _scheduler_objects(client: Client, namespace: str, selector: str) -> list[Manifest]:
    """Every scheduler object of these sets that we may read."""
    found: list[Manifest] = []
    for each in await scheduler_resources(client):
        try:
            found += await client.list_all(each, type=dict, namespace=namespace, labels=selector)
        except Forbidden:
            # Who may see pods but not the scheduler's objects still gets the rest of the tree.
            continue
    return found
