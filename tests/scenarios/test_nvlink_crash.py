"""The operator dies at every write about NVLink domains: none is lost, none is left, no pod is without its own."""

from collections.abc import Awaitable, Callable
from typing import Final

import pytest
from tests.scenarios.crashing import REACHED, Story
from tests.scenarios.nvlink import DEFINITION, ENABLED, cliqueset, role

from grove.api import kinds
from grove.testing.world import CRDS, World

#: More than the story below needs; the first test checks that.
MOST_WRITES: Final = 48


async def install(world: World) -> None:
    await world.user.create(CRDS, DEFINITION)


async def life(world: World, settle: Callable[[], Awaitable[None]]) -> None:
    """Two replicas with two domains each, then one replica."""
    await world.apply(cliqueset([role("a"), role("b", group="other")], group="usual", replicas=2))
    await settle()
    await world.scale("job", 1)
    await settle()


STORY: Final = Story(life, ENABLED, (kinds.COMPUTE_DOMAINS,), before=install)


def test_the_story_is_short_enough_that_every_write_of_it_is_crashed() -> None:
    end, writes = STORY.undisturbed
    assert 20 < writes <= MOST_WRITES
    assert [each["metadata"]["name"] for each in end[str(kinds.COMPUTE_DOMAINS)]] == [
        "job-0-other",
        "job-0-usual",
    ]
    assert [pod["phase"] for pod in end["pods"]] == ["Running"] * 2


@REACHED
@pytest.mark.parametrize("number", range(1, MOST_WRITES + 1))
def test_dying_at_a_write_changes_nothing_in_the_end(number: int, reached: bool) -> None:
    STORY.dies_at(number, reached=reached)
