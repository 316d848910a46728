"""Puts what a scheduler brings along into a cluster: the files of its folder here, each object created once.

What is there already, of whatever version, is left as it is.
"""

from __future__ import annotations

import asyncio
import functools
from importlib import resources

import yaml

from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import ActorClient

TRIES = 50
PAUSE = 0.1


@functools.cache
def documents(folder: str) -> tuple[Manifest, ...]:
    """Every object in the YAML files of a folder of this package, by the names of the files."""
    found: list[Manifest] = []
    files = (resources.files("grove.embedded.actors.schedulers") / folder).iterdir()
    for file in sorted(files, key=lambda each: each.name):
        if file.name.endswith(".yaml"):
            found += [obj for obj in yaml.safe_load_all(file.read_text(encoding="utf-8")) if obj]
    return tuple(found)


def definitions_in(folder: str) -> list[Manifest]:
    """Only the CRDs of that folder."""
    return [obj for obj in documents(folder) if obj["kind"] == "CustomResourceDefinition"]


async def create(client: ActorClient, path: str, obj: Manifest, *, patient: bool = False) -> None:
    """Create an object unless it exists; with patience also one whose kind is only just being served."""
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
