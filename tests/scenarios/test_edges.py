"""The edges: many roles, none of a role, the same name twice, no CRDs, a topology that comes and goes."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from tests.scenarios.stories import (
    GANG_STAGES,
    OBJECT_STAGES,
    QUOTAS,
    RACK,
    STAGES,
    History,
    Stage,
    gates_of,
    gpu_role,
    pass_time,
    rack_binding,
    scheduler_objects,
    set_condition,
    uid_of,
    until_running,
)

from grove.api import kinds, labels
from grove.api.config import load
from grove.assembly import MissingResources
from grove.meta import Key, Manifest, resource
from grove.testing import make
from grove.testing.world import CRDS, NODES, World, WorldOptions, run_world

CONFIG_MAPS = resource("", "v1", "ConfigMap")

on_every_stage = pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)


@on_every_stage
def test_a_gang_of_nine_roles_runs_everywhere(stage: Stage) -> None:
    """Kubernetes takes eight groups in one Workload."""

    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques={f"role{index}": 1 for index in range(9)}))
        await until_running(world, "train-0")
        assert len(await world.pods()) == 9

    run_world(story, stage.options)


@pytest.mark.parametrize("stage", GANG_STAGES.values(), ids=GANG_STAGES)
def test_a_gang_of_nine_roles_is_still_all_or_nothing(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques=[gpu_role(f"role{index}", 1, 4) for index in range(9)]))
        await world.settle()
        assert [pod["spec"]["hostname"] for pod in await world.pods() if pod["spec"].get("nodeName")] == []
        await world.add_node("more")
        await until_running(world, "train-0")

    run_world(story, stage.options)


@on_every_stage
def test_a_clique_scaled_to_none_and_back_runs_again(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques={"worker": 2, "leader": 1}))
        await until_running(world, "train-0")
        await world.scale("train-0-worker", 0, of=kinds.CLIQUES)
        await world.settle()
        assert [pod["spec"]["hostname"] for pod in await world.pods()] == ["train-0-leader-0"]
        assert await world.phase("train-0") == "Running", "a role that sleeps is no lack of the others"
        await world.scale("train-0-worker", 2, of=kinds.CLIQUES)

        async def three_run() -> bool:
            return [pod["status"].get("phase") for pod in await world.pods()] == ["Running"] * 3

        await world.until(three_run, "the role that slept runs again")
        await until_running(world, "train-0")

    run_world(story, stage.options)


@pytest.mark.parametrize(
    ("leader", "later"),
    [
        (True, "train-0-worker-0"),
        (True, "train-0-worker-2"),
        (True, "train-0-leader-0"),
        (False, "train-0-worker-0"),
        (False, "train-0-worker-2"),
    ],
)
@on_every_stage
def test_a_pod_that_was_above_the_minimum_stands_in_for_one_that_goes(
    stage: Stage, leader: bool, later: str
) -> None:
    roles = [gpu_role("worker", 3, minAvailable=2), *([gpu_role("leader", 1)] if leader else [])]

    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques=roles))
        before = await _until_run(world, 3 + leader)
        # One of the minimum goes with a place of its role, and the one above it stays.
        lost = before["train-0-worker-1"]["metadata"]["name"]
        await world.kill_operator()
        await world.user.delete(kinds.PODS, Key("default", lost))
        await world.scale("train-0-worker", 2, of=kinds.CLIQUES)
        await world.start_operator()
        left = await _until_run(world, 2 + leader)
        # Whoever is lost now comes back into a gang of which nothing else is missing.
        lost = left[later]["metadata"]["name"]
        await world.user.delete(kinds.PODS, Key("default", lost))
        await _until_run(world, 2 + leader)

    run_world(story, stage.options)


@on_every_stage
def test_a_pod_that_waits_for_one_whose_place_is_taken_is_replaced(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(
            stage.cliqueset(cliques=[gpu_role("worker", 3, minAvailable=2), gpu_role("leader", 1)])
        )
        before = await _until_run(world, 4)
        # The replacement of one of the minimum finds no room, and waits.
        nodes = [each["metadata"]["name"] for each in await world.all(NODES)]
        for node in nodes:
            await world.user.merge_patch(NODES, Key("", node), {"spec": {"unschedulable": True}})
        await world.user.delete(kinds.PODS, Key("default", before["train-0-worker-0"]["metadata"]["name"]))
        await world.settle()
        # The other one goes with a place of its role, and the one above them stays.
        await world.kill_operator()
        await world.user.delete(kinds.PODS, Key("default", before["train-0-worker-1"]["metadata"]["name"]))
        await world.scale("train-0-worker", 2, of=kinds.CLIQUES)
        await world.start_operator()
        await world.settle()
        for node in nodes:
            await world.user.merge_patch(NODES, Key("", node), {"spec": {"unschedulable": None}})
        await _until_run(world, 3)

    run_world(story, stage.options)


async def _until_run(world: World, number: int) -> dict[str, Manifest]:
    """The pods by their hostnames, once there are so many and all of them run."""

    async def run() -> bool:
        pods = await world.pods()
        return [pod["status"].get("phase") for pod in pods] == ["Running"] * number

    # What goes still runs for a moment.
    await world.settle()
    await world.until(run, f"{number} pods run")
    return {pod["spec"]["hostname"]: pod for pod in await world.pods()}


@on_every_stage
def test_sets_of_one_name_in_two_namespaces_do_not_meet(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        await world.apply(stage.cliqueset(cliques={"worker": 2}))
        await world.apply(stage.cliqueset(cliques={"worker": 3}, namespace="team"))
        await until_running(world, "train-0")
        await world.settle()
        theirs = await world.get(kinds.GANGS, "train-0", "team")
        assert theirs is not None
        assert theirs["status"]["phase"] == "Running"
        counted = [pod["metadata"]["namespace"] for pod in await world.pods()]
        assert (counted.count("default"), counted.count("team")) == (2, 3)
        await world.user.delete(kinds.CLIQUESETS, Key("team", "train"))
        await world.settle()
        assert len(await world.pods()) == 2
        assert await world.phase("train-0") == "Running"

    run_world(story, stage.options)


#: Objects that the garbage collector gets through in a second.
COLLECTED = 0.2
#: While it is there, the operator leaves the pods that it owns too to the collector, which keeps them.
KEEPER = make.object_manifest(CONFIG_MAPS, "keeper")


def at_most(pods: int) -> Manifest:
    return make.object_manifest(QUOTAS, "few", {"hard": {"pods": str(pods)}})


async def ran(world: World, stage: Stage) -> None:
    """An earlier set of three pods, which run."""
    await world.apply(at_most(3), stage.cliqueset(cliques=[gpu_role("worker", 3)]))
    await until_running(world, "train-0")


async def waited(world: World, stage: Stage) -> None:
    """An earlier set of four pods, of which three could be made: they have their gates."""
    await world.apply(at_most(3), stage.cliqueset(cliques=[gpu_role("worker", 4)]))
    await world.settle()
    assert [gates_of(pod) for pod in await world.pods()] == [[stage.gate]] * 3


async def keep(world: World) -> None:
    """The pods that are there stay when their set goes: somebody else owns them, too."""
    made = await world.user.create(CONFIG_MAPS, KEEPER)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "keeper", "uid": made.metadata.uid}
    for pod in await world.pods():
        owners = [*pod["metadata"]["ownerReferences"], owner]
        patch: Manifest = {"metadata": {"ownerReferences": owners}}
        await world.user.merge_patch(kinds.PODS, Key("default", pod["metadata"]["name"]), patch)


@pytest.mark.parametrize("earlier", [ran, waited], ids=["a set that ran", "a set that waited"])
# Not YuniKorn: what holds places for its pods counts in the quota, too.
@pytest.mark.parametrize("stage", OBJECT_STAGES.values(), ids=OBJECT_STAGES)
def test_pods_of_an_earlier_set_do_not_complete_the_gang_of_the_next_one(
    stage: Stage, earlier: Callable[[World, Stage], Awaitable[None]]
) -> None:
    """Three of them are left and one of four new ones fits into the quota: as many pods as the gang needs."""

    async def story(world: World) -> None:
        await earlier(world, stage)
        await world.settle()
        old = {uid_of(pod): gates_of(pod) for pod in await world.pods()}
        assert len(old) == 3
        await keep(world)
        async with History(world, kinds.PODS) as history:
            await world.user.delete(kinds.CLIQUESETS, Key("default", "train"), propagation="Background")
            await world.apply(at_most(4), stage.cliqueset(cliques=[gpu_role("worker", 4)]))
            await pass_time(120)
            assert len({uid_of(pod) for pod in await world.pods()} - old.keys()) == 1
            told = (await world.condition("train-0", "Initialized"))["message"]
            assert told.startswith("1 of 4 pods exist")
            await world.user.delete(CONFIG_MAPS, Key("default", "keeper"))
            await until_running(world, "train-0", seconds=120)
            await world.settle()
        assert old.keys().isdisjoint({uid_of(pod) for pod in await world.pods()})
        new = [each for each in history.of("Pod") if uid_of(each.object) not in old]
        last = [each.version for each in new if each.type == "ADDED"][3]
        assert {tuple(gates_of(each.object)) for each in new if each.version <= last} == {(stage.gate,)}
        theirs = [each.object for each in history.of("Pod") if uid_of(each.object) in old]
        assert all(gates_of(pod) == old[uid_of(pod)] for pod in theirs)

    run_world(story, replace(stage.options, collected_per_second=COLLECTED))


def test_a_pod_deleted_before_its_gang_is_complete_is_replaced_and_the_gang_runs() -> None:
    async def story(world: World) -> None:
        quota: Manifest = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "few"},
            "spec": {"hard": {"pods": "2"}},
        }
        await world.apply(quota, make.cliqueset_manifest("train", {"worker": 3}))
        await pass_time(2)
        first, second = await world.pods()
        assert gates_of(first)
        assert gates_of(second)
        await world.user.delete(kinds.PODS, Key("default", first["metadata"]["name"]))
        await world.user.delete(QUOTAS, Key("default", "few"))
        await until_running(world, "train-0", seconds=120)
        hosts = sorted(pod["spec"]["hostname"] for pod in await world.pods())
        assert hosts == ["train-0-worker-0", "train-0-worker-1", "train-0-worker-2"]

    run_world(story)


def test_only_managed_pods_are_counted_and_touched() -> None:
    async def story(world: World) -> None:
        stranger: Manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "stranger",
                "labels": {labels.POD_CLIQUE: "train-0-worker", labels.POD_GANG: "train-0"},
            },
            "spec": {**make.pod_spec(), "schedulingGates": [{"name": "scheduling.k8s.io/workload"}]},
        }
        await world.apply(stranger, make.cliqueset_manifest("train", {"worker": 2}))
        await until_running(world, "train-0")
        await world.settle()
        kept = await world.get(kinds.PODS, "stranger")
        assert kept is not None
        assert gates_of(kept) == ["scheduling.k8s.io/workload"]
        gang = await world.gang("train-0")
        assert gang is not None
        listed = {ref["name"] for group in gang["spec"]["podgroups"] for ref in group["podReferences"]}
        assert "stranger" not in listed
        assert len(listed) == 2

    run_world(story)


# Topology -----------------------------------------------------------------------------------------


def packed(stage: Stage) -> Manifest:
    constraint = {"topologyName": "cluster", "pack": {"required": "rack"}}
    return stage.cliqueset(cliques=[gpu_role("worker", 2)], template={"topologyConstraint": constraint})


@pytest.mark.parametrize("name", ["1.36", "1.37", "kai"])
def test_a_binding_deleted_under_a_running_set_leaves_it_running_with_its_constraint(name: str) -> None:
    stage = STAGES[name]

    async def story(world: World) -> None:
        await world.apply(rack_binding(), packed(stage))
        await until_running(world, "train-0")
        pods = {uid_of(pod) for pod in await world.pods()}
        objects = {uid_of(each) for each in await scheduler_objects(world, stage)}
        await world.user.delete(kinds.TOPOLOGY_BINDINGS, Key("", "cluster"))
        await world.settle()
        unavailable = await set_condition(world, "train", "TopologyLevelsUnavailable")
        assert (unavailable["status"], unavailable["reason"]) == ("Unknown", "ClusterTopologyNotFound")
        gang = await world.gang("train-0")
        assert gang is not None
        assert gang["spec"]["topologyConstraint"]["packConstraint"]["required"] == RACK
        assert {uid_of(pod) for pod in await world.pods()} == pods
        assert {uid_of(each) for each in await scheduler_objects(world, stage)} == objects

    run_world(story, stage.options)


def test_a_required_rack_is_refused_while_topology_is_switched_off() -> None:
    configuration = load("""
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
scheduler:
  profiles: [{name: default-scheduler}]
