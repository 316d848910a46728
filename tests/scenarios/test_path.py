"""From a PodCliqueSet to running pods, on every way of scheduling gangs: what exists when, and how it is marked."""

import pytest
from tests.scenarios.stories import (
    GANG_STAGES,
    STAGES,
    History,
    Stage,
    condition_of,
    gates_of,
    owner_of,
    scheduler_objects,
    uid_of,
    until_running,
)

from grove.api import kinds, labels
from grove.meta import Manifest
from grove.testing.world import World, run_world

on_every_stage = pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
on_gang_stages = pytest.mark.parametrize("stage", GANG_STAGES.values(), ids=GANG_STAGES)

ROLES = {"worker": 3, "leader": 1}


def referenced(gang: Manifest) -> dict[str, int]:
    return {group["name"]: len(group["podReferences"]) for group in gang["spec"]["podgroups"]}


def initialized(gang: Manifest) -> str:
    return str(condition_of(gang, "Initialized").get("status"))


@on_every_stage
def test_the_gang_exists_before_its_pods_and_lists_none_of_them(stage: Stage) -> None:
    async def story(world: World) -> None:
        async with History(world, kinds.GANGS, kinds.PODS) as history:
            await world.apply(stage.cliqueset(cliques=ROLES))
            await until_running(world, "train-0")
        born = history.of()[0]
        assert (born.kind, born.type, born.name) == ("PodGang", "ADDED", "train-0")
        assert referenced(born.object) == {"train-0-worker": 0, "train-0-leader": 0}
        assert initialized(born.object) == "False"
        assert [group["minReplicas"] for group in born.object["spec"]["podgroups"]] == [3, 1]

    run_world(story, stage.options)


@on_every_stage
def test_a_gang_is_uninitialized_until_it_references_every_pod(stage: Stage) -> None:
    async def story(world: World) -> None:
        async with History(world, kinds.GANGS) as history:
            await world.apply(stage.cliqueset(cliques=ROLES))
            await until_running(world, "train-0")
        complete = {"train-0-worker": 3, "train-0-leader": 1}
        turned = history.first("PodGang", lambda gang: initialized(gang) == "True")
        before = [each.object for each in history.of("PodGang") if each.version < turned.version]
        assert referenced(turned.object) == complete
        assert {initialized(gang) for gang in before} == {"False"}
        assert all(
            referenced(gang) in (complete, {"train-0-worker": 0, "train-0-leader": 0}) for gang in before
        )

    run_world(story, stage.options)


@on_every_stage
def test_a_gang_that_waits_for_its_pods_says_initialized_false(stage: Stage) -> None:
    async def story(world: World) -> None:
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "few"},
            "spec": {"hard": {"pods": "2"}},
        }
        await world.apply(quota, stage.cliqueset(cliques=ROLES))
        await world.until(lambda: says_uninitialized(world), "Initialized is False")
        gang = await world.gang("train-0")
        assert gang is not None
        assert referenced(gang) == {"train-0-worker": 0, "train-0-leader": 0}
        assert all(gates_of(pod) == [stage.gate] for pod in await world.pods())

    run_world(story, stage.options)


async def says_uninitialized(world: World) -> bool:
    return (await world.condition("train-0", "Initialized")).get("status") == "False"


@on_every_stage
def test_pods_are_born_behind_their_backends_gate_and_name_its_scheduler(stage: Stage) -> None:
    async def story(world: World) -> None:
        async with History(world, kinds.PODS) as history:
            await world.apply(stage.cliqueset(cliques=ROLES))
            await until_running(world, "train-0")
        born = [each for each in history.of("Pod", type_="ADDED") if not each.name.startswith("tg-")]
        assert len(born) == 4
        assert {tuple(gates_of(each.object)) for each in born} == {(stage.gate,)}
        assert {each.object["spec"]["schedulerName"] for each in born} == {stage.scheduler_name}
        assert all(not gates_of(pod) for pod in await world.pods())

    run_world(story, stage.options)


@on_gang_stages
def test_the_schedulers_objects_exist_before_any_gate_opens(stage: Stage) -> None:
    async def story(world: World) -> None:
        async with History(world, kinds.PODS, *stage.objects) as history:
            await world.apply(stage.cliqueset(cliques=ROLES))
            await until_running(world, "train-0")
        opened = history.first("Pod", lambda pod: not gates_of(pod))
        made = [each for each in history.of(type_="ADDED") if each.kind != "Pod"]
        assert {each.kind for each in made} == {each.kind for each in stage.objects}
        assert all(each.version < opened.version for each in made)

    run_world(story, stage.options)


