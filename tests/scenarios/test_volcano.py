"""Volcano: what it enforces, what it would pass over in silence, and what sets a waiting gang free."""

import pytest
from tests.scenarios.stories import (
    RACK,
    STAGES,
    base_name,
    everything_of,
    gpu_role,
    object_of,
    pass_time,
    rack_binding,
    reasons_about,
    refusal,
    uid_of,
    until_reason,
    until_running,
)
from tests.scenarios.test_repair import edit

from grove.api import kinds, labels
from grove.backends.volcano.objects import PODGROUPS
from grove.backends.volcano.sight import CONFIG_MAPS, HYPERNODES, QUEUES
from grove.embedded.actors.schedulers import volcano_install
from grove.meta import Key, Manifest
from grove.testing.world import CRDS, NODES, World, run_world

STAGE = STAGES["volcano"]
QUEUE = "scheduling.volcano.sh/queue-name"
SCHEDULER_CONF = Key("volcano-system", "volcano-scheduler-configmap")
CONTROLLER_CONF = Key("volcano-system", "volcano-controller-configmap")


def train(*roles: Manifest, name: str = "train", **fields: object) -> Manifest:
    return STAGE.cliqueset(name, cliques=list(roles) or [gpu_role("worker", 2)], **fields)


async def bound(world: World, role: str = "") -> dict[str, str]:
    """The hostnames of pods that have a node, and the node."""
    return {
        pod["spec"]["hostname"]: pod["spec"]["nodeName"]
        for pod in await world.pods()
        if pod["spec"].get("nodeName") and pod["metadata"]["labels"][labels.POD_CLIQUE].endswith(role)
    }


async def podgroup(world: World, name: str = "train-0") -> Manifest:
    return await object_of(world, PODGROUPS, name)


async def racks(world: World) -> set[str]:
    """The racks that the gang's pods are in."""
    used = set((await bound(world)).values())
    nodes = {each["metadata"]["name"]: each for each in await world.all(NODES)}
    return {nodes[name]["metadata"]["labels"][RACK] for name in used}


# Placing ------------------------------------------------------------------------------------------


def test_a_gang_that_fits_is_bound_whole_and_its_podgroup_ends_running() -> None:
    async def story(world: World) -> None:
        await world.apply(train(gpu_role("leader", 1), gpu_role("worker", 3)))
        await until_running(world, "train-0")
        await world.settle()
        assert len(await bound(world)) == 4
        status = (await podgroup(world))["status"]
        assert status["phase"] == "Running"
        assert [each["type"] for each in status["conditions"]][-1] == "Scheduled"
        # Volcano warns about a gang that it has just placed; ours says nothing of the kind.
        told = await reasons_about(world, "PodGroup", (await podgroup(world))["metadata"]["name"])
        assert "Unschedulable" in told
        assert "Unschedulable" not in await reasons_about(world, "PodGang", "train-0")

    run_world(story, STAGE.options)


def test_one_node_short_binds_nobody_says_why_and_a_node_more_lets_it_run() -> None:
    async def story(world: World) -> None:
        await world.apply(train(gpu_role("leader", 1), gpu_role("worker", 4)))
        told = await until_reason(world, "train-0", "Scheduled", "Unschedulable")
        await world.settle()
        told = await world.condition("train-0", "Scheduled")
        assert await bound(world) == {}
        assert told["message"] == (
            "0 of 5 pods placed; 1/5 tasks in gang unschedulable: pod group is not ready, 5 Pending, 5 minAvailable; "
            "Pending: 1 Unschedulable, 4 Schedulable; Volcano names no node, as it does when queue 'default' has no share left of nvidia.com/gpu, "
            "which is at most what all nodes have."
        )
        await world.add_node("node-5")
        await until_running(world, "train-0")
        assert len(await bound(world)) == 5
        assert (await world.condition("train-0", "Scheduled"))["message"] == "5 of 5 pods placed."

    run_world(story, STAGE.options)


def test_while_gates_are_closed_volcanos_complaint_is_not_repeated() -> None:
    async def story(world: World) -> None:
        role = gpu_role("worker", 2, pod={"schedulingGates": [{"name": "example.com/quota"}]})
        await world.apply(train(role))
        await world.settle()
        told = await world.condition("train-0", "Scheduled")
        assert told["reason"] == "SchedulingGated"
        [condition] = (await podgroup(world))["status"]["conditions"]
        assert (condition["type"], condition["reason"]) == ("Unschedulable", "NotEnoughResources")

    run_world(story, STAGE.options)


