"""Every scenario on every real control plane that is installed, with every scheduler that was asked for."""

from __future__ import annotations

import pytest
from tests.e2e.conftest import Plane
from tests.e2e.recording import record
from tests.e2e.scenarios import SCENARIOS

pytestmark = pytest.mark.real


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_holds_on_a_real_control_plane(
    plane: Plane, name: str, request: pytest.FixtureRequest
) -> None:
    found = plane.play("story", lambda act: SCENARIOS[name](act.scene))
    assert found
    if request.config.getoption("--record", default=False):
        record(plane.judge.name, name, found)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_holds_with_the_scheduler_of_others(
    other_plane: Plane, name: str, request: pytest.FixtureRequest
) -> None:
    test_a_scenario_holds_on_a_real_control_plane(other_plane, name, request)
