"""The operator dies at every single write and is started again: the world ends up the same, with no broken promise."""

import functools
from collections.abc import Awaitable, Callable

import pytest
from tests.scenarios.crashing import REACHED, Story
from tests.scenarios.shapes import BACKENDS, stage_of, train

from grove.api.kinds import GANGS, PODS, SCALING_GROUPS
from grove.api.labels import RESTARTS
from grove.testing.world import World, holds_place

#: More writes than the operator ever needs for the story below; `test_the_story_is_short_enough` checks it.
MOST_WRITES = {"pair": 52, "group": 60, "scaled": 64, "order": 64}
REPLICAS = {"pair": 2, "group": 1, "scaled": 1, "order": 1}
#: Scaling groups are crashed with two schedulers: what differs between schedulers is in their objects, or on the
#: pods.
CASES = [
    (backend, shape, number)
    for shape, backends in (
        ("pair", BACKENDS),
        ("group", ("default", "kai")),
        ("scaled", ("default",)),
        ("order", ("default",)),
    )
    for backend in backends
    for number in range(1, MOST_WRITES[shape] + 1)
]


@functools.cache
def story(backend: str, shape: str) -> Story:
    """Created, running, shrunk to one replica: of the set, or of its scaling group."""
    stage = stage_of(backend)

    async def life(world: World, settle: Callable[[], Awaitable[None]]) -> None:
        await world.apply(train(backend, shape, REPLICAS[shape]))
        await settle()
        if shape == "pair":
            await world.scale("train", 1)
        else:
            await world.scale("train-0-dec", 1, SCALING_GROUPS)
        await settle()

    return Story(life, stage.options, stage.objects, after=started_once)


async def started_once(world: World) -> None:
    """What is compared leaves out how often a gang was started: it must not have been more than once."""
    again = [
        each for each in await world.all(GANGS) if RESTARTS in (each["metadata"].get("annotations") or {})
    ]
    assert again == []
    assert not any(map(holds_place, await world.all(PODS))), "places are held for nobody"


@pytest.mark.parametrize(("backend", "shape"), dict.fromkeys(case[:2] for case in CASES))
def test_the_story_is_short_enough_that_every_write_of_it_is_crashed(backend: str, shape: str) -> None:
    end, writes = story(backend, shape).undisturbed
    assert 20 < writes <= MOST_WRITES[shape]
    assert [pod["phase"] for pod in end["pods"]] == ["Running"] * (3 if shape == "pair" else 4)


@REACHED
@pytest.mark.parametrize(("backend", "shape", "number"), CASES)
def test_dying_at_a_write_changes_nothing_in_the_end(
    backend: str, shape: str, number: int, reached: bool
) -> None:
    story(backend, shape).dies_at(number, reached=reached)
