"""What fails never loses a gang: it stays, says why, and comes alive when the cause is gone."""

import pytest
from tests.scenarios.stories import (
    NAMESPACES,
    OBJECT_STAGES,
    PODGROUPS_136,
    QUOTAS,
    STAGES,
    Stage,
    condition_of,
    events_about,
    gates_of,
    pass_time,
    reasons_about,
    revision_of,
    scheduler_objects,
    set_condition,
    uid_of,
    until_gone,
    until_reason,
    until_running,
)

from grove.api import kinds, labels
from grove.api.config import load
from grove.backends.kai.backend import PODGROUPS as KAI_PODGROUPS
from grove.embedded.actors.schedulers import kai_install
from grove.embedded.faults import Fault
from grove.embedded.kinds.builtins import builtin_types
from grove.meta import Key, Manifest
from grove.testing import make
from grove.testing.world import CRDS, OPERATOR, World, WorldOptions, run_world

KAI = STAGES["kai"]


async def uninstall_kai(world: World) -> None:
    for crd in kai_install.definitions():
        await world.user.delete(CRDS, Key("", crd["metadata"]["name"]))


def test_a_gang_waits_for_kai_to_be_installed_and_then_comes_alive() -> None:
    async def story(world: World) -> None:
        await uninstall_kai(world)
        await world.start_operator()
        await world.apply(KAI.cliqueset(cliques={"worker": 2}))
        told = await until_reason(world, "train-0", "Scheduled", "PreconditionMissing")
        assert "install KAI Scheduler" in told["message"]
        assert "podgroups.scheduling.run.ai" in told["message"]
        await pass_time(10)
        assert all(gates_of(pod) == [KAI.gate] for pod in await world.pods())
        assert "PreconditionMissing" in await reasons_about(world, "PodGang", "train-0")
        await kai_install.install(world.cluster.client())
        await until_running(world, "train-0", seconds=45)
        assert len(await world.all(KAI_PODGROUPS)) == 1

    run_world(story, KAI.options, operator=False)


@pytest.mark.parametrize(
    ("forbidden", "seconds"), [(False, 3.0), (True, 35.0)], ids=["watched", "looked for"]
)
def test_a_crd_that_is_installed_later_is_noticed(forbidden: bool, seconds: float) -> None:
    async def podgroups_exist(world: World) -> bool:
        return bool(await world.all(KAI_PODGROUPS))

    async def story(world: World) -> None:
        await uninstall_kai(world)
        if forbidden:
            world.cluster.faults.add(Fault("error", verb="list", resource="customresourcedefinitions*"))
        await world.start_operator()
        await world.apply(KAI.cliqueset(cliques={"worker": 2}))
        await until_reason(world, "train-0", "Scheduled", "PreconditionMissing")
        # Long after the operator last looked by itself, and long before it will again.
        await pass_time(5)
        await kai_install.install(world.cluster.client())
        await world.until(lambda: podgroups_exist(world), "the gang is handed to KAI", seconds=seconds)

    run_world(story, KAI.options, operator=False)


def test_the_set_repeats_what_its_gang_waits_for() -> None:
    async def story(world: World) -> None:
        await world.apply(KAI.cliqueset(cliques={"worker": 2}))
        await pass_time(30)
        available = await set_condition(world, "train", "Available")
        assert available["status"] == "False"
        assert "install KAI Scheduler" in available["message"]

    run_world(story)


def test_a_gang_api_that_appears_later_is_used_for_new_gangs() -> None:
    """An operator that started before the API server had its feature gates switched on."""

    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}))
        await until_running(world, "train-0")
        assert (await world.condition("train-0", "GangGuarantee"))["status"] == "False"
        for each in builtin_types("1.36"):
            if each.group == "scheduling.k8s.io" and each.version == "v1alpha2":
                world.cluster.catalog.registry.add(each)
        await pass_time(45)
        await world.scale("train", 2)
        await until_running(world, "train-1")
        assert not await world.condition("train-1", "GangGuarantee")
        groups = {each["metadata"]["labels"][labels.POD_GANG] for each in await world.all(PODGROUPS_136)}
        assert "train-1" in groups

    run_world(story, WorldOptions(features=frozenset()))


