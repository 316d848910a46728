"""OD1 to OD9 on real schedulers: the stories of the embedded cluster.

`make e2e` plays some, for the time of CI; `make e2e STORIES=full` plays all of them.
"""

from __future__ import annotations

import os
from typing import Final

import pytest
from tests.e2e.conftest import Plane
from tests.e2e.plane import Act
from tests.scenarios.update_stories import OD
from tests.scenarios.updating import ALSO, Rollout

pytestmark = pytest.mark.real

FULL = os.environ.get("GROVE_E2E_STORIES", "") == "full"
NAMES: Final = tuple(OD) if FULL else ("OD2", "OD9")
#: For how long no pod may go that nobody deleted.
QUIET: Final = 10.0 if FULL else 4.0


@pytest.mark.parametrize("name", NAMES)
def test_pods_follow_when_somebody_deletes_them(plane: Plane, name: str) -> None:
    async def story(act: Act) -> None:
        await OD[name](Rollout(act.scene, quiet=QUIET))

    plane.play(name.lower(), story, also=ALSO)


def test_od2_holds_with_the_schedulers_of_others(other_plane: Plane) -> None:
    test_pods_follow_when_somebody_deletes_them(other_plane, "OD2")
