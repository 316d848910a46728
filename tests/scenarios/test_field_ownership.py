"""Whether API servers record who manages which field: of everything, or not of pods and gangs that are under way."""

from dataclasses import replace
from typing import Final

from grove.api import kinds, labels
from grove.api.config import load
from grove.meta import Key, Manifest, Resource
from grove.testing.world import CONFIGURATION, World, WorldOptions, run_world

TRACKED: Final = WorldOptions(records_managers=True)
UNTRACKED: Final = replace(TRACKED, configuration=load(f"{CONFIGURATION}\nfieldOwnership: Untracked\n"))


def train(replicas: int = 2) -> Manifest:
    containers = [{"name": "main", "image": "busybox:1.37"}]
    role = {
        "name": "worker",
        "spec": {"roleName": "worker", "replicas": 2, "podSpec": {"containers": containers}},
    }
    return {
        "apiVersion": kinds.CLIQUESETS.api_version,
        "kind": kinds.CLIQUESETS.kind,
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"replicas": replicas, "template": {"cliques": [role]}},
    }


async def managers(world: World, resource: Resource) -> list[set[str]]:
    """Who is recorded for each object of a kind."""
    return [
        {entry["manager"] for entry in each["metadata"].get("managedFields") or ()}
        for each in await world.all(resource)
    ]


def test_by_default_everybody_can_see_who_wrote_what() -> None:
    async def story(world: World) -> None:
        await world.apply(train())
        await world.settle()
        for resource in (kinds.PODS, kinds.GANGS, kinds.CLIQUES):
            found = await managers(world, resource)
            assert found
            assert all(labels.MANAGER in each for each in found), resource

    run_world(story, TRACKED)


def test_untracked_pods_and_gangs_carry_no_record_and_run_all_the_same() -> None:
    async def story(world: World) -> None:
        await world.apply(train())
        await world.settle()
        pods = await world.pods()
        assert [each["status"]["phase"] for each in pods] == ["Running"] * 4
        assert await managers(world, kinds.PODS) == [set()] * 4
        assert await managers(world, kinds.GANGS) == [set()] * 2
        assert all(await managers(world, kinds.CLIQUES))

    run_world(story, UNTRACKED)


def test_a_label_that_somebody_applies_to_an_untracked_gang_stays_through_every_later_write() -> None:
    async def story(world: World) -> None:
        await world.apply(train())
        await world.settle()
        marked = {"metadata": {"name": "train-0", "namespace": "default", "labels": {"team": "blue"}}}
        await world.user.apply(kinds.GANGS, marked, field_manager="billing")
        (pod,) = [each for each in await world.pods() if each["spec"]["hostname"] == "train-0-worker-0"]
        await world.user.delete(kinds.PODS, Key("default", pod["metadata"]["name"]))
        await world.settle()
        gang = await world.get(kinds.GANGS, "train-0")
        assert gang is not None
        assert gang["metadata"]["labels"]["team"] == "blue"
        assert gang["status"]["phase"] == "Running"
        assert len(await world.pods()) == 4

    run_world(story, UNTRACKED)