# Pods that cannot be created ----------------------------------------------------------------------


def quota(pods: int) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": {"pods": str(pods)}},
    }


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_a_quota_that_stops_pods_is_told_everywhere_and_lifting_it_lets_the_gang_run(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(quota(2), stage.cliqueset(cliques={"worker": 3}))
        await pass_time(10)
        clique = await world.get(kinds.CLIQUES, "train-0-worker")
        assert clique is not None
        (error,) = clique["status"]["lastErrors"]
        assert "exceeded quota: few" in error["description"]
        assert error["code"]
        assert error["observedAt"]
        told = await world.condition("train-0", "Initialized")
        assert "2 of 3 pods exist" in told["message"]
        assert "exceeded quota: few" in told["message"]
        available = await set_condition(world, "train", "Available")
        assert "exceeded quota: few" in available["message"]
        (event,) = await events_about(world, "PodClique", "train-0-worker")
        assert (event["type"], event["reason"]) == ("Warning", "PodCreateFailed")
        assert all(gates_of(pod) == [stage.gate] for pod in await world.pods())
        raised: Manifest = {"spec": {"hard": {"pods": "10"}}}
        await world.user.merge_patch(QUOTAS, Key("default", "few"), raised)
        await until_running(world, "train-0", seconds=90)
        await world.settle()
        clique = await world.get(kinds.CLIQUES, "train-0-worker")
        assert clique is not None
        assert not clique["status"].get("lastErrors")

    run_world(story, stage.options)


# Translation --------------------------------------------------------------------------------------


def test_a_gang_that_cannot_be_translated_says_why_until_it_is_changed() -> None:
    async def story(world: World) -> None:
        orphan = make.gang_manifest(
            "orphan",
            [make.podgroup("orphan-worker", 1, required="example.com/rack")],
            labels={labels.SCHEDULER_BACKEND: "kai"},
        )
        await world.apply(orphan)
        told = await until_reason(world, "orphan", "Scheduled", "Unsupported", seconds=10)
        assert "has a topology constraint but no annotation grove.io/topology-name" in told["message"]
        assert "Unsupported" in await reasons_about(world, "PodGang", "orphan")
        assert await world.all(KAI_PODGROUPS) == []
        corrected: Manifest = {"metadata": {"annotations": {labels.TOPOLOGY_NAME: "cluster"}}}
        await world.user.merge_patch(kinds.GANGS, Key("default", "orphan"), corrected)
        await world.settle()
        assert len(await world.all(KAI_PODGROUPS)) == 1

    run_world(story, KAI.options)


def test_a_required_gang_guarantee_that_the_cluster_cannot_give_is_refused() -> None:
    configuration = load("""
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
scheduler:
  profiles: [{name: default-scheduler, config: {gangScheduling: Required}}]
""")

    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}))
        await world.settle()
        accepted = await set_condition(world, "train", "Accepted")
        assert (accepted["status"], accepted["reason"]) == ("False", "Unsupported")
        assert "cannot guarantee gang scheduling here" in accepted["message"]
        assert await world.pods() == []

    run_world(story, WorldOptions(features=frozenset(), configuration=configuration))


def test_a_backend_that_is_switched_off_keeps_its_gangs_and_says_so_until_it_is_back() -> None:
    only_default = load("""
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
scheduler:
  profiles: [{name: default-scheduler}]
""")

    async def story(world: World) -> None:
        await world.apply(KAI.cliqueset(cliques={"worker": 2}))
        await until_running(world, "train-0")
        await world.settle()
        pods = {pod["metadata"]["uid"] for pod in await world.pods()}
        (group,) = await scheduler_objects(world, KAI)
        both = world.options
        await world.kill_operator()
        world.options = WorldOptions(schedulers=("kai",), configuration=only_default)
        await world.start_operator()
        await pass_time(10)
        accepted = await set_condition(world, "train", "Accepted")
        assert (accepted["status"], accepted["reason"]) == ("False", "BackendNotEnabled")
        assert {pod["metadata"]["uid"] for pod in await world.pods()} == pods
        assert (await scheduler_objects(world, KAI))[0]["metadata"]["uid"] == group["metadata"]["uid"]
        await world.kill_operator()
        world.options = both
        await world.start_operator()
        await world.settle()
        assert (await set_condition(world, "train", "Accepted"))["status"] == "True"
        assert await world.phase("train-0") == "Running"
        assert {pod["metadata"]["uid"] for pod in await world.pods()} == pods

    run_world(story, KAI.options)


