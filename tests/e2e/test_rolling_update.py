"""RU7 to RU21 on real schedulers: the stories of the embedded cluster.

`make e2e` plays some, for the time of CI; `make e2e STORIES=full` plays all of them.
"""

from __future__ import annotations

import os
from typing import Final

import pytest
from tests.e2e.conftest import Plane
from tests.e2e.plane import Act
from tests.scenarios.update_stories import RU
from tests.scenarios.updating import ALSO, Rollout

pytestmark = pytest.mark.real

FULL = os.environ.get("GROVE_E2E_STORIES", "") == "full"
NAMES: Final = tuple(RU) if FULL else ("RU7", "RU9", "RU10", "RU18")
#: For how long an update that lacks room must stand still.
QUIET: Final = 10.0 if FULL else 4.0


@pytest.mark.parametrize("name", NAMES)
def test_a_set_is_updated_step_by_step(plane: Plane, name: str) -> None:
    async def story(act: Act) -> None:
        await RU[name](Rollout(act.scene, quiet=QUIET))

    plane.play(name.lower(), story, also=ALSO)


@pytest.mark.parametrize("name", [name for name in ("RU7", "RU8", "RU9", "RU10") if name in NAMES])
def test_so_it_is_with_the_schedulers_of_others(other_plane: Plane, name: str) -> None:
    test_a_set_is_updated_step_by_step(other_plane, name)
