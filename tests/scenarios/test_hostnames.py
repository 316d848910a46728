"""Never two pods that may run with one hostname: who replaces a pod waits for its place, and for no longer than needed."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import count

import pytest
from tests.scenarios.disturbing import SHUTDOWN
from tests.scenarios.shapes import train
from tests.scenarios.stories import (
    GANG_STAGES,
    STAGES,
    History,
    Stage,
    condition_of,
    key,
    pass_time,
    reasons_about,
    set_condition,
    uid_of,
    until_gone,
    until_running,
)

from grove.api import kinds
from grove.embedded.actors.nodes import LOST
from grove.embedded.faults import Fault
from grove.meta import Manifest
from grove.plan.places import STUCK_SECONDS
from grove.testing import make
from grove.testing.portrait import Guard
from grove.testing.world import NODES, OPERATOR, World, run_world

on_every_stage = pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
FINALIZER = "example.com/accounting"
WORKER = "train-0-worker"


def slow(stage: Stage, workers: int = 3, seconds: float = 8, **fields: object) -> Manifest:
    """A set whose pods take a while to stop."""
    worker = make.template("worker", workers, annotations={SHUTDOWN: f"{seconds:g}s"})
    worker["spec"].update(fields)
    return stage.cliqueset(cliques=[worker])


async def pods_at(world: World, hostname: str) -> list[Manifest]:
    return [pod for pod in await world.pods() if pod["spec"]["hostname"] == hostname]


async def remove(world: World, pod: Manifest) -> None:
    await world.user.delete(kinds.PODS, key(pod["metadata"]["name"]), uid=uid_of(pod))


async def lose_node(world: World, name: str) -> None:
    await world.user.merge_patch(NODES, key(name, ""), {"metadata": {"annotations": {LOST: "true"}}})


async def hold(world: World, pod: Manifest, finalizers: list[str] | None) -> None:
    patch: Manifest = {"metadata": {"finalizers": finalizers}}
    await world.user.merge_patch(kinds.PODS, key(pod["metadata"]["name"]), patch)


async def indexes(world: World) -> list[str]:
    return sorted(
        pod["spec"]["hostname"].rpartition("-")[2]
        for pod in await world.pods()
        if "deletionTimestamp" not in pod["metadata"]
    )


@on_every_stage
def test_a_deleted_pod_is_replaced_as_soon_as_it_is_gone_and_not_before(stage: Stage) -> None:
    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        await world.apply(slow(stage))
        await until_running(world, "train-0")
        await world.settle()
        async with History(world, kinds.PODS) as history:
            (lost,) = await pods_at(world, f"{WORKER}-1")
            await remove(world, lost)
            await pass_time(4)
            assert await pods_at(world, f"{WORKER}-1") == [
                await world.get(kinds.PODS, lost["metadata"]["name"])
            ]
            await until_gone(world, kinds.PODS, lost["metadata"]["name"], seconds=6)
            await pass_time(1)
            (born,) = await pods_at(world, f"{WORKER}-1")
            assert uid_of(born) != uid_of(lost)
            (end,) = [
                each for each in history.of("Pod", type_="DELETED") if each.name == lost["metadata"]["name"]
            ]
            beginning = history.first("Pod", lambda pod: uid_of(pod) == uid_of(born))
            assert 0 <= beginning.at - end.at < 0.5
        await until_running(world, "train-0")
        assert guard.broken == []

    run_world(story, stage.options)


@on_every_stage
def test_a_gang_says_which_pod_it_waits_for(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(slow(stage, 2))
        await until_running(world, "train-0")
        await world.settle()
        (lost,) = await pods_at(world, f"{WORKER}-1")
        await remove(world, lost)
        await pass_time(4)
        awaited = f"1 of 2 pods exist; waiting for pod {lost['metadata']['name']} to terminate"
        assert (await world.condition("train-0", "Scheduled"))["message"] == f"{awaited}."
        for pod in await world.pods():
            await remove(world, pod)
        await pass_time(4)
        told = (await world.condition("train-0", "Initialized"))["message"]
        assert told.startswith("0 of 2 pods exist; waiting for pod train-0-worker-")
        assert told.endswith(" and 1 more to terminate")
        assert "to terminate" in (await set_condition(world, "train", "Available"))["message"]
        await until_running(world, "train-0")

    run_world(story, stage.options)


# Scaling ------------------------------------------------------------------------------------------


@on_every_stage
def test_a_scale_up_right_after_a_scale_down_waits_for_the_places(stage: Stage) -> None:
    """And takes no higher index because a lower one is not free yet."""

    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        await world.apply(slow(stage, 4, minAvailable=1))
        await until_running(world, "train-0")
        await world.settle()
        async with History(world, kinds.PODS) as history:
            for replicas in (1, 3, 2, 4, 3):
                await world.scale(WORKER, replicas, of=kinds.CLIQUES)
                await pass_time(0.3)
            assert await indexes(world) == ["0"]
            await pass_time(20)
            await world.settle()
            assert await indexes(world) == ["0", "1", "2"]
            assert {each.object["spec"]["hostname"] for each in history.of("Pod")} <= {
                f"{WORKER}-{index}" for index in range(4)
            }
        assert await world.phase("train-0") == "Running"
        assert guard.broken == []

    run_world(story, stage.options)


# Sets of the same name ----------------------------------------------------------------------------


async def delete_and_apply(world: World, stage: Stage) -> None:
    await world.user.delete(kinds.CLIQUESETS, key("train"), propagation="Background")
    await world.apply(slow(stage))


@on_every_stage
def test_a_set_that_is_deleted_and_applied_again_waits_for_the_hostnames_of_the_earlier_one(
    stage: Stage,
) -> None:
    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        await world.apply(slow(stage))
        await until_running(world, "train-0")
        await world.settle()
        before = {uid_of(pod) for pod in await world.pods()}
        await delete_and_apply(world, stage)
        await pass_time(4)
        assert {uid_of(pod) for pod in await world.pods()} == before
        told = (await world.condition("train-0", "Initialized"))["message"]
        assert told.startswith("0 of 3 pods exist; waiting for pod train-0-worker-")
        await until_running(world, "train-0", seconds=30)
        assert before.isdisjoint({uid_of(pod) for pod in await world.pods()})
        assert guard.broken == []

    run_world(story, stage.options)


@on_every_stage
def test_so_it_does_when_the_operator_was_away_meanwhile(stage: Stage) -> None:
    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        await world.apply(slow(stage))
        await until_running(world, "train-0")
        await world.settle()
        await world.kill_operator()
        await world.user.delete(kinds.CLIQUESETS, key("train"), propagation="Background")
        await pass_time(2)
        await world.apply(slow(stage))
        await world.start_operator()
        await until_running(world, "train-0", seconds=30)
        await world.settle()
        assert await indexes(world) == ["0", "1", "2"]
        assert guard.broken == []

    run_world(story, stage.options)


#: Everything that the operator writes but for leases and events: pods, services, gangs and so on.
WRITTEN = "[ps]*"


async def _restless(world: World, stage: Stage, alive: Callable[[], Awaitable[None]]) -> None:
    """A pod is lost, then the set is deleted and applied again while that pod still terminates."""
    await world.apply(slow(stage))
    await world.settle(quiet=10)
    await alive()
    if lost := await pods_at(world, f"{WORKER}-1"):
        await remove(world, lost[0])
    await pass_time(2)
    await delete_and_apply(world, stage)
    await world.settle(quiet=10)
    await alive()


@pytest.mark.parametrize(
    ("name", "reached"),
    [("1.36", False), ("1.36", True), ("koordinator", True)],
    ids=["1.36, before it took effect", "1.36, after it took effect", "koordinator, after it took effect"],
)
def test_an_operator_that_dies_at_any_write_makes_no_twin(name: str, reached: bool) -> None:
    stage = STAGES[name]

    def dies_at(number: int) -> bool:
        """Whether the operator got so far that it died."""
        died: list[bool] = []

        async def story(world: World) -> None:
            guard = Guard(world.cluster)
            death = world.cluster.faults.add(
                Fault("lose", "write", WRITTEN, OPERATOR.name, skip=number - 1, times=1, after=reached)
            )

            async def alive() -> None:
                if death.happened and world.operator_died:
                    await world.kill_operator()
                    world.cluster.faults.clear()
                    await world.start_operator()
                    await world.settle(quiet=10)

            await world.start_operator(dies_with_a_request=True)
            await _restless(world, stage, alive)
            died.append(bool(death.happened))
            assert guard.broken == [], f"died at write {number}"
            assert await indexes(world) == ["0", "1", "2"], f"died at write {number}"
            assert await world.phase("train-0") == "Running", f"died at write {number}"

        run_world(story, stage.options, operator=False)
        return died[0]

    writes = next(number for number in count() if not dies_at(number + 1))
    assert writes > 30


# Scaling groups -----------------------------------------------------------------------------------

GROUP = "train-0-dec"


async def group_runs(world: World, stage: Stage, replicas: int = 2) -> None:
    gangs = ["train-0", *(f"train-0-dec-{index}" for index in range(replicas - 1))]
    await until_running(world, *gangs)
    await world.settle(quiet=12)


async def hosts(world: World) -> list[str]:
    return sorted(pod["spec"]["hostname"] for pod in await world.pods())


async def scale_the_group_to_and_fro(world: World, stage: Stage) -> None:
    for replicas in (1, 3, 1, 2):
        await world.scale(GROUP, replicas, of=kinds.SCALING_GROUPS)
        await pass_time(0.4)


async def delete_the_group(world: World, stage: Stage) -> None:
    await world.user.delete(kinds.SCALING_GROUPS, key(GROUP))


async def delete_the_set_and_apply_it(world: World, stage: Stage) -> None:
    await world.user.delete(kinds.CLIQUESETS, key("train"), propagation="Background")
    await world.apply(train(stage.backend, "group", 1, 8))


async def delete_pods_of_each_gang(world: World, stage: Stage) -> None:
    for hostname in ("train-0-dec-0-work-1", "train-0-dec-1-lead-0"):
        await remove(world, (await pods_at(world, hostname))[0])


@pytest.mark.parametrize(
    "act",
    [
        scale_the_group_to_and_fro,
        delete_the_group,
        delete_the_set_and_apply_it,
        delete_pods_of_each_gang,
    ],
)
@pytest.mark.parametrize("stage", GANG_STAGES.values(), ids=GANG_STAGES)
def test_the_same_holds_in_scaling_groups(
    stage: Stage, act: Callable[[World, Stage], Awaitable[None]]
) -> None:
    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        await world.apply(train(stage.backend, "group", 1, 8))
        await group_runs(world, stage)
        want = await hosts(world)
        assert len(want) == len(set(want)) == 7
        await act(world, stage)
        await pass_time(30)
        await group_runs(world, stage)
        assert await hosts(world) == want
        assert guard.broken == []

    run_world(story, stage.options)


# Pods that do not go ------------------------------------------------------------------------------


@on_every_stage
def test_a_pod_that_no_kubelet_stops_is_replaced_after_a_while_and_told(stage: Stage) -> None:
    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        await world.apply(slow(stage))
        await until_running(world, "train-0")
        (lost,) = await pods_at(world, f"{WORKER}-1")
        await lose_node(world, lost["spec"]["nodeName"])
        for pod in await world.pods():
            if pod["spec"]["nodeName"] == lost["spec"]["nodeName"]:
                await remove(world, pod)
        grace = lost["spec"]["terminationGracePeriodSeconds"]
        await pass_time(grace + STUCK_SECONDS - 5)
        assert len(await pods_at(world, f"{WORKER}-1")) == 1
        assert not await world.condition("train-0", "StuckPods")
        await pass_time(10)
        old, new = sorted(await pods_at(world, f"{WORKER}-1"), key=lambda pod: uid_of(pod) != uid_of(lost))
        assert uid_of(old) == uid_of(lost)
        assert new["spec"]["nodeName"] != old["spec"]["nodeName"]
        await until_running(world, "train-0")
        told = await world.condition("train-0", "StuckPods")
        assert (told["status"], told["reason"]) == ("True", "StuckTerminating")
        assert (
            f"pod {lost['metadata']['name']} on node {lost['spec']['nodeName']} should be gone since"
            in told["message"]
        )
        assert (await reasons_about(world, "PodGang", "train-0")).count("PodsStuck") == 1
        assert guard.broken == []
        await world.user.delete(NODES, key(lost["spec"]["nodeName"], ""))
        await pass_time(60)
        assert not await world.condition("train-0", "StuckPods")
        assert await indexes(world) == ["0", "1", "2"]

    run_world(story, replace(stage.options, nodes=6))


def test_nothing_is_written_and_nobody_looks_while_a_pod_is_waited_for() -> None:
    stage = STAGES["1.36"]

    async def story(world: World) -> None:
        await world.apply(slow(stage, 2))
        await until_running(world, "train-0")
        (lost,) = await pods_at(world, f"{WORKER}-1")
        await lose_node(world, lost["spec"]["nodeName"])
        await remove(world, lost)
        await pass_time(20)
        assert world.operator is not None
        metrics, before = world.operator.metrics, world.writes()

        def looks() -> float:
            return sum(
                metrics.value("grove_reconciles_total", controller=name, result=result)
                for name in ("clique", "gang")
                for result in ("done", "requeued")
            )

        looked = looks()
        await pass_time(60)
        assert len(await pods_at(world, f"{WORKER}-1")) == 1
        assert (world.writes(), looks()) == (before, looked)
        await pass_time(20)
        assert len(await pods_at(world, f"{WORKER}-1")) == 2

    run_world(story, stage.options)


@on_every_stage
def test_a_finalizer_on_a_pod_that_has_ended_keeps_nobody_waiting(stage: Stage) -> None:
    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        await world.apply(slow(stage))
        await until_running(world, "train-0")
        (held,) = await pods_at(world, f"{WORKER}-1")
        await hold(world, held, [FINALIZER])
        await remove(world, held)
        await pass_time(7)
        assert len(await pods_at(world, f"{WORKER}-1")) == 1
        await pass_time(5)
        assert len(await pods_at(world, f"{WORKER}-1")) == 2
        await until_running(world, "train-0")
        await hold(world, held, None)
        await world.settle()
        assert await indexes(world) == ["0", "1", "2"]
        assert guard.broken == []

    run_world(story, stage.options)


@on_every_stage
def test_a_gang_all_of_whose_pods_are_held_by_a_finalizer_is_restarted(stage: Stage) -> None:
    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        await world.apply(slow(stage))
        await until_running(world, "train-0")
        held = await world.pods()
        for pod in held:
            await hold(world, pod, [FINALIZER])
            await remove(world, pod)
        await pass_time(15)
        await until_running(world, "train-0")
        assert await indexes(world) == ["0", "1", "2"]
        assert len(await world.pods()) == 6
        await asyncio.gather(*(hold(world, pod, None) for pod in held))
        await world.settle()
        assert len(await world.pods()) == 3
        assert await world.phase("train-0") == "Running"
        assert guard.broken == []

    run_world(story, stage.options)


@pytest.mark.parametrize("stage", GANG_STAGES.values(), ids=GANG_STAGES)
def test_a_gang_that_loses_all_of_its_nodes_is_restarted_on_others(stage: Stage) -> None:
    """Its pods are stuck; nothing of it holds a place of the new start."""

    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        await world.apply(slow(stage, 2))
        await until_running(world, "train-0")
        lost = await world.pods()
        for node in {pod["spec"]["nodeName"] for pod in lost}:
            await lose_node(world, node)
        for pod in lost:
            await remove(world, pod)
        await pass_time(30 + STUCK_SECONDS + 10)
        await until_running(world, "train-0")
        gang = await world.gang("train-0")
        for pod in lost:
            assert pod["metadata"]["name"] in condition_of(gang, "StuckPods")["message"]
        assert len(await world.pods()) == 4
        assert guard.broken == []

    run_world(story, replace(stage.options, nodes=6))
