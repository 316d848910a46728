"""Koordinator's own stories: gates that it does not see, pods above the minimum, topology, quotas, its short memory.

What every scheduler must do is told with all of them in the other files of this folder.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.scenarios.stories import (
    KOORDINATOR_PODGROUPS,
    RACK,
    STAGES,
    History,
    Seen,
    base_name,
    gates_of,
    gpu_role,
    object_of,
    pass_time,
    rack_binding,
    reasons_about,
    set_condition,
    until_reason,
    until_running,
)
from tests.scenarios.stories import KOORDINATOR_RACKS as RACKS

from grove.api import kinds
from grove.api.config import load
from grove.api.labels import RECREATED
from grove.backends.koordinator.backend import SENTINEL
from grove.backends.koordinator.topology import TOPOLOGIES
from grove.embedded.actors.schedulers import koordinator_install
from grove.meta import Key, Manifest
from grove.testing.world import CRDS, NODES, World, run_world

STAGE = STAGES["koordinator"]
QUOTA = "quota.scheduling.koordinator.sh/name"


def placed(pods: list[Manifest]) -> dict[str, str]:
    """The nodes of the pods that have one, by hostname."""
    return {pod["spec"]["hostname"]: pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}


async def minima(world: World) -> dict[str, int]:
    found = await world.all(KOORDINATOR_PODGROUPS)
    wanted = {base_name(each): each["spec"]["minMember"] for each in found}
    assert len(wanted) == len(found), "a PodGroup of an earlier start is left"
    return wanted


async def delete_podgroup(world: World, base: str) -> None:
    name = (await object_of(world, KOORDINATOR_PODGROUPS, base))["metadata"]["name"]
    await world.user.delete(KOORDINATOR_PODGROUPS, Key("default", name))


def test_no_podgroup_can_be_satisfied_before_the_last_gate_is_open() -> None:
    async def story(world: World) -> None:
        async with History(world, kinds.PODS, KOORDINATOR_PODGROUPS) as history:
            await world.apply(STAGE.cliqueset(cliques={"leader": 1, "worker": 7}))
            await until_running(world, "train-0")
            await world.settle()
        opened = max(opening(history, pod["metadata"]["name"]).version for pod in await world.pods())
        lowered = [each for each in history.of("PodGroup") if each.object["spec"]["minMember"] < SENTINEL]
        assert opened < min(each.version for each in lowered)
        first = history.first("Pod", lambda pod: bool(pod["spec"].get("nodeName")))
        assert max(opened, *(changed(lowered, name) for name in await minima(world))) < first.version
        assert await minima(world) == {"train-0-leader": 1, "train-0-worker": 7}
        assert "Repaired" not in await reasons_about(world, "PodGang", "train-0")

    run_world(story, STAGE.options)


def opening(history: History, name: str) -> Seen:
    """When the gates of a pod were seen open for the first time."""
    return history.first("Pod", lambda pod: pod["metadata"]["name"] == name and not gates_of(pod))


def changed(seen: list[Seen], name: str) -> int:
    return min(each.version for each in seen if base_name(each.object) == name)


def test_roles_are_held_to_their_own_minimum() -> None:
    async def story(world: World) -> None:
        # Four nodes: three workers fit, a leader of nine GPUs never does.
        await world.apply(STAGE.cliqueset(cliques=[gpu_role("leader", 1, gpus=9), gpu_role("worker", 3)]))
        told = await until_reason(world, "train-0", "Scheduled", "Unschedulable")
        await world.settle()
        assert placed(await world.pods()) == {}
        assert "0 of 4 pods placed; a pod of train-0-leader: " in told["message"]
        assert "0/4 nodes are available: 4 Insufficient nvidia.com/gpu" in told["message"]

    run_world(story, STAGE.options)


def test_pods_above_the_minimum_neither_keep_the_gang_from_starting_nor_take_its_place() -> None:
    async def story(world: World) -> None:
        # The role with pods above its minimum comes first in Koordinator's order, which is the bad case.
        roles = [gpu_role("a", 4, minAvailable=2), gpu_role("b", 2)]
        await world.apply(STAGE.cliqueset(cliques=roles))
        await until_running(world, "train-0")
        await world.settle()
        assert sorted(placed(await world.pods())) == [
            "train-0-a-0",
            "train-0-a-1",
            "train-0-b-0",
            "train-0-b-1",
        ]
        assert await minima(world) == {"train-0-a": 2, "train-0-b": 2}
        await world.add_node("more")
        await world.add_node("still-more")
        await world.settle()
        assert len(placed(await world.pods())) == 6

    run_world(story, STAGE.options)


def test_while_the_gang_waits_its_reason_is_the_schedulers_and_not_the_held_back_pods() -> None:
    async def story(world: World) -> None:
        await world.apply(STAGE.cliqueset(cliques=[gpu_role("worker", 7, minAvailable=5)]))
        told = await until_reason(world, "train-0", "Scheduled", "Unschedulable")
        await world.settle()
        assert "0 of 5 pods placed" in told["message"]
        gated = [pod["spec"]["hostname"] for pod in await world.pods() if gates_of(pod)]
        assert sorted(gated) == ["train-0-worker-5", "train-0-worker-6"]
        await world.add_node("more")
        await until_running(world, "train-0")
        await world.settle()
        assert [pod for pod in await world.pods() if gates_of(pod)] == []

    run_world(story, STAGE.options)


def test_a_role_that_is_scaled_out_gets_its_pods_while_the_gang_runs() -> None:
    async def story(world: World) -> None:
        await world.apply(STAGE.cliqueset(cliques=[gpu_role("worker", 2)]))
        await until_running(world, "train-0")
        await world.scale("train-0-worker", 4, of=kinds.CLIQUES)
        await world.settle()
        assert len(placed(await world.pods())) == 4
        await world.scale("train-0-worker", 2, of=kinds.CLIQUES)
        await world.settle()
        assert sorted(placed(await world.pods())) == ["train-0-worker-0", "train-0-worker-1"]
        assert await world.phase("train-0") == "Running"

    run_world(story, STAGE.options)


def test_replacing_a_pod_of_a_running_gang_writes_nothing_to_its_podgroups() -> None:
    async def story(world: World) -> None:
        await world.apply(STAGE.cliqueset(cliques={"leader": 1, "worker": 3}))
        await until_running(world, "train-0")
        await world.settle()
        before = applies(world)
        victim = (await world.pods())[-1]["metadata"]["name"]
        await world.user.delete(kinds.PODS, Key("default", victim))
        await world.settle()
        assert len(placed(await world.pods())) == 4
        assert await world.phase("train-0") == "Running"
        assert applies(world) == before

    run_world(story, STAGE.options)


def applies(world: World) -> int:
    """How often the operator wrote PodGroups."""
    return sum(
        1
        for entry in world.cluster.requests
        if entry.verb == "apply" and entry.user == world.options.operator_user.name
    )


def test_replacing_a_pod_of_a_waiting_gang_holds_the_gang_until_the_new_gate_is_open() -> None:
    async def story(world: World) -> None:
        await world.apply(STAGE.cliqueset(cliques=[gpu_role("leader", 2), gpu_role("worker", 3)]))
        await until_reason(world, "train-0", "Scheduled", "Unschedulable")
        await world.settle()
        victim = (await world.pods())[0]["metadata"]["name"]
        async with History(world, kinds.PODS, KOORDINATOR_PODGROUPS) as history:
            await world.user.delete(kinds.PODS, Key("default", victim))
            await world.settle()
        held = history.first("PodGroup", lambda each: each["spec"]["minMember"] == SENTINEL)
        assert held
        assert await minima(world) == {"train-0-leader": 2, "train-0-worker": 3}
        assert placed(await world.pods()) == {}
        await world.add_node("more")
        await until_running(world, "train-0")
        assert len(placed(await world.pods())) == 5

    run_world(story, STAGE.options)


def test_podgroups_that_are_deleted_under_a_running_gang_come_back_and_a_lost_pod_is_replaced() -> None:
    async def story(world: World) -> None:
        await world.apply(STAGE.cliqueset(cliques={"leader": 1, "worker": 2}))
        await until_running(world, "train-0")
        await world.settle()
        before = placed(await world.pods())
        for name in ("train-0-leader", "train-0-worker"):
            await delete_podgroup(world, name)
        await world.settle()
        assert await minima(world) == {"train-0-leader": 1, "train-0-worker": 2}
        assert "Repaired" in await reasons_about(world, "PodGang", "train-0")
        assert placed(await world.pods()) == before
        for pod in await world.pods():
            await world.user.delete(kinds.PODS, pod_key(pod), grace_seconds=0)
            await world.settle()
            assert len(placed(await world.pods())) == 3

    run_world(story, STAGE.options)


def test_pods_that_came_while_the_podgroup_was_gone_are_placed_too() -> None:
    async def story(world: World) -> None:
        await world.apply(STAGE.cliqueset(cliques={"worker": 4}))
        await until_running(world, "train-0")
        await world.settle()
        async with without_operator(world):
            await delete_podgroup(world, "train-0-worker")
        # Two at once: a minimum that is lowered wakes one pod only.
        for pod in (await world.pods())[:2]:
            await world.user.delete(kinds.PODS, pod_key(pod), grace_seconds=0)
        await world.settle()
        assert len(placed(await world.pods())) == 4
        assert await minima(world) == {"train-0-worker": 4}

    run_world(story, STAGE.options)


@asynccontextmanager
async def without_operator(world: World) -> AsyncIterator[None]:
    await world.kill_operator()
    yield
    await world.start_operator()


@pytest.mark.parametrize("gone", [("leader",), ("worker",), ("leader", "worker")], ids=" and ".join)
def test_podgroups_that_are_deleted_under_a_waiting_gang_come_back_and_it_runs_whole(
    gone: tuple[str, ...],
) -> None:
    async def story(world: World) -> None:
        await world.apply(STAGE.cliqueset(cliques=[gpu_role("leader", 2), gpu_role("worker", 3)]))
        await until_reason(world, "train-0", "Scheduled", "Unschedulable")
        await world.settle()
        before = {pod["metadata"]["uid"] for pod in await world.pods()}
        async with History(world, kinds.PODS, KOORDINATOR_PODGROUPS) as history:
            for role in gone:
                await delete_podgroup(world, f"train-0-{role}")
            await world.settle()
        assert history.first("PodGroup", lambda each: each["spec"]["minMember"] == SENTINEL)
        assert placed(await world.pods()) == {}
        assert await minima(world) == {"train-0-leader": 2, "train-0-worker": 3}
        assert not any(RECREATED in each["metadata"]["annotations"] for each in await podgroups(world))
        await world.add_node("more")
        await until_running(world, "train-0")
        assert {pod["metadata"]["uid"] for pod in await world.pods()} == before

    run_world(story, STAGE.options)


async def podgroups(world: World) -> list[Manifest]:
    return await world.all(KOORDINATOR_PODGROUPS)


def test_while_koordinator_does_not_run_a_podgroup_that_came_back_waits_for_it() -> None:
    async def story(world: World) -> None:
        for crd in koordinator_install.definitions():
            await world.user.create(CRDS, crd)
        await world.apply(STAGE.cliqueset(cliques={"worker": 2}))
        await until_reason(world, "train-0", "Scheduled", "WaitingForScheduler")
        await world.settle()
        await delete_podgroup(world, "train-0-worker")
        await world.settle()
        assert await minima(world) == {"train-0-worker": SENTINEL}
        told = await world.condition("train-0", "Scheduled")
        assert told["message"].endswith("its PodGroups have no status: does koord-scheduler run?")

    run_world(story, replace(STAGE.options, schedulers=()))


def pod_key(pod: Manifest) -> Key:
    return Key("default", pod["metadata"]["name"])


def test_a_minimum_edited_by_hand_is_put_back() -> None:
    async def story(world: World) -> None:
        await world.apply(STAGE.cliqueset(cliques={"worker": 3}))
        await until_running(world, "train-0")
        await world.settle()
        name = (await object_of(world, KOORDINATOR_PODGROUPS, "train-0-worker"))["metadata"]["name"]
        edited: Manifest = {
            "apiVersion": KOORDINATOR_PODGROUPS.api_version,
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"minMember": 1},
        }
        await world.user.apply(KOORDINATOR_PODGROUPS, edited, field_manager="kubectl-edit", force=True)
        await world.settle()
        assert await minima(world) == {"train-0-worker": 3}
        assert "Repaired" in await reasons_about(world, "PodGang", "train-0")
        [group] = await world.all(KOORDINATOR_PODGROUPS)
        assert group["status"]["phase"] == "Running", "what the scheduler wrote must survive"

    run_world(story, STAGE.options)


# Topology and quotas --------------------------------------------------------------------------------


def rack_set() -> Manifest:
    return STAGE.cliqueset(
        cliques=[gpu_role("worker", 2, minAvailable=1)],
        template={"topologyConstraint": {"topologyName": "cluster", "pack": {"required": "rack"}}},
    )


def test_a_required_rack_waits_for_the_topology_that_koordinator_reads_and_then_holds() -> None:
    async def story(world: World) -> None:
        await world.apply(rack_binding(), rack_set())
        told = await until_reason(world, "train-0", "Scheduled", "PreconditionMissing")
        assert "there is no ClusterNetworkTopology 'default'; create it" in told["message"]
        assert await world.all(KOORDINATOR_PODGROUPS) == []
        await world.user.create(TOPOLOGIES, RACKS)
        await until_running(world, "train-0")
        await world.settle()
        [group] = await world.all(KOORDINATOR_PODGROUPS)
        assert group["metadata"]["annotations"]["gang.scheduling.koordinator.sh/network-topology-spec"] == (
            '{"gatherStrategy":[{"layer":"RackLayer","strategy":"MustGather"}]}'
        )

    run_world(story, STAGE.options)


def test_a_gang_that_no_single_rack_can_take_waits_and_the_racks_are_counted() -> None:
    async def story(world: World) -> None:
        constraint = {"topologyConstraint": {"topologyName": "cluster", "pack": {"required": "rack"}}}
        whole = STAGE.cliqueset(cliques=[gpu_role("worker", 3)], template=constraint)
        # Two racks of two nodes each: there is room for three, but not in one of them.
        await world.user.create(TOPOLOGIES, RACKS)
        await world.apply(rack_binding(), whole)
        told = await until_reason(world, "train-0", "Scheduled", "Unschedulable")
        await world.settle()
        assert placed(await world.pods()) == {}
        assert "no single topology domain has room for 3 pods; RackLayer/" in told["message"]
        await world.add_node("more", labels={RACK: rack_of(await world.all(NODES))})
        await until_running(world, "train-0")
        nodes = {
            each["metadata"]["name"]: each["metadata"]["labels"][RACK] for each in await world.all(NODES)
        }
        assert len({nodes[name] for name in placed(await world.pods()).values()}) == 1

    run_world(story, STAGE.options)


def rack_of(nodes: list[Manifest]) -> str:
    return str(nodes[0]["metadata"]["labels"][RACK])


def test_without_the_feature_a_required_rack_is_refused_and_a_preferred_one_reported() -> None:
    plain = load(
        """
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
topologyAwareScheduling: {enabled: true}
scheduler: {profiles: [{name: koord-scheduler}], defaultProfileName: koord-scheduler}
"""
    )

    async def story(world: World) -> None:
        wish = {"topologyConstraint": {"topologyName": "cluster", "pack": {"preferred": "rack"}}}
        await world.user.create(TOPOLOGIES, RACKS)
        await world.apply(rack_binding(), rack_set())
        await world.apply(STAGE.cliqueset("near", cliques={"worker": 2}, template=wish))
        await until_running(world, "near-0")
        await world.settle()
        refused = await set_condition(world, "train", "Accepted")
        assert (refused["status"], refused["reason"]) == ("False", "Unsupported")
        assert "spec.template.topologyConstraint.pack.required" in refused["message"]
        lost = await world.condition("near-0", "TranslationLoss")
        assert "topology-preferred not expressible" in lost["message"]

    run_world(story, replace(STAGE.options, configuration=plain))


def test_a_quota_that_does_not_exist_yet_is_waited_for() -> None:
    async def story(world: World) -> None:
        await world.apply(STAGE.cliqueset(cliques={"worker": 2}, labels={QUOTA: "research"}))
        told = await until_reason(world, "train-0", "Scheduled", "PreconditionMissing")
        assert "ElasticQuota research does not exist" in told["message"]
        quota: Manifest = {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "ElasticQuota",
            "metadata": {"name": "research", "namespace": "kube-system"},
            "spec": {"max": {"cpu": "100"}},
        }
        await world.apply(quota)
        await until_running(world, "train-0")
        assert {pod["metadata"]["labels"][QUOTA] for pod in await world.pods()} == {"research"}

    run_world(story, STAGE.options)


def test_without_koordinator_a_gang_says_what_is_missing_and_goes_on_when_it_is_installed() -> None:
    async def story(world: World) -> None:
        await world.apply(STAGE.cliqueset(cliques={"worker": 2}))
        told = await until_reason(world, "train-0", "Scheduled", "PreconditionMissing")
        assert told["message"].endswith("install Koordinator")
        assert all(gates_of(pod) for pod in await world.pods())
        for crd in koordinator_install.definitions():
            await world.user.create(CRDS, crd)
        await pass_time(60)
        told = await world.condition("train-0", "Scheduled")
        assert (
            told["message"] == "0 of 2 pods placed; its PodGroups have no status: does koord-scheduler run?"
        )
        assert not any(gates_of(pod) for pod in await world.pods())

    run_world(story, replace(STAGE.options, schedulers=()))
