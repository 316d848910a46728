"""How long it takes from the moment at which a gang exists until its scheduler's object does.

One gang after the other, made by the driver as any other controller would, on the embedded cluster with the
operator in a process of its own.
"""

import asyncio
import statistics
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from bench.arena import arena, within
from bench.cases import NAMESPACE
from bench.planes import Kind, Plane
from grove.api import kinds, labels
from grove.backends.base import Backend, Context
from grove.kube.client import Client
from grove.meta import Manifest, Object, Resource

GANGS: Final = 40
_LIMIT_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds from gang to object; None for a scheduler that needs no object."""

    backend: str
    median: float | None = None
    worst: float | None = None


async def latency(backend: Backend, contexts: Sequence[Context], *, minor: str) -> Latency:
    """Measured on a fresh cluster with that scheduler, in the first of the contexts that it offers."""
    plane = Plane(Kind.EMBEDDED, minor, "" if backend.name == "default" else backend.name)
    async with arena(plane) as place, place.operator() as operator:
        served = (await place.client.discover()).served
        offered = [
            each
            for context in contexts
            for each in backend.resources(context)[-1:]
            if each.plural in served.get(each.api_version, ())
        ]
        if not offered:
            return Latency(backend.name)
        work = _one_after_the_other(place.client, backend.name, offered[0])
        children = (operator, place.cluster)
        taken = await within(_LIMIT_SECONDS, work, unless=children, hope=lambda: "a gang has no object")
    return Latency(backend.name, statistics.median(taken) * 1000, max(taken) * 1000)


async def _one_after_the_other(client: Client, backend: str, resource: Resource) -> list[float]:
    seen: asyncio.Queue[float] = asyncio.Queue()
    page = await client.list(resource, type=Object, namespace=NAMESPACE)

    async def look() -> None:
        stream = client.watch(
            resource, type=Object, namespace=NAMESPACE, resource_version=page.resource_version
        )
        async with aclosing(stream) as events:
            async for event in events:
                if event.type == "ADDED":
                    seen.put_nowait(time.monotonic())

    looking = asyncio.create_task(look())
    try:
        taken = []
        for number in range(GANGS):
            started = time.monotonic()
            await client.create(kinds.GANGS, _gang(f"bench-{number}", backend))
            taken.append(await seen.get() - started)
        return taken
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


def _gang(name: str, backend: str) -> Manifest:
    return {
        "apiVersion": kinds.GANGS.api_version,
        "kind": kinds.GANGS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {labels.SCHEDULER_BACKEND: backend}},
        "spec": {"podgroups": [{"name": f"{name}-worker", "minReplicas": 2, "podReferences": []}]},
    }
