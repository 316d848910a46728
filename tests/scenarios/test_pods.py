"""Pods that end in every way: failed, evicted, lost, terminating, succeeded, too many. And roles that come and go."""

import asyncio
from dataclasses import replace

import pytest
from tests.scenarios.disturbing import SHUTDOWN
from tests.scenarios.stories import (
    GANG_STAGES,
    STAGES,
    History,
    Stage,
    condition_of,
    events_about,
    key,
    pass_time,
    set_condition,
    uid_of,
    until_running,
)
from tests.scenarios.test_hostnames import indexes, lose_node, pods_at, remove

from grove.api import kinds
from grove.embedded.actors.init_containers import PREFIX
from grove.meta import Manifest
from grove.plan.places import STUCK_SECONDS
from grove.testing import make
from grove.testing.portrait import Guard
from grove.testing.world import CRDS, NODES, World, WorldOptions, run_world

on_every_stage = pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
WORKER = "train-0-worker"


def failing(stage: Stage, after: str = "1s") -> Manifest:
    """A worker that fails soon after each start and is not restarted by its kubelet, beside one that works."""
    marks = {f"{PREFIX}fail-after": after}
    worker = make.template("worker", 1, pod={"restartPolicy": "Never"}, annotations=marks)
    return stage.cliqueset(cliques=[worker, make.template("leader", 1)])


async def fail(world: World, pod: Manifest, reason: str, message: str) -> None:
    status = {"status": {"phase": "Failed", "reason": reason, "message": message}}
    await world.user.merge_patch(kinds.PODS, key(pod["metadata"]["name"]), status, subresource="status")


async def clique_status(world: World, name: str = WORKER) -> Manifest:
    clique = await world.get(kinds.CLIQUES, name)
    assert clique is not None
    status: Manifest = clique["status"]
    return status


# Failed -------------------------------------------------------------------------------------------


@on_every_stage
def test_an_evicted_pod_is_replaced_at_once_and_what_it_said_is_kept_as_an_event(stage: Stage) -> None:
    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        await world.apply(stage.cliqueset(cliques={"worker": 2}))
        await until_running(world, "train-0")
        (evicted,) = await pods_at(world, f"{WORKER}-1")
        await fail(world, evicted, "Evicted", "The node was low on resource: memory.")
        await pass_time(2)
        (new,) = await pods_at(world, f"{WORKER}-1")
        assert uid_of(new) != uid_of(evicted)
        await until_running(world, "train-0")
        (told,) = [
            each for each in await events_about(world, "PodClique", WORKER) if each["reason"] == "PodFailed"
        ]
        name, node = evicted["metadata"]["name"], evicted["spec"]["nodeName"]
        assert told["message"] == (
            f"pod {name} failed on node {node} (Evicted: The node was low on resource: memory.) and is replaced"
        )
        assert guard.broken == []

    run_world(story, stage.options)


@on_every_stage
def test_a_pod_that_fails_again_and_again_is_replaced_less_and_less_often(stage: Stage) -> None:
    async def story(world: World) -> None:
        async with History(world, kinds.PODS) as history:
            await world.apply(failing(stage))
            await pass_time(200)
            born: dict[str, float] = {}
            for each in history.of("Pod", type_="ADDED"):
                if each.object["spec"].get("hostname") == f"{WORKER}-0":
                    born.setdefault(uid_of(each.object), each.at)
        pauses = [
            round(later - earlier)
            for earlier, later in zip(born.values(), list(born.values())[1:], strict=False)
        ]
        assert len(pauses) == 5
        assert pauses[0] < 10
        assert all(
            want <= pause <= want + 5 for pause, want in zip(pauses[1:], (10, 20, 40, 80), strict=True)
        )
        (last,) = await pods_at(world, f"{WORKER}-0")
        assert last["status"]["phase"] == "Failed", "it stays to be looked at"
        told = (await world.condition("train-0", "Scheduled"))["message"]
        assert f"pod {last['metadata']['name']} failed on node" in told
        assert "the 6th in its place in a row, and is replaced at 2030-" in told
        assert (await clique_status(world))["replicas"] == 0

    run_world(story, stage.options)


