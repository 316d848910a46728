"""Whatever is done to a set, it ends right: on every scheduler, with pods that stop at once or in 8 s."""

from dataclasses import replace
from itertools import cycle, islice

import pytest
from tests.scenarios.disturbances import DISTURBANCES, take_a_podgroup_from_the_gang, weaken_the_objects
from tests.scenarios.disturbing import Disturbance, Do, begin, play
from tests.scenarios.stories import STAGES, Stage, pass_time

from grove.testing.world import World, run_world

BACKENDS = {name: STAGES[name] for name in ("1.36", "kai", "koordinator", "volcano", "yunikorn")}


@pytest.mark.parametrize("stop", [0.0, 8.0], ids=["stop at once", "stop in 8 s"])
@pytest.mark.parametrize("stage", BACKENDS.values(), ids=BACKENDS)
@pytest.mark.parametrize(
    "disturbance", DISTURBANCES, ids=[f"{each.name}, {each.when}" for each in DISTURBANCES]
)
def test_a_disturbed_set_ends_right(disturbance: Disturbance, stage: Stage, stop: float) -> None:
    end_right(disturbance, stage, stop)


@pytest.mark.parametrize(
    ("disturbance", "name"),
    [
        pytest.param(each, name, id=f"{each.name}, {each.when}, {name}")
        for each, name in zip(DISTURBANCES, cycle(("1.35", "1.37")), strict=False)
    ],
)
def test_so_does_one_on_the_other_native_generations(disturbance: Disturbance, name: str) -> None:
    """Each disturbance on one of them: they differ from 1.36 in what of an object can be changed."""
    end_right(disturbance, STAGES[name], 0.0)


#: What is done to roles alone, or says how much room or which minimum a set of two roles has.
_OF_ROLES = (
    "role's replicas raised, minimum never written",
    "minimum lowered",
    "minimum raised",
    "topology relaxed",
    "topology added",
)
WITH_GROUPS = tuple(each for each in DISTURBANCES if each.name not in _OF_ROLES)
#: By turns: each disturbance on three schedulers, with pods that stop at once on one of them at least.
TURNS = cycle([(name, stop) for stop in (0.0, 8.0) for name in BACKENDS] + [("1.35", 0.0)])


@pytest.mark.parametrize(
    ("disturbance", "name", "stop"),
    [
        pytest.param(each, name, stop, id=f"{each.name}, {each.when}, {name}, stop in {stop:g} s")
        for each in WITH_GROUPS
        for name, stop in islice(TURNS, 3)
    ],
)
def test_a_disturbed_set_with_a_scaling_group_ends_right(
    disturbance: Disturbance, name: str, stop: float
) -> None:
    end_right(disturbance, STAGES[name], stop, grouped=True)


@pytest.mark.parametrize("do", [weaken_the_objects, take_a_podgroup_from_the_gang])
def test_a_part_that_is_placed_because_somebody_lowered_a_minimum_is_given_back(do: Do) -> None:
    """On 1.37 the minimum of a PodGroup can be changed in place: kube-scheduler obeys before it is put back."""
    stage = STAGES["1.37"]

    async def story(world: World) -> None:
        scene = await begin(world, stage, Disturbance("a minimum lowered", "pending", do), 0.0)
        await do(scene)
        await pass_time(45)
        held = [pod["metadata"]["name"] for pod in await scene.pods() if pod["spec"].get("nodeName")]
        assert held == [], "a gang without room for its minimum holds nodes"

    run_world(story, replace(stage.options, nodes=6))


def end_right(disturbance: Disturbance, stage: Stage, stop: float, *, grouped: bool = False) -> None:
    """Play the disturbance in a world of its own, and fail with all that was not right."""
    wrong: list[str] = []

    async def story(world: World) -> None:
        wrong.extend(await play(world, stage, disturbance, stop, grouped=grouped))

    run_world(story, replace(stage.options, nodes=6))
    if wrong:
        when = {"pending": "pending", "open": "as its gates opened", "running": "running"}[disturbance.when]
        title = f"{disturbance.name}, {when}; scheduler {stage.scheduler_name}; pods stop in {stop:g} s"
        pytest.fail("\n".join([title, *wrong]), pytrace=False)