def test_the_wrong_mix_of_roles_does_not_start_a_gang() -> None:
    async def story(world: World) -> None:
        # Room for four pods: six workers and a leader, of which the leader fits nowhere.
        leader = gpu_role("leader", 1, gpus=9)
        await world.apply(train(leader, gpu_role("worker", 6, minAvailable=3)))
        await until_reason(world, "train-0", "Scheduled", "Unschedulable")
        await world.settle()
        assert await bound(world) == {}

    run_world(story, STAGE.options)


def test_pods_above_the_minimum_follow_when_there_is_room() -> None:
    async def story(world: World) -> None:
        await world.apply(train(gpu_role("leader", 1), gpu_role("worker", 6, minAvailable=2)))
        await until_running(world, "train-0")
        await world.settle()
        assert (len(await bound(world, "-leader")), len(await bound(world, "-worker"))) == (1, 3)
        await world.add_node("node-5")
        await world.add_node("node-6")
        await world.add_node("node-7")

        async def everybody() -> bool:
            return len(await bound(world)) == 7

        await world.until(everybody, "the rest follows")

    run_world(story, STAGE.options)


def test_pods_that_request_nothing_run_and_the_gang_says_that_they_are_no_gang() -> None:
    async def story(world: World) -> None:
        await world.apply(STAGE.cliqueset(cliques={"worker": 2}))
        await until_running(world, "train-0")
        await world.settle()
        lost = await world.condition("train-0", "TranslationLoss")
        assert "train-0-worker: pods that request no resources" in lost["message"]

    run_world(story, STAGE.options)


# Queues -------------------------------------------------------------------------------------------


async def queue(world: World, name: str, state: str = "") -> None:
    """Create a queue if it is not there; give it a state if one is named."""
    if await world.get(QUEUES, name) is None:
        body = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": {}}
        await world.user.create(QUEUES, body)
    if state:
        await world.user.merge_patch(
            QUEUES, Key("", name), {"status": {"state": state}}, subresource="status"
        )


def test_a_gang_of_a_queue_that_does_not_exist_says_so_and_runs_when_it_comes() -> None:
    async def story(world: World) -> None:
        await world.apply(train(labels={QUEUE: "research"}))
        told = await until_reason(world, "train-0", "Scheduled", "PreconditionMissing")
        assert "Volcano has no queue 'research'" in told["message"]
        assert await world.all(PODGROUPS) == []
        assert "PreconditionMissing" in await reasons_about(world, "PodGang", "train-0")
        await queue(world, "research")
        await until_running(world, "train-0", seconds=10)
        assert (await podgroup(world))["spec"]["queue"] == "research"

    run_world(story, STAGE.options)


def test_a_gang_of_a_closed_queue_says_so_and_runs_when_it_is_opened() -> None:
    async def story(world: World) -> None:
        await queue(world, "research", "Closed")
        await world.apply(train(annotations={QUEUE: "research"}))
        told = await until_reason(world, "train-0", "Scheduled", "PreconditionMissing")
        assert "queue 'research' is Closed and takes no gangs until it is Open" in told["message"]
        await world.settle()
        await queue(world, "research", "Open")
        await until_running(world, "train-0", seconds=10)

    run_world(story, STAGE.options)


def test_a_queue_that_is_closed_later_does_not_disturb_a_gang_that_runs() -> None:
    async def story(world: World) -> None:
        await queue(world, "research", "Open")
        await world.settle()
        await world.apply(train(annotations={QUEUE: "research"}))
        await until_running(world, "train-0")
        await queue(world, "research", "Closed")
        await world.settle()
        assert await world.phase("train-0") == "Running"
        assert "PreconditionMissing" not in await reasons_about(world, "PodGang", "train-0")

    run_world(story, STAGE.options)


def test_the_default_queue_is_volcanos_to_fill_in() -> None:
    async def story(world: World) -> None:
        await world.apply(train())
        await until_running(world, "train-0")
        assert (await podgroup(world))["spec"]["queue"] == "default"

    run_world(story, STAGE.options)


# Topology -----------------------------------------------------------------------------------------


def racked(*roles: Manifest, must: str = "required", name: str = "train") -> Manifest:
    constraint = {"topologyName": "cluster", "pack": {must: "rack"}}
    return train(*roles, name=name, template={"topologyConstraint": constraint})


async def configure(world: World, which: Key, name: str, text: str) -> None:
    await world.user.merge_patch(CONFIG_MAPS, which, {"data": {name: text}})


async def without_plugin(world: World) -> None:
    conf = 'actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n'
    await configure(world, SCHEDULER_CONF, "volcano-scheduler.conf", conf)


async def with_plugin(world: World) -> None:
    conf = (
        'actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: network-topology-aware\n'
    )
    await configure(world, SCHEDULER_CONF, "volcano-scheduler.conf", conf)


