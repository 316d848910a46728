"""A pod template that a real API server refuses is refused with the set, by field and in its words."""

from __future__ import annotations

import pytest
from tests.e2e.conftest import Plane
from tests.e2e.plane import Act
from tests.e2e.scene import role, train

from grove.api import kinds
from grove.meta import Manifest

pytestmark = pytest.mark.real

PODS = "spec.template.cliques[0].spec.podSpec"


def made_of(container: Manifest, **pod: object) -> Manifest:
    worker = role("worker", 1)
    worker["spec"]["podSpec"] = {**worker["spec"]["podSpec"], "containers": [container], **pod}
    return worker


MAIN: Manifest = {"name": "main", "image": "registry.invalid/x"}
WRONG = {
    "misspelt": (
        train(made_of({"name": "main", "imgae": "x"})),
        f"{PODS}.containers[0].imgae: unknown field",
    ),
    "no-image": (train(made_of({"name": "main"})), f"{PODS}.containers[0].image: Required value"),
    "wrong-type": (
        train(made_of(MAIN, hostNetwork="yes")),
        f"{PODS}.hostNetwork: must be true or false, not the text 'yes'",
    ),
    "no-class": (
        train(made_of(MAIN), priorityClassName="nobodys"),
        "spec.template.priorityClassName: no PriorityClass with name nobodys was found",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_template_that_the_api_server_refuses_is_refused_with_the_set(plane: Plane, case: str) -> None:
    manifest, told = WRONG[case]

    async def story(act: Act) -> None:
        scene = act.scene
        await scene.apply(manifest)

        def said() -> str:
            accepted = scene.condition(kinds.CLIQUESETS, "train", "Accepted")
            return str(accepted.get("message", "")) if accepted.get("status") == "False" else ""

        await scene.until(lambda: bool(said()), "the set is refused")
        assert told in said()
        assert scene.pods() == []

    plane.play(f"template-{case}", story)
