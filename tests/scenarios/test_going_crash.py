"""The operator dies at every write while a scaling group shrinks, a clique is replaced and the whole set goes."""

import functools
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from tests.scenarios.crashing import REACHED, Story
from tests.scenarios.shapes import train
from tests.scenarios.stories import STAGES, everything_of, key

from grove.api import kinds
from grove.testing.world import World

#: The writes until everything runs are crashed elsewhere; `test_every_write_of_what_goes_is_crashed` checks both.
FIRST, LAST = 41, 76
PACE = 20.0


@functools.cache
def story(propagation: str) -> Story:
    async def life(world: World, settle: Callable[[], Awaitable[None]]) -> None:
        await world.apply(train("default", "group", 1, 1))
        await settle()
        await world.scale("train-0-dec", 1, kinds.SCALING_GROUPS)
        await settle()
        await world.user.delete(kinds.CLIQUES, key("train-0-router"), propagation=propagation)
        await settle()
        await world.user.delete(kinds.CLIQUESETS, key("train"), propagation=propagation)
        await settle()

    async def nothing_is_left(world: World) -> None:
        assert await everything_of(world, "train") == {}

    options = replace(STAGES["1.36"].options, collected_per_second=PACE)
    return Story(life, options, after=nothing_is_left)


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_every_write_of_what_goes_is_crashed(propagation: str) -> None:
    end, writes = story(propagation).undisturbed
    assert FIRST < writes <= LAST
    assert end["pods"] == []


@REACHED
@pytest.mark.parametrize("number", range(FIRST, LAST + 1))
@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_dying_at_a_write_while_something_goes_changes_nothing_in_the_end(
    propagation: str, number: int, reached: bool
) -> None:
    story(propagation).dies_at(number, reached=reached)
