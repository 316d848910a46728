"""What somebody deletes, edits or breaks is mended; what belongs to others is left alone."""

from itertools import pairwise

import msgspec
import pytest
from tests.raw import raw
from tests.scenarios.stories import (
    OBJECT_STAGES,
    STAGES,
    Stage,
    events_about,
    gates_of,
    gpu_role,
    reasons_about,
    scheduler_objects,
    set_condition,
    uid_of,
    until_reason,
    until_running,
)

from grove.api import kinds, labels
from grove.backends.kai.backend import PODGROUPS as KAI_PODGROUPS
from grove.meta import Key, Manifest, Resource, manifest_key
from grove.testing import make
from grove.testing.world import NODES, World, WorldOptions, run_world

on_object_stages = pytest.mark.parametrize("stage", OBJECT_STAGES.values(), ids=OBJECT_STAGES)
KAI = STAGES["kai"]


def resource_of(stage: Stage, obj: Manifest) -> Resource:
    return next(each for each in stage.objects if each.kind == obj["kind"])


async def edit(
    world: World, resource: Resource, name: str, patch: Manifest, *, manager: str = "kubectl-edit"
) -> None:
    """Change an object as this field manager does."""
    await raw(
        world.user,
        "PATCH",
        resource.path("default", name),
        query=[("fieldManager", manager)],
        body=encode(patch),
        content_type="application/merge-patch+json",
    )


def encode(patch: Manifest) -> bytes:

    return msgspec.json.encode(patch)


@on_object_stages
def test_a_scheduler_object_deleted_by_hand_comes_back(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques={"worker": 2, "leader": 1}))
        await until_running(world, "train-0")
        await world.settle()
        before = {manifest_key(each): uid_of(each) for each in await scheduler_objects(world, stage)}
        for each in await scheduler_objects(world, stage):
            # A native PodGroup is protected while pods use it: it goes when they do.
            patch: Manifest = {"metadata": {"finalizers": None}}
            await world.user.delete(resource_of(stage, each), manifest_key(each))
            if await world.get(resource_of(stage, each), each["metadata"]["name"]):
                await edit(world, resource_of(stage, each), each["metadata"]["name"], patch)
        await world.settle()
        after = {manifest_key(each): uid_of(each) for each in await scheduler_objects(world, stage)}
        assert after.keys() == before.keys()
        assert all(after[key] != before[key] for key in before)
        assert "Repaired" in await reasons_about(world, "PodGang", "train-0")
        assert await world.phase("train-0") == "Running"

    run_world(story, stage.options)


def test_a_scheduler_object_edited_by_hand_is_mended_with_an_event() -> None:
    async def story(world: World) -> None:
        await world.apply(KAI.cliqueset(cliques={"worker": 2}))
        await until_running(world, "train-0")
        await world.settle()
        (group,) = await scheduler_objects(world, KAI)
        name = group["metadata"]["name"]
        await edit(world, KAI_PODGROUPS, name, {"spec": {"minMember": 1, "queue": "elsewhere"}})
        await world.settle()
        mended = await world.get(KAI_PODGROUPS, name)
        assert mended is not None
        assert (mended["spec"]["minMember"], mended["spec"]["queue"]) == (2, "default-queue")
        told = await events_about(world, "PodGang", "train-0")
        assert [each["message"] for each in told if each["reason"] == "Repaired"] == [
            f"put back PodGroup {name}"
        ]

    run_world(story, KAI.options)


def test_fields_of_a_scheduler_object_that_are_not_ours_are_left_alone() -> None:
    async def story(world: World) -> None:
        await world.apply(KAI.cliqueset(cliques={"worker": 2}))
        await until_running(world, "train-0")
        await world.settle()
        (group,) = await scheduler_objects(world, KAI)
        name = group["metadata"]["name"]
        theirs = {
            "metadata": {"annotations": {"example.com/mine": "yes"}},
            "spec": {"markUnschedulable": True},
        }
        await edit(world, KAI_PODGROUPS, name, theirs, manager="kai-admin")
        await world.settle()
        kept = await world.get(KAI_PODGROUPS, name)
        assert kept is not None
        assert kept["metadata"]["annotations"]["example.com/mine"] == "yes"
        assert kept["spec"]["markUnschedulable"] is True
        assert not await world.condition("train-0", "OwnershipConflict")

    run_world(story, KAI.options)


