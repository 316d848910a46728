"""What is particular about YuniKorn: placeholders, starts that end for good, queues that may be missing."""

import asyncio
from dataclasses import replace

import pytest
from tests.scenarios.stories import (
    STAGES,
    YUNIKORN,
    History,
    condition_of,
    events_about,
    everything_of,
    gpu_role,
    key,
    pass_time,
    revision_of,
    until_gone,
    until_reason,
    until_running,
)

from grove.api import kinds, labels
from grove.api.config import load
from grove.embedded.actors.schedulers.yunikorn_install import configuration
from grove.embedded.faults import Fault
from grove.meta import Manifest, resource
from grove.testing.portrait import Guard
from grove.testing.world import OPERATOR, World, WorldOptions, holds_place, run_world

STAGE = STAGES["yunikorn"]
CONFIG_MAPS = resource("", "v1", "ConfigMap")
APPLICATION = "yunikorn.apache.org/app-id"
QUEUE = "yunikorn.apache.org/queue"
QUEUES = """
partitions:
  - name: default
    placementrules: [{{name: provided, create: false}}]
    queues: [{{name: root, submitacl: "*", queues: [{queues}]}}]
"""


def given(config: str) -> WorldOptions:
    """YuniKorn with this configuration of its profile."""
    text = YUNIKORN.replace("{name: yunikorn}", f"{{name: yunikorn, config: {{{config}}}}}")
    return replace(STAGE.options, configuration=load(text))


def crowded(workers: int = 5, *, queue: str = "") -> Manifest:
    """A gang that takes one whole node for each pod; the cluster has four."""
    marks = {QUEUE: queue} if queue else {}
    return STAGE.cliqueset(cliques=[gpu_role("worker", workers)], labels=marks)


async def places(world: World) -> list[Manifest]:
    """The placeholders in the cluster."""
    pods = await world.all(kinds.PODS)
    return [pod for pod in pods if holds_place(pod)]


async def applications(world: World) -> set[str]:
    """The applications that living pods are part of; each is named like the gang and one start of it."""
    pods = [pod for pod in await world.pods() if pod["status"].get("phase") != "Failed"]
    found = {pod["metadata"]["labels"][APPLICATION] for pod in pods}
    assert found == {f"{pod['metadata']['labels'][labels.POD_GANG]}-{revision_of(pod)}" for pod in pods}
    return found


async def restarts(world: World) -> int:
    """How many times the gang was restarted."""
    gang = await world.gang("train-0")
    assert gang is not None
    return int((gang["metadata"].get("annotations") or {}).get(labels.RESTARTS, "0"))


async def restarted(world: World) -> bool:
    return await restarts(world) > 0


def reason(gang: Manifest) -> Manifest:
    return {"message": "", **condition_of(gang, "Scheduled")}


async def bound(world: World) -> int:
    return sum(bool(pod["spec"].get("nodeName")) for pod in await world.pods())


async def set_queues(world: World, queues: str) -> None:
    wanted = configuration(QUEUES.format(queues=queues))
    await world.user.merge_patch(CONFIG_MAPS, key("yunikorn-configs", "yunikorn"), {"data": wanted["data"]})


def test_places_are_held_while_one_is_missing_and_real_pods_wait() -> None:
    async def story(world: World) -> None:
        await world.apply(crowded())
        told = await until_reason(world, "train-0", "Scheduled", "Unschedulable")
        assert (
            "YuniKorn holds 4 of 5 places, train-0-worker lacks 1, each with nvidia.com/gpu 8"
            in told["message"]
        )
        assert await bound(world) == 0
        assert sum(bool(each["spec"].get("nodeName")) for each in await places(world)) == 4
        await world.add_node("more")
        await until_running(world, "train-0")
        assert await bound(world) == 5
        assert await places(world) == []

    run_world(story, STAGE.options)


def test_placeholders_of_a_waiting_gang_are_not_counted_among_its_pods() -> None:
    async def story(world: World) -> None:
        await world.apply(crowded())
        await until_reason(world, "train-0", "Scheduled", "Unschedulable")
        await world.settle()
        assert len(await places(world)) == 5
        gang = await world.gang("train-0")
        clique = await world.get(kinds.CLIQUES, "train-0-worker")
        assert gang is not None
        assert clique is not None
        assert len(gang["spec"]["podgroups"][0]["podReferences"]) == 5
        assert (clique["status"]["replicas"], clique["status"]["readyReplicas"]) == (5, 0)
        assert (await world.condition("train-0", "Ready"))["status"] == "False"

    run_world(story, STAGE.options)


def test_deleting_a_set_that_waits_takes_its_placeholders_along() -> None:
    async def story(world: World) -> None:
        await world.apply(crowded())
        await until_reason(world, "train-0", "Scheduled", "Unschedulable")
        await world.user.delete(kinds.CLIQUESETS, key("train"))
        await until_gone(world, kinds.CLIQUESETS, "train")
        await world.settle()
        assert await everything_of(world, "train") == {}
        assert await world.all(kinds.PODS) == []

    run_world(story, STAGE.options)


# Starts -------------------------------------------------------------------------------------------


