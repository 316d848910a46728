"""GT1 to GT6 of the incumbent's end-to-end tests, and what else gang termination must and must not do.

Each pod takes a node. A pod is lost for good by cordoning its node before it is deleted.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime

import pytest
from tests.scenarios.stories import GANG_STAGES, STAGES, History, Stage
from tests.scenarios.test_autoscaling import PER_REPLICA, QUEUE
from tests.scenarios.workloads import wl1, wl2, wl5, workload

from grove.api import conditions, kinds, labels
from grove.api.event import EVENTS
from grove.embedded.actors.nodes import LOST
from grove.embedded.faults import Fault
from grove.meta import Key, Manifest
from grove.testing import make
from grove.testing.deletions import LONGEST_LAG
from grove.testing.portrait import Guard
from grove.testing.world import NODES, OPERATOR, World, run_world

DELAY = 10
#: The delay, and as long as the incumbent's tests wait beyond it.
LONG_ENOUGH = DELAY + 15
WORKLOAD = {"terminationDelay": f"{DELAY}s"}

Story = Callable[[World], Awaitable[None]]


def play(stage: Stage, story: Story, nodes: int = 10) -> None:
    run_world(story, replace(stage.options, nodes=nodes))


async def start(world: World, cliqueset: Manifest, pods: int = 10) -> None:
    await world.apply(cliqueset)
    await until_ready(world, pods)


async def until_ready(world: World, number: int) -> None:
    async def ready() -> bool:
        return sum(map(is_ready, await living(world))) == number

    await world.until(ready, f"{number} pods are ready", seconds=900)
    await world.settle(seconds=3600)


def is_ready(pod: Manifest) -> bool:
    told = {each["type"]: each["status"] for each in pod["status"].get("conditions", ())}
    return told.get("Ready") == "True"


async def living(world: World, clique: str = "") -> list[Manifest]:
    return [
        pod
        for pod in await world.pods()
        if "deletionTimestamp" not in pod["metadata"]
        and pod["metadata"]["labels"][labels.POD_CLIQUE].startswith(clique)
    ]


async def uids(world: World, clique: str = "") -> set[str]:
    return {pod["metadata"]["uid"] for pod in await living(world, clique)}


async def lose(world: World, clique: str, number: int = 1) -> None:
    """Take the nodes of some pods that are placed, and the pods."""
    placed = [pod for pod in await living(world, clique) if "nodeName" in pod["spec"]]
    for pod in placed[:number]:
        await world.user.merge_patch(
            NODES, Key("", pod["spec"]["nodeName"]), {"spec": {"unschedulable": True}}
        )
        await world.user.delete(kinds.PODS, Key("default", pod["metadata"]["name"]))


async def uncordon(world: World) -> None:
    for node in await world.all(NODES):
        await world.user.merge_patch(
            NODES, Key("", node["metadata"]["name"]), {"spec": {"unschedulable": None}}
        )


async def waits(world: World) -> Manifest:
    """The set's condition about what is recycled; empty while nothing is."""
    cliqueset = await world.get(kinds.CLIQUESETS, "wl") or {}
    told = {each["type"]: each for each in cliqueset["status"]["conditions"]}
    found: Manifest = told.get(conditions.GANG_TERMINATION_PENDING, {})
    return found


async def recycled(world: World) -> list[str]:
    reasons = ("PodCliqueSetReplicaDeleteSuccessful", "PodCliqueScalingGroupReplicaDeleteSuccessful")
    return [each["reason"] for each in await world.all(EVENTS) if each["reason"] in reasons]


@pytest.mark.parametrize("stage", GANG_STAGES.values(), ids=GANG_STAGES)
@pytest.mark.parametrize("clique", ["wl-0-pc-a", "wl-0-sg-x-0-pc-c"], ids=["GT1", "GT2"])
def test_a_loss_that_the_gang_cannot_bear_recycles_the_replica(stage: Stage, clique: str) -> None:
    async def story(world: World) -> None:
        await start(world, wl1(stage, "wl", **WORKLOAD))
        before = await uids(world)
        await lose(world, clique)
        await asyncio.sleep(DELAY - 4)
        assert len(before & await uids(world)) == 9
        await asyncio.sleep(LONG_ENOUGH)
        after = await uids(world)
        assert not before & after
        assert len(after) == 10
        await uncordon(world)
        await until_ready(world, 10)

    play(stage, story)


