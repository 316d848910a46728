"""Puts Koordinator's kinds into a cluster.

Our own minimal definitions, with the fields that a gang needs. No ClusterNetworkTopology is made: a real
installation has none until its administrator describes the network.
"""

from __future__ import annotations

import functools
from importlib import resources

import yaml

from grove.embedded.actors.objects import CRDS
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import ActorClient


@functools.cache
def definitions() -> tuple[Manifest, ...]:
    """The CRDs, as they are in the package."""
    folder = resources.files("grove.embedded.actors.schedulers") / "koordinator_crds"
    files = sorted(
        (each for each in folder.iterdir() if each.name.endswith(".yaml")), key=lambda each: each.name
    )
    return tuple(yaml.safe_load(each.read_text(encoding="utf-8")) for each in files)


async def install(client: ActorClient) -> None:
    """Create what is missing; what is there already, of whatever version, is left as it is."""
    for crd in definitions():
        try:
            await client.create(CRDS.collection(), crd)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
