"""CascadeDelete of the incumbent's end-to-end tests: a deleted set takes with it everything that was made for it."""

from dataclasses import replace

import pytest
from tests.scenarios.judging import owner_uid
from tests.scenarios.stories import (
    STAGES,
    Stage,
    everything_of,
    key,
    scheduler_objects,
    sharing_devices,
    uid_of,
    until_gone,
)
from tests.scenarios.workloads import in_order, wl2

from grove.api import kinds, labels
from grove.meta import Manifest, Resource, resource
from grove.testing.world import World, run_world

on_every_stage = pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)

#: What is counted after the deletion, with what another operator would have left behind.
COUNTED = (
    kinds.SCALING_GROUPS,
    kinds.CLIQUES,
    kinds.GANGS,
    kinds.PODS,
    kinds.SERVICES,
    resource("", "v1", "ServiceAccount"),
    resource("", "v1", "Secret"),
    kinds.ROLES,
    kinds.ROLE_BINDINGS,
    kinds.AUTOSCALERS,
    kinds.RESOURCE_CLAIMS,
    kinds.CONTROLLER_REVISIONS,
)
#: What a set of this kind has, Secrets and ServiceAccounts aside, which nobody makes.
MADE = {
    kinds.SCALING_GROUPS,
    kinds.CLIQUES,
    kinds.GANGS,
    kinds.PODS,
    kinds.SERVICES,
    kinds.ROLES,
    kinds.ROLE_BINDINGS,
    kinds.AUTOSCALERS,
    kinds.RESOURCE_CLAIMS,
    kinds.CONTROLLER_REVISIONS,
}


def workload(stage: Stage) -> Manifest:
    """Base and scaled gangs, whose roles start in order, share devices and are scaled by load."""
    # kube-scheduler of 1.35 places no gang whose pods share a claim, that of 1.37 none whose roles do.
    shares = stage not in (STAGES["1.35"], STAGES["1.37"])
    made = sharing_devices(in_order(wl2(stage, "wl")), within_gangs=shares)
    template = made["spec"]["template"]
    for role in template["cliques"]:
        role["spec"]["podSpec"]["containers"][0].pop("resources", None)
    template["cliques"][0]["spec"]["autoScalingConfig"] = {"maxReplicas": 4}
    template["podCliqueScalingGroups"][0]["scaleConfig"] = {"maxReplicas": 4}
    made["spec"]["replicas"] = 2
    return made


async def counted(world: World) -> dict[str, int]:
    """How many objects of each kind carry the label of the set."""
    found = {each.kind: len(await world.all(each, labels=f"{labels.PART_OF}=wl")) for each in COUNTED}
    return {kind: number for kind, number in found.items() if number}


async def running(world: World, stage: Stage) -> None:
    await world.apply(workload(stage))
    await world.settle(seconds=600)
    assert {each["status"]["phase"] for each in await world.pods()} == {"Running"}
    assert set(await counted(world)) == {each.kind for each in MADE}


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
@on_every_stage
def test_cascade_delete(stage: Stage, propagation: str) -> None:
    async def story(world: World) -> None:
        await running(world, stage)
        await world.user.delete(kinds.CLIQUESETS, key("wl"), propagation=propagation)
        await until_gone(world, kinds.CLIQUESETS, "wl")
        await world.settle()
        assert await counted(world) == {}
        assert await everything_of(world, "wl") == {}
        assert await scheduler_objects(world, stage) == []
        assert await world.all(kinds.PODS) == []

    run_world(story, replace(stage.options, nodes=8))


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_cascade_delete_in_the_middle_of_the_start(propagation: str) -> None:
    """Whatever was being made at that moment goes too."""
    stage = STAGES["1.36"]

    async def story(world: World) -> None:
        for _ in range(6):
            await world.apply(workload(stage))
            await world.until(lambda: _some(world), "something is made")
            await world.user.delete(kinds.CLIQUESETS, key("wl"), propagation=propagation)
            await until_gone(world, kinds.CLIQUESETS, "wl")
            await world.settle()
            assert await everything_of(world, "wl") == {}

    run_world(story, replace(stage.options, nodes=8))


async def _some(world: World) -> bool:
    kind: Resource = world.rng.choice([kinds.SCALING_GROUPS, kinds.CLIQUES, kinds.GANGS, kinds.PODS])
    return bool(await world.all(kind))


@on_every_stage
def test_orphaned_children_go_on_running_until_their_user_deletes_them(stage: Stage) -> None:
    async def story(world: World) -> None:
        await running(world, stage)
        before = {uid_of(pod) for pod in await world.pods()}
        kept = await counted(world)
        await world.user.delete(kinds.CLIQUESETS, key("wl"), propagation="Orphan")
        await until_gone(world, kinds.CLIQUESETS, "wl")
        await world.settle()
        assert {uid_of(pod) for pod in await world.pods()} == before
        assert await counted(world) == kept
        for gang in await world.all(kinds.GANGS):
            assert owner_uid(gang) == ""
        for each in COUNTED:
            for item in await world.all(each, labels=f"{labels.PART_OF}=wl"):
                if not owner_uid(item):
                    await world.user.delete(each, key(item["metadata"]["name"]), propagation="Background")
        await world.settle()
        assert await everything_of(world, "wl") == {}
        assert await scheduler_objects(world, stage) == []

    run_world(story, replace(stage.options, nodes=8))
