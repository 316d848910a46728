"""Puts YuniKorn's configuration into a cluster: it needs no kinds, only a namespace and its queues.

Queues that pods name are honoured and made when they are missing; others are named after the namespace.
"""

from __future__ import annotations

from grove.embedded.actors.objects import NAMESPACES
from grove.embedded.actors.schedulers.installing import create
from grove.embedded.actors.schedulers.simulator import Actor, Difference, Simulator, Surroundings
from grove.embedded.actors.schedulers.yunikorn import CONFIG, CONFIG_MAPS, YuniKornScheduler
from grove.embedded.actors.schedulers.yunikorn_rules import PLACEHOLDER
from grove.embedded.errors import Manifest
from grove.embedded.local import ActorClient

NAMESPACE = "yunikorn"

QUEUES = """\
partitions:
  - name: default
    placementrules:
      - name: provided
        create: true
      - name: tag
        value: namespace
        create: true
    queues:
      - name: root
        submitacl: "*"
"""


def configuration(queues: str = QUEUES) -> Manifest:
    """The ConfigMap that YuniKorn reads."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG, "namespace": NAMESPACE},
        "data": {"queues.yaml": queues},
    }


async def install(client: ActorClient) -> None:
    """Create what is missing; what is there already is left as it is."""
    space: Manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    await create(client, NAMESPACES.collection(), space)
    await create(client, CONFIG_MAPS.collection(NAMESPACE), configuration())


def _actors(around: Surroundings) -> dict[str, Actor]:
    return {"yunikorn": YuniKornScheduler(around.client("yunikorn"), around.clock, mirrors=around.mirrors)}


DIFFERENCES = (
    Difference(
        "yunikorn-preemption",
        "The simulated YuniKorn preempts nobody.",
        "Nor does the real one within one queue, as Grove configures it.",
    ),
    Difference(
        "yunikorn-events",
        "The simulated YuniKorn counts the quotas of queues but none of users and groups, and its events "
        "about requests come at once, where the real one gathers them for up to two seconds.",
        "What the events say is the same; that they come after the condition of the pod is played.",
    ),
)

SIMULATOR = Simulator(_actors, install=install, placeholder=PLACEHOLDER, differences=DIFFERENCES)
