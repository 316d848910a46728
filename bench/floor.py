"""The floor: gated pods created and ungated by a bare loop, without an operator.

What API server, scheduler and kubelets need by themselves on this machine; everything else is measured as a
multiple of it. There are three: as many plain pods, that are in no gang; for a case, the same pods as the
operator makes for it, to the last label, with the objects by which the native scheduler knows their gangs;
and those with their headless services.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from bench.arena import Arena, arena, within
from bench.cases import FLOOR_LABEL, GATE, NAMESPACE, Case, floor_pod
from bench.gangs import Gangs
from bench.load import Others, others_between
from bench.observer import Observer
from bench.planes import Plane
from bench.results import Cost, Floor
from bench.tally import Milestone
from grove.api import kinds
from grove.kube.client import Written
from grove.meta import Manifest, Resource, manifest_key

IN_FLIGHT: Final = 16
OPEN: Final = [
    {"op": "test", "path": "/spec/schedulingGates/0/name", "value": GATE},
    {"op": "remove", "path": "/spec/schedulingGates/0"},
]


@dataclass(frozen=True, slots=True)
class Wanted:
    """So many plain pods, or the pods of a case, perhaps with their services."""

    pods: int
    case: Case | None = None
    services: bool = False

    def order(self) -> tuple[bool, bool, int]:
        """Where its row stands: plain ones first."""
        return self.case is not None, self.services, self.pods if self.case is None else 0

    def __str__(self) -> str:
        same = f" as in {self.case.name}" if self.case is not None else ""
        return f"floor of {self.pods} pods{same}{' with services' if self.services else ''}"


async def measure_floor(wanted: Wanted, *, plane: Plane, limit: float) -> Floor:
    """One run on a fresh cluster."""
    pods = wanted.pods
    async with arena(plane) as place, Observer(place.client, pods).watching() as observer:
        seen = observer.tally

        def hope() -> str:
            return f"{wanted}: {seen}"

        costs, others = await within(limit, _run(place, observer, wanted), unless=place.children, hope=hope)
        start = seen.reached
        return Floor(
            pods=pods,
            created=start[Milestone.CREATED] - observer.began,
            gates_open=start[Milestone.OPEN] - observer.began,
            running=start[Milestone.RUNNING] - observer.began,
            deleted=start[Milestone.GONE] - observer.deletion,
            components=costs,
            gang_size=wanted.case.size if wanted.case is not None else 0,
            services=wanted.services,
            others=others,
        )


async def _run(place: Arena, observer: Observer, wanted: Wanted) -> tuple[dict[str, Cost], Others | None]:
    client = place.client
    objects, manifests = _made(place.plane.minor, wanted)

    async def create_group(index: int) -> None:
        for resource, manifest in objects[index]:
            await client.create(resource, manifest)

    def create(index: int) -> Awaitable[Written]:
        return client.create(kinds.PODS, manifests[index])

    def open_gate(index: int) -> Awaitable[Written]:
        return client.json_patch(kinds.PODS, manifest_key(manifests[index]), OPEN)

    before, spent_before = place.usages(), place.spent()
    observer.began = time.monotonic()
    await each(range(len(objects)), create_group)
    await each(range(wanted.pods), create)
    await each(range(wanted.pods), open_gate)
    await observer.milestone(Milestone.RUNNING)
    costs = place.costs_since(before)
    others = others_between(spent_before, place.spent(), cores=os.cpu_count() or 1)
    observer.deletion = time.monotonic()
    await client.delete_collection(kinds.PODS, namespace=NAMESPACE, labels=FLOOR_LABEL)
    await observer.milestone(Milestone.GONE)
    return costs, others


def _made(minor: str, wanted: Wanted) -> tuple[list[list[tuple[Resource, Manifest]]], list[Manifest]]:
    """Everything that is created, made beforehand: making it is not what is measured."""
    if wanted.case is None:
        return [], [floor_pod(index) for index in range(wanted.pods)]
    gangs, numbers = Gangs(minor, wanted.case), range(wanted.case.gangs)
    objects = [gangs.objects(number) for number in numbers]
    if wanted.services:
        for number in numbers:
            objects[number].append((kinds.SERVICES, gangs.service(number)))
    return objects, [pod for number in numbers for pod in gangs.pods(number)]


async def each(items: Iterable[int], request: Callable[[int], Awaitable[object]]) -> None:
    """A request for each, so many in flight."""
    todo = iter(items)

    async def work() -> None:
        for item in todo:
            await request(item)

    async with asyncio.TaskGroup() as crew:
        for _ in range(IN_FLIGHT):
            crew.create_task(work())
