"""GT1 to GT6 on real schedulers: what a gang loses for good costs it its pods after the delay, and no sooner.

A pod is lost for good by cordoning its node before it is deleted. `make e2e` plays some, for the time of CI;
`make e2e STORIES=full` plays all of them.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest
from tests.e2e.conftest import Plane
from tests.e2e.plane import Act
from tests.e2e.scene import NODES, Scene
from tests.scenarios.stories import STAGES
from tests.scenarios.workloads import wl1, wl2, wl5

from grove.api import kinds, labels
from grove.meta import Key, Manifest

pytestmark = pytest.mark.real

FULL = os.environ.get("GROVE_E2E_STORIES", "") == "full"
DELAY: Final = 4.0
#: How long nothing may happen where nothing is to be recycled.
QUIET: Final = DELAY + 8.0


def workload(shape: Callable[..., Manifest]) -> Manifest:
    return shape(STAGES["1.36"], "wl", terminationDelay=f"{DELAY:g}s")


async def start(scene: Scene, shape: Callable[..., Manifest]) -> None:
    await scene.nodes(10)
    await scene.apply(workload(shape))
    await recovers(scene)
    # What is lost before it was seen whole was never whole.
    await scene.until(lambda: all(map(was_whole, scene.ledger.all(kinds.CLIQUES))), "the cliques were whole")


async def recovers(scene: Scene) -> None:
    for node in [name for of, name in scene.made if of == NODES]:
        await scene.user.merge_patch(NODES, Key("", node), {"spec": {"unschedulable": None}})
    await scene.until(lambda: sum(map(is_ready, scene.pods())) == 10, "ten pods are ready", seconds=60)


def is_ready(pod: Manifest) -> bool:
    told = {each["type"]: each["status"] for each in pod["status"].get("conditions", ())}
    return told.get("Ready") == "True"


def was_whole(clique: Manifest) -> bool:
    told = clique.get("status", {}).get("conditions", ())
    return any(each["type"] == "MinAvailableReached" and each["status"] == "True" for each in told)


def uids(scene: Scene, clique: str = "") -> set[str]:
    pods = [pod["metadata"] for pod in scene.pods()]
    return {each["uid"] for each in pods if each["labels"][labels.POD_CLIQUE].startswith(clique)}


async def lose(scene: Scene, clique: str, number: int = 1) -> None:
    placed = [
        pod
        for pod in scene.pods()
        if pod["metadata"]["labels"][labels.POD_CLIQUE] == clique and pod["spec"].get("nodeName")
    ]
    for pod in placed[:number]:
        node = Key("", pod["spec"]["nodeName"])
        await scene.user.merge_patch(NODES, node, {"spec": {"unschedulable": True}})
        await scene.delete(kinds.PODS, pod["metadata"]["name"])
    lost = {pod["metadata"]["uid"] for pod in placed[:number]}
    await scene.until(lambda: not lost & uids(scene), "the pods are gone")


async def recycles(scene: Scene, doomed: set[str], others: set[str]) -> None:
    """All of the one go, none of the other, nor are they recycled a moment later."""
    await scene.until(lambda: not doomed & uids(scene), "all pods were recycled", seconds=DELAY + 15)
    assert others <= uids(scene)
    if others:
        await keeps(scene, others)


async def keeps(scene: Scene, pods: set[str]) -> None:
    await scene.ledger.holds(lambda: pods <= uids(scene), QUIET, scene.describe)


async def gt1(scene: Scene, clique: str = "wl-0-pc-a") -> None:
    await start(scene, wl1)
    before = uids(scene)
    await lose(scene, clique)
    left = before & uids(scene)
    assert len(left) == 9
    await scene.ledger.holds(lambda: left <= uids(scene), DELAY / 2, scene.describe)
    await recycles(scene, before, set())
    await recovers(scene)


async def gt2(scene: Scene) -> None:
    await gt1(scene, "wl-0-sg-x-0-pc-c")


async def gt3(scene: Scene) -> None:
    await start(scene, wl2)
    before = uids(scene)
    await lose(scene, "wl-0-pc-a")
    await keeps(scene, before & uids(scene))
    await lose(scene, "wl-0-pc-a")
    await recycles(scene, before, set())
    await recovers(scene)


async def gt4(scene: Scene) -> None:
    await start(scene, wl2)
    before, others = uids(scene), uids(scene) - uids(scene, "wl-0-sg-x-0")
    await lose(scene, "wl-0-sg-x-0-pc-c")
    await keeps(scene, before & uids(scene))
    await lose(scene, "wl-0-sg-x-0-pc-c", 3)
    await recycles(scene, before - others, others)
    await lose(scene, "wl-0-sg-x-1-pc-c")
    left = others & uids(scene)
    assert (len(left), uids(scene, "wl-0-pc-a") <= left) == (5, True)
    await scene.ledger.holds(
        lambda: left <= uids(scene) and sum(map(is_ready, scene.pods())) >= 5, QUIET, scene.describe
    )
    await lose(scene, "wl-0-sg-x-1-pc-c", 3)
    # The room that these left may have let the other replica of the group come back.
    await lose(scene, "wl-0-sg-x-0-pc-c", 3)
    await recycles(scene, before, set())
    await recovers(scene)


async def gt5(scene: Scene) -> None:
    await start(scene, wl5)
    before, lost = uids(scene), uids(scene, "wl-0-sg-x-0")
    await lose(scene, "wl-0-sg-x-0-pc-c", 3)
    await recycles(scene, lost, before - lost)
    await recovers(scene)


async def gt6(scene: Scene) -> None:
    await start(scene, wl2)
    before = uids(scene)
    pod = next(pod for pod in scene.pods("wl-0-sg-x-0") if is_ready(pod))["metadata"]
    await scene.delete(kinds.PODS, pod["name"])
    await keeps(scene, before - {pod["uid"]})
    await recovers(scene)


STORIES: Final[dict[str, Callable[[Any], Awaitable[None]]]] = {
    "GT1": gt1,
    "GT2": gt2,
    "GT3": gt3,
    "GT4": gt4,
    "GT5": gt5,
    "GT6": gt6,
}


NAMES: Final = tuple(STORIES) if FULL else ("GT1", "GT5")


@pytest.mark.parametrize("name", NAMES)
def test_what_a_gang_loses_for_good_costs_it_its_pods_after_the_delay(plane: Plane, name: str) -> None:
    async def story(act: Act) -> None:
        await STORIES[name](act.scene)

    plane.play(name.lower(), story)


@pytest.mark.parametrize("name", NAMES)
def test_what_a_gang_loses_for_good_costs_it_its_pods_with_the_scheduler_of_others(
    other_plane: Plane, name: str
) -> None:
    test_what_a_gang_loses_for_good_costs_it_its_pods_after_the_delay(other_plane, name)