@pytest.mark.parametrize("way", ["template", "deletion"])
def test_who_repairs_a_pod_that_fails_again_and_again_need_not_wait(way: str) -> None:
    stage = STAGES["1.36"]

    async def story(world: World) -> None:
        await world.apply(failing(stage))
        await pass_time(100)
        (broken,) = await pods_at(world, f"{WORKER}-0")
        assert broken["status"]["phase"] == "Failed"
        if way == "template":
            await world.apply(failing(stage, "none"))
        else:
            await remove(world, broken)
        await pass_time(0.9)
        (new,) = await pods_at(world, f"{WORKER}-0")
        assert uid_of(new) != uid_of(broken)
        assert new["metadata"]["annotations"].get("grove.io/failures") is None
        if way == "template":
            await until_running(world, "train-0")

    run_world(story, stage.options)


def test_an_operator_that_restarts_keeps_the_pause() -> None:
    stage = STAGES["1.36"]

    async def story(world: World) -> None:
        await world.apply(failing(stage))
        await pass_time(90)
        (broken,) = await pods_at(world, f"{WORKER}-0")
        await world.kill_operator()
        await world.start_operator()
        await pass_time(30)
        assert [uid_of(pod) for pod in await pods_at(world, f"{WORKER}-0")] == [uid_of(broken)]
        await pass_time(60)
        assert [uid_of(pod) for pod in await pods_at(world, f"{WORKER}-0")] != [uid_of(broken)]

    run_world(story, stage.options)


@on_every_stage
def test_a_gang_all_of_whose_pods_fail_is_restarted_as_a_whole(stage: Stage) -> None:
    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        await world.apply(stage.cliqueset(cliques={"worker": 2, "leader": 1}))
        await until_running(world, "train-0")
        before = await world.pods()
        for pod in before:
            await fail(
                world, pod, "NodeShutdown", "Pod was terminated in response to imminent node shutdown."
            )
        await pass_time(5)
        await until_running(world, "train-0")
        after = await world.pods()
        assert len(after) == 3
        assert {uid_of(pod) for pod in before}.isdisjoint({uid_of(pod) for pod in after})
        assert guard.broken == []

    run_world(story, stage.options)


# Lost ---------------------------------------------------------------------------------------------


@on_every_stage
def test_a_gang_outlives_the_loss_of_a_node_that_nobody_deletes(stage: Stage) -> None:
    """The pods are evicted after 300 s, stuck a minute after their grace period, and then replaced elsewhere."""

    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        await world.apply(stage.cliqueset(cliques={"worker": 2, "leader": 1}))
        await until_running(world, "train-0")
        (lost,) = await pods_at(world, f"{WORKER}-0")
        node = lost["spec"]["nodeName"]
        await lose_node(world, node)
        await pass_time(290)
        assert [uid_of(pod) for pod in await pods_at(world, f"{WORKER}-0")] == [uid_of(lost)]
        assert (await clique_status(world))["readyReplicas"] < 2
        assert (await set_condition(world, "train", "Available"))["status"] == "False"
        await pass_time(20)
        status = await clique_status(world)
        assert (status["replicas"], status["scheduledReplicas"]) in ((1, 1), (0, 0))
        await pass_time(30 + STUCK_SECONDS)
        await until_running(world, "train-0")
        told = condition_of(await world.gang("train-0"), "StuckPods")["message"]
        assert f"pod {lost['metadata']['name']} on node {node}" in told
        assert (await set_condition(world, "train", "Available"))["status"] == "True"
        await world.user.delete(NODES, key(node, ""))
        await pass_time(60)
        assert not condition_of(await world.gang("train-0"), "StuckPods")
        assert len(await world.pods()) == 3
        assert guard.broken == []

    run_world(story, replace(stage.options, nodes=6))