@pytest.mark.parametrize("stage", GANG_STAGES.values(), ids=GANG_STAGES)
def test_gt3_a_loss_within_the_minimum_is_borne_and_one_beyond_it_recycles(stage: Stage) -> None:
    async def story(world: World) -> None:
        await start(world, wl2(stage, "wl", **WORKLOAD))
        before = await uids(world)
        await lose(world, "wl-0-pc-a")
        await asyncio.sleep(LONG_ENOUGH)
        assert len(before & await uids(world)) == 9
        await lose(world, "wl-0-pc-a")
        await asyncio.sleep(LONG_ENOUGH)
        assert not before & await uids(world)
        await uncordon(world)
        await until_ready(world, 10)

    play(stage, story)


@pytest.mark.parametrize("stage", GANG_STAGES.values(), ids=GANG_STAGES)
def test_gt4_a_group_replica_is_recycled_alone_until_the_group_has_too_few(stage: Stage) -> None:
    async def story(world: World) -> None:
        await start(world, wl2(stage, "wl", **WORKLOAD))
        before, others = await uids(world), await uids(world) - await uids(world, "wl-0-sg-x-0")
        await lose(world, "wl-0-sg-x-0-pc-c")
        await asyncio.sleep(LONG_ENOUGH)
        assert len(before & await uids(world)) == 9
        first = await uids(world, "wl-0-sg-x-0")
        await lose(world, "wl-0-sg-x-0-pc-c", 2)
        await asyncio.sleep(LONG_ENOUGH)
        assert not first & await uids(world, "wl-0-sg-x-0")
        assert before & await uids(world) == others
        await lose(world, "wl-0-sg-x-1-pc-c")
        await asyncio.sleep(LONG_ENOUGH)
        assert before >= await uids(world, "wl-0-pc-a")
        assert sum(map(is_ready, await living(world))) >= 5
        await lose(world, "wl-0-sg-x-1-pc-c", 2)
        # The pod that freed a node may have let the other replica of the group come back: it goes, too.
        await lose(world, "wl-0-sg-x-0-pc-c", 3)
        await asyncio.sleep(2 * LONG_ENOUGH)
        assert not before & await uids(world)
        await uncordon(world)
        await until_ready(world, 10)

    play(stage, story)


@pytest.mark.parametrize("stage", GANG_STAGES.values(), ids=GANG_STAGES)
def test_gt5_only_the_group_replica_that_lost_its_pods_is_recycled(stage: Stage) -> None:
    async def story(world: World) -> None:
        await start(world, wl5(stage, "wl", **WORKLOAD))
        before, lost = await uids(world), await uids(world, "wl-0-sg-x-0")
        await lose(world, "wl-0-sg-x-0-pc-c", 3)
        await asyncio.sleep(LONG_ENOUGH)
        assert before & await uids(world) == before - lost
        assert await recycled(world) == ["PodCliqueScalingGroupReplicaDeleteSuccessful"]

    play(stage, story)


@pytest.mark.parametrize("stage", GANG_STAGES.values(), ids=GANG_STAGES)
def test_group_replicas_that_only_wait_do_not_spare_the_set_replica(stage: Stage) -> None:
    async def story(world: World) -> None:
        cliqueset = workload(stage, "wl", (2, 2), (1, 1), (3, 3), (3, 2), **WORKLOAD)
        # There are ten nodes: the third replica of the group waits for four more.
        await start(world, cliqueset)
        before = {pod["metadata"]["uid"] for pod in await living(world) if is_ready(pod)}
        await lose(world, "wl-0-sg-x-0-pc-c")
        await asyncio.sleep(DELAY - 4)
        assert len(before & await uids(world)) == 9
        assert (await waits(world))["message"].startswith("replica 0 is recycled at ")
        await asyncio.sleep(LONG_ENOUGH)
        assert not before & await uids(world)
        assert await recycled(world) == ["PodCliqueSetReplicaDeleteSuccessful"]
        await uncordon(world)
        await until_ready(world, 10)

    play(stage, story)


