"""Attacks from outside on a set that runs: it ends right again."""

from dataclasses import replace
from typing import Final

import pytest
from tests.scenarios.disturbances import take_a_podgroup_from_the_gang
from tests.scenarios.disturbing import Disturbance, play
from tests.scenarios.stories import STAGES, Stage, until_running

from grove.testing.world import World, run_world

BACKENDS: Final = ("1.35", "1.36", "1.37", "kai", "koordinator", "volcano", "yunikorn")


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