def test_another_controller_that_insists_on_a_field_of_ours_is_named_and_not_fought() -> None:
    async def story(world: World) -> None:
        await world.apply(KAI.cliqueset(cliques={"worker": 2}))
        await until_running(world, "train-0")
        await world.settle()
        (group,) = await scheduler_objects(world, KAI)
        name = group["metadata"]["name"]
        await edit(world, KAI_PODGROUPS, name, {"spec": {"queue": "theirs"}}, manager="queue-controller")
        await world.until(lambda: conflicted(world), "the gang says who else writes the field", seconds=30)
        told = await world.condition("train-0", "OwnershipConflict")
        assert (told["status"], told["reason"]) == ("True", "FieldOwnedByOther")
        assert "queue-controller" in told["message"]
        assert ".spec.queue" in told["message"]
        theirs = await world.get(KAI_PODGROUPS, name)
        assert theirs is not None
        assert theirs["spec"]["queue"] == "theirs"
        await edit(
            world, KAI_PODGROUPS, name, {"spec": {"queue": "default-queue"}}, manager="queue-controller"
        )
        await world.settle(quiet=70)
        assert not await world.condition("train-0", "OwnershipConflict")

    run_world(story, KAI.options)


async def conflicted(world: World) -> bool:
    return bool(await world.condition("train-0", "OwnershipConflict"))


CHILDREN: dict[str, tuple[Resource, str, Manifest]] = {
    "a service": (kinds.SERVICES, "train-0", {"spec": {"publishNotReadyAddresses": False}}),
    "a service's selector": (kinds.SERVICES, "train-0", {"spec": {"selector": {"x": "y"}}}),
    "a service's labels": (kinds.SERVICES, "train-0", {"metadata": {"labels": {labels.COMPONENT: "x"}}}),
    "a gang": (kinds.GANGS, "train-0", {"spec": {"priorityClassName": "system-node-critical"}}),
    "a gang's label": (kinds.GANGS, "train-0", {"metadata": {"labels": {labels.SET_REPLICA_INDEX: "7"}}}),
    "a clique": (kinds.CLIQUES, "train-0-worker", {"spec": {"minAvailable": 1}}),
    "a clique's pods": (
        kinds.CLIQUES,
        "train-0-worker",
        {"spec": {"podSpec": {"hostNetwork": True}}},
    ),
}


@pytest.mark.parametrize(("resource", "name", "patch"), CHILDREN.values(), ids=CHILDREN)
def test_a_child_edited_by_hand_is_mended(resource: Resource, name: str, patch: Manifest) -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}))
        await until_running(world, "train-0")
        await world.settle()
        before = await world.get(resource, name)
        await edit(world, resource, name, patch)
        await world.settle()
        after = await world.get(resource, name)
        assert before is not None
        assert after is not None
        assert after["spec"] == before["spec"]
        assert after["metadata"]["labels"] == before["metadata"]["labels"]
        assert uid_of(after) == uid_of(before)
        assert await world.phase("train-0") == "Running"

    run_world(story)


@pytest.mark.parametrize(
    ("resource", "name"),
    [(kinds.SERVICES, "train-0"), (kinds.CLIQUES, "train-0-worker"), (kinds.GANGS, "train-0")],
    ids=["a service", "a clique", "a gang"],
)
@pytest.mark.parametrize("stage", [STAGES["1.36"], KAI], ids=["1.36", "kai"])
def test_a_child_deleted_by_hand_comes_back_and_everything_runs(
    stage: Stage, resource: Resource, name: str
) -> None:
    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques={"worker": 2}))
        await until_running(world, "train-0")
        await world.settle()
        before = uid_of(await world.get(resource, name))
        await world.user.delete(resource, Key("default", name))
        await world.settle()
        assert uid_of(await world.get(resource, name)) not in ("", before)
        assert await world.phase("train-0") == "Running"
        assert len(await world.pods()) == 2

    run_world(story, stage.options)