@on_every_stage
def test_a_node_that_comes_back_ends_what_was_stuck_on_it(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques={"worker": 2}))
        await until_running(world, "train-0")
        (lost,) = await pods_at(world, f"{WORKER}-0")
        await lose_node(world, lost["spec"]["nodeName"])
        await remove(world, lost)
        await pass_time(30 + STUCK_SECONDS + 10)
        assert len(await pods_at(world, f"{WORKER}-0")) == 2
        back: Manifest = {"metadata": {"annotations": {"embedded.grove.io/lost": None}}}
        await world.user.merge_patch(NODES, key(lost["spec"]["nodeName"], ""), back)
        await pass_time(30)
        (left,) = await pods_at(world, f"{WORKER}-0")
        assert uid_of(left) != uid_of(lost)
        assert not condition_of(await world.gang("train-0"), "StuckPods")
        await until_running(world, "train-0")

    run_world(story, replace(stage.options, nodes=6))


# Terminating --------------------------------------------------------------------------------------


@on_every_stage
def test_terminating_pods_count_nowhere(stage: Stage) -> None:
    async def story(world: World) -> None:
        worker = make.template("worker", 3, annotations={SHUTDOWN: "20s"})
        await world.apply(stage.cliqueset(cliques=[worker]))
        await until_running(world, "train-0")
        await world.settle()
        for index in (1, 2):
            await remove(world, (await pods_at(world, f"{WORKER}-{index}"))[0])
        await pass_time(5)
        assert len(await world.pods()) == 3
        counts = ("replicas", "readyReplicas", "scheduledReplicas", "updatedReplicas")
        status = await clique_status(world)
        assert [status[count] for count in counts] == [1, 1, 1, 1]
        gang = await world.gang("train-0")
        assert condition_of(gang, "Ready")["message"] == f"{WORKER}: 1 of 3 pods are ready"
        assert condition_of(gang, "Unhealthy")["message"] == f"{WORKER}: 1 of 3 pods are placed"
        cliqueset = await world.get(kinds.CLIQUESETS, "train")
        assert cliqueset is not None
        said = cliqueset["status"]
        assert (said["scheduledReplicas"], said["availableReplicas"], said["updatedReplicas"]) == (0, 0, 0)
        await pass_time(20)
        await until_running(world, "train-0")

    run_world(story, stage.options)


# Too many -----------------------------------------------------------------------------------------


@on_every_stage
def test_scale_in_takes_the_least_useful_first(stage: Stage) -> None:
    """Index 0 is not ready, 4 is not placed for lack of room, 1 to 3 work: those that work stay, and of them the lowest."""

    async def story(world: World) -> None:
        gpus = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}
        container = {"name": "main", "image": "registry.example/serve:1", **gpus}
        worker = make.template("worker", 4, pod={"containers": [container]})
        worker["spec"]["minAvailable"] = 1
        await world.apply(stage.cliqueset(cliques=[worker]))
        await until_running(world, "train-0")
        await world.until(lambda: ready(world, 4), "four are ready")
        await world.scale(WORKER, 5, of=kinds.CLIQUES)
        await pass_time(5)
        (first,) = await pods_at(world, f"{WORKER}-0")
        await annotate(world, first, {f"{PREFIX}not-ready": "true"})
        await pass_time(5)
        for replicas, want in ((4, ["0", "1", "2", "3"]), (3, ["1", "2", "3"]), (1, ["1"])):
            await world.scale(WORKER, replicas, of=kinds.CLIQUES)
            await pass_time(5)
            assert await indexes(world) == want
        assert await world.phase("train-0") == "Running"

    run_world(story, stage.options)


async def ready(world: World, number: int) -> bool:
    return bool((await clique_status(world)).get("readyReplicas") == number)


