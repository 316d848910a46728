"""The operator dies at every single write and is started again: the world ends up the same, with no broken promise."""

import functools

import pytest
from tests.scenarios.stories import STAGES

from grove.api.kinds import GANGS
from grove.api.labels import RESTARTS, SCHEDULER_BACKEND
from grove.embedded.faults import Fault
from grove.meta import Manifest, Resource, resource
from grove.testing import make
from grove.testing.portrait import Guard, portrait
from grove.testing.world import OPERATOR, World, WorldOptions, run_world

OBJECTS: dict[str, Resource] = {
    "default": resource("scheduling.k8s.io", "v1alpha2", "PodGroup"),
    "kai": resource("scheduling.run.ai", "v2alpha2", "PodGroup"),
    "koordinator": resource("scheduling.sigs.k8s.io", "v1alpha1", "PodGroup"),
    "volcano": resource("scheduling.volcano.sh", "v1beta1", "PodGroup"),
}
#: More than the operator ever needs for the story below; `test_the_story_is_short_enough` checks it.
MOST_WRITES = 48


def train(backend: str, replicas: int = 2) -> Manifest:
    return make.cliqueset_manifest(
        "train", {"leader": 1, "worker": 2}, replicas=replicas, annotations={SCHEDULER_BACKEND: backend}
    )


async def story(world: World, backend: str) -> None:
    """Created, running, shrunk to one replica."""
    await world.apply(train(backend))
    await world.settle()
    await world.scale("train", 1)
    await world.settle()


def options(backend: str) -> WorldOptions:
    return STAGES[{"default": "1.36"}.get(backend, backend)].options


@functools.cache
def undisturbed(backend: str) -> tuple[Manifest, int]:
    """How the world looks when nothing goes wrong, and how many writes that took."""
    seen: list[tuple[Manifest, int]] = []

    async def run(world: World) -> None:
        await story(world, backend)
        seen.append((await portrait(world, (OBJECTS[backend],)), world.writes()))

    run_world(run, options(backend))
    return seen[0]


@pytest.mark.parametrize("backend", OBJECTS)
def test_the_story_is_short_enough_that_every_write_of_it_is_crashed(backend: str) -> None:
    end, writes = undisturbed(backend)
    assert 20 < writes <= MOST_WRITES
    assert [pod["phase"] for pod in end["pods"]] == ["Running"] * 3


@pytest.mark.parametrize("reached", [False, True], ids=["before it took effect", "after it took effect"])
@pytest.mark.parametrize("number", range(1, MOST_WRITES + 1))
@pytest.mark.parametrize("backend", OBJECTS)
def test_dying_at_a_write_changes_nothing_in_the_end(backend: str, number: int, reached: bool) -> None:
    want, _ = undisturbed(backend)

    async def run(world: World) -> None:
        guard = Guard(world.cluster)
        death = world.cluster.faults.add(
            Fault("lose", verb="write", user=OPERATOR.name, skip=number - 1, times=1, after=reached)
        )
        await world.start_operator(dies_with_a_request=True)
        await world.apply(train(backend))
        await restart_when_dead(world, death)
        await world.scale("train", 1)
        await restart_when_dead(world, death)
        assert await portrait(world, (OBJECTS[backend],)) == want
        assert guard.broken == []
        # A portrait leaves out how often a gang was started: it must not have been more than once.
        assert [gang["metadata"]["name"] for gang in await world.all(GANGS) if started_again(gang)] == []

    run_world(run, options(backend), operator=False)


def started_again(gang: Manifest) -> bool:
    return RESTARTS in (gang["metadata"].get("annotations") or {})


async def restart_when_dead(world: World, death: Fault) -> None:
    await world.settle()
    if death.happened and world.operator_died:
        await world.kill_operator()
        world.cluster.faults.clear()
        await world.start_operator()
        await world.settle()
