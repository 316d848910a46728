"""Puts KAI's kinds and its two default queues into a cluster, so that a demo has something to schedule with.

Our own minimal definitions, with the fields that a gang needs; everything else is preserved unread.
"""

from __future__ import annotations

import asyncio
import functools
from importlib import resources

import yaml

from grove.embedded.actors.objects import CRDS
from grove.embedded.actors.schedulers.kai_rules import QUEUES
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import ActorClient

TRIES = 50
PAUSE = 0.1


def definitions() -> list[Manifest]:
    """The CRDs, as they are in the package."""
    return [obj for obj in _documents() if obj["kind"] == "CustomResourceDefinition"]


def queues() -> list[Manifest]:
    """The default parent queue and its leaf."""
    return [obj for obj in _documents() if obj["kind"] == "Queue"]


@functools.cache
def _documents() -> list[Manifest]:
    folder = resources.files("grove.embedded.actors.schedulers") / "kai_crds"
    found: list[Manifest] = []
    for file in sorted(folder.iterdir(), key=lambda each: each.name):
        if file.name.endswith(".yaml"):
            found += [obj for obj in yaml.safe_load_all(file.read_text(encoding="utf-8")) if obj]
    return found


async def install(client: ActorClient) -> None:
    """Create what is missing; what is there already, of whatever version, is left as it is."""
    for crd in definitions():
        await _create(client, CRDS.collection(), crd)
    for queue in queues():
        await _create(client, QUEUES.collection(), queue, patient=True)


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
