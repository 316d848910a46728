"""A large set in one namespace and a small one in another: the small one does not wait for the large one."""

import asyncio
from typing import Final

import pytest

from grove.embedded.server.app import Request, Response
from grove.meta import Manifest, resource
from grove.testing import make
from grove.testing.virtual_time import virtual_loop
from grove.testing.world import World, WorldOptions, run_world

NAMESPACES: Final = resource("", "v1", "Namespace", namespaced=False)
#: A small gang is written in seven steps, one after another; each may find the large set's share of requests
#: (16) in front of it, and the first one those that were under way when it came (64).
OTHERS_AT_MOST: Final = 250


async def gates_open(world: World, namespace: str) -> bool:
    pods = [pod for pod in await world.pods() if pod["metadata"]["namespace"] == namespace]
    return bool(pods) and not any(pod["spec"].get("schedulingGates") for pod in pods)


def cliqueset(name: str, roles: dict[str, int], namespace: str, replicas: int = 1) -> Manifest:
    manifest = make.cliqueset_manifest(name, roles, replicas=replicas)
    manifest["metadata"]["namespace"] = namespace
    return manifest


LARGE: Final = {
    "many replicas of one pod": cliqueset("large", {"w": 1}, "large", replicas=1500),
    "few replicas of many pods": cliqueset("large", {"w": 500}, "large", replicas=4),
}


def take_time(world: World) -> None:
    """From now on the API server carries out one write after another, a thousand a second."""
    handle, busy = world.cluster.app.handle, asyncio.Lock()

    async def slowly(request: Request) -> Response:
        if request.method != "GET":
            async with busy:
                await asyncio.sleep(0.001)
        return await handle(request)

    world.cluster.app.handle = slowly  # type: ignore[method-assign]


@pytest.mark.parametrize("large", LARGE.values(), ids=LARGE)
def test_a_small_set_opens_its_gates_after_few_writes_of_a_large_one_elsewhere(large: Manifest) -> None:
    async def story(world: World) -> None:
        for name in ("large", "small"):
            await world.user.create(
                NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            )
        take_time(world)
        await world.apply(large)
        await asyncio.sleep(0.5)
        before, began = writes_in(world, "large"), virtual_loop().time()
        assert before > 300
        await world.apply(cliqueset("small", {"a": 1, "b": 2}, "small"))

        async def opened() -> bool:
            return await gates_open(world, "small")

        await world.until(opened, "the gates of the small set open", seconds=20)
        assert writes_in(world, "large") - before <= OTHERS_AT_MOST
        assert virtual_loop().time() - began < 1.0
        assert not await gates_open(world, "large"), "the large one was in the middle of it"

    run_world(story, WorldOptions(nodes=2))


def writes_in(world: World, namespace: str) -> int:
    """How many writes the operator has made in a namespace, events aside."""
    return sum(
        entry.is_write
        and entry.user == world.options.operator_user.name
        and f"/namespaces/{namespace}/" in entry.path
        and not entry.resource.startswith("events")
        for entry in world.cluster.requests
    )