@pytest.mark.parametrize(
    ("resource", "name"),
    [(kinds.SERVICES, "train-0"), (kinds.CLIQUES, "train-0-worker"), (kinds.GANGS, "train-0")],
    ids=["a service", "a clique", "a gang"],
)
@pytest.mark.parametrize("lost", [labels.MANAGED_BY, labels.PART_OF, "ownerReferences"])
def test_a_child_that_lost_what_we_find_it_by_is_found_and_mended(
    resource: Resource, name: str, lost: str
) -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}))
        await until_running(world, "train-0")
        await world.settle()
        before = await world.get(resource, name)
        patch: Manifest = {lost: None} if lost == "ownerReferences" else {"labels": {lost: None}}
        await edit(world, resource, name, {"metadata": patch})
        await world.settle()
        after = await world.get(resource, name)
        assert before is not None
        assert after is not None
        assert after["metadata"]["labels"] == before["metadata"]["labels"]
        assert after["metadata"]["ownerReferences"] == before["metadata"]["ownerReferences"]
        assert uid_of(after) == uid_of(before)
        assert len(await world.pods()) == 2

    run_world(story)


@on_object_stages
@pytest.mark.parametrize("labelled", [True, False], ids=["its owner", "its owner and its label"])
def test_the_objects_of_a_gang_stay_that_lost(stage: Stage, labelled: bool) -> None:
    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques=[gpu_role("worker", 2, 1)]))
        await until_running(world, "train-0")
        await world.settle()
        objects, gang = await scheduler_objects(world, stage), await world.gang("train-0")
        assert objects
        assert gang is not None
        lost: Manifest = {} if labelled else {"labels": {labels.MANAGED_BY: None}}
        await edit(world, kinds.GANGS, "train-0", {"metadata": {"ownerReferences": None, **lost}})
        await world.settle()
        mended = await world.gang("train-0") or {}
        assert mended["metadata"]["ownerReferences"] == gang["metadata"]["ownerReferences"]
        assert mended["metadata"]["labels"] == gang["metadata"]["labels"]
        left = await scheduler_objects(world, stage)
        assert sorted(map(uid_of, left)) == sorted(map(uid_of, objects))
        assert not any("deletionTimestamp" in each["metadata"] for each in left)

    run_world(story, stage.options)


def test_references_taken_from_a_gang_by_hand_are_put_back() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}))
        await until_running(world, "train-0")
        await world.settle()
        gang = await world.gang("train-0")
        assert gang is not None
        groups = gang["spec"]["podgroups"]
        emptied = [{**group, "podReferences": []} for group in groups]
        await edit(world, kinds.GANGS, "train-0", {"spec": {"podgroups": emptied}})
        await world.settle()
        mended = await world.gang("train-0")
        assert mended is not None
        assert mended["spec"]["podgroups"] == groups

    run_world(story)


# Pods ---------------------------------------------------------------------------------------------


def hostnames(pods: list[Manifest]) -> dict[str, str]:
    """Name by hostname."""
    return {pod["spec"]["hostname"]: pod["metadata"]["name"] for pod in pods}


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_a_deleted_pod_is_replaced_under_its_old_hostname_and_a_new_name(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques={"worker": 3}))
        await until_running(world, "train-0")
        await world.settle()
        before = hostnames(await world.pods())
        await world.user.delete(kinds.PODS, Key("default", before["train-0-worker-1"]))
        await world.settle()
        after = hostnames(await world.pods())
        assert after.keys() == before.keys()
        assert {host for host in before if after[host] != before[host]} == {"train-0-worker-1"}
        assert all(not gates_of(pod) and pod["spec"].get("nodeName") for pod in await world.pods())
        gang = await world.gang("train-0")
        assert gang is not None
        listed = {ref["name"] for group in gang["spec"]["podgroups"] for ref in group["podReferences"]}
        assert listed == set(after.values())
        assert await world.phase("train-0") == "Running"

    run_world(story, stage.options)


