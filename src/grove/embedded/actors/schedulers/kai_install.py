"""Puts KAI's kinds and its two default queues into a cluster, so that a demo has something to schedule with.

Our own minimal definitions, with the fields that a gang needs; everything else is preserved unread.
"""

from __future__ import annotations

from grove.embedded.actors.objects import CRDS
from grove.embedded.actors.schedulers.installing import create, definitions_in, documents
from grove.embedded.actors.schedulers.kai import KaiScheduler
from grove.embedded.actors.schedulers.kai_rules import QUEUES
from grove.embedded.actors.schedulers.simulator import Actor, Difference, Simulator, Surroundings
from grove.embedded.errors import Manifest
from grove.embedded.local import ActorClient

FOLDER = "kai_crds"


def definitions() -> list[Manifest]:
    """The CRDs, as they are in the package."""
    return definitions_in(FOLDER)


def queues() -> list[Manifest]:
    """The default parent queue and its leaf."""
    return [obj for obj in documents(FOLDER) if obj["kind"] == "Queue"]


async def install(client: ActorClient) -> None:
    """Create what is missing; what is there already, of whatever version, is left as it is."""
    for crd in definitions():
        await create(client, CRDS.collection(), crd)
    for queue in queues():
        await create(client, QUEUES.collection(), queue, patient=True)


def _actors(around: Surroundings) -> dict[str, Actor]:
    return {"kai": KaiScheduler(around.client("kai"), around.clock, mirrors=around.mirrors)}


DIFFERENCES = (
    Difference(
        "kai-preemption",
        "The simulated KAI evicts whole groups even where a pod above the minimum would do.",
        "A gang that is evicted whole is the harder case.",
    ),
)

SIMULATOR = Simulator(_actors, definitions, install, beside_real=True, differences=DIFFERENCES)
