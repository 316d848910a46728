"""Put a scheduler's kinds and first objects into a control plane, as its installation would."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import yaml

from grove.meta import Manifest, Resource, resource
from grove.real.failure import RealFailure
from grove.real.wire import Wire

CRDS: Final = resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", namespaced=False)
#: A new kind is served a moment after its definition was accepted.
_LOOKS: Final = 200
_LOOK_AGAIN_SECONDS: Final = 0.05


def definitions_in(paths: Iterable[Path]) -> list[Manifest]:
    """The CustomResourceDefinitions of files."""
    return [
        document
        for path in paths
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        if document
    ]


async def furnish(wire: Wire, url: str, kinds: Sequence[Manifest], objects: Sequence[Manifest]) -> None:
    """Returns when the kinds are served and the objects are there; what was there already stays as it is."""
    for kind in kinds:
        await wire.create(f"{url}{CRDS.path()}", kind)
    for kind in kinds:
        for path in _served_at(kind):
            await _until_served(wire, f"{url}{path}", str(kind["metadata"]["name"]))
    for item in objects:
        namespace = str(item["metadata"].get("namespace", ""))
        await wire.create(f"{url}{_resource(item).path(namespace)}", item)


async def _until_served(wire: Wire, url: str, name: str) -> None:
    for _ in range(_LOOKS):
        if await wire.answers(url)():
            return
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)
    raise RealFailure(f"the API server accepted the CustomResourceDefinition {name} but does not serve it")


def _served_at(definition: Manifest) -> list[str]:
    spec = definition["spec"]
    names, group = spec["names"], str(spec["group"])
    return [
        resource(group, str(each["name"]), str(names["kind"]), str(names["plural"])).path()
        for each in spec["versions"]
        if each.get("served")
    ]


def _resource(item: Manifest) -> Resource:
    group, _, version = str(item["apiVersion"]).rpartition("/")
    kind = str(item["kind"])
    plural = f"{kind.lower()[:-1]}ies" if kind.endswith("y") else ""
    return resource(group, version, kind, plural, namespaced="namespace" in item["metadata"])
