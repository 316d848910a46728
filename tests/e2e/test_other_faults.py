"""The same misfortunes with the schedulers of others: no gang is split, and no pod is made twice."""

from __future__ import annotations

import pytest
from tests.e2e.conftest import Plane
from tests.e2e.plane import Act
from tests.e2e.scene import gates_of
from tests.e2e.test_faults import end_well, survives_a_kill, survives_a_restart, two_gangs

from grove.real.third_party import third_party

pytestmark = pytest.mark.real


@pytest.mark.parametrize("changes", [3, 10, 20])
def test_an_operator_killed_anywhere_is_followed_by_one_that_ends_the_work(
    other_plane: Plane, changes: int
) -> None:
    other_plane.play("killed", lambda act: survives_a_kill(act, changes))


def test_an_api_server_that_restarts_in_mid_flow_costs_nothing(other_plane: Plane) -> None:
    other_plane.play("restart", survives_a_restart)


def test_a_scheduler_that_comes_late_finds_everything_in_place(other_plane: Plane) -> None:
    async def story(act: Act) -> None:
        scene, control = act.scene, act.world.control
        programs = [tool.name for tool in third_party(act.world.judge.third_party).programs]
        for name in programs:
            await control.kill(name)
        await two_gangs(scene)
        await scene.until(
            lambda: len(scene.pods()) == 6 and not any(map(gates_of, scene.pods())), "all gates are open"
        )
        assert scene.bound() == 0
        for name in programs:
            await control.restart(name)
        await end_well(act)

    other_plane.play("scheduler", story)