def test_a_gang_that_requires_a_rack_is_in_one() -> None:
    async def story(world: World) -> None:
        # Each rack has two nodes of 8 GPUs; an even spread over all nodes would fit, too.
        await world.apply(
            rack_binding(), racked(gpu_role("leader", 1, gpus=4), gpu_role("worker", 3, gpus=4))
        )
        await until_running(world, "train-0")
        assert len(await bound(world)) == 4
        assert len(await racks(world)) == 1

    run_world(story, STAGE.options)


def test_a_gang_that_no_rack_has_room_for_waits_and_runs_when_one_has() -> None:
    async def story(world: World) -> None:
        await world.apply(rack_binding(), racked(gpu_role("worker", 3)))
        await until_reason(world, "train-0", "Scheduled", "Unschedulable")
        await world.settle()
        told = await world.condition("train-0", "Scheduled")
        assert await bound(world) == {}
        assert "In hyperNode hypernode-embedded-tier1-rack-" in told["message"]
        assert "0/2 nodes are unavailable: 2 Insufficient nvidia.com/gpu" in told["message"]
        where = {RACK: "rack-1", "topology.kubernetes.io/zone": "zone-0"}
        await world.add_node("node-5", labels=where)
        await until_running(world, "train-0")
        assert await racks(world) == {"rack-1"}

    run_world(story, STAGE.options)


def test_a_role_that_requires_a_rack_is_in_one_whatever_the_others_do() -> None:
    async def story(world: World) -> None:
        rack = {"topologyName": "cluster", "pack": {"required": "rack"}}
        worker = gpu_role("worker", 2, topologyConstraint=rack)
        await world.apply(rack_binding(), train(gpu_role("leader", 2), worker))
        await until_running(world, "train-0")
        nodes = {
            each["metadata"]["name"]: each["metadata"]["labels"][RACK] for each in await world.all(NODES)
        }
        assert len({nodes[name] for name in (await bound(world, "-worker")).values()}) == 1

    run_world(story, STAGE.options)


def test_without_the_plugin_a_required_rack_is_not_dropped_in_silence_but_waited_for() -> None:
    async def story(world: World) -> None:
        await without_plugin(world)
        await world.settle()
        await world.apply(rack_binding(), racked(gpu_role("worker", 3, gpus=4)))
        told = await until_reason(world, "train-0", "Scheduled", "PreconditionMissing")
        assert "the plugin network-topology-aware is not in the ConfigMap volcano-system/" in told["message"]
        await world.settle()
        assert await bound(world) == {}
        await with_plugin(world)
        await until_running(world, "train-0", seconds=10)
        assert len(await racks(world)) == 1

    run_world(story, STAGE.options)


def test_a_tier_that_no_hypernode_has_is_waited_for() -> None:
    async def story(world: World) -> None:
        discovery = await world.get(CONFIG_MAPS, CONTROLLER_CONF.name, CONTROLLER_CONF.namespace)
        assert discovery is not None
        await configure(world, CONTROLLER_CONF, "volcano-controller.conf", "networkTopologyDiscovery: []")
        await world.settle()
        assert await world.all(HYPERNODES) == []
        await world.apply(rack_binding(), racked(gpu_role("worker", 3, gpus=4)))
        told = await until_reason(world, "train-0", "Scheduled", "PreconditionMissing")
        assert f"no HyperNode has the tierName '{RACK}' (there are: none)" in told["message"]
        text = discovery["data"]["volcano-controller.conf"]
        await configure(world, CONTROLLER_CONF, "volcano-controller.conf", text)
        await until_running(world, "train-0", seconds=10)
        assert len(await racks(world)) == 1

    run_world(story, STAGE.options)


def test_a_preferred_rack_is_taken_if_it_can_be_had() -> None:
    async def story(world: World) -> None:
        await world.settle()
        await world.apply(rack_binding(), racked(gpu_role("worker", 3, gpus=4), must="preferred"))
        await until_running(world, "train-0")
        assert len(await racks(world)) == 1
        assert not await world.condition("train-0", "TranslationLoss")

    run_world(story, STAGE.options)


def test_a_preferred_rack_that_would_be_ignored_runs_and_says_so() -> None:
    async def story(world: World) -> None:
        await without_plugin(world)
        await world.settle()
        await world.apply(rack_binding(), racked(gpu_role("worker", 3, gpus=4), must="preferred"))
        await until_running(world, "train-0")
        await world.settle()
        lost = await world.condition("train-0", "TranslationLoss")
        assert (
            "topology-preferred not expressible: the plugin network-topology-aware is not" in lost["message"]
        )

    run_world(story, STAGE.options)


