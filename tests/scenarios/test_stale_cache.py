"""What the operator believes may be old: a watch that stands still must not make it do harm."""

import asyncio

import pytest

from grove.api import kinds
from grove.embedded.faults import Fault
from grove.meta import Key, Resource
from grove.testing import make
from grove.testing.world import OPERATOR, World, run_world

#: Each is deleted while the operator's watch of it stands still.
STALE: dict[str, tuple[Resource, str]] = {
    "a clique": (kinds.CLIQUES, "train-0-worker"),
    "a gang": (kinds.GANGS, "train-0"),
    "a set": (kinds.CLIQUESETS, "train"),
}


@pytest.mark.parametrize(("resource", "name"), STALE.values(), ids=STALE)
def test_nothing_is_created_again_and_again_for(resource: Resource, name: str) -> None:
    async def story(world: World) -> None:
        world.cluster.faults.add(
            Fault("stall", resource=str(resource), user=OPERATOR.name, events=20, probability=1.0)
        )
        world.cluster.drop_watches()
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}))
        await world.settle()
        for number in range(20):
            patch = {"metadata": {"annotations": {"touched": str(number)}}}
            await world.user.merge_patch(resource, Key("default", name), patch)
        before = world.writes()
        await world.user.delete(resource, Key("default", name))
        await asyncio.sleep(60)
        assert world.writes() - before < 40

    run_world(story)


def test_the_world_is_right_again_once_the_stalled_watch_is_noticed() -> None:
    async def story(world: World) -> None:
        stall = world.cluster.faults.add(Fault("stall", resource="podcliques.*", user=OPERATOR.name, times=1))
        world.cluster.drop_watches()
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}))

        async def running() -> bool:
            return await world.phase("train-0") == "Running"

        await world.until(running, "the gang runs although a watch stood still", seconds=300)
        assert stall.happened == 1

    run_world(story)
