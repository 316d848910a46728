"""More, fewer, none and gone: what follows a change of replicas and a deletion."""

import pytest
from tests.scenarios.stories import (
    NAMESPACES,
    STAGES,
    Stage,
    everything_of,
    reasons_about,
    scheduler_objects,
    set_condition,
    until_gone,
    until_running,
)

from grove.api import kinds, labels
from grove.meta import Key, Resource
from grove.testing import make
from grove.testing.world import World, run_world

on_every_stage = pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)


async def names(world: World) -> dict[str, list[str]]:
    """What the set has now, pods by hostname."""
    found = {
        each.kind: sorted(item["metadata"]["name"] for item in await world.all(each))
        for each in (kinds.GANGS, kinds.CLIQUES, kinds.SERVICES)
    }
    return {**found, "Pod": sorted(pod["spec"]["hostname"] for pod in await world.pods())}


def wanted(replicas: int) -> dict[str, list[str]]:
    """What a set of two workers has with so many replicas."""
    return {
        "PodGang": [f"train-{index}" for index in range(replicas)],
        "PodClique": [f"train-{index}-worker" for index in range(replicas)],
        "Service": [f"train-{index}" for index in range(replicas)],
        "Pod": [f"train-{index}-worker-{place}" for index in range(replicas) for place in (0, 1)],
    }


@on_every_stage
def test_a_set_scaled_up_and_down_has_exactly_the_children_of_its_replicas(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques={"worker": 2}))
        for replicas in (1, 3, 2, 0, 2):
            await world.scale("train", replicas)
            await world.settle()
            assert await names(world) == wanted(replicas)
            objects = await scheduler_objects(world, stage)
            gangs = {each["metadata"]["labels"][labels.POD_GANG] for each in objects}
            assert gangs == ({f"train-{index}" for index in range(replicas)} if stage.objects else set())
            running = [await world.phase(f"train-{index}") for index in range(replicas)]
            assert running == ["Running"] * replicas

    run_world(story, stage.options)


def test_scaling_up_leaves_the_pods_of_older_replicas_alone() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}))
        await until_running(world, "train-0")
        before = {pod["metadata"]["uid"] for pod in await world.pods()}
        await world.scale("train", 3)
        await until_running(world, "train-1", "train-2")
        assert before < {pod["metadata"]["uid"] for pod in await world.pods()}

    run_world(story)


def test_a_set_of_no_replicas_is_available_and_counts_none() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}, replicas=0))
        await world.settle()
        assert (await set_condition(world, "train", "Available"))["status"] == "True"
        found = await world.get(kinds.CLIQUESETS, "train")
        assert found is not None
        assert found["spec"]["replicas"] == 0
        assert found["status"]["availableReplicas"] == 0
        assert await names(world) == wanted(0)

    run_world(story)


def test_the_set_counts_its_replicas_and_tells_what_it_created_and_removed() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}, replicas=3))
        await world.settle()
        found = await world.get(kinds.CLIQUESETS, "train")
        assert found is not None
        counted = {
            name: found["status"][name] for name in ("replicas", "availableReplicas", "updatedReplicas")
        }
        assert counted == {"replicas": 3, "availableReplicas": 3, "updatedReplicas": 3}
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
        await world.scale("train", 1)
        await world.settle()
        assert await reasons_about(world, "PodCliqueSet", "train") == ["Created", "Removed"]

    run_world(story)


# Cliques ------------------------------------------------------------------------------------------


@on_every_stage
def test_a_clique_scaled_up_gets_pods_that_run_and_are_referenced(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques={"worker": 2, "leader": 1}))
        await until_running(world, "train-0")
        await world.settle()
        await world.scale("train-0-worker", 4, of=kinds.CLIQUES)
        await world.settle()
        pods = [pod for pod in await world.pods() if "worker" in pod["spec"]["hostname"]]
        assert sorted(pod["spec"]["hostname"][-1] for pod in pods) == ["0", "1", "2", "3"]
        assert all(pod["spec"].get("nodeName") for pod in pods)
        gang = await world.gang("train-0")
        assert gang is not None
        listed = {group["name"]: len(group["podReferences"]) for group in gang["spec"]["podgroups"]}
        assert listed == {"train-0-worker": 4, "train-0-leader": 1}
        assert await world.phase("train-0") == "Running"

    run_world(story, stage.options)


