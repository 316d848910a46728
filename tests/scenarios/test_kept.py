"""Children that are deleted and that somebody's finalizer keeps: what cannot be made for it is told, and by whom."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.scenarios.shapes import stage_of, train
from tests.scenarios.stories import condition_of

from grove.api import kinds
from grove.meta import Key, Resource
from grove.testing.world import World, run_world

HELD = {"metadata": {"finalizers": ["example.com/hold"]}}
RELEASED = {"metadata": {"finalizers": None}}
#: What is kept, and whether the base gang of its replica lacks pods for it.
KEPT: dict[str, tuple[Resource, str, bool]] = {
    "a scaling group": (kinds.SCALING_GROUPS, "train-1-dec", True),
    "a clique": (kinds.CLIQUES, "train-1-router", True),
    "a clique of a group": (kinds.CLIQUES, "train-1-dec-0-lead", True),
    "a gang": (kinds.GANGS, "train-1", False),
    "a service": (kinds.SERVICES, "train-1", False),
}


async def scale_out_again(world: World) -> None:
    await world.scale("train", 1)
    await asyncio.sleep(10)
    await world.scale("train", 2)


async def apply_again(world: World) -> None:
    await world.user.delete(kinds.CLIQUESETS, Key("default", "train"))
    await asyncio.sleep(5)
    await world.apply(train("default", "group", 2))


@pytest.mark.parametrize(("resource", "name", "lacks"), KEPT.values(), ids=KEPT)
@pytest.mark.parametrize("again", [scale_out_again, apply_again])
def test_what_keeps_a_child_from_being_made_is_told_with_its_finalizer(
    resource: Resource, name: str, lacks: bool, again: Callable[[World], Awaitable[None]]
) -> None:
    async def story(world: World) -> None:
        await world.apply(train("default", "group", 2))
        await world.settle()
        await world.user.merge_patch(resource, Key("default", name), HELD)
        await again(world)
        await asyncio.sleep(90)
        said = condition_of(await world.get(kinds.CLIQUESETS, "train") or {}, "Degraded")["message"]
        assert "being deleted and kept by the finalizer example.com/hold" in said
        if resource != kinds.GANGS:
            assert said.startswith(f"{resource.kind} {name} is being deleted")
        if lacks:
            gang = await world.condition("train-1", "Initialized")
            assert f"{resource.kind} {name} is being deleted and kept by the finalizer" in gang["message"]
        await world.user.merge_patch(resource, Key("default", name), RELEASED)
        await world.settle(quiet=30)
        cliqueset = await world.get(kinds.CLIQUESETS, "train") or {}
        assert condition_of(cliqueset, "Degraded") == {}
        assert condition_of(cliqueset, "Ready")["status"] == "True"

    run_world(story, stage_of("default").options)


def test_a_clique_that_somebody_deletes_and_keeps_is_told_while_its_pods_run() -> None:
    async def story(world: World) -> None:
        await world.apply(train("default", "group", 1))
        await world.settle()
        key = Key("default", "train-0-router")
        await world.user.merge_patch(kinds.CLIQUES, key, HELD)
        await world.user.delete(kinds.CLIQUES, key)
        await asyncio.sleep(30)
        said = condition_of(await world.get(kinds.CLIQUESETS, "train") or {}, "Degraded")["message"]
        assert said.startswith("PodClique train-0-router is being deleted and kept by the finalizer")

    run_world(story, stage_of("default").options)


def test_what_is_left_of_a_replica_that_was_scaled_in_is_nobodys_trouble() -> None:
    async def story(world: World) -> None:
        await world.apply(train("default", "group", 2))
        await world.settle()
        await world.user.merge_patch(kinds.CLIQUES, Key("default", "train-1-router"), HELD)
        await world.scale("train", 1)
        await asyncio.sleep(90)
        assert condition_of(await world.get(kinds.CLIQUESETS, "train") or {}, "Degraded") == {}

    run_world(story, stage_of("default").options)
