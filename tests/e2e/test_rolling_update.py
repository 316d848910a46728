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

from grove.api import kinds
from grove.api.kinds import CONTROLLER_REVISIONS as RECORDS
from grove.meta import Manifest
from grove.testing import make

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


def test_a_template_is_taken_up_again_whatever_characters_its_command_has(plane: Plane) -> None:
    """Its record gets another number; the API server compares what it recorded byte by byte."""

    def train(image: str) -> Manifest:
        container = {"name": "main", "image": image, "command": ["sh", "-c", "load && serve < config"]}
        roles = [make.template("worker", 1, pod=make.pod_spec(containers=[container]))]
        return make.cliqueset_manifest("train", roles)

    async def story(act: Act) -> None:
        scene = act.scene

        def numbers() -> list[tuple[str, int]]:
            return sorted((_image_in(each), each["revision"]) for each in scene.ledger.all(RECORDS))

        def runs(image: str) -> bool:
            images = [each["image"] for pod in scene.pods() for each in pod["spec"]["containers"]]
            return images == [image] and scene.running("train-0", 1)

        await scene.node("node")
        for image, want in (
            ("one", [("one", 1)]),
            ("two", [("one", 1), ("two", 2)]),
            ("one", [("one", 3), ("two", 2)]),
        ):
            await scene.apply(train(image))
            await scene.until(lambda image=image: runs(image), f"{image} runs")  # type: ignore[misc]
            await scene.until(lambda want=want: numbers() == want, f"the records are {want}")  # type: ignore[misc]
        assert scene.condition(kinds.CLIQUESETS, "train", "Degraded") == {}

    plane.play("again", story, also=ALSO)


def _image_in(record: Manifest) -> str:
    (role,) = record["data"]["spec"]["template"]["cliques"]
    return str(role["spec"]["podSpec"]["containers"][0]["image"])
