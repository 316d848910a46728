"""Edits, haste and losses on real schedulers: no gang is wedged, and none stays placed in part.

The watch records every binding, so a gang that was placed in part for longer than a scheduler needs to bind one
pod after the other is seen.
"""

from __future__ import annotations

import pytest
from tests.e2e.conftest import Plane
from tests.e2e.laws import assert_no_part_was_placed_for_long
from tests.e2e.plane import Act
from tests.e2e.scene import Scene, holds_a_place, role, slow, train

from grove.api import kinds

pytestmark = pytest.mark.real

GANG = "train-0"


async def exactly_the_minimum(act: Act) -> None:
    scene = act.scene
    # 1 + 2 x 2 + 2 x 4, on one node: nothing is left for the third prefill, and nothing is lost between nodes.
    await scene.node("exact", gpus=13)
    roles = (
        role("router", 1, gpus=1),
        role("prefill", 3, gpus=2, minAvailable=2),
        role("decode", 2, gpus=4),
    )
    await scene.apply(train(*roles))
    await scene.until(lambda: scene.phase(GANG) == "Running", "the gang runs", seconds=40)
    assert scene.bound(GANG) == 5, scene.describe()
    assert_no_part_was_placed_for_long(scene, {GANG: 5})


async def applied_again_at_once(act: Act) -> None:
    scene = act.scene
    await scene.nodes(3)
    await scene.apply(train(slow("worker", 3, 3)))
    await scene.until_running(GANG, 3)
    former = _uids(scene)
    await scene.delete(kinds.CLIQUESETS, "train")
    await scene.apply(train(slow("worker", 3, 3)))
    # The watch is behind: the former pods run in its eyes when the set is applied again.
    await scene.until(
        lambda: not former & _uids(scene) and scene.running(GANG, 3), "the set runs again", seconds=40
    )


async def raised_without_a_written_minimum(act: Act) -> None:
    scene = act.scene
    await scene.nodes(4)
    await scene.apply(train(role("worker", 2)))
    await scene.until_running(GANG, 2)
    first = _uids(scene)
    await scene.apply(train(role("worker", 3)))
    await scene.ledger.quiet(3.0)
    assert first <= _uids(scene), "no pod that ran was ended"
    lost = scene.pods(GANG)[0]["metadata"]
    await scene.delete(kinds.PODS, lost["name"])
    await scene.until(
        lambda: lost["uid"] not in _uids(scene) and scene.phase(GANG) == "Running" and _all_bound(scene),
        "the lost pod is replaced",
        seconds=40,
    )


def _uids(scene: Scene) -> set[str]:
    return {pod["metadata"]["uid"] for pod in scene.ledger.all(kinds.PODS) if not holds_a_place(pod)}


def _all_bound(scene: Scene) -> bool:
    return scene.bound(GANG) == len(scene.pods(GANG)) >= 2


STORIES = {
    "room-for-the-minimum": exactly_the_minimum,
    "applied-again": applied_again_at_once,
    "raised": raised_without_a_written_minimum,
}


@pytest.mark.parametrize("name", STORIES)
def test_a_gang_is_whole_in_the_end(plane: Plane, name: str) -> None:
    plane.play(name, STORIES[name])


@pytest.mark.parametrize("name", STORIES)
def test_a_gang_is_whole_in_the_end_with_the_scheduler_of_others(other_plane: Plane, name: str) -> None:
    other_plane.play(name, STORIES[name])