async def annotate(world: World, pod: Manifest, marks: dict[str, str]) -> None:
    await world.user.merge_patch(
        kinds.PODS, key(pod["metadata"]["name"]), {"metadata": {"annotations": marks}}
    )


# Roles that come and go ---------------------------------------------------------------------------


async def without_rules(world: World) -> None:
    """The definitions as somebody may have them who installed others than ours: the API server takes any edit."""
    name = "podcliquesets.grove.io"
    crd = await world.get(CRDS, name)
    assert crd is not None
    _strip(crd["spec"])
    await world.user.merge_patch(CRDS, key(name, ""), {"spec": crd["spec"]})


def _strip(schema: object) -> None:
    if isinstance(schema, dict):
        schema.pop("x-kubernetes-validations", None)
        for value in schema.values():
            _strip(value)
    elif isinstance(schema, list):
        for value in schema:
            _strip(value)


ROLES: dict[str, tuple[dict[str, int], dict[str, int]]] = {
    "added": ({"worker": 2}, {"worker": 2, "leader": 1}),
    "removed": ({"worker": 2, "leader": 1}, {"worker": 2}),
    "renamed": ({"worker": 2, "leader": 1}, {"worker": 2, "head": 1}),
}
#: Seconds after the set is applied: before, while and after its pods are created, released and placed.
MOMENTS = (0.0, 0.01, 0.02, 0.04, 0.06, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 3.0)


@pytest.mark.parametrize("stage", GANG_STAGES.values(), ids=GANG_STAGES)
@pytest.mark.parametrize("edit", ROLES)
def test_other_roles_are_refused_or_carried_out_as_a_whole(stage: Stage, edit: str) -> None:
    before, after = ROLES[edit]
    ends: set[str] = set()

    def edited_at(moment: float) -> str:
        seen: list[str] = []

        async def story(world: World) -> None:
            await without_rules(world)
            await world.start_operator()
            await world.apply(stage.cliqueset(cliques=before, replicas=2))
            await asyncio.sleep(moment)
            await world.apply(stage.cliqueset(cliques=after, replicas=2))
            await pass_time(60)
            await world.settle()
            accepted = await set_condition(world, "train", "Accepted")
            roles = after if accepted["status"] == "True" else before
            if roles is before:
                assert "roles were added or removed" in accepted["message"]
                assert "delete the set and create it again" in accepted["message"]
            want = [f"train-{index}-{role}" for index in (0, 1) for role in roles]
            assert sorted(each["metadata"]["name"] for each in await world.all(kinds.CLIQUES)) == sorted(want)
            assert len(await world.pods()) == 2 * sum(roles.values())
            for gang in await world.all(kinds.GANGS):
                names = {group["name"].rpartition("-")[2] for group in gang["spec"]["podgroups"]}
                assert names == set(roles)
                assert gang["status"]["phase"] == "Running", await world.describe()
            seen.append(str(accepted["status"]))
            if roles is before:
                await world.apply(stage.cliqueset(cliques=before, replicas=2))
                await world.settle()
                assert (await set_condition(world, "train", "Accepted"))["status"] == "True"

        run_world(story, stage.options, operator=False)
        return seen[0]

    for moment in MOMENTS:
        ends.add(edited_at(moment))
    assert ends == {"True", "False"}


def test_the_order_of_roles_means_nothing_and_is_no_edit() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 2, "leader": 1}))
        await until_running(world, "train-0")
        await world.settle()
        before = {uid_of(pod) for pod in await world.pods()}
        await world.apply(make.cliqueset_manifest("train", {"leader": 1, "worker": 2}))
        await world.settle()
        assert {uid_of(pod) for pod in await world.pods()} == before
        assert (await set_condition(world, "train", "Accepted"))["status"] == "True"
        assert await world.phase("train-0") == "Running"

    run_world(story, WorldOptions())
