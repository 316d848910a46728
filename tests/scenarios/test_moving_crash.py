"""The operator dies at every single write while a set changes its scheduler: the set arrives all the same."""

import asyncio
import functools

import pytest
from tests.scenarios.stories import PODGROUPS_136

from grove.api import kinds, labels
from grove.backends.kai.backend import PODGROUPS as KAI_PODGROUPS
from grove.embedded.faults import Fault
from grove.meta import Key, Manifest
from grove.testing import make
from grove.testing.portrait import Guard
from grove.testing.world import OPERATOR, World, WorldOptions, run_world

#: Too small for two workers, so that they wait; the room comes after the move.
SMALL = WorldOptions(schedulers=("kai",), nodes=1, gpus=1)
GPU = {"resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}}
#: More than the move ever takes; checked below.
MOST_WRITES = 16


def training() -> Manifest:
    containers = [{"name": "main", "image": "registry.example/train:1", **GPU}]
    role = make.template("worker", 2, pod={"containers": containers})
    return make.cliqueset_manifest("train", [role], annotations={labels.SCHEDULER_BACKEND: "kai"})


async def waiting(world: World) -> None:
    await world.apply(training())
    await world.settle()


async def move(world: World) -> None:
    moved: Manifest = {"metadata": {"annotations": {labels.SCHEDULER_BACKEND: "default"}}}
    await world.user.merge_patch(kinds.CLIQUESETS, Key("default", "train"), moved)


@functools.cache
def writes_of_a_move() -> int:
    counted: list[int] = []

    async def story(world: World) -> None:
        await waiting(world)
        before = world.writes()
        await move(world)
        await world.settle()
        counted.append(world.writes() - before)
        await world.add_node("more", gpus=1)
        await world.settle()
        await arrived(world)

    run_world(story, SMALL)
    return counted[0]


async def arrived(world: World) -> None:
    """Everything is the second scheduler's, whole, and nothing of the first is left."""
    gang = await world.gang("train-0")
    assert gang is not None
    assert gang["metadata"]["labels"][labels.SCHEDULER_BACKEND] == "default"
    assert gang["status"]["phase"] == "Running", await world.describe()
    pods = await world.pods()
    assert [pod["spec"]["schedulerName"] for pod in pods] == ["default-scheduler"] * 2
    assert all(pod["spec"].get("nodeName") for pod in pods)
    assert await world.all(KAI_PODGROUPS) == []
    assert len(await world.all(PODGROUPS_136)) == 1


async def restart_when_dead(world: World) -> None:
    await world.settle()
    if world.operator_died:
        await world.kill_operator()
        world.cluster.faults.clear()
        await world.start_operator()
        await world.settle()


def test_the_move_is_short_enough_that_every_write_of_it_is_crashed() -> None:
    assert 5 < writes_of_a_move() <= MOST_WRITES


@pytest.mark.parametrize("reached", [False, True], ids=["before it took effect", "after it took effect"])
@pytest.mark.parametrize("number", range(1, MOST_WRITES + 1))
def test_dying_at_a_write_of_the_move_changes_nothing_in_the_end(number: int, reached: bool) -> None:
    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        await waiting(world)
        await world.kill_operator()
        await world.start_operator(dies_with_a_request=True)
        await world.settle()
        world.cluster.faults.add(
            Fault("lose", verb="write", user=OPERATOR.name, skip=number - 1, times=1, after=reached)
        )
        await move(world)
        await restart_when_dead(world)
        await world.add_node("more", gpus=1)
        await restart_when_dead(world)
        await arrived(world)
        assert guard.broken == []

    run_world(story, SMALL)


@pytest.mark.parametrize("after", [0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0])
def test_room_that_appears_in_the_middle_of_a_move_leaves_the_gang_whole_with_one_scheduler(
    after: float,
) -> None:
    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        await waiting(world)
        await move(world)
        await asyncio.sleep(after)
        await world.add_node("more", gpus=1)
        await world.settle()
        gang = await world.gang("train-0")
        assert gang is not None
        name = gang["metadata"]["labels"][labels.SCHEDULER_BACKEND]
        want = {"kai": "kai-scheduler", "default": "default-scheduler"}[name]
        assert [pod["spec"]["schedulerName"] for pod in await world.pods()] == [want] * 2
        assert gang["status"]["phase"] == "Running"
        pending = await world.condition("train-0", "BackendChangePending")
        assert bool(pending) == (name == "kai")
        assert guard.broken == []

    run_world(story, SMALL)
