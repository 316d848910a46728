"""Sets that the Go operator made are taken over: no pod is deleted, no template written, and then silence."""

import pytest
from tests.adoption.go_sets import SETS, install
from tests.adoption.taking_over import (
    by_name,
    finalizers,
    identities,
    pod_deletions,
    take_over,
    templates,
)
from tests.scenarios.stories import pass_time

from grove.api import kinds
from grove.testing.world import World


@pytest.mark.parametrize("name", SETS)
def test_a_set_of_the_go_operator_is_taken_over_without_touching_a_pod(name: str) -> None:
    async def story(world: World) -> None:
        await install(world, SETS[name])
        await world.settle()
        pods, made_from = await identities(world), await templates(world)
        assert pods
        await world.start_operator()
        await world.settle()
        assert await identities(world) == pods
        assert await templates(world) == made_from
        assert pod_deletions(world) == []
        for gang, found in (await by_name(world, kinds.GANGS)).items():
            told = {each["type"]: each["status"] for each in found["status"]["conditions"]}
            assert found["status"]["phase"] == "Running", (gang, found["status"])
            assert told["Scheduled"] == told["Ready"] == "True"

    take_over(story)


def test_all_of_them_are_taken_over_at_once_and_then_nothing_is_written() -> None:
    async def story(world: World) -> None:
        await install(world, *SETS.values())
        await world.settle()
        assert len(await by_name(world, kinds.CLIQUESETS)) >= 10
        pods, made_from = await identities(world), await templates(world)
        assert await finalizers(world)
        await world.start_operator()
        await world.settle()
        assert await identities(world) == pods
        assert await templates(world) == made_from
        assert pod_deletions(world) == []
        assert await finalizers(world) == {}
        for name, found in (await by_name(world, kinds.CLIQUESETS)).items():
            status = found["status"]
            assert status["availableReplicas"] == found["spec"]["replicas"], (name, status)
        writes = world.writes()
        await pass_time(3600)
        assert world.writes() == writes
        await world.kill_operator()
        await world.start_operator()
        await pass_time(600)
        assert world.writes() == writes

    take_over(story)


def test_pods_are_not_even_labelled() -> None:
    async def story(world: World) -> None:
        await install(world, *SETS.values())
        await world.settle()
        before = await by_name(world, kinds.PODS)
        await world.start_operator()
        await world.settle()
        assert await by_name(world, kinds.PODS) == before

    take_over(story)
