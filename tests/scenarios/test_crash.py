"""The operator dies at every single write and is started again: the world ends up the same, with no broken promise."""

import functools

import pytest
from tests.scenarios.shapes import train
from tests.scenarios.stories import STAGES

from grove.api.kinds import GANGS, SCALING_GROUPS
from grove.api.labels import RESTARTS
from grove.embedded.faults import Fault
from grove.meta import Manifest, Resource, resource
from grove.testing.portrait import Guard, portrait
from grove.testing.world import OPERATOR, World, WorldOptions, run_world

OBJECTS: dict[str, Resource] = {
    "default": resource("scheduling.k8s.io", "v1alpha2", "PodGroup"),
    "kai": resource("scheduling.run.ai", "v2alpha2", "PodGroup"),
    "koordinator": resource("scheduling.sigs.k8s.io", "v1alpha1", "PodGroup"),
    "volcano": resource("scheduling.volcano.sh", "v1beta1", "PodGroup"),
}
#: More writes than the operator ever needs for the story below; `test_the_story_is_short_enough` checks it.
MOST_WRITES = {"pair": 48, "group": 56, "scaled": 60, "order": 60}
REPLICAS = {"pair": 2, "group": 1, "scaled": 1, "order": 1}
#: Scaling groups are crashed with two schedulers: what differs between schedulers is in their objects.
CASES = [
    (backend, shape, number)
    for shape, backends in (
        ("pair", tuple(OBJECTS)),
        ("group", ("default", "kai")),
        ("scaled", ("default",)),
        ("order", ("default",)),
    )
    for backend in backends
    for number in range(1, MOST_WRITES[shape] + 1)
]


async def story(world: World, backend: str, shape: str) -> None:
    """Created, running, shrunk to one replica: of the set, or of its scaling group."""
    await world.apply(train(backend, shape, REPLICAS[shape]))
    await world.settle()
    await shrink(world, shape)
    await world.settle()


async def shrink(world: World, shape: str) -> None:
    if shape in ("group", "scaled", "order"):
        await world.scale("train-0-dec", 1, SCALING_GROUPS)
    else:
        await world.scale("train", 1)


def options(backend: str) -> WorldOptions:
    return STAGES[{"default": "1.36"}.get(backend, backend)].options


@functools.cache
def undisturbed(backend: str, shape: str) -> tuple[Manifest, int]:
    """How the world looks when nothing goes wrong, and how many writes that took."""
    seen: list[tuple[Manifest, int]] = []

    async def run(world: World) -> None:
        await story(world, backend, shape)
        seen.append((await portrait(world, (OBJECTS[backend],)), world.writes()))

    run_world(run, options(backend))
    return seen[0]


@pytest.mark.parametrize(("backend", "shape"), dict.fromkeys(case[:2] for case in CASES))
def test_the_story_is_short_enough_that_every_write_of_it_is_crashed(backend: str, shape: str) -> None:
    end, writes = undisturbed(backend, shape)
    assert 20 < writes <= MOST_WRITES[shape]
    assert [pod["phase"] for pod in end["pods"]] == ["Running"] * (3 if shape == "pair" else 4)


@pytest.mark.parametrize("reached", [False, True], ids=["before it took effect", "after it took effect"])
@pytest.mark.parametrize(("backend", "shape", "number"), CASES)
def test_dying_at_a_write_changes_nothing_in_the_end(
    backend: str, shape: str, number: int, reached: bool
) -> None:
    want, _ = undisturbed(backend, shape)

    async def run(world: World) -> None:
        guard = Guard(world.cluster)
        death = world.cluster.faults.add(
            Fault("lose", verb="write", user=OPERATOR.name, skip=number - 1, times=1, after=reached)
        )
        await world.start_operator(dies_with_a_request=True)
        await world.apply(train(backend, shape, REPLICAS[shape]))
        await restart_when_dead(world, death)
        await shrink(world, shape)
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
