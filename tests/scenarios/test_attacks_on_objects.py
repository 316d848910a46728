"""Attacks from outside on the objects and pods of a set: it ends right again, on every scheduler."""

from dataclasses import replace
from typing import Final

import pytest
from tests.scenarios.disturbing import Disturbance, Scene, begin, play, until_right
from tests.scenarios.stories import (
    STAGES,
    Stage,
    condition_of,
    gpu_role,
    key,
    pass_time,
    uid_of,
    until_running,
)

from grove.api import kinds, labels
from grove.testing.world import World, run_world

BACKENDS: Final = ("1.36", "1.37", "kai", "koordinator", "volcano", "yunikorn")


async def delete_objects_without_our_label(scene: Scene) -> None:
    for resource, each in await scene.objects():
        name = each["metadata"]["name"]
        await scene.patch(resource, name, {"metadata": {"labels": {labels.MANAGED_BY: None}}})
        await scene.delete(resource, name)


async def delete_the_gang_in_the_foreground(scene: Scene) -> None:
    """`kubectl delete podgang --cascade=foreground`: its PodGroup is held by the pods that run."""
    await scene.world.user.delete(kinds.GANGS, key("train-0"), propagation="Foreground")


async def restart_while_a_role_sleeps(scene: Scene) -> None:
    await scene.world.scale("train-0-leader", 0, kinds.CLIQUES)
    await pass_time(12)
    await scene.remove(await scene.pods())
    await pass_time(20)
    await scene.world.scale("train-0-leader", 1, kinds.CLIQUES)


ATTACKS: Final = (
    Disturbance("gang restarted while a role sleeps", "running", restart_while_a_role_sleeps),
    Disturbance("objects deleted, label lost", "running", delete_objects_without_our_label),
    Disturbance("gang deleted in the foreground", "running", delete_the_gang_in_the_foreground),
)


@pytest.mark.parametrize("stage", [STAGES[name] for name in BACKENDS], ids=BACKENDS)
@pytest.mark.parametrize("attack", ATTACKS, ids=[each.name for each in ATTACKS])
def test_a_set_whose_objects_somebody_attacked_ends_right(attack: Disturbance, stage: Stage) -> None:
    wrong: list[str] = []

    async def story(world: World) -> None:
        wrong.extend(await play(world, stage, attack, 0.0))

    run_world(story, replace(stage.options, nodes=6))
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


def test_a_gang_that_a_finalizer_keeps_says_how_many_pods_it_has_and_the_way_out() -> None:
    async def story(world: World) -> None:
        await world.apply(STAGES["1.36"].cliqueset(cliques=[gpu_role("worker", 3, 4)]))
        await until_running(world, "train-0")
        await world.user.merge_patch(
            kinds.GANGS, key("train-0"), {"metadata": {"finalizers": ["example.com/hold"]}}
        )
        await world.user.delete(kinds.GANGS, key("train-0"))
        await pass_time(5)
        lost = (await world.pods())[0]["metadata"]["name"]
        await world.user.delete(kinds.PODS, key(lost))
        await pass_time(30)
        assert len(await world.pods()) == 2
        scheduled, unhealthy = [await world.condition("train-0", each) for each in ("Scheduled", "Unhealthy")]
        assert (scheduled["status"], scheduled["reason"]) == ("False", "BeingDeleted")
        assert "2 of 3 pods are placed" in unhealthy["message"]
        gang = await world.get(kinds.GANGS, "train-0")
        assert gang is not None
        assert gang["status"]["phase"] != "Running"
        told = condition_of(gang, "Degraded")
        assert (told["status"], told["reason"]) == ("True", "BeingDeleted")
        assert "example.com/hold" in told["message"]
        of_set = condition_of(await world.get(kinds.CLIQUESETS, "train"), "Degraded")
        assert "gang train-0: the gang is being deleted" in of_set["message"]
        await world.user.merge_patch(kinds.GANGS, key("train-0"), {"metadata": {"finalizers": None}})
        await until_running(world, "train-0")
        assert len(await world.pods()) == 3

    run_world(story)


#: The set is brought to this moment; what is done then is told by the story.
RUNNING: Final = Disturbance("none", "running", delete_objects_without_our_label)


@pytest.mark.parametrize("name", BACKENDS)
def test_pods_that_lost_their_labels_while_no_operator_ran_are_still_the_gangs(name: str) -> None:
    stage = STAGES[name]

    async def story(world: World) -> None:
        scene = await begin(world, stage, RUNNING, 0.0)
        before = {uid_of(pod) for pod in await scene.pods()}
        await world.kill_operator()
        for pod in await world.pods():
            bare = {"metadata": {"labels": dict.fromkeys(pod["metadata"]["labels"])}}
            await world.user.merge_patch(kinds.PODS, key(pod["metadata"]["name"]), bare)
        await world.start_operator()
        await until_right(scene, "after the operator came back", seconds=60)
        assert {uid_of(pod) for pod in await scene.pods()} == before, "pods that ran were replaced"
        await scene.remove((await scene.pods("worker"))[:1])
        await until_right(scene, "after a worker was lost")

    run_world(story, replace(stage.options, nodes=6))