@on_every_stage
def test_no_gate_opens_before_the_gang_is_initialized_and_all_open_within_a_second(stage: Stage) -> None:
    async def story(world: World) -> None:
        async with History(world, kinds.PODS, kinds.GANGS) as history:
            await world.apply(stage.cliqueset(cliques=ROLES))
            await until_running(world, "train-0")
        turned = history.first("PodGang", lambda gang: initialized(gang) == "True")
        opened = {
            each.name: each
            for each in reversed(history.of("Pod"))
            if each.type == "MODIFIED" and not gates_of(each.object)
        }
        assert len(opened) == 4
        assert all(each.version > turned.version for each in opened.values())
        last_born = max(each.at for each in history.of("Pod", type_="ADDED"))
        assert max(each.at for each in opened.values()) - last_born < 1.0
        # Driven by the event, not by the next look that happens to come.
        assert max(each.at for each in opened.values()) - turned.at < 0.1

    run_world(story, stage.options)


@on_every_stage
def test_a_gang_whose_gates_open_does_not_say_that_they_are_closed(stage: Stage) -> None:
    async def story(world: World) -> None:
        async with History(world, kinds.GANGS) as history:
            await world.apply(stage.cliqueset(cliques=ROLES))
            await until_running(world, "train-0")
        turned = history.first("PodGang", lambda gang: initialized(gang) == "True").object
        assert condition_of(turned, "Scheduled")["status"] == "False"
        assert condition_of(turned, "Scheduled")["reason"] != "SchedulingGated"
        assert condition_of(turned, "Initialized")["observedGeneration"] == turned["metadata"]["generation"]

    run_world(story, stage.options)


@on_every_stage
def test_the_phase_goes_from_pending_over_starting_to_running(stage: Stage) -> None:
    async def story(world: World) -> None:
        slow = stage.cliqueset(cliques=ROLES)
        for role in slow["spec"]["template"]["cliques"]:
            role["annotations"] = {"embedded.grove.io/startup": "5s"}
        async with History(world, kinds.GANGS) as history:
            await world.apply(slow)
            await until_running(world, "train-0")
        told = [each.object.get("status", {}).get("phase", "") for each in history.of("PodGang")]
        assert list(dict.fromkeys(filter(None, told))) == ["Pending", "Starting", "Running"]

    run_world(story, stage.options)


@on_every_stage
def test_everything_is_owned_along_the_chain_and_carries_the_labels_of_the_set(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques=ROLES))
        await until_running(world, "train-0")
        of_set = ("PodCliqueSet", "train", uid_of(await world.get(kinds.CLIQUESETS, "train")))
        of_gang = ("PodGang", "train-0", uid_of(await world.gang("train-0")))
        for resource in (kinds.GANGS, kinds.CLIQUES, kinds.SERVICES):
            assert {owner_of(each) for each in await world.all(resource)} == {of_set}
        objects = await scheduler_objects(world, stage)
        assert all(owner_of(each) == of_gang for each in objects)
        cliques = {each["metadata"]["name"]: uid_of(each) for each in await world.all(kinds.CLIQUES)}
        pods = await world.pods()
        for pod in pods:
            clique = pod["metadata"]["labels"][labels.POD_CLIQUE]
            assert owner_of(pod) == ("PodClique", clique, cliques[clique])
        marks = {labels.MANAGED_BY: "grove-operator", labels.PART_OF: "train"}
        children = [
            item for each in (kinds.GANGS, kinds.CLIQUES, kinds.SERVICES) for item in await world.all(each)
        ]
        for each in [*children, *objects, *pods]:
            assert marks.items() <= each["metadata"]["labels"].items(), each["metadata"]["name"]

    run_world(story, stage.options)


@on_every_stage
def test_the_gang_names_its_backend_and_every_pod_its_gang_clique_and_place(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques=ROLES))
        await until_running(world, "train-0")
        gang = await world.gang("train-0")
        assert gang is not None
        assert gang["metadata"]["labels"][labels.SCHEDULER_BACKEND] == stage.backend
        places = set()
        for pod in await world.pods():
            marks = pod["metadata"]["labels"]
            assert marks[labels.POD_GANG] == "train-0"
            assert pod["metadata"]["name"].startswith(marks[labels.POD_CLIQUE] + "-")
            assert pod["spec"]["hostname"] == f"{marks[labels.POD_CLIQUE]}-{marks[labels.POD_INDEX]}"
            assert pod["spec"]["subdomain"] == "train-0"
            places.add(pod["spec"]["hostname"])
        assert places == {"train-0-worker-0", "train-0-worker-1", "train-0-worker-2", "train-0-leader-0"}

    run_world(story, stage.options)


