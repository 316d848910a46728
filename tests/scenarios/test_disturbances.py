"""Whatever is done to a set, it ends right: on every scheduler, with pods that stop at once or in 8 s."""

from dataclasses import replace

import pytest
from tests.scenarios.disturbances import DISTURBANCES
from tests.scenarios.disturbing import Disturbance, play
from tests.scenarios.stories import STAGES, Stage

from grove.testing.world import World, run_world

BACKENDS = {name: STAGES[name] for name in ("1.36", "kai", "koordinator", "volcano", "yunikorn")}


@pytest.mark.parametrize("stop", [0.0, 8.0], ids=["stop at once", "stop in 8 s"])
@pytest.mark.parametrize("stage", BACKENDS.values(), ids=BACKENDS)
@pytest.mark.parametrize(
    "disturbance", DISTURBANCES, ids=[f"{each.name}, {each.when}" for each in DISTURBANCES]
)
def test_a_disturbed_set_ends_right(disturbance: Disturbance, stage: Stage, stop: float) -> None:
    wrong: list[str] = []

    async def story(world: World) -> None:
        wrong.extend(await play(world, stage, disturbance, stop))

    run_world(story, replace(stage.options, nodes=6))
    if wrong:
        when = {"pending": "pending", "open": "as its gates opened", "running": "running"}[disturbance.when]
        title = f"{disturbance.name}, {when}; scheduler {stage.scheduler_name}; pods stop in {stop:g} s"
        pytest.fail("\n".join([title, *wrong]), pytrace=False)
