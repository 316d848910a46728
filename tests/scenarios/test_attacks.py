"""Attacks from outside on a set that runs: it ends right again."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import pytest
from tests.scenarios.disturbances import take_a_podgroup_from_the_gang
from tests.scenarios.disturbing import Disturbance, Scene, cordon, play
from tests.scenarios.stories import (
    STAGES,
    Stage,
    gpu_role,
    key,
    pass_time,
    set_condition,
    until_phase,
    until_running,
)

from grove.api import kinds, labels
from grove.meta import Manifest
from grove.testing.world import NODES, World, run_world

BACKENDS: Final = ("1.35", "1.36", "1.37", "kai", "koordinator", "volcano", "yunikorn")
OTHER_SCHEDULERS: Final = BACKENDS[3:]


@pytest.mark.parametrize("stage", [STAGES[name] for name in BACKENDS], ids=BACKENDS)
def test_a_podgroup_that_is_taken_from_a_gang_that_runs_is_put_back(stage: Stage) -> None:
    disturbance = Disturbance("podgroup taken from the gang", "running", take_a_podgroup_from_the_gang)
    wrong: list[str] = []

    async def story(world: World) -> None:
        wrong.extend(await play(world, stage, disturbance, 0.0))

    run_world(story, replace(stage.options, nodes=6))
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


def test_a_simulated_scheduler_that_starts_beside_gangs_knows_their_composites(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = STAGES["1.37"]

    async def story(world: World) -> None:
        await world.apply(stage.cliqueset())
        await until_running(world, "train-0")
        await world.stop_scheduler("default")
        world.start_scheduler("default")
        await world.apply(stage.cliqueset("late"))
        await until_running(world, "late-0")

    run_world(story, stage.options)
    assert "listener failed" not in caplog.text


def test_a_gang_on_yunikorn_of_whose_places_some_are_lost_with_their_node_is_placed() -> None:
    """The rest of the places must not be held for ever: YuniKorn makes no new ones for an application."""

    async def story(world: World) -> None:
        nodes = sorted(each["metadata"]["name"] for each in await world.all(NODES))
        for node in nodes[1:]:
            await cordon(world, node, True)
        await world.apply(
            STAGES["yunikorn"].cliqueset(cliques=[gpu_role("worker", 2, 4), gpu_role("leader", 1, 4)])
        )
        await pass_time(5)
        await world.user.delete(NODES, key(nodes[0], ""))
        for node in nodes[1:]:
            await cordon(world, node, False)
        await until_running(world, "train-0", seconds=120)

    run_world(story, replace(STAGES["yunikorn"].options, nodes=6))


def test_a_gang_on_yunikorn_that_waits_for_room_keeps_its_places() -> None:
    async def story(world: World) -> None:
        await world.apply(STAGES["yunikorn"].cliqueset(cliques=[gpu_role("worker", 3, 8)]))
        await pass_time(5)
        before = {pod["metadata"]["uid"] for pod in await world.pods()}
        await pass_time(300)
        assert {pod["metadata"]["uid"] for pod in await world.pods()} == before

    run_world(story, replace(STAGES["yunikorn"].options, nodes=2))


def test_places_held_for_a_young_gang_on_yunikorn_do_not_keep_an_older_one_from_its_lost_pod() -> None:
    async def story(world: World) -> None:
        stage = STAGES["yunikorn"]
        await world.apply(stage.cliqueset("old", cliques=[gpu_role("worker", 3, 8)]))
        await until_running(world, "old-0")
        await world.apply(stage.cliqueset("young", cliques=[gpu_role("worker", 2, 8)]))
        await pass_time(5)
        lost = next(pod for pod in await world.pods() if pod["spec"].get("nodeName"))
        await world.user.delete(NODES, key(lost["spec"]["nodeName"], ""))
        await pass_time(5)
        await until_running(world, "old-0", seconds=120)

    run_world(story, replace(STAGES["yunikorn"].options, nodes=4))


async def ask_for_another_scheduler(scene: Scene) -> None:
    scene.manifest["metadata"].setdefault("annotations", {})[labels.SCHEDULER_BACKEND] = "default"
    await scene.apply()
    await pass_time(3)


async def ask_for_another_scheduler_and_delete_the_gang(scene: Scene) -> None:
    await ask_for_another_scheduler(scene)
    await scene.delete(kinds.GANGS, "train-0")


async def ask_for_another_scheduler_and_take_the_label(scene: Scene) -> None:
    await ask_for_another_scheduler(scene)
    await scene.patch(kinds.GANGS, "train-0", {"metadata": {"labels": {labels.SCHEDULER_BACKEND: None}}})


@pytest.mark.parametrize(
    "attack", [ask_for_another_scheduler_and_delete_the_gang, ask_for_another_scheduler_and_take_the_label]
)
@pytest.mark.parametrize("stage", [STAGES[name] for name in OTHER_SCHEDULERS], ids=OTHER_SCHEDULERS)
def test_a_gang_stays_with_the_scheduler_of_its_pods_also_when_it_forgets_which_one_that_is(
    stage: Stage, attack: Callable[[Scene], Awaitable[None]]
) -> None:
    """The set asks for another scheduler; pods on nodes stay with theirs, and so do their replacements."""
    wrong: list[str] = []

    async def story(world: World) -> None:
        wrong.extend(await play(world, stage, Disturbance("scheduler changed", "running", attack), 0.0))
        (gang,) = await world.all(kinds.GANGS)
        assert gang["metadata"]["labels"][labels.SCHEDULER_BACKEND] == stage.backend

    run_world(story, replace(stage.options, nodes=6))
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


def completing(name: str, after: str) -> Manifest:
    marks = {"embedded.grove.io/fail-after": after, "embedded.grove.io/exit-code": "0"}
    return gpu_role(name, 1, 4, annotations=marks, pod={"restartPolicy": "Never"})


async def a_completed_gang(world: World, stage: Stage) -> None:
    await world.apply(stage.cliqueset(cliques=[completing("worker", "20s"), completing("leader", "5s")]))
    await until_running(world, "train-0")
    await pass_time(40)
    assert [pod["status"]["phase"] for pod in await world.pods()] == ["Succeeded", "Succeeded"]


@pytest.mark.parametrize("stage", [STAGES[name] for name in BACKENDS], ids=BACKENDS)
def test_a_gang_whose_pods_completed_says_so_and_keeps_its_places(stage: Stage) -> None:
    async def story(world: World) -> None:
        await a_completed_gang(world, stage)
        (gang,) = await world.all(kinds.GANGS)
        assert (gang["status"]["phase"], gang["status"]["message"]) == ("Succeeded", "2 of 2 pods succeeded")
        told = {each["type"]: (each["status"], each["reason"]) for each in gang["status"]["conditions"]}
        assert told["Scheduled"] == ("True", "Scheduled")
        assert told["Ready"] == ("False", "PodsSucceeded")
        assert "Unhealthy" not in told
        for clique in await world.all(kinds.CLIQUES):
            said = {each["type"]: each["status"] for each in clique["status"]["conditions"]}
            assert said["MinAvailableBreached"] == "False"
        ready = await set_condition(world, "train", "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "PodsSucceeded")
        assert (await set_condition(world, "train", "Progressing"))["status"] == "False"

    run_world(story, stage.options)


def test_a_set_of_which_a_role_completed_and_another_one_runs_says_which_role() -> None:
    stage = STAGES["1.36"]

    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques=[completing("leader", "5s"), gpu_role("worker", 1, 4)]))
        await until_running(world, "train-0")
        await pass_time(40)
        assert (await world.gang("train-0") or {})["status"]["phase"] == "Running"
        available = await set_condition(world, "train", "Available")
        assert available["message"] == (
            "0 of 1 replicas are available; gang train-0: train-0-leader: 0 of 1 pods are ready, 1 succeeded"
        )
        assert (await set_condition(world, "train", "Progressing"))["status"] == "False"

    run_world(story, stage.options)


@pytest.mark.parametrize("stage", [STAGES[name] for name in BACKENDS], ids=BACKENDS)
def test_a_gang_of_which_a_completed_pod_is_deleted_runs_again_as_a_whole(stage: Stage) -> None:
    """A pod that completed is no member for a scheduler: its replacement alone would wait for ever."""

    async def story(world: World) -> None:
        await a_completed_gang(world, stage)
        before = {pod["metadata"]["uid"] for pod in await world.pods()}
        await world.user.delete(kinds.PODS, key((await world.pods())[0]["metadata"]["name"]))
        await until_running(world, "train-0", seconds=15)
        assert not before & {pod["metadata"]["uid"] for pod in await world.pods()}
        await until_phase(world, "train-0", "Succeeded", seconds=40)
        await pass_time(60)
        assert len(await world.pods()) == 2

    run_world(story, stage.options)
