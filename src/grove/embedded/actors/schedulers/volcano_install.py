"""Puts Volcano's kinds, its two queues and its configuration into a cluster, so that it can schedule.

Our own minimal definitions, with the fields that a gang needs. The older ones are those before Volcano 1.14,
which had neither subgroups nor names of tiers.
"""

from __future__ import annotations

import copy

from grove.embedded.actors.objects import CRDS, MERGE, NAMESPACES, key_of
from grove.embedded.actors.schedulers.installing import create, definitions_in, documents
from grove.embedded.actors.schedulers.simulator import Actor, Difference, Simulator, Surroundings
from grove.embedded.actors.schedulers.volcano import VolcanoScheduler
from grove.embedded.actors.schedulers.volcano_controllers import VolcanoControllers
from grove.embedded.actors.schedulers.volcano_rules import CONFIG_MAPS, QUEUES
from grove.embedded.errors import Manifest
from grove.embedded.local import ActorClient

FOLDER = "volcano_crds"
_PATHS = {"Namespace": NAMESPACES, "ConfigMap": CONFIG_MAPS, "Queue": QUEUES}


def definitions(*, subgroups: bool = True) -> list[Manifest]:
    """The CRDs, as they are in the package; without subgroups those of a release before 1.14."""
    found = definitions_in(FOLDER)
    return found if subgroups else [_older(obj) for obj in found]


def furniture() -> list[Manifest]:
    """Namespace, configuration and queues, in the order in which they are made."""
    ranked = {kind: rank for rank, kind in enumerate(_PATHS)}
    rest = [obj for obj in documents(FOLDER) if obj["kind"] in ranked]
    return sorted(rest, key=lambda obj: ranked[obj["kind"]])


async def install(client: ActorClient, *, subgroups: bool = True) -> None:
    """Create what is missing; what is there already, of whatever version, is left as it is."""
    for crd in definitions(subgroups=subgroups):
        await create(client, CRDS.collection(), crd)
    for obj in furniture():
        resource = _PATHS[obj["kind"]]
        await create(client, resource.collection(obj["metadata"].get("namespace", "")), obj, patient=True)
        if obj["kind"] == "Queue":
            # As they are when Volcano has been running for a while; later ones are opened by its controller.
            status = {"status": {"state": "Open"}}
            await client.patch(QUEUES.path(key_of(obj), "status"), status, content_type=MERGE)


def _older(crd: Manifest) -> Manifest:
    older = copy.deepcopy(crd)
    for version in older["spec"]["versions"]:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        spec.pop("subGroupPolicy", None)
        spec.pop("tierName", None)
        (spec.get("networkTopology") or {}).get("properties", {}).pop("highestTierName", None)
    return older


def _actors(around: Surroundings) -> dict[str, Actor]:
    client, mirrors = around.client("volcano"), around.mirrors
    return {
        "volcano": VolcanoScheduler(client, around.clock, mirrors=mirrors),
        "volcano-controllers": VolcanoControllers(around.client("volcano"), mirrors=mirrors),
    }


DIFFERENCES = (
    Difference(
        "volcano-preemption",
        "The simulated Volcano preempts nobody.",
        "Nor does the real one within one queue, as Grove configures it.",
    ),
)

SIMULATOR = Simulator(_actors, definitions, install, differences=DIFFERENCES)