# Names --------------------------------------------------------------------------------------------


def test_a_service_of_somebody_else_with_our_name_is_told_and_waited_for() -> None:
    async def story(world: World) -> None:
        theirs: Manifest = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "train-0"},
            "spec": {"ports": [{"port": 80}], "selector": {"app": "theirs"}},
        }
        await world.apply(theirs, make.cliqueset_manifest("train", {"worker": 2}))
        await pass_time(20)
        told = [
            each
            for each in await events_about(world, "PodCliqueSet", "train")
            if each["reason"] == "SyncFailed"
        ]
        assert ["Service default/train-0 already exists" in each["message"] for each in told] == [True]
        kept = await world.get(kinds.SERVICES, "train-0")
        assert kept is not None
        assert kept["spec"]["selector"] == {"app": "theirs"}
        await world.user.delete(kinds.SERVICES, Key("default", "train-0"))
        await until_running(world, "train-0", seconds=120)
        await world.settle(quiet=70)
        ours = await world.get(kinds.SERVICES, "train-0")
        assert ours is not None
        assert ours["metadata"]["labels"][labels.PART_OF] == "train"

    run_world(story)


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
def test_a_scheduler_object_of_somebody_else_with_our_name_is_not_taken_over(minor: str) -> None:
    stage = STAGES[minor]
    podgroups = stage.objects[-1]

    async def story(world: World) -> None:
        # The name is known from the pods before the object can be created.
        world.cluster.faults.add(Fault("error", verb="write", resource="podgroups.*", user=OPERATOR.name))
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}))
        await pass_time(5)
        (revision,) = {revision_of(pod) for pod in await world.pods()}
        name = f"train-0-worker-{revision}"
        assert await world.get(podgroups, name) is None
        theirs: Manifest = {
            "apiVersion": podgroups.api_version,
            "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 5}}},
        }
        await world.apply(theirs)
        world.cluster.faults.clear()
        await pass_time(20)
        kept = await world.get(podgroups, name)
        assert kept is not None
        assert kept["spec"]["schedulingPolicy"]["gang"]["minCount"] == 5
        assert "ownerReferences" not in kept["metadata"]
        told = await world.condition("train-0", "Scheduled")
        assert told["status"] == "False"
        assert f"PodGroup default/{name} already exists" in told["message"]
        await world.user.delete(podgroups, Key("default", name))
        # Our gated pods point to it already, so Kubernetes protects it until somebody insists.
        insisted: Manifest = {"metadata": {"finalizers": None}}
        await world.user.merge_patch(podgroups, Key("default", name), insisted)
        await until_running(world, "train-0", seconds=120)

    run_world(story, stage.options)


# Misfortune ---------------------------------------------------------------------------------------


def test_an_api_server_that_refuses_scheduler_objects_for_a_while_only_delays_the_gang() -> None:
    async def story(world: World) -> None:
        world.cluster.faults.add(
            Fault("error", verb="write", resource="podgroups.*", user=OPERATOR.name, times=5)
        )
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}))
        await until_running(world, "train-0", seconds=120)
        assert (await world.condition("train-0", "Scheduled"))["status"] == "True"

    run_world(story)


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_gates_stay_shut_until_initialized_is_written_whatever_the_references_say(stage: Stage) -> None:
    async def story(world: World) -> None:
        world.cluster.faults.add(
            Fault("error", verb="write", resource="podgangs.*/status", user=OPERATOR.name)
        )
        await world.apply(stage.cliqueset(cliques={"worker": 2}))
        await pass_time(20)
        gang = await world.gang("train-0")
        assert gang is not None
        assert len(gang["spec"]["podgroups"][0]["podReferences"]) == 2
        assert condition_of(gang, "Initialized")["status"] == "False"
        assert [gates_of(pod) for pod in await world.pods()] == [[stage.gate]] * 2
        world.cluster.faults.clear()
        await until_running(world, "train-0", seconds=120)

    run_world(story, stage.options)


