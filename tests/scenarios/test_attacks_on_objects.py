"""Attacks from outside on the objects and pods of a set: it ends right again, on every scheduler."""

from dataclasses import replace
from typing import Final

import pytest
from tests.scenarios.disturbing import Disturbance, Scene, play
from tests.scenarios.stories import STAGES, Stage, key

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


ATTACKS: Final = (
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
