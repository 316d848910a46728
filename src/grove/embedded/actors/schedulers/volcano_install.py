"""Puts Volcano's kinds, its two queues and its configuration into a cluster, so that it can schedule.

Our own minimal definitions, with the fields that a gang needs. The older ones are those before Volcano 1.14,
which had neither subgroups nor names of tiers.
"""

from __future__ import annotations

import asyncio
import copy
import functools
from importlib import resources

import yaml

from grove.embedded.actors.objects import CRDS, MERGE, NAMESPACES, key_of
from grove.embedded.actors.schedulers.volcano_rules import CONFIG_MAPS, QUEUES
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import ActorClient

TRIES = 50
PAUSE = 0.1
_PATHS = {"Namespace": NAMESPACES, "ConfigMap": CONFIG_MAPS, "Queue": QUEUES}


def definitions(*, subgroups: bool = True) -> list[Manifest]:
    """The CRDs, as they are in the package; without subgroups those of a release before 1.14."""
    found = [obj for obj in _documents() if obj["kind"] == "CustomResourceDefinition"]
    return found if subgroups else [_older(obj) for obj in found]


def furniture() -> list[Manifest]:
    """Namespace, configuration and queues, in the order in which they are made."""
    ranked = {kind: rank for rank, kind in enumerate(_PATHS)}
    rest = [obj for obj in _documents() if obj["kind"] in ranked]
    return sorted(rest, key=lambda obj: ranked[obj["kind"]])


async def install(client: ActorClient, *, subgroups: bool = True) -> None:
    """Create what is missing; what is there already, of whatever version, is left as it is."""
    for crd in definitions(subgroups=subgroups):
        await _create(client, CRDS.collection(), crd)
    for obj in furniture():
        resource = _PATHS[obj["kind"]]
        await _create(client, resource.collection(obj["metadata"].get("namespace", "")), obj, patient=True)
        if obj["kind"] == "Queue":
            # As they are when Volcano has been running for a while; later ones are opened by its controller.
            status = {"status": {"state": "Open"}}
            await client.patch(QUEUES.path(key_of(obj), "status"), status, content_type=MERGE)


@functools.cache
def _documents() -> list[Manifest]:
    folder = resources.files("grove.embedded.actors.schedulers") / "volcano_crds"
    found: list[Manifest] = []
    for file in sorted(folder.iterdir(), key=lambda each: each.name):
        if file.name.endswith(".yaml"):
            found += [obj for obj in yaml.safe_load_all(file.read_text(encoding="utf-8")) if obj]
    return found


def _older(crd: Manifest) -> Manifest:
    older = copy.deepcopy(crd)
    for version in older["spec"]["versions"]:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        spec.pop("subGroupPolicy", None)
        spec.pop("tierName", None)
        (spec.get("networkTopology") or {}).get("properties", {}).pop("highestTierName", None)
    return older


async def _create(client: ActorClient, path: str, obj: Manifest, *, patient: bool = False) -> None:
    for attempt in range(TRIES):
        try:
            await client.create(path, obj)
            return
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return
            # A new kind is served a moment after its definition was accepted.
            if not patient or error.status != 404 or attempt == TRIES - 1:
                raise
        await asyncio.sleep(PAUSE)
