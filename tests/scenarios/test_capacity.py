"""All or nothing: what a gang that does not fit does and says, and what sets it free."""

from dataclasses import replace

import pytest
from tests.scenarios.stories import (
    GANG_STAGES,
    RACK,
    STAGES,
    Stage,
    condition_of,
    events_about,
    gpu_role,
    rack_binding,
    reasons_about,
    scheduler_objects,
    set_condition,
    table,
    until_reason,
    until_running,
)
from tests.scenarios.stories import uid_of as uid

from grove.api import kinds, labels
from grove.backends.kai.topology import TOPOLOGIES
from grove.meta import Manifest
from grove.testing.world import NODES, World, WorldOptions, run_world

on_gang_stages = pytest.mark.parametrize("stage", GANG_STAGES.values(), ids=GANG_STAGES)


def crowded(stage: Stage, replicas: int = 5) -> Manifest:
    """A gang that takes one whole node for each pod; the cluster has four."""
    return stage.cliqueset(cliques=[gpu_role("worker", replicas)])


async def bound(world: World, *, below: int = 1000) -> list[str]:
    """The hostnames of pods that have a node, of those whose place in the clique is below a number."""
    placed = [pod for pod in await world.pods() if pod["spec"].get("nodeName")]
    return [
        pod["spec"]["hostname"] for pod in placed if int(pod["metadata"]["labels"][labels.POD_INDEX]) < below
    ]