def links(pod: Manifest) -> dict[str, object]:
    """What ties a pod to its scheduler's object, whatever the scheduler."""
    metadata, spec = pod["metadata"], pod["spec"]
    return {
        "workloadRef": spec.get("workloadRef"),
        "schedulingGroup": spec.get("schedulingGroup"),
        "pod-group-name": (metadata.get("annotations") or {}).get("pod-group-name"),
        "subgroup": metadata["labels"].get("kai.scheduler/subgroup-name"),
    }


def test_on_1_35_pods_are_born_linked_to_their_group_of_the_workload() -> None:
    stage = STAGES["1.35"]

    async def story(world: World) -> None:
        async with History(world, kinds.PODS) as history:
            await world.apply(stage.cliqueset(cliques={"worker": 2}))
            await until_running(world, "train-0")
        (workload,) = await scheduler_objects(world, stage)
        (group,) = workload["spec"]["podGroups"]
        assert (group["name"], group["policy"]["gang"]["minCount"]) == ("train-0-worker", 2)
        want = {"name": workload["metadata"]["name"], "podGroup": "train-0-worker"}
        assert [links(each.object)["workloadRef"] for each in history.of("Pod", type_="ADDED")] == [
            want,
            want,
        ]

    run_world(story, stage.options)


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
def test_from_1_36_on_pods_are_born_linked_to_a_podgroup(minor: str) -> None:
    stage = STAGES[minor]

    async def story(world: World) -> None:
        async with History(world, kinds.PODS) as history:
            await world.apply(stage.cliqueset(cliques={"worker": 2}))
            await until_running(world, "train-0")
        (group,) = await world.all(stage.objects[-1])
        assert group["spec"]["schedulingPolicy"]["gang"]["minCount"] == 2
        want = {"podGroupName": group["metadata"]["name"]}
        linked = [links(each.object)["schedulingGroup"] for each in history.of("Pod", type_="ADDED")]
        assert linked == [want, want]

    run_world(story, stage.options)


def test_on_kai_pods_are_born_linked_to_the_subgroup_named_like_their_clique() -> None:
    stage = STAGES["kai"]

    async def story(world: World) -> None:
        async with History(world, kinds.PODS) as history:
            await world.apply(stage.cliqueset(cliques=ROLES))
            await until_running(world, "train-0")
        (group,) = await scheduler_objects(world, stage)
        revisions = {pod["metadata"]["annotations"][labels.GANG_REVISION] for pod in await world.pods()}
        assert {group["metadata"]["name"]} == {f"pg-train-0-{each}" for each in revisions}
        assert group["spec"]["minMember"] == 4
        assert group["spec"]["queue"] == "default-queue"
        subgroups = {each["name"]: each["minMember"] for each in group["spec"]["subGroups"]}
        assert subgroups == {"train-0-worker": 3, "train-0-leader": 1}
        for each in history.of("Pod", type_="ADDED"):
            marks = each.object["metadata"]["labels"]
            assert links(each.object)["pod-group-name"] == group["metadata"]["name"]
            assert links(each.object)["subgroup"] == marks[labels.POD_CLIQUE]
            assert each.object["metadata"]["annotations"]["kai.scheduler/skip-podgrouper"] == "true"

    run_world(story, stage.options)


def test_without_a_gang_api_pods_run_and_the_gang_says_that_nothing_is_guaranteed() -> None:
    stage = STAGES["no gang API"]

    async def story(world: World) -> None:
        async with History(world, kinds.PODS) as history:
            await world.apply(stage.cliqueset(cliques={"worker": 2}))
            await until_running(world, "train-0")
        guarantee = await world.condition("train-0", "GangGuarantee")
        assert (guarantee["status"], guarantee["reason"]) == ("False", "NoGangAPI")
        assert "without a gang guarantee" in guarantee["message"]
        assert "GenericWorkload" in guarantee["message"]
        born = [links(each.object) for each in history.of("Pod", type_="ADDED")]
        assert all(link is None for each in born for link in each.values())

    run_world(story, stage.options)
