"""Nodes that are drained, cordoned or lost, and pods that are preempted: gangs say so, and pods come back as who they were."""

from dataclasses import replace

import pytest
from tests.scenarios.draining import cordon, drain, evict, pods_on
from tests.scenarios.stories import (
    STAGES,
    Stage,
    events_about,
    gpu_role,
    key,
    pass_time,
    set_condition,
    uid_of,
    until_phase,
    until_reason,
    until_running,
)

from grove.api import kinds
from grove.embedded.actors.nodes import LOST
from grove.meta import Manifest
from grove.testing.portrait import Guard
from grove.testing.world import NODES, World, run_world

on_every_stage = pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
STOP = {"embedded.grove.io/shutdown": "4s"}
HOSTS = [f"train-0-worker-{index}" for index in range(4)]
URGENT: Manifest = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "urgent"},
    "value": 90,
}


def workers(stage: Stage, pods: int = 4, minimum: int = 2, gpus: int = 4) -> Manifest:
    """A gang of which two pods share a node."""
    role = gpu_role("worker", pods, gpus, minAvailable=minimum, annotations=STOP)
    return stage.cliqueset(cliques=[role])


async def hosts(world: World) -> list[str]:
    return sorted(pod["spec"]["hostname"] for pod in await world.pods())


async def disruptions(world: World, gang: str = "train-0") -> list[str]:
    """What the events about a gang tell of disruptions."""
    found = await events_about(world, "PodGang", gang)
    return [each["message"] for each in found if each["reason"] == "Disrupted"]


async def lose(world: World, node: str, *, lost: bool = True) -> None:
    mark = {"metadata": {"annotations": {LOST: "true" if lost else None}}}
    await world.user.merge_patch(NODES, key(node, ""), mark)


@on_every_stage
def test_a_drained_gang_says_so_and_its_pods_come_back_elsewhere_as_who_they_were(stage: Stage) -> None:
    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        await world.apply(workers(stage))
        await until_running(world, "train-0")
        await world.settle()
        node = (await world.pods())[0]["spec"]["nodeName"]
        gone = await pods_on(world, node)
        await cordon(world, node)
        for pod in gone:
            assert await evict(world, pod) == ""
        await pass_time(1)
        said = await world.condition("train-0", "DisruptionTarget")
        assert (said["status"], said["reason"]) == ("True", "EvictionByEvictionAPI")
        names = ", ".join(sorted(pod["metadata"]["name"] for pod in gone))
        subject = f"{'pods' if len(gone) > 1 else 'pod'} {names} on node {node}"
        assert said["message"] == f"{subject}: evicted through the API, as kubectl drain does"
        await pass_time(4)
        await until_running(world, "train-0")
        await world.settle()
        assert await hosts(world) == HOSTS
        assert await pods_on(world, node) == []
        assert await world.condition("train-0", "DisruptionTarget") == {}
        assert await disruptions(world) == [said["message"]]
        assert guard.broken == []

    run_world(story, stage.options)


def test_a_cordon_takes_nothing_away_and_is_told_only_where_a_pod_waits_because_of_it() -> None:
    stage = STAGES["1.36"]

    async def story(world: World) -> None:
        await world.apply(workers(stage, pods=2, gpus=8))
        await until_running(world, "train-0")
        await world.settle()
        before = await world.gang("train-0")
        for node in await world.all(NODES):
            await cordon(world, node["metadata"]["name"])
        await pass_time(60)
        assert await world.gang("train-0") == before
        pod = (await world.pods())[0]
        await world.user.delete(kinds.PODS, key(pod["metadata"]["name"]))
        scheduled = await until_reason(world, "train-0", "Scheduled", "Unschedulable")
        assert "4 node(s) were unschedulable" in scheduled["message"]
        assert await world.condition("train-0", "DisruptionTarget") == {}
        assert await disruptions(world) == []

    run_world(story, replace(stage.options, nodes=4))