@pytest.mark.parametrize("stage", GANG_STAGES.values(), ids=GANG_STAGES)
def test_gt6_a_pod_above_every_minimum_is_replaced_and_nothing_is_recycled(stage: Stage) -> None:
    async def story(world: World) -> None:
        await start(world, wl2(stage, "wl", **WORKLOAD))
        before = await uids(world)
        (pod, *_) = await living(world, "wl-0-sg-x-1-pc-c")
        await world.user.delete(kinds.PODS, Key("default", pod["metadata"]["name"]))
        await asyncio.sleep(LONG_ENOUGH)
        assert before - await uids(world) == {pod["metadata"]["uid"]}
        await until_ready(world, 10)
        assert await recycled(world) == []

    play(stage, story)


STAGE = STAGES["1.36"]


def test_the_set_says_when_what_is_recycled_and_what_would_prevent_it() -> None:
    async def story(world: World) -> None:
        await start(world, wl1(STAGE, "wl", terminationDelay="4h"))
        assert await waits(world) == {}
        lost = world.cluster.clock.now()
        await lose(world, "wl-0-pc-a")
        await world.settle()
        told = await waits(world)
        words = told["message"].split()
        assert told["message"].startswith("replica 0 is recycled at ")
        assert told["message"].endswith(" unless 1 more pod of wl-0-pc-a is ready")
        assert 0 <= (datetime.fromisoformat(words[5]) - lost).total_seconds() - 4 * 3600 < 3
        await uncordon(world)
        await until_ready(world, 10)
        assert await waits(world) == {}

    play(STAGE, story)


@pytest.mark.parametrize("stays", [True, False], ids=["stays silent", "answers again"])
def test_a_pod_on_a_node_that_does_not_answer_is_missing_at_once(stays: bool) -> None:
    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        await start(world, wl1(STAGE, "wl", **WORKLOAD))
        # So that no gang that has just been placed excuses what is deleted.
        await asyncio.sleep(LONGEST_LAG)
        before = await uids(world)
        (pod, *_) = await living(world, "wl-0-pc-a")
        node = Key("", pod["spec"]["nodeName"])
        await world.user.merge_patch(NODES, node, {"metadata": {"annotations": {LOST: "true"}}})
        await asyncio.sleep(DELAY - 4)
        assert (await waits(world))["message"].endswith(" unless 1 more pod of wl-0-pc-a is ready")
        if not stays:
            await world.user.merge_patch(NODES, node, {"metadata": {"annotations": {LOST: None}}})
        # Kubernetes itself deletes the pod after 300 seconds.
        await asyncio.sleep(LONG_ENOUGH)
        assert bool(before & await uids(world)) is not stays
        assert len(await recycled(world)) == stays
        assert (await waits(world), guard.broken) == ({}, [])

    play(STAGE, story)


def test_the_countdown_goes_on_across_a_restart_of_the_operator() -> None:
    async def story(world: World) -> None:
        await start(world, wl1(STAGE, "wl", terminationDelay="1h"))
        before = await uids(world)
        await lose(world, "wl-0-pc-a")
        await asyncio.sleep(1800)
        told = await waits(world)
        await world.kill_operator()
        await asyncio.sleep(600)
        await world.start_operator()
        await asyncio.sleep(600)
        assert await waits(world) == told
        assert len(before & await uids(world)) == 9
        await asyncio.sleep(700)
        assert not before & await uids(world)

    play(STAGE, story)


def test_a_breach_that_nobody_saw_begins_when_it_is_seen() -> None:
    async def story(world: World) -> None:
        await start(world, wl1(STAGE, "wl", terminationDelay="1h"))
        before = await uids(world)
        await world.kill_operator()
        await lose(world, "wl-0-pc-a")
        await asyncio.sleep(7200)
        await world.start_operator()
        await asyncio.sleep(1800)
        assert len(before & await uids(world)) == 9
        await asyncio.sleep(2000)
        assert not before & await uids(world)

    play(STAGE, story)