""")

    async def story(world: World) -> None:
        await world.apply(rack_binding(), packed(STAGES["1.36"]))
        await world.settle()
        accepted = await set_condition(world, "train", "Accepted")
        assert accepted["status"] == "False"
        assert "topologyAwareScheduling.enabled" in accepted["message"]
        levels = await set_condition(world, "train", "TopologyLevelsUnavailable")
        assert (levels["status"], levels["reason"]) == ("Unknown", "TopologyAwareSchedulingDisabled")
        assert await world.pods() == []
        await world.kill_operator()
        world.options = WorldOptions()
        await world.start_operator()
        await until_running(world, "train-0")

    run_world(story, WorldOptions(configuration=configuration))


def test_a_level_that_the_binding_lacks_is_named() -> None:
    async def story(world: World) -> None:
        await world.apply(make_binding({"zone": "topology.kubernetes.io/zone"}), packed(STAGES["1.36"]))
        await world.settle()
        accepted = await set_condition(world, "train", "Accepted")
        assert "topology domain 'rack' does not exist in cluster topology [zone]" in accepted["message"]
        unavailable = await set_condition(world, "train", "TopologyLevelsUnavailable")
        assert unavailable["status"] == "True"
        await world.user.merge_patch(
            kinds.TOPOLOGY_BINDINGS,
            Key("", "cluster"),
            {"spec": {"levels": [{"domain": "rack", "key": RACK}]}},
        )
        await until_running(world, "train-0")

    run_world(story)


def make_binding(levels: dict[str, str]) -> Manifest:
    spec = {"levels": [{"domain": domain, "key": name} for domain, name in levels.items()]}
    return make.object_manifest(kinds.TOPOLOGY_BINDINGS, "cluster", spec)


# The operator -------------------------------------------------------------------------------------


def test_an_operator_without_its_crds_refuses_to_start_and_says_what_helps() -> None:
    async def story(world: World) -> None:
        await world.user.delete(CRDS, Key("", "podgangs.scheduler.grove.io"))
        with pytest.raises(MissingResources) as refused:
            await world.start_operator()
        assert "podgangs.scheduler.grove.io" in str(refused.value)
        assert "grove crds | kubectl apply --server-side -f -" in str(refused.value)

    run_world(story, operator=False)


def test_sets_that_were_there_before_the_operator_are_picked_up() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}, replicas=2))
        await pass_time(60)
        assert await world.all(kinds.GANGS) == []
        await world.start_operator()
        await until_running(world, "train-0", "train-1")

    run_world(story, operator=False)


def test_what_happened_while_the_operator_was_away_is_caught_up_with() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}, replicas=2))
        await world.apply(make.cliqueset_manifest("gone", {"worker": 2}))
        await until_running(world, "train-0", "train-1", "gone-0")
        await world.settle()
        await world.kill_operator()
        await world.scale("train", 1)
        first = next(pod for pod in await world.pods() if pod["spec"]["hostname"] == "train-0-worker-0")
        await world.user.delete(kinds.PODS, Key("default", first["metadata"]["name"]))
        await world.user.delete(kinds.CLIQUESETS, Key("default", "gone"))
        await pass_time(60)
        await world.start_operator()
        await world.settle()
        assert sorted(pod["spec"]["hostname"] for pod in await world.pods()) == [
            "train-0-worker-0",
            "train-0-worker-1",
        ]
        assert [each["metadata"]["name"] for each in await world.all(kinds.GANGS)] == ["train-0"]
        assert await world.phase("train-0") == "Running"

    run_world(story)