@on_gang_stages
def test_a_gang_that_lacks_room_for_one_pod_has_no_pod_bound_and_says_why(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(crowded(stage))
        told = await until_reason(world, "train-0", "Scheduled", "Unschedulable")
        await world.settle()
        assert await bound(world) == []
        assert told["status"] == "False"
        assert "0 of 5 pods placed" in told["message"]
        assert "gpu" in told["message"].lower()
        assert await world.phase("train-0") == "Pending"

    run_world(story, stage.options)


@on_gang_stages
def test_kubectl_get_shows_why_a_gang_waits(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(crowded(stage))
        told = await until_reason(world, "train-0", "Scheduled", "Unschedulable")
        (row,) = await table(world, kinds.GANGS)
        assert (row["Name"], row["Phase"], row["Scheduled"], row["Ready"]) == (
            "train-0",
            "Pending",
            "False",
            "False",
        )
        assert (row["Backend"], row["Initialized"]) == (stage.backend, "True")
        assert row["Reason"] == told["message"]

    run_world(story, stage.options)


@on_gang_stages
def test_the_set_repeats_why_its_gang_waits_and_an_event_on_the_gang_says_it_once(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(crowded(stage))
        await until_reason(world, "train-0", "Scheduled", "Unschedulable")
        await world.settle()
        available = await set_condition(world, "train", "Available")
        assert available["status"] == "False"
        assert "0 of 1 replicas are available; gang train-0:" in available["message"]
        assert "gpu" in available["message"].lower()
        told = [
            each
            for each in await events_about(world, "PodGang", "train-0")
            if each["reason"] == "Unschedulable"
        ]
        assert [each["type"] for each in told] == ["Warning"]

    run_world(story, stage.options)


@on_gang_stages
def test_a_new_node_sets_a_waiting_gang_free_without_a_touch_of_the_set(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(crowded(stage))
        await until_reason(world, "train-0", "Scheduled", "Unschedulable")
        before = await world.get(kinds.CLIQUESETS, "train")
        pods = {pod["metadata"]["uid"] for pod in await world.pods()}
        await world.add_node("more")
        await until_running(world, "train-0")
        after = await world.get(kinds.CLIQUESETS, "train")
        assert before is not None
        assert after is not None
        assert after["metadata"]["generation"] == before["metadata"]["generation"]
        assert {pod["metadata"]["uid"] for pod in await world.pods()} == pods
        assert len(await bound(world)) == 5
        assert "Scheduled" in await reasons_about(world, "PodGang", "train-0")

    run_world(story, stage.options)


@on_gang_stages
def test_of_two_gangs_that_fit_only_one_at_a_time_one_is_placed_whole(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(crowded(stage, 3) | {"metadata": crowded(stage)["metadata"] | {"name": "one"}})
        await world.apply(crowded(stage, 3) | {"metadata": crowded(stage)["metadata"] | {"name": "two"}})
        await world.settle()
        placed = [
            pod["metadata"]["labels"]["grove.io/podgang"]
            for pod in await world.pods()
            if pod["spec"].get("nodeName")
        ]
        assert len(placed) == 3
        assert len(set(placed)) == 1

    run_world(story, stage.options)


def test_without_a_gang_api_pods_are_placed_one_by_one() -> None:
    stage = STAGES["no gang API"]

    async def story(world: World) -> None:
        await world.apply(crowded(stage))
        told = await until_reason(world, "train-0", "Scheduled", "Unschedulable")
        assert len(await bound(world)) == 4
        assert "4 of 5 pods placed" in told["message"]

    run_world(story, stage.options)


@on_gang_stages
def test_enough_pods_of_the_wrong_role_do_not_make_a_gang(stage: Stage) -> None:
    """There is room for three workers and one leader: as many pods as two of each, and yet no gang."""

    async def story(world: World) -> None:
        worker = gpu_role(
            "worker", 3, minAvailable=2, pod={"nodeSelector": {"nvidia.com/gpu.present": "true"}}
        )
        leader = gpu_role("leader", 2, minAvailable=2, pod={"nodeSelector": {"for": "leaders"}})
        await world.add_node("leaders", labels={"for": "leaders"})
        await world.apply(stage.cliqueset(cliques=[worker, leader]))
        await until_reason(world, "train-0", "Scheduled", "Unschedulable")
        await world.settle()
        # Before 1.37 and but for KAI, a pod beyond the minimum is no member of the gang and may go ahead.
        assert await bound(world, below=2) == []
        await world.add_node("more-leaders", labels={"for": "leaders"})
        await until_running(world, "train-0")

    run_world(story, stage.options)


@on_gang_stages
def test_pods_beyond_the_minimum_do_not_hold_the_gang_back(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques=[gpu_role("worker", 6, minAvailable=2)]))
        await until_running(world, "train-0")
        await world.settle()
        assert len(await bound(world)) == 4
        assert (await world.condition("train-0", "Scheduled"))["status"] == "True"

    run_world(story, stage.options)


# Topology -----------------------------------------------------------------------------------------


def packed(stage: Stage, *, replicas: int, level: str = "required") -> Manifest:
    constraint = {"topologyName": "cluster", "pack": {level: "rack"}}
    return stage.cliqueset(
        cliques=[gpu_role("worker", replicas)], template={"topologyConstraint": constraint}
    )


TOPOLOGY_STAGES = {name: STAGES[name] for name in ("1.36", "1.37", "kai")}
on_topology_stages = pytest.mark.parametrize("stage", TOPOLOGY_STAGES.values(), ids=TOPOLOGY_STAGES)


async def racks(world: World) -> set[str]:
    """The racks on which pods are."""
    nodes = {node["metadata"]["name"]: node for node in await world.all(NODES)}
    names = [pod["spec"].get("nodeName") for pod in await world.pods()]
    return {nodes[name]["metadata"]["labels"][RACK] for name in names if name}


@on_topology_stages
def test_a_gang_that_requires_a_rack_is_placed_on_one_rack(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(rack_binding(), packed(stage, replicas=2))
        await until_running(world, "train-0")
        assert len(await racks(world)) == 1
        gang = await world.gang("train-0")
        assert gang is not None
        assert gang["spec"]["topologyConstraint"] == {"packConstraint": {"required": RACK}}

    run_world(story, stage.options)


@on_topology_stages
def test_a_gang_that_fits_the_cluster_but_no_single_rack_waits(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(rack_binding(), packed(stage, replicas=3))
        await until_reason(world, "train-0", "Scheduled", "Unschedulable")
        await world.settle()
        assert await bound(world) == []
        await world.add_node("more", labels={RACK: "rack-1", "topology.kubernetes.io/zone": "zone-0"})
        await until_running(world, "train-0")
        assert await racks(world) == {"rack-1"}

    run_world(story, stage.options)


def test_kais_topology_is_named_and_owned_by_the_binding_and_the_podgroup_points_to_it() -> None:
    stage = STAGES["kai"]

    async def story(world: World) -> None:
        await world.apply(rack_binding(), packed(stage, replicas=2))
        await until_running(world, "train-0")
        topology = await world.get(TOPOLOGIES, "cluster")
        binding = await world.get(kinds.TOPOLOGY_BINDINGS, "cluster")
        assert topology is not None
        assert topology["metadata"]["ownerReferences"][0]["uid"] == uid(binding)
        assert topology["spec"]["levels"] == [{"nodeLabel": RACK}]
        (group,) = await scheduler_objects(world, stage)
        assert group["spec"]["topologyConstraint"] == {"topology": "cluster", "requiredTopologyLevel": RACK}

    run_world(story, stage.options)


@pytest.mark.parametrize("name", ["1.35", "no gang API"])
def test_a_required_rack_is_refused_where_the_scheduler_cannot_honour_it(name: str) -> None:
    stage = STAGES[name]

    async def story(world: World) -> None:
        await world.apply(rack_binding(), packed(stage, replicas=2))
        await world.settle()
        accepted = await set_condition(world, "train", "Accepted")
        assert (accepted["status"], accepted["reason"]) == ("False", "Unsupported")
        assert "spec.template.topologyConstraint.pack.required" in accepted["message"]
        assert "pack.preferred" in accepted["message"]
        assert await world.all(kinds.GANGS) == []
        assert await world.pods() == []

    run_world(story, stage.options)


@pytest.mark.parametrize("name", ["1.35", "1.36", "1.37", "no gang API"])
def test_a_preferred_rack_that_is_only_approximated_is_accepted_with_a_condition(name: str) -> None:
    stage = STAGES[name]

    async def story(world: World) -> None:
        await world.apply(rack_binding(), packed(stage, replicas=2, level="preferred"))
        await until_running(world, "train-0")
        loss = await world.condition("train-0", "TranslationLoss")
        assert (loss["status"], loss["reason"]) == ("True", "CannotExpress")
        assert "topology-preferred approximated" in loss["message"]

    run_world(story, stage.options)


def test_a_rack_is_waited_for_while_its_binding_does_not_exist() -> None:
    stage = STAGES["1.36"]

    async def story(world: World) -> None:
        await world.apply(packed(stage, replicas=2))
        await world.settle()
        accepted = await set_condition(world, "train", "Accepted")
        assert accepted["status"] == "False"
        assert 'ClusterTopologyBinding "cluster" not found' in accepted["message"]
        assert await world.all(kinds.GANGS) == []
        await world.apply(rack_binding())
        await until_running(world, "train-0")
        assert (await set_condition(world, "train", "Accepted"))["status"] == "True"

    run_world(story, stage.options)


# Priority -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_the_sets_priority_class_reaches_gang_pods_and_scheduler_objects(stage: Stage) -> None:
    async def story(world: World) -> None:
        urgent = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "urgent"},
            "value": 1000,
        }
        await world.apply(
            urgent,
            stage.cliqueset(cliques={"worker": 2}, template={"priorityClassName": "urgent"}),
        )
        await until_running(world, "train-0")
        gang = await world.gang("train-0")
        assert gang is not None
        assert gang["spec"]["priorityClassName"] == "urgent"
        assert [pod["spec"]["priority"] for pod in await world.pods()] == [1000, 1000]
        said = [
            each["spec"].get("priorityClassName")
            for each in await scheduler_objects(world, stage)
            if each["kind"] != "Workload"
        ]
        # Koordinator's PodGroups have no field for it: there the pods say it alone.
        assert set(said) <= ({None} if stage.backend == "koordinator" else {"urgent"})
        assert bool(said) is (stage.options.kubernetes != "1.35" and bool(stage.objects))

    run_world(story, stage.options)


def leaf_queue(name: str) -> Manifest:
    """A queue of KAI that takes gangs."""
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"parentQueue": "default-parent-queue"},
    }


def test_kai_takes_the_queue_from_the_sets_label() -> None:
    stage = STAGES["kai"]

    async def story(world: World) -> None:
        manifest = stage.cliqueset(cliques={"worker": 1}, labels={"kai.scheduler/queue": "research"})
        await world.apply(leaf_queue("research"), manifest)
        await until_running(world, "train-0")
        (group,) = await scheduler_objects(world, stage)
        assert group["spec"]["queue"] == "research"
        (pod,) = await world.pods()
        assert pod["metadata"]["labels"]["kai.scheduler/queue"] == "research"

    run_world(story, stage.options)


def test_a_gang_in_a_queue_that_does_not_exist_says_so_and_runs_when_it_comes() -> None:
    stage = STAGES["kai"]

    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques={"worker": 1}, labels={"kai.scheduler/queue": "nowhere"}))
        await world.settle()
        told = await world.condition("train-0", "Scheduled")
        assert told["status"] == "False"
        assert told["reason"] == "QueueDoesNotExist"
        assert "nowhere" in told["message"]
        await world.apply(leaf_queue("nowhere"))
        await until_running(world, "train-0")

    run_world(story, WorldOptions(schedulers=("kai",)))