@pytest.mark.parametrize("stage", [STAGES["1.36"], STAGES["koordinator"]], ids=["1.36", "koordinator"])
def test_a_gang_that_was_never_whole_is_not_recycled(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(wl1(stage, "wl", **WORKLOAD))
        await world.settle()
        before = await uids(world)
        assert len(before) == 10
        await asyncio.sleep(10 * LONG_ENOUGH)
        assert await uids(world) == before
        assert await recycled(world) == []
        assert await waits(world) == {}

    play(stage, story, nodes=9)


def test_a_gang_that_was_whole_before_a_status_could_say_so_is_recycled_too() -> None:
    async def story(world: World) -> None:
        unwritten = Fault("error", verb="write", resource="podcliques.*/status", user=OPERATOR.name)
        world.cluster.faults.add(unwritten)
        await world.apply(wl1(STAGE, "wl", **WORKLOAD))

        async def ready() -> bool:
            return sum(map(is_ready, await living(world))) == 10

        await world.until(ready, "all pods are ready", seconds=900)
        await asyncio.sleep(2)
        before = await uids(world)
        await lose(world, "wl-0-pc-a")
        await asyncio.sleep(2)
        assert unwritten.happened
        world.cluster.faults.clear()
        # Writes that fail are tried again with growing pauses.
        await asyncio.sleep(60 + LONG_ENOUGH)
        assert not before & await uids(world)

    play(STAGE, story)


@pytest.mark.parametrize("stage", GANG_STAGES.values(), ids=GANG_STAGES)
@pytest.mark.parametrize("lost", [0, 1], ids=["while-it-was-whole", "during-the-countdown"])
def test_a_clique_that_somebody_deletes_does_not_forget_that_its_gang_was_whole(
    stage: Stage, lost: int
) -> None:
    async def story(world: World) -> None:
        await start(world, wl1(stage, "wl", **WORKLOAD))
        before = await uids(world)
        await lose(world, "wl-0-pc-a", lost)
        await asyncio.sleep(DELAY / 2)
        for pod in await living(world, "wl-0-pc-a"):
            if "nodeName" in pod["spec"]:
                patch = {"spec": {"unschedulable": True}}
                await world.user.merge_patch(NODES, Key("", pod["spec"]["nodeName"]), patch)
        await world.user.delete(kinds.CLIQUES, Key("default", "wl-0-pc-a"))
        await asyncio.sleep(DELAY / 2)
        assert len(before & await uids(world)) == 8
        assert "unless 2 more pods of wl-0-pc-a are ready" in (await waits(world))["message"]
        await asyncio.sleep(LONG_ENOUGH)
        assert not before & await uids(world)
        assert len(await recycled(world)) == 1
        await uncordon(world)
        await until_ready(world, 10)

    play(stage, story)


def test_what_waits_again_after_it_was_recycled_is_not_recycled_a_second_time() -> None:
    async def story(world: World) -> None:
        await start(world, wl1(STAGE, "wl", **WORKLOAD))
        await lose(world, "wl-0-pc-a")
        await asyncio.sleep(LONG_ENOUGH)
        again = await uids(world)
        await asyncio.sleep(10 * LONG_ENOUGH)
        await world.kill_operator()
        await world.start_operator()
        await asyncio.sleep(10 * LONG_ENOUGH)
        assert await uids(world) == again
        assert await recycled(world) == ["PodCliqueSetReplicaDeleteSuccessful"]

    play(STAGE, story)


def test_without_a_gang_api_too_a_gang_is_recycled_once_for_a_breach() -> None:
    async def story(world: World) -> None:
        await start(world, wl1(STAGES["no gang API"], "wl", **WORKLOAD))
        before = await uids(world)
        await lose(world, "wl-0-pc-a")
        await asyncio.sleep(LONG_ENOUGH)
        assert not before & await uids(world)
        again = await uids(world)
        await asyncio.sleep(20 * LONG_ENOUGH)
        assert await recycled(world) == ["PodCliqueSetReplicaDeleteSuccessful"]
        assert await uids(world) == again
        await uncordon(world)
        await until_ready(world, 10)
        await lose(world, "wl-0-pc-a")
        await asyncio.sleep(LONG_ENOUGH)
        assert not again & await uids(world)

    play(STAGES["no gang API"], story)


def test_what_was_scaled_by_hand_keeps_its_scale_when_it_is_recycled() -> None:
    async def story(world: World) -> None:
        await start(world, wl1(STAGE, "wl", **WORKLOAD))
        await world.scale("wl-0-pc-a", 3, kinds.CLIQUES)
        await world.scale("wl-0-sg-x", 3, kinds.SCALING_GROUPS)
        await until_ready(world, 15)
        before = await uids(world)
        await lose(world, "wl-0-pc-a", 2)
        await asyncio.sleep(LONG_ENOUGH)
        assert not before & await uids(world)
        await uncordon(world)
        await until_ready(world, 15)

    play(STAGE, story, nodes=15)


def autoscaled(stage: Stage) -> Manifest:
    """WL1, of which a role and the scaling group are scaled by load."""
    manifest = wl1(stage, "wl", **WORKLOAD)
    template = manifest["spec"]["template"]
    template["cliques"][0]["spec"]["autoScalingConfig"] = {"maxReplicas": 3, "metrics": [QUEUE]}
    (group,) = template["podCliqueScalingGroups"]
    group["scaleConfig"] = {"minReplicas": 2, "maxReplicas": 3, "metrics": [PER_REPLICA]}
    return manifest


async def scales(world: World) -> dict[str, int]:
    """How many replicas everything shall have that an autoscaler scales."""
    targets = [each["spec"]["scaleTargetRef"] for each in await world.all(kinds.AUTOSCALERS)]
    kinds_of = {each.kind: each for each in (kinds.CLIQUES, kinds.SCALING_GROUPS)}
    found = {
        each["name"]: await world.user.get(
            kinds_of[each["kind"]], Key("default", each["name"]), type=dict, subresource="scale"
        )
        for each in targets
    }
    return {name: scale["spec"]["replicas"] for name, scale in found.items()}


@pytest.mark.parametrize("stage", GANG_STAGES.values(), ids=GANG_STAGES)
@pytest.mark.parametrize(
    ("lost", "number", "recycles"),
    [("wl-0-pc-a", 2, "wl-0"), ("wl-0-sg-x-2-pc-c", 1, "wl-0-sg-x-2")],
    ids=["the replica of the set", "a replica of the group"],
)
def test_what_an_autoscaler_scaled_keeps_its_scale_and_its_autoscaler_when_it_is_recycled(
    stage: Stage, lost: str, number: int, recycles: str
) -> None:
    async def story(world: World) -> None:
        await start(world, autoscaled(stage))
        assert await scales(world) == {"wl-0-pc-a": 2, "wl-0-sg-x": 2}
        # Nothing acts on autoscalers here: this is what they do.
        await world.scale("wl-0-pc-a", 3, kinds.CLIQUES)
        await world.scale("wl-0-sg-x", 3, kinds.SCALING_GROUPS)
        await until_ready(world, 15)
        before, others = await uids(world, recycles), await uids(world) - await uids(world, recycles)
        async with History(world, kinds.AUTOSCALERS) as history:
            await lose(world, lost, number)
            await asyncio.sleep(LONG_ENOUGH)
            assert not before & await uids(world)
            assert others <= await uids(world)
            assert len(await recycled(world)) == 1
            assert await scales(world) == {"wl-0-pc-a": 3, "wl-0-sg-x": 3}
            await uncordon(world)
            await until_ready(world, 15)
        assert await scales(world) == {"wl-0-pc-a": 3, "wl-0-sg-x": 3}
        assert [each.name for each in history.of()] == []

    play(stage, story, nodes=15)


def test_other_replicas_of_the_set_are_left_alone() -> None:
    async def story(world: World) -> None:
        await world.apply(wl1(STAGE, "wl", **WORKLOAD))
        await world.scale("wl", 2)
        await until_ready(world, 20)
        other = await uids(world, "wl-1")
        await lose(world, "wl-0-pc-a")
        await asyncio.sleep(LONG_ENOUGH)
        assert await uids(world, "wl-1") == other
        assert len(await recycled(world)) == 1

    play(STAGE, story, nodes=20)


def test_a_minimum_that_was_raised_beyond_what_is_there_costs_nothing() -> None:
    async def story(world: World) -> None:
        manifest = wl2(STAGE, "wl", **WORKLOAD)
        await start(world, manifest)
        await lose(world, "wl-0-pc-a")
        await world.settle()
        before = await uids(world)
        manifest["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] = 2
        await world.apply(manifest)
        await asyncio.sleep(10 * LONG_ENOUGH)
        assert await recycled(world) == []
        assert len(before & await uids(world)) >= 9

    play(STAGES["kai"], story)


@pytest.mark.parametrize("stage", GANG_STAGES.values(), ids=GANG_STAGES)
def test_a_gang_that_nobody_saw_whole_is_recycled_too(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(wl1(stage, "wl", **WORKLOAD))
        await world.settle()
        await world.kill_operator()
        await world.add_node("more")

        async def placed() -> bool:
            return all("nodeName" in pod["spec"] for pod in await living(world))

        await world.until(placed, "all pods are on nodes")
        before = await uids(world)
        assert len(before) == 10
        await lose(world, "wl-0-pc-a")
        await asyncio.sleep(5)
        await world.start_operator()
        await asyncio.sleep(DELAY - 1)
        assert len(before & await uids(world)) == 9
        await asyncio.sleep(LONG_ENOUGH)
        assert not before & await uids(world)
        assert len(await recycled(world)) == 1
        await uncordon(world)
        await until_ready(world, 10)

    play(stage, story, nodes=9)


def test_where_pods_are_placed_one_by_one_a_pod_that_is_gone_proves_nothing() -> None:
    stage = STAGES["no gang API"]

    async def story(world: World) -> None:
        await world.apply(wl1(stage, "wl", **WORKLOAD))
        await world.settle()
        [waiting] = [pod for pod in await living(world) if "nodeName" not in pod["spec"]]
        await world.kill_operator()
        await world.user.delete(kinds.PODS, Key("default", waiting["metadata"]["name"]))
        before = await uids(world)
        await world.start_operator()
        await asyncio.sleep(10 * LONG_ENOUGH)
        assert before < await uids(world)
        assert await recycled(world) == []

    play(stage, story, nodes=9)


def test_a_group_replica_that_is_recycled_alone_must_be_whole_again_before_it_is_once_more() -> None:
    stage = STAGES["no gang API"]

    async def story(world: World) -> None:
        cliqueset = wl5(stage, "wl", **WORKLOAD)
        # It fits beside the others.
        cliqueset["spec"]["template"]["cliques"][1]["spec"]["podSpec"] = make.pod_spec()
        await start(world, cliqueset)
        nodes = [pod["spec"]["nodeName"] for pod in await living(world, "wl-0-sg-x-0-pc-c")]
        for node in await world.all(NODES):
            await world.user.merge_patch(
                NODES, Key("", node["metadata"]["name"]), {"spec": {"unschedulable": True}}
            )
        await lose(world, "wl-0-sg-x-0-pc-b")
        await asyncio.sleep(LONG_ENOUGH)
        assert await recycled(world) == ["PodCliqueScalingGroupReplicaDeleteSuccessful"]
        # The role that was lost comes back, and now another one lacks a pod.
        for node in nodes[:2]:
            await world.user.merge_patch(NODES, Key("", node), {"spec": {"unschedulable": None}})
        await asyncio.sleep(10 * LONG_ENOUGH)
        placed = [pod for pod in await living(world, "wl-0-sg-x-0") if "nodeName" in pod["spec"]]
        assert len(placed) == 3
        assert len(await recycled(world)) == 1
        await uncordon(world)
        await until_ready(world, 10)
        await lose(world, "wl-0-sg-x-0-pc-c")
        await asyncio.sleep(LONG_ENOUGH)
        assert len(await recycled(world)) == 2

    play(stage, story, nodes=8)


@pytest.mark.parametrize("written", ["0000-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_a_breach_to_which_somebody_wrote_another_time_begins_when_that_is_found(written: str) -> None:
    async def story(world: World) -> None:
        await start(world, wl1(STAGES["1.36"], "wl", **WORKLOAD))
        before = await uids(world)
        await lose(world, "wl-0-pc-a")
        await asyncio.sleep(DELAY / 2)
        clique = await world.get(kinds.CLIQUES, "wl-0-pc-a") or {}
        told = [
            {**each, "lastTransitionTime": written}
            if each["type"] == conditions.MIN_AVAILABLE_BREACHED
            else each
            for each in clique["status"]["conditions"]
        ]
        key, status = Key("default", "wl-0-pc-a"), {"status": {"conditions": told}}
        await world.user.merge_patch(kinds.CLIQUES, key, status, subresource="status")
        await asyncio.sleep(DELAY - 2)
        assert len(before & await uids(world)) == 9
        assert await waits(world)
        await asyncio.sleep(LONG_ENOUGH)
        assert not before & await uids(world)

    play(STAGES["1.36"], story)