def test_a_gang_that_yunikorn_gave_up_says_so_and_is_tried_again_as_another_application() -> None:
    async def story(world: World) -> None:
        await world.apply(crowded())
        await until_reason(world, "train-0", "Scheduled", "Unschedulable")
        first = await applications(world)
        async with History(world, kinds.GANGS) as history:
            await world.until(lambda: restarted(world), "the gang is restarted", seconds=120)
            await world.settle()
        # The second start follows at once, so this is told for a moment only; the event stays.
        ended = history.first("PodGang", lambda gang: "YuniKorn gave up" in reason(gang)["message"])
        told = reason(ended.object)
        assert told["reason"] == "ResourceReservationTimeout"
        assert told["message"] == (
            "0 of 5 pods placed; YuniKorn gave up: Scheduling has timed out due to insufficient resources. "
            "Grove tries again with new pods."
        )
        await until_reason(world, "train-0", "Scheduled", "Unschedulable")
        assert (await world.condition("train-0", "Scheduled"))["message"].endswith(
            "; restarts of the gang so far: 1."
        )
        second = await applications(world)
        assert (len(first), len(second), await restarts(world)) == (1, 1, 1)
        assert first.isdisjoint(second)
        assert len(await world.pods()) == 5
        told_about = [each["reason"] for each in await events_about(world, "PodGang", "train-0")]
        assert "ResourceReservationTimeout" in told_about
        await world.add_node("more")
        await until_running(world, "train-0")
        assert await applications(world) == second
        assert await bound(world) == 5

    run_world(story, given("placeholderTimeoutSeconds: 30"))


def test_what_one_gang_held_is_free_for_another_when_yunikorn_gives_up() -> None:
    async def story(world: World) -> None:
        await world.apply(crowded())
        await until_reason(world, "train-0", "Scheduled", "Unschedulable")
        await world.apply(STAGE.cliqueset("small", cliques=[gpu_role("worker", 2)]))
        await pass_time(10)
        assert await world.phase("small-0") == "Pending"
        await until_running(world, "small-0", seconds=60)
        assert await world.phase("train-0") == "Pending"

    run_world(story, given("placeholderTimeoutSeconds: 30"))


def test_a_gang_that_is_rejected_again_and_again_is_tried_ever_less_often() -> None:
    async def story(world: World) -> None:
        await set_queues(world, '{name: small, resources: {max: {nvidia.com/gpu: "8"}}}')
        await world.apply(crowded(2, queue="root.small"))
        told = await until_reason(world, "train-0", "Scheduled", "ApplicationRejected")
        assert "queue root.small cannot fit application train-0-" in told["message"]
        await pass_time(600)
        assert 5 <= await restarts(world) <= 9
        assert (await world.condition("train-0", "Scheduled"))["reason"] == "ApplicationRejected"
        await set_queues(world, "{name: small}")
        await until_running(world, "train-0", seconds=400)

    run_world(story, STAGE.options)


def test_a_gang_that_loses_the_pod_behind_its_placeholders_starts_again_as_a_whole() -> None:
    """YuniKorn's placeholders go with the pod that started the application, and nobody makes new ones."""

    async def story(world: World) -> None:
        await world.apply(crowded())
        await until_reason(world, "train-0", "Scheduled", "Unschedulable")
        first = await applications(world)
        (owner,) = {each["metadata"]["ownerReferences"][0]["name"] for each in await places(world)}
        await world.user.delete(kinds.PODS, key(owner))
        await world.settle()
        second = await applications(world)
        assert (len(first), len(second), await restarts(world)) == (1, 1, 1)
        assert first.isdisjoint(second)
        assert len(await places(world)) == 5
        await world.add_node("more")
        await until_running(world, "train-0")
        assert len(await world.pods()) == 5

    run_world(story, STAGE.options)


def test_scaling_in_a_gang_that_waits_lets_the_rest_start_together() -> None:
    async def story(world: World) -> None:
        await world.apply(STAGE.cliqueset(cliques=[gpu_role("worker", 6, minAvailable=5)]))
        await until_reason(world, "train-0", "Scheduled", "Unschedulable")
        await world.scale("train-0-worker", 5, kinds.CLIQUES)
        await world.settle()
        assert await bound(world) == 0
        await world.add_node("more")
        await until_running(world, "train-0")
        assert await bound(world) == 5

    run_world(story, STAGE.options)


def test_a_pod_lost_by_a_running_gang_comes_back_in_the_same_application() -> None:
    async def story(world: World) -> None:
        await world.apply(crowded(3))
        await until_running(world, "train-0")
        application, first = await applications(world), (await world.pods())[0]["metadata"]
        await world.user.delete(kinds.PODS, key(first["name"]))
        await world.settle()
        await until_running(world, "train-0")
        assert await applications(world) == application
        assert (len(application), await restarts(world)) == (1, 0)
        assert first["uid"] not in {pod["metadata"]["uid"] for pod in await world.pods()}

    run_world(story, STAGE.options)