#: YuniKorn writes no condition about a pod that waits.
@pytest.mark.parametrize("stage", [name for name in STAGES if name != "yunikorn"])
def test_pods_above_the_minimum_that_find_no_room_are_told_until_they_do(stage: str) -> None:
    async def story(world: World) -> None:
        worker = gpu_role("worker", 2, 4, minAvailable=2)
        await world.apply(STAGES[stage].cliqueset(cliques=[worker]))
        await until_running(world, "train-0")
        await world.scale("train-0-worker", 7, of=kinds.CLIQUES)
        await world.settle(quiet=10)
        gang = await world.gang("train-0") or {}
        waits = condition_of(gang, "PodsAboveMinimumPending")
        assert (waits["status"], waits["reason"]) == ("True", "Unschedulable")
        assert waits["message"].startswith("3 pods above the minimum wait: ")
        assert gang["status"]["phase"] == "Running"
        assert gang["status"]["message"].endswith(f"; {waits['message']}")
        available = await set_condition(world, "train", "Available")
        assert available["message"] == f"1 of 1 replicas are available; gang train-0: {waits['message']}"
        await world.add_node("more-0")
        await world.add_node("more-1")
        await world.settle(quiet=10)
        gang = await world.gang("train-0") or {}
        assert condition_of(gang, "PodsAboveMinimumPending") == {}
        assert (await set_condition(world, "train", "Available"))[
            "message"
        ] == "1 of 1 replicas are available"

    run_world(story, replace(STAGES[stage].options, nodes=2))
