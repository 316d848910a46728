"""Puts Koordinator's kinds into a cluster.

Our own minimal definitions, with the fields that a gang needs. No ClusterNetworkTopology is made: a real
installation has none until its administrator describes the network.
"""

from __future__ import annotations

from grove.embedded.actors.objects import CRDS
from grove.embedded.actors.schedulers.installing import create, definitions_in
from grove.embedded.actors.schedulers.koordinator import KoordinatorScheduler
from grove.embedded.actors.schedulers.simulator import Actor, Difference, Simulator, Surroundings
from grove.embedded.errors import Manifest
from grove.embedded.local import ActorClient


def definitions() -> list[Manifest]:
    """The CRDs, as they are in the package."""
    return definitions_in("koordinator_crds")


async def install(client: ActorClient) -> None:
    """Create what is missing; what is there already, of whatever version, is left as it is."""
    for crd in definitions():
        await create(client, CRDS.collection(), crd)


def _actors(around: Surroundings) -> dict[str, Actor]:
    client = around.client("koordinator")
    return {"koordinator": KoordinatorScheduler(client, around.clock, mirrors=around.mirrors)}


DIFFERENCES = (
    Difference(
        "koordinator-preemption",
        "The simulated Koordinator evicts nobody for a gang that must be in one topology domain.",
        "Such a gang waits until there is room, which is what its reasons are tested with.",
    ),
    Difference(
        "elastic-quotas",
        "The simulated Koordinator counts no ElasticQuota and writes no `scheduleStartTime` into PodGroups.",
        "A quota that is full only makes a gang wait; that one is missing is what Grove looks at.",
    ),
)

SIMULATOR = Simulator(_actors, definitions, install, differences=DIFFERENCES)