def test_a_gang_whose_pods_all_went_starts_as_a_gang_again() -> None:
    """In the old application, which still lives for a while, they would be placed one by one."""

    async def story(world: World) -> None:
        await world.apply(crowded(4))
        await until_running(world, "train-0")
        first = await applications(world)
        for pod in await world.pods():
            await world.user.delete(kinds.PODS, key(pod["metadata"]["name"]))
        await world.settle()
        await until_running(world, "train-0")
        second = await applications(world)
        assert (len(first), len(second), await restarts(world)) == (1, 1, 1)
        assert first.isdisjoint(second)
        assert await bound(world) == 4

    run_world(story, STAGE.options)


@pytest.mark.parametrize("moment", [29.9, 30.05, 30.2, 30.6, 31.0])
def test_an_operator_that_dies_while_a_start_ends_finishes_the_change(moment: float) -> None:
    async def story(world: World) -> None:
        await world.apply(crowded())
        await asyncio.sleep(moment)
        await world.kill_operator()
        await asyncio.sleep(5)
        await world.start_operator()
        await world.add_node("more")
        await until_running(world, "train-0", seconds=120)
        await world.settle()
        assert len(await world.pods()) == 5
        assert len(await applications(world)) == 1
        assert await places(world) == []

    run_world(story, given("placeholderTimeoutSeconds: 30"))


@pytest.mark.parametrize("reached", [False, True], ids=["before it took effect", "after it took effect"])
@pytest.mark.parametrize("number", range(12, 60, 3))
def test_dying_at_a_write_between_two_starts_changes_nothing_in_the_end(number: int, reached: bool) -> None:
    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        world.cluster.faults.add(
            Fault("lose", verb="write", user=OPERATOR.name, skip=number - 1, times=1, after=reached)
        )
        await world.start_operator(dies_with_a_request=True)
        await world.apply(crowded())
        await pass_time(40)
        await revive(world)
        await pass_time(10)
        await world.add_node("more")
        await pass_time(10)
        await revive(world)
        await until_running(world, "train-0", seconds=120)
        await world.settle()
        assert len(await world.pods()) == 5
        assert len(await applications(world)) == 1
        assert await places(world) == []
        assert guard.broken == []

    run_world(story, given("placeholderTimeoutSeconds: 30"), operator=False)


async def revive(world: World) -> None:
    """Start an operator again that died."""
    if world.operator_died:
        await world.kill_operator()
        world.cluster.faults.clear()
        await world.start_operator()


# Queues and time ----------------------------------------------------------------------------------


def test_a_queue_that_is_missing_is_waited_for_and_its_coming_sets_the_gang_free() -> None:
    async def story(world: World) -> None:
        await set_queues(world, "{name: serving}")
        await world.apply(crowded(2, queue="root.research"))
        told = await until_reason(world, "train-0", "Scheduled", "PreconditionMissing")
        assert "waits for the YuniKorn queue 'root.research'" in told["message"]
        assert await bound(world) == 0
        await set_queues(world, "{name: serving}, {name: research}")
        await until_running(world, "train-0")
        assert {pod["metadata"]["labels"][QUEUE] for pod in await world.pods()} == {"root.research"}

    run_world(story, STAGE.options)


def test_gates_that_stay_closed_longer_than_the_timeout_cost_the_gang_nothing() -> None:
    """YuniKorn counts from the pods' creation: it would give the places back at once and start a part."""

    async def story(world: World) -> None:
        await world.apply(crowded(queue="root.research"))
        await world.settle()
        assert len(await world.pods()) == 5
        first = await applications(world)
        await pass_time(600)
        await set_queues(world, "{name: research}")
        await until_reason(world, "train-0", "Scheduled", "Unschedulable")
        await pass_time(30)
        assert await bound(world) == 0
        assert await applications(world) == first
        assert (len(first), await restarts(world)) == (1, 0)
        await world.add_node("more")
        await until_running(world, "train-0")

    async def prepared(world: World) -> None:
        await set_queues(world, "{name: serving}")
        await world.start_operator()
        await story(world)

    run_world(prepared, given("placeholderTimeoutSeconds: 60"), operator=False)


def test_a_queue_that_yunikorn_ignores_is_a_loss_that_the_gang_tells() -> None:
    async def story(world: World) -> None:
        # Without a configuration of its own YuniKorn names queues after namespaces.
        await world.user.delete(CONFIG_MAPS, key("yunikorn-configs", "yunikorn"))
        await world.apply(crowded(2, queue="root.research"))
        await until_running(world, "train-0")
        told = await until_reason(world, "train-0", "TranslationLoss", "CannotExpress")
        assert "YuniKorn ignores the queue 'root.research'" in told["message"]

    run_world(story, STAGE.options)


def test_pods_above_the_minimum_follow_one_by_one() -> None:
    async def story(world: World) -> None:
        await world.apply(STAGE.cliqueset(cliques=[gpu_role("worker", 6, minAvailable=3)]))
        await until_running(world, "train-0")
        await world.settle()
        assert await bound(world) == 4
        first = await applications(world)
        await world.add_node("more")
        await world.settle()
        assert await bound(world) == 5
        assert await applications(world) == first
        assert (len(first), await restarts(world)) == (1, 0)

    run_world(story, STAGE.options)