@on_every_stage
def test_a_clique_scaled_down_loses_its_last_pods_and_their_references(stage: Stage) -> None:
    async def story(world: World) -> None:
        role = make.template("worker", 4)
        role["spec"]["minAvailable"] = 1
        await world.apply(stage.cliqueset(cliques=[role]))
        await until_running(world, "train-0")
        await world.settle()
        await world.scale("train-0-worker", 2, of=kinds.CLIQUES)
        await world.settle()
        pods = await world.pods()
        assert sorted(pod["spec"]["hostname"] for pod in pods) == ["train-0-worker-0", "train-0-worker-1"]
        gang = await world.gang("train-0")
        assert gang is not None
        listed = {ref["name"] for group in gang["spec"]["podgroups"] for ref in group["podReferences"]}
        assert listed == {pod["metadata"]["name"] for pod in pods}
        clique = await world.get(kinds.CLIQUES, "train-0-worker")
        assert clique is not None
        assert (clique["status"]["replicas"], clique["status"]["readyReplicas"]) == (2, 2)
        assert await world.phase("train-0") == "Running"

    run_world(story, stage.options)


def test_a_clique_keeps_the_replicas_that_somebody_gave_it_when_the_set_changes() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 1}))
        await until_running(world, "train-0")
        await world.scale("train-0-worker", 3, of=kinds.CLIQUES)
        await world.settle()
        await world.scale("train", 2)
        await world.settle()
        assert len([pod for pod in await world.pods() if pod["spec"]["hostname"].startswith("train-0-")]) == 3
        assert len([pod for pod in await world.pods() if pod["spec"]["hostname"].startswith("train-1-")]) == 1

    run_world(story)


@pytest.mark.parametrize(
    ("resource", "name"),
    [(kinds.CLIQUESETS, "train"), (kinds.CLIQUES, "train-0-worker")],
    ids=["set", "clique"],
)
def test_the_scale_subresource_has_a_selector_that_finds_exactly_the_pods(
    resource: Resource, name: str
) -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 2, "leader": 1}))
        await world.apply(make.cliqueset_manifest("other", {"worker": 2}))
        await until_running(world, "train-0", "other-0")
        await world.settle()
        scale = await world.user.get(resource, Key("default", name), type=dict, subresource="scale")
        found = await world.all(kinds.PODS, labels=scale["status"]["selector"])
        hosts = {pod["spec"]["hostname"] for pod in found}
        workers = {"train-0-worker-0", "train-0-worker-1"}
        assert hosts == (workers if resource is kinds.CLIQUES else workers | {"train-0-leader-0"})
        assert scale["status"]["replicas"] == (2 if resource is kinds.CLIQUES else 1)

    run_world(story)


# Gone ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
@on_every_stage
def test_a_deleted_set_leaves_nothing_that_carries_its_labels(stage: Stage, propagation: str) -> None:
    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques={"worker": 2, "leader": 1}, replicas=2))
        await until_running(world, "train-0", "train-1")
        assert "pods." in await everything_of(world, "train")
        await world.user.delete(kinds.CLIQUESETS, Key("default", "train"), propagation=propagation)
        await until_gone(world, kinds.CLIQUESETS, "train")
        await world.settle()
        assert await everything_of(world, "train") == {}

    run_world(story, stage.options)


def test_a_set_deleted_while_it_starts_leaves_nothing() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 4}, replicas=3))
        await world.user.delete(kinds.CLIQUESETS, Key("default", "train"), propagation="Background")
        await world.settle()
        assert await everything_of(world, "train") == {}

    run_world(story)


def test_a_set_deleted_and_created_again_at_once_runs_afresh() -> None:
    async def story(world: World) -> None:
        manifest = make.cliqueset_manifest("train", {"worker": 2})
        await world.apply(manifest)
        await until_running(world, "train-0")
        before = {pod["metadata"]["uid"] for pod in await world.pods()}
        await world.user.delete(kinds.CLIQUESETS, Key("default", "train"), propagation="Background")
        await world.apply(manifest)
        await world.settle(quiet=10)
        assert await world.phase("train-0") == "Running"
        assert await names(world) == wanted(1)
        assert not before & {pod["metadata"]["uid"] for pod in await world.pods()}

    run_world(story)


def test_a_deleted_namespace_goes_with_everything_in_it() -> None:
    async def story(world: World) -> None:
        await world.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        manifest = make.cliqueset_manifest("train", {"worker": 2}, namespace="team")
        await world.apply(manifest)

        async def running() -> bool:
            found = await world.get(kinds.GANGS, "train-0", "team")
            return bool(found) and (found or {}).get("status", {}).get("phase") == "Running"

        await world.until(running, "the gang runs")
        await world.user.delete(NAMESPACES, Key("", "team"))
        await until_gone(world, NAMESPACES, "team")
        assert await everything_of(world, "train") == {}

    run_world(story)