# Life ---------------------------------------------------------------------------------------------


def test_scaling_out_adds_gangs_and_scaling_in_takes_them_with_their_podgroups() -> None:
    async def story(world: World) -> None:
        await world.apply(train(gpu_role("worker", 2, gpus=2)))
        await until_running(world, "train-0")
        await world.scale("train", 3)
        await until_running(world, "train-0", "train-1", "train-2")
        assert sorted(base_name(each) for each in await world.all(PODGROUPS)) == [
            "train-0",
            "train-1",
            "train-2",
        ]
        await world.scale("train", 1)

        async def smaller() -> bool:
            return len(await world.all(PODGROUPS)) == 1 and len(await world.pods()) == 2

        await world.until(smaller, "the excess is gone")

    run_world(story, STAGE.options)


def test_deleting_the_set_leaves_nothing() -> None:
    async def story(world: World) -> None:
        await world.apply(train(gpu_role("leader", 1), gpu_role("worker", 2)))
        await until_running(world, "train-0")
        await world.user.delete(kinds.CLIQUESETS, Key("default", "train"))

        async def gone() -> bool:
            return not await world.pods() and not await world.all(PODGROUPS)

        await world.until(gone, "everything is gone")
        assert await everything_of(world, "train") == {}

    run_world(story, STAGE.options)


def test_a_podgroup_edited_or_deleted_by_hand_is_put_back_and_keeps_volcanos_status() -> None:
    async def story(world: World) -> None:
        await world.apply(train())
        await until_running(world, "train-0")
        await world.settle()
        before = await podgroup(world)
        wanted, name = before["spec"], before["metadata"]["name"]
        await edit(world, PODGROUPS, name, {"spec": {"minMember": 1, "subGroupPolicy": []}})
        await world.settle()
        assert (await podgroup(world))["spec"] == wanted
        assert (await podgroup(world))["status"]["phase"] == "Running"
        await world.user.delete(PODGROUPS, Key("default", name))
        await world.settle()
        again = await podgroup(world)
        assert (again["spec"], again["metadata"]["name"]) == (wanted, name)
        assert uid_of(again) != uid_of(before)
        assert "Repaired" in await reasons_about(world, "PodGang", "train-0")
        assert await world.phase("train-0") == "Running"

    run_world(story, STAGE.options)


def test_a_gang_waits_for_volcano_to_be_installed_and_then_comes_alive() -> None:
    async def story(world: World) -> None:
        for crd in volcano_install.definitions():
            await world.user.delete(CRDS, Key("", crd["metadata"]["name"]))
        await world.start_operator()
        await world.apply(train())
        told = await until_reason(world, "train-0", "Scheduled", "PreconditionMissing")
        assert "install Volcano" in told["message"]
        await volcano_install.install(world.cluster.client())
        await until_running(world, "train-0", seconds=45)

    run_world(story, STAGE.options, operator=False)


def test_before_1_14_minima_are_held_by_tasks_and_a_required_rack_is_refused() -> None:
    async def story(world: World) -> None:
        for crd in volcano_install.definitions():
            await world.user.delete(CRDS, Key("", crd["metadata"]["name"]))
        await volcano_install.install(world.cluster.client(), subgroups=False)
        await world.settle()
        await world.start_operator()
        await world.apply(train(gpu_role("leader", 1), gpu_role("worker", 2)))
        await until_running(world, "train-0")
        spec = (await podgroup(world))["spec"]
        assert spec["minTaskMember"] == {"train-0-leader": 1, "train-0-worker": 2}
        assert "subGroupPolicy" not in spec
        lost = await world.condition("train-0", "TranslationLoss")
        assert "this release of Volcano has no subgroups" in lost["message"]
        await world.apply(rack_binding(), racked(name="packed"))
        refused = await refusal(world, "packed")
        assert (refused["status"], refused["reason"]) == ("False", "Unsupported")
        assert "spec.template.topologyConstraint.pack.required: cannot be honoured" in refused["message"]

    run_world(story, STAGE.options, operator=False)


@pytest.mark.parametrize("waits", [False, True], ids=["running", "waiting"])
def test_an_operator_that_restarts_writes_nothing(waits: bool) -> None:
    async def story(world: World) -> None:
        await world.apply(rack_binding(), racked(gpu_role("worker", 3 if waits else 2)))
        if waits:
            await until_reason(world, "train-0", "Scheduled", "Unschedulable")
        else:
            await until_running(world, "train-0")
        await world.settle()
        await world.kill_operator()
        before = world.writes()
        await world.start_operator()
        await pass_time(60)
        assert world.writes() == before

    run_world(story, STAGE.options)