@on_every_stage
def test_a_gang_says_which_node_does_not_answer_and_no_longer_when_it_does_again(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(workers(stage, pods=2, minimum=2, gpus=8))
        await until_running(world, "train-0")
        await world.settle()
        lost = (await world.pods())[0]
        name, node = lost["metadata"]["name"], lost["spec"]["nodeName"]
        await lose(world, node)
        said = await until_reason(world, "train-0", "DisruptionTarget", "NodeNotReady")
        assert said["message"].startswith(f"pod {name} on node {node}: the node does not answer")
        await until_phase(world, "train-0", "Starting")
        gang = await world.gang("train-0") or {}
        assert gang["status"]["message"] == f"train-0-worker: 1 of 2 pods are ready; {said['message']}"
        await pass_time(3)
        available = await set_condition(world, "train", "Available")
        assert available["message"].endswith(f"gang train-0: {gang['status']['message']}")
        await lose(world, node, lost=False)
        await until_running(world, "train-0")
        await world.settle()
        assert await world.condition("train-0", "DisruptionTarget") == {}
        assert {uid_of(pod) for pod in await world.pods()} >= {uid_of(lost)}
        assert await disruptions(world) == [said["message"]]

    run_world(story, stage.options)


@on_every_stage
def test_the_pods_of_a_node_that_stays_lost_are_replaced_and_the_gang_says_why(stage: Stage) -> None:
    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        await world.apply(workers(stage, pods=2, minimum=2, gpus=8))
        await until_running(world, "train-0")
        await world.settle()
        lost = (await world.pods())[0]
        node = lost["spec"]["nodeName"]
        await lose(world, node)
        said = await until_reason(world, "train-0", "DisruptionTarget", "DeletionByTaintManager", seconds=320)
        assert f"on node {node}: deleted, because its node has a taint" in said["message"]
        stuck = await until_reason(world, "train-0", "StuckPods", "StuckTerminating", seconds=200)
        assert node in stuck["message"]
        await until_running(world, "train-0", seconds=120)
        await world.settle()
        assert await world.condition("train-0", "DisruptionTarget") == {}, "StuckPods tells the rest"
        living = [pod for pod in await world.pods() if "deletionTimestamp" not in pod["metadata"]]
        assert sorted(pod["spec"]["hostname"] for pod in living) == HOSTS[:2]
        assert node not in {pod["spec"]["nodeName"] for pod in living}
        assert len(await disruptions(world)) == 2, "first the node, then the deletion"
        assert guard.broken == []

    run_world(story, stage.options)


@on_every_stage
def test_the_pods_of_a_deleted_node_come_back_and_an_event_says_what_became_of_them(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(workers(stage, pods=2, minimum=2, gpus=8))
        await until_running(world, "train-0")
        await world.settle()
        lost = (await world.pods())[0]
        name, node = lost["metadata"]["name"], lost["spec"]["nodeName"]
        await world.user.delete(NODES, key(node, ""))
        await pass_time(1)
        await until_running(world, "train-0")
        await world.settle()
        assert await hosts(world) == HOSTS[:2]
        assert await disruptions(world) == [
            f"pod {name} on node {node}: deleted (PodGC: node no longer exists)"
        ]

    run_world(story, stage.options)


@pytest.mark.parametrize("stage", [STAGES["1.36"], STAGES["kai"]], ids=["1.36", "kai"])
def test_a_preempted_gang_says_so_and_comes_back_when_there_is_room(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(URGENT)
        await world.apply(workers(stage, pods=2, minimum=2, gpus=8))
        await until_running(world, "train-0")
        await world.settle()
        node = (await world.pods())[0]["spec"]["nodeName"]
        role = gpu_role("worker", 2, 8)
        await world.apply(stage.cliqueset("urgent", cliques=[role], template={"priorityClassName": "urgent"}))
        said = await until_reason(world, "train-0", "DisruptionTarget", "PreemptionByScheduler")
        assert f"on node {node}: preempted (" in said["message"]
        assert "preempting to accommodate a higher priority pod" in said["message"]
        await until_running(world, "urgent-0")
        for name in ("more-0", "more-1"):
            await world.add_node(name, 8)
        await until_running(world, "train-0", seconds=120)
        assert sorted(await hosts(world))[:2] == HOSTS[:2]
        assert await disruptions(world) != []

    run_world(story, replace(stage.options, nodes=2))


def test_a_pod_that_its_kubelet_ended_for_want_of_memory_is_replaced_and_the_gang_says_why() -> None:
    stage = STAGES["1.36"]

    async def story(world: World) -> None:
        await world.apply(workers(stage, pods=2, minimum=2, gpus=8))
        await until_running(world, "train-0")
        await world.settle()
        pod = (await world.pods())[0]
        name = pod["metadata"]["name"]
        target = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "TerminationByKubelet",
            "message": "The node was low on resource: memory.",
        }
        failed = {"phase": "Failed", "reason": "Evicted", "conditions": [target]}
        await world.user.merge_patch(kinds.PODS, key(name), {"status": failed}, subresource="status")
        await pass_time(1)
        await until_running(world, "train-0")
        await world.settle()
        assert await hosts(world) == HOSTS[:2]
        where = f"pod {name} on node {pod['spec']['nodeName']}"
        assert await disruptions(world) == [
            f"{where}: ended by its kubelet (The node was low on resource: memory.)"
        ]

    run_world(story, stage.options)


@on_every_stage
def test_without_a_budget_a_drain_takes_all_pods_of_a_node_at_once(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(workers(stage))
        await until_running(world, "train-0")
        await world.settle()
        node = (await world.pods())[0]["spec"]["nodeName"]
        there = len(await pods_on(world, node))
        done = await drain(world, node)
        assert (len(done.evicted), done.refused) == (there, [])
        await until_running(world, "train-0")
        await world.settle()
        assert await hosts(world) == HOSTS

    run_world(story, stage.options)
