"""The floor: the same number of gated pods created and ungated by a bare loop, without an operator.

What API server, scheduler and kubelets need by themselves on this machine; everything else is measured as a
multiple of it. The floor of a gang size has the same pods in gangs of that size, with the objects by which
the native scheduler knows them: what placing gangs costs the scheduler, whoever made them.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from bench.arena import Arena, arena, within
from bench.cases import FLOOR_LABEL, GATE, NAMESPACE, floor_pod
from bench.gangs import Gangs
from bench.observer import Observer
from bench.planes import Plane
from bench.results import Cost, Floor
from bench.tally import Milestone
from grove.api import kinds
from grove.kube.client import Written
from grove.meta import Key

IN_FLIGHT: Final = 16
_OPEN: Final = [
    {"op": "test", "path": "/spec/schedulingGates/0/name", "value": GATE},
    {"op": "remove", "path": "/spec/schedulingGates/0"},
]


async def measure_floor(pods: int, *, plane: Plane, limit: float, gang_size: int = 0) -> Floor:
    """One run on a fresh cluster."""
    async with arena(plane) as place, Observer(place.client, pods).watching() as observer:
        seen = observer.tally

        def hope() -> str:
            return f"floor of {pods}: {seen}"

        costs = await within(limit, _run(place, observer, pods, gang_size), unless=place.children, hope=hope)
        start = seen.reached
        return Floor(
            pods=pods,
            created=start[Milestone.CREATED] - observer.began,
            gates_open=start[Milestone.OPEN] - observer.began,
            running=start[Milestone.RUNNING] - observer.began,
            deleted=start[Milestone.GONE] - observer.deletion,
            components=costs,
            gang_size=gang_size,
        )


async def _run(place: Arena, observer: Observer, pods: int, gang_size: int) -> dict[str, Cost]:
    client = place.client
    gangs = Gangs(place.plane.minor, gang_size) if gang_size else None

    async def create_group(index: int) -> None:
        for resource, manifest in gangs.objects(index) if gangs is not None else ():
            await client.create(resource, manifest)

    def create(index: int) -> Awaitable[Written]:
        pod = floor_pod(index)
        return client.create(kinds.PODS, gangs.linked(pod, index) if gangs is not None else pod)

    def open_gate(index: int) -> Awaitable[Written]:
        return client.json_patch(kinds.PODS, Key(NAMESPACE, f"floor-{index}"), _OPEN)

    before = place.usages()
    observer.began = time.monotonic()
    if gangs is not None:
        await _each(range(pods // gang_size), create_group)
    await _each(range(pods), create)
    await _each(range(pods), open_gate)
    await observer.milestone(Milestone.RUNNING)
    costs = place.costs_since(before)
    observer.deletion = time.monotonic()
    await client.delete_collection(kinds.PODS, namespace=NAMESPACE, labels=FLOOR_LABEL)
    await observer.milestone(Milestone.GONE)
    return costs


async def _each(items: Iterable[int], request: Callable[[int], Awaitable[object]]) -> None:
    """A request for each, so many in flight."""
    todo = iter(items)

    async def work() -> None:
        for item in todo:
            await request(item)

    async with asyncio.TaskGroup() as crew:
        for _ in range(IN_FLIGHT):
            crew.create_task(work())
