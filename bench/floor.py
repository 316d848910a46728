"""The floor: the same number of gated pods created and ungated by a bare loop, without an operator.

What API server, scheduler and kubelets need by themselves on this machine; everything else is measured as a
multiple of it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from bench.arena import Arena, arena, within
from bench.cases import FLOOR_LABEL, GATE, NAMESPACE, floor_pod
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


async def measure_floor(pods: int, *, plane: Plane, limit: float) -> Floor:
    """One run on a fresh cluster."""
    async with arena(plane) as place, Observer(place.client, pods).watching() as observer:
        seen = observer.tally

        def hope() -> str:
            return f"floor of {pods}: {seen}"

        costs = await within(limit, _run(place, observer, pods), unless=place.children, hope=hope)
        start = seen.reached
        return Floor(
            pods=pods,
            created=start[Milestone.CREATED] - observer.began,
            gates_open=start[Milestone.OPEN] - observer.began,
            running=start[Milestone.RUNNING] - observer.began,
            deleted=start[Milestone.GONE] - observer.deletion,
            components=costs,
        )


async def _run(place: Arena, observer: Observer, pods: int) -> dict[str, Cost]:
    client = place.client

    def create(index: int) -> Awaitable[Written]:
        return client.create(kinds.PODS, floor_pod(index))

    def open_gate(index: int) -> Awaitable[Written]:
        return client.json_patch(kinds.PODS, Key(NAMESPACE, f"floor-{index}"), _OPEN)

    before = place.usages()
    observer.began = time.monotonic()
    await _each(range(pods), create)
    await _each(range(pods), open_gate)
    await observer.milestone(Milestone.RUNNING)
    costs = place.costs_since(before)
    observer.deletion = time.monotonic()
    await client.delete_collection(kinds.PODS, namespace=NAMESPACE, labels=FLOOR_LABEL)
    await observer.milestone(Milestone.GONE)
    return costs


async def _each(items: Iterable[int], request: Callable[[int], Awaitable[Written]]) -> None:
    """A request for each, so many in flight."""
    todo = iter(items)

    async def work() -> None:
        for item in todo:
            await request(item)

    async with asyncio.TaskGroup() as crew:
        for _ in range(IN_FLIGHT):
            crew.create_task(work())