def test_a_pod_that_is_deleted_again_and_again_always_gets_a_new_name() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 1}))
        await until_running(world, "train-0")
        names = []
        for _ in range(5):
            (pod,) = await world.pods()
            names.append(pod["metadata"]["name"])
            await world.user.delete(kinds.PODS, Key("default", names[-1]))
            await world.settle()
        assert all(one != two for one, two in pairwise(names))
        assert await world.phase("train-0") == "Running"

    run_world(story)


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_gates_of_others_survive_ours(stage: Stage) -> None:
    async def story(world: World) -> None:
        role = make.template("worker", 2, pod={"schedulingGates": [{"name": "example.com/licence"}]})
        await world.apply(stage.cliqueset(cliques=[role]))
        await world.settle()
        pods = await world.pods()
        assert [gates_of(pod) for pod in pods] == [["example.com/licence"]] * 2
        told = await world.condition("train-0", "Scheduled")
        assert told["reason"] == "SchedulingGated"
        for pod in pods:
            opened: Manifest = {"spec": {"schedulingGates": []}}
            await edit(world, kinds.PODS, pod["metadata"]["name"], opened, manager="licences")
        await until_running(world, "train-0")

    run_world(story, stage.options)


def test_a_failed_pod_is_replaced() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}))
        await until_running(world, "train-0")
        before = hostnames(await world.pods())
        failed: Manifest = {"status": {"phase": "Failed", "reason": "Evicted"}}
        await world.user.merge_patch(
            kinds.PODS, Key("default", before["train-0-worker-0"]), failed, subresource="status"
        )
        await world.settle()
        after = hostnames(await world.pods())
        assert after["train-0-worker-0"] != before["train-0-worker-0"]
        assert after["train-0-worker-1"] == before["train-0-worker-1"]
        assert await world.phase("train-0") == "Running"

    run_world(story)


def test_a_pod_that_succeeded_keeps_its_place() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}))
        await until_running(world, "train-0")
        before = hostnames(await world.pods())
        done: Manifest = {"status": {"phase": "Succeeded"}}
        await world.user.merge_patch(
            kinds.PODS, Key("default", before["train-0-worker-0"]), done, subresource="status"
        )
        await world.settle()
        assert hostnames(await world.pods()) == before

    run_world(story)


@pytest.mark.parametrize("stage", [STAGES["1.36"], STAGES["1.37"], KAI], ids=["1.36", "1.37", "kai"])
def test_a_lost_node_costs_its_pods_and_the_gang_recovers_elsewhere(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques=[gpu_role("worker", 3)]))
        await until_running(world, "train-0")
        lost = (await world.pods())[0]["spec"]["nodeName"]
        await world.user.delete(NODES, Key("", lost))
        await world.settle()
        pods = await world.pods()
        assert len(pods) == 3
        assert lost not in {pod["spec"].get("nodeName") for pod in pods}
        assert await world.phase("train-0") == "Running"

    run_world(story, stage.options)


def test_a_gang_that_lost_pods_it_cannot_replace_is_unhealthy_until_it_can() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", [gpu_role("worker", 2)]))
        await until_running(world, "train-0")
        lost = (await world.pods())[0]["spec"]["nodeName"]
        await world.user.delete(NODES, Key("", lost))
        await until_reason(world, "train-0", "Unhealthy", "PodsFailing")
        told = await world.condition("train-0", "Unhealthy")
        assert told["message"] == "train-0-worker: 1 of 2 pods are placed"
        await world.settle()
        assert (await set_condition(world, "train", "Available"))["status"] == "False"
        assert "Unhealthy" in await reasons_about(world, "PodGang", "train-0")
        await world.add_node("new")
        await until_running(world, "train-0")
        assert not await world.condition("train-0", "Unhealthy")

    run_world(story, WorldOptions(nodes=2))


def test_a_crashing_pod_makes_its_gang_not_ready_and_says_which_role_lacks() -> None:
    async def story(world: World) -> None:
        role = make.template("worker", 2, annotations={"embedded.grove.io/not-ready": "true"})
        await world.apply(make.cliqueset_manifest("train", [role, make.template("leader", 1)]))
        await world.settle()
        told = await world.condition("train-0", "Ready")
        assert (told["status"], told["reason"]) == ("False", "PodsNotReady")
        assert told["message"] == "train-0-worker: 0 of 2 pods are ready"
        assert await world.phase("train-0") == "Starting"

    run_world(story)
