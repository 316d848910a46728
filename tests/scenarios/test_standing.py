"""Ready, Available, Progressing and Stalled on every kind, as kubectl wait and kstatus read them."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from tests.scenarios.kstatus import CURRENT, FAILED, IN_PROGRESS, kstatus, waited_for
from tests.scenarios.stories import (
    QUOTAS,
    STAGES,
    History,
    Stage,
    condition_of,
    gpu_role,
    key,
    pass_time,
    rack_binding,
    set_condition,
    uid_of,
    until_running,
)
from tests.scenarios.workloads import wl2

from grove.api import kinds, labels
from grove.meta import Manifest, Resource
from grove.testing import make
from grove.testing.world import World, WorldOptions, run_world

OURS = (kinds.CLIQUESETS, kinds.SCALING_GROUPS, kinds.CLIQUES, kinds.GANGS)
ALL = (*OURS, kinds.TOPOLOGY_BINDINGS)
KAI = STAGES["kai"]


async def read_all(world: World, resources: Iterable[Resource] = OURS) -> dict[str, str]:
    """What kstatus makes of every object, by kind and name."""
    return {
        f"{resource.kind} {each['metadata']['name']}": kstatus(each)
        for resource in resources
        for each in await world.all(resource)
    }


async def errors_of(world: World, resource: Resource, name: str) -> list[Manifest]:
    found = await world.get(resource, name)
    assert found is not None
    return list(found["status"].get("lastErrors") or ())


def conditions_of(obj: Manifest) -> dict[str, str]:
    return {each["type"]: each["status"] for each in obj["status"]["conditions"]}


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_every_kind_goes_from_in_progress_to_current(stage: Stage) -> None:
    async def story(world: World) -> None:
        async with History(world, *ALL) as history:
            await world.apply(rack_binding(), wl2(stage, "wl"))
            await until_running(world, "wl-0", "wl-0-sg-x-0")
            await world.settle()
        # Elsewhere the operator works for KAI, and no topology of KAI can be written.
        resources = ALL if stage is KAI else OURS
        assert set((await read_all(world, resources)).values()) == {CURRENT}
        for resource in resources:
            objects = await world.all(resource)
            assert objects
            for each in objects:
                told = conditions_of(each)
                assert (told["Ready"], told["Available"], told["Progressing"]) == ("True", "True", "False")
                assert "Stalled" not in told
                generation = each["metadata"]["generation"]
                assert each["status"]["observedGeneration"] == generation
                assert {one["observedGeneration"] for one in each["status"]["conditions"]} == {generation}
                assert waited_for(each)
                assert waited_for(each, "Available")
        for seen in history.of(*(resource.kind for resource in OURS)):
            if (seen.object.get("status") or {}).get("observedGeneration"):
                assert kstatus(seen.object) in (IN_PROGRESS, CURRENT), seen

    run_world(story, replace(stage.options, nodes=12))


def test_a_set_that_is_edited_is_not_waited_for_before_all_of_its_gangs_are_ready() -> None:
    async def story(world: World) -> None:
        async with History(world, kinds.CLIQUESETS, kinds.CLIQUES) as history:
            await world.apply(make.cliqueset_manifest("train", {"worker": 2}))
            await until_running(world, "train-0")
            await world.settle()
            await world.scale("train", 3)
            await until_running(world, "train-1", "train-2")
            await world.settle()
        ready: dict[str, int] = {}
        turns = 0
        for seen in history.of():
            if seen.kind == "PodClique":
                ready[seen.name] = (
                    seen.object["status"].get("readyReplicas", 0) if seen.object.get("status") else 0
                )
            elif waited_for(seen.object):
                turns += 1
                wanted = seen.object["spec"]["replicas"]
                assert [count for count in ready.values() if count == 2] == [2] * wanted
        assert turns >= 2

    run_world(story)


def test_a_gang_that_fits_nowhere_is_in_progress_and_the_set_says_which_and_why() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", [gpu_role("worker", 5)]))
        await pass_time(30)
        assert set((await read_all(world)).values()) == {IN_PROGRESS}
        ready = await set_condition(world, "train", "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "GangsNotReady")
        assert ready["message"].startswith("gang train-0: 0 of 5 pods placed; ")
        assert (await set_condition(world, "train", "Progressing"))["status"] == "True"

    run_world(story)


def test_a_scaled_gang_that_waits_is_told_by_a_set_of_which_every_replica_is_available() -> None:
    async def story(world: World) -> None:
        await world.apply(wl2(KAI, "wl"))
        await until_running(world, "wl-0", "wl-0-sg-x-0")
        await world.scale("wl-0-sg-x", 3, kinds.SCALING_GROUPS)
        await pass_time(30)
        available, ready = (
            await set_condition(world, "wl", "Available"),
            await set_condition(world, "wl", "Ready"),
        )
        assert (available["status"], ready["status"]) == ("True", "False")
        assert ready["message"].startswith("gang wl-0-sg-x-1: 0 of 2 pods placed; ")
        assert available["message"] == f"1 of 1 replicas are available; {ready['message']}"
        group = await world.get(kinds.SCALING_GROUPS, "wl-0-sg-x")
        assert group is not None
        assert kstatus(group) == IN_PROGRESS
        told = "2 of 3 replicas are available; replica 2 (gang wl-0-sg-x-1) is not placed"
        assert condition_of(group, "Ready")["message"] == told
        assert condition_of(group, "Available")["status"] == "True"
        await world.scale("wl-0-sg-x", 2, kinds.SCALING_GROUPS)
        await world.settle()
        assert set((await read_all(world)).values()) == {CURRENT}

    run_world(story, WorldOptions(nodes=10, schedulers=("kai",)))


def test_a_scaled_gang_whose_base_waits_is_told_by_the_base() -> None:
    async def story(world: World) -> None:
        await world.apply(wl2(KAI, "wl"))
        await pass_time(30)
        ready = await set_condition(world, "wl", "Ready")
        assert ready["message"].startswith("gang wl-0: 0 of 3 pods placed; ")
        told = await world.condition("wl-0-sg-x-0", "Scheduled")
        assert told["reason"] == "WaitingForBaseGang"
        assert "its base gang wl-0 must be placed first" in told["message"]

    run_world(story, WorldOptions(nodes=2, schedulers=("kai",)))


def test_a_refused_set_has_failed_with_a_code_until_it_is_mended() -> None:
    async def story(world: World) -> None:
        marks = {labels.SCHEDULER_BACKEND: "nobody"}
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}, annotations=marks))
        await world.settle()
        (error,) = await errors_of(world, kinds.CLIQUESETS, "train")
        assert error["code"] == "ERR_BACKEND_NOT_ENABLED"
        assert "scheduler backend is not enabled in Grove" in error["description"]
        assert await read_all(world) == {"PodCliqueSet train": FAILED}
        stalled = await set_condition(world, "train", "Stalled")
        assert stalled["reason"] == "BackendNotEnabled"
        mended: Manifest = {"metadata": {"annotations": {labels.SCHEDULER_BACKEND: None}}}
        await world.user.merge_patch(kinds.CLIQUESETS, key("train"), mended)
        await until_running(world, "train-0")
        await world.settle()
        assert await errors_of(world, kinds.CLIQUESETS, "train") == []
        assert set((await read_all(world)).values()) == {CURRENT}

    run_world(story)


def test_what_is_wrong_with_several_roles_is_said_once_with_all_of_their_fields() -> None:
    nobody = {"schedulerName": "nobody"}

    async def story(world: World) -> None:
        roles = [make.template(name, 1, pod=nobody) for name in ("leader", "worker")]
        await world.apply(make.cliqueset_manifest("train", roles))
        await world.settle()
        said = (await set_condition(world, "train", "Accepted"))["message"]
        assert said.startswith(
            "spec.template.cliques[0].spec.podSpec.schedulerName, "
            "spec.template.cliques[1].spec.podSpec.schedulerName: 'nobody': "
        )
        assert said.count("is not enabled") == 1

    run_world(story)


#: What makes a set that runs a refused one: its scheduler is not there any more, or it contradicts itself.
REFUSALS: dict[str, Manifest] = {
    "BackendNotEnabled": {"metadata": {"annotations": {labels.SCHEDULER_BACKEND: "nobody"}}},
    "Invalid": {"metadata": {"annotations": {labels.UPDATE_PAUSED: "perhaps"}}},
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_a_refused_set_that_is_scaled_in_frees_its_nodes_and_nothing_else_of_it_goes(reason: str) -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}, replicas=3))
        await until_running(world, "train-2")
        before = {uid_of(pod) for pod in await world.pods()}
        await world.user.merge_patch(kinds.CLIQUESETS, key("train"), REFUSALS[reason])
        await world.settle()
        assert {uid_of(pod) for pod in await world.pods()} == before
        await world.scale("train", 1)
        await world.settle()
        assert (await set_condition(world, "train", "Accepted"))["reason"] == reason
        assert {uid_of(pod) for pod in await world.pods()} < before
        assert {pod["metadata"]["labels"][labels.POD_GANG] for pod in await world.pods()} == {"train-0"}
        assert len(await world.pods()) == 2
        left = {
            each["metadata"]["name"]
            for kind in (kinds.GANGS, kinds.CLIQUES, kinds.SERVICES)
            for each in await world.all(kind)
        }
        assert left == {"train-0", "train-0-worker"}
        assert len(await world.all(kinds.CONTROLLER_REVISIONS)) == 1

    run_world(story)


def test_a_refused_set_keeps_no_replica_for_an_update_that_never_began() -> None:
    strategy = {"type": "RollingRecreate", "rollingRecreate": {"maxSurge": 1}}

    async def story(world: World) -> None:
        workload = make.cliqueset_manifest("train", {"worker": 2}, replicas=3, strategy=strategy)
        await world.apply(workload)
        await until_running(world, "train-2")
        (role,) = workload["spec"]["template"]["cliques"]
        role["spec"]["podSpec"]["containers"][0]["image"] = "registry.example/serve:2"
        workload["metadata"]["annotations"] = {labels.UPDATE_PAUSED: "perhaps"}
        await world.apply(workload)
        await world.settle()
        await world.scale("train", 1)
        await world.settle()
        assert {gang["metadata"]["name"] for gang in await world.all(kinds.GANGS)} == {"train-0"}
        assert len(await world.pods()) == 2

    run_world(story)


def test_pods_that_cannot_be_created_are_errors_of_clique_and_group_until_they_can() -> None:
    async def story(world: World) -> None:
        few: Manifest = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "few"},
            "spec": {"hard": {"pods": "6"}},
        }
        await world.apply(few, wl2(KAI, "wl"))
        await pass_time(20)
        group, *_ = await errors_of(world, kinds.SCALING_GROUPS, "wl-0-sg-x")
        assert group["code"] == "ERR_CREATE_POD"
        assert "exceeded quota: few" in group["description"]
        states = await read_all(world)
        failed = {name for name, state in states.items() if state == FAILED}
        assert {"PodCliqueSet wl", "PodCliqueScalingGroup wl-0-sg-x"} < failed
        assert group["description"].partition(":")[0].replace("clique", "PodClique") in failed
        observed = group["observedAt"]
        await pass_time(20)
        again, *_ = await errors_of(world, kinds.SCALING_GROUPS, "wl-0-sg-x")
        assert again["observedAt"] == observed
        await world.user.merge_patch(QUOTAS, key("few"), {"spec": {"hard": {"pods": "100"}}})
        await until_running(world, "wl-0", "wl-0-sg-x-0", seconds=120)
        await world.settle()
        assert set((await read_all(world)).values()) == {CURRENT}
        for resource in (kinds.CLIQUESETS, kinds.SCALING_GROUPS, kinds.CLIQUES):
            for each in await world.all(resource):
                assert not each["status"].get("lastErrors")

    run_world(story, WorldOptions(nodes=12, schedulers=("kai",)))


def test_a_clique_that_cannot_be_created_is_an_error_of_its_set_and_of_its_group() -> None:
    async def story(world: World) -> None:
        foreign = make.clique_manifest("wl-0-sg-x-1-pc-b", 1)
        await world.user.create(
            kinds.CLIQUES, {**foreign, "metadata": {"name": "wl-0-sg-x-1-pc-b", "namespace": "default"}}
        )
        await world.apply(wl2(KAI, "wl"))
        await pass_time(20)
        for resource, name in ((kinds.CLIQUESETS, "wl"), (kinds.SCALING_GROUPS, "wl-0-sg-x")):
            (error,) = await errors_of(world, resource, name)
            assert error["code"] == "ERR_NAME_TAKEN"
            assert "wl-0-sg-x-1-pc-b already exists" in error["description"]
            found = await world.get(resource, name)
            assert found is not None
            assert kstatus(found) == FAILED
        await world.user.delete(kinds.CLIQUES, key("wl-0-sg-x-1-pc-b"))
        await until_running(world, "wl-0", "wl-0-sg-x-0", seconds=120)
        await world.settle()
        assert set((await read_all(world)).values()) == {CURRENT}
        for resource, name in ((kinds.CLIQUESETS, "wl"), (kinds.SCALING_GROUPS, "wl-0-sg-x")):
            assert await errors_of(world, resource, name) == []

    run_world(story, WorldOptions(nodes=12, schedulers=("kai",)))


def test_a_binding_whose_topology_belongs_to_somebody_else_has_failed() -> None:
    async def story(world: World) -> None:
        topology: Manifest = {
            "apiVersion": "kai.scheduler/v1alpha1",
            "kind": "Topology",
            "metadata": {"name": "cluster"},
            "spec": {"levels": [{"nodeLabel": "example.com/other"}]},
        }
        await world.apply(topology, rack_binding("cluster"))
        await world.settle()
        assert await read_all(world, [kinds.TOPOLOGY_BINDINGS]) == {"ClusterTopologyBinding cluster": FAILED}

    run_world(story, WorldOptions(schedulers=("kai",)))