def test_a_replacement_pod_stays_gated_while_the_schedulers_object_is_missing() -> None:
    async def story(world: World) -> None:
        await world.apply(KAI.cliqueset(cliques={"worker": 2}))
        await until_running(world, "train-0")
        await world.settle()
        world.cluster.faults.add(Fault("error", verb="write", resource="podgroups.*", user=OPERATOR.name))
        (group,) = await scheduler_objects(world, KAI)
        await world.user.delete(KAI_PODGROUPS, Key("default", group["metadata"]["name"]))
        first, second = await world.pods()
        await world.user.delete(kinds.PODS, Key("default", first["metadata"]["name"]))
        await pass_time(10)
        gates = {pod["metadata"]["name"]: gates_of(pod) for pod in await world.pods()}
        assert gates.pop(second["metadata"]["name"]) == []
        assert list(gates.values()) == [[KAI.gate]]
        world.cluster.faults.clear()
        await until_running(world, "train-0", seconds=120)

    run_world(story, KAI.options)


def test_a_set_in_a_namespace_that_is_being_deleted_does_not_disturb_others() -> None:
    async def story(world: World) -> None:
        await world.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        await world.apply(make.cliqueset_manifest("late", {"worker": 2}, namespace="team"))
        await world.user.delete(NAMESPACES, Key("", "team"))
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}))
        await until_running(world, "train-0")
        assert condition_of(await world.gang("train-0"), "Ready")["status"] == "True"

    run_world(story)


async def put_theirs(world: World, stage: Stage, *, marked: bool) -> dict[str, Manifest]:
    """Objects of somebody else in place of ours, which say the same under the same names; their specs by UID."""
    for resource in stage.objects:
        for each in await world.all(resource):
            key = Key("default", each["metadata"]["name"])
            await world.user.merge_patch(resource, key, {"metadata": {"finalizers": None}})
            await world.user.delete(resource, key)
            metadata: Manifest = {"name": key.name}
            if marked:
                metadata["labels"] = each["metadata"]["labels"]
            await world.apply(
                {**{name: each[name] for name in ("apiVersion", "kind", "spec")}, "metadata": metadata}
            )
    return {uid_of(each): each["spec"] for each in await scheduler_objects(world, stage)}


@pytest.mark.parametrize("stage", OBJECT_STAGES.values(), ids=OBJECT_STAGES)
@pytest.mark.parametrize("marked", [False, True], ids=["bare", "with our labels"])
def test_an_object_of_somebody_else_that_says_the_same_is_neither_taken_over_nor_deleted(
    stage: Stage, marked: bool
) -> None:
    async def story(world: World) -> None:
        await world.apply(stage.cliqueset())
        await until_running(world, "train-0")
        await world.settle()
        await world.kill_operator()
        theirs = await put_theirs(world, stage, marked=marked)
        await world.start_operator()
        await world.settle()
        told = [each["message"] for each in await events_about(world, "PodGang", "train-0")]
        assert any("already exists and has no controlling owner" in each for each in told)
        await world.user.delete(kinds.CLIQUESETS, Key("default", "train"))
        await until_gone(world, kinds.CLIQUESETS, "train")
        await world.settle()
        left = await scheduler_objects(world, stage)
        assert {uid_of(each): each["spec"] for each in left} == theirs
        assert ["ownerReferences" in each["metadata"] for each in left] == [False] * len(theirs)

    run_world(story, stage.options)
