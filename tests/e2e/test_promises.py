"""Edits, haste and losses on real schedulers: no gang is wedged, and none stays placed in part.

The watch records every binding, so a gang that was placed in part for longer than a scheduler needs to bind one
pod after the other is seen.
"""

from __future__ import annotations

import functools

import pytest
from tests.e2e.conftest import Plane
from tests.e2e.plane import Act
from tests.e2e.scene import NODES, Scene, holds_a_place, role, train

from grove.api import kinds, labels
from grove.meta import Key, Manifest

pytestmark = pytest.mark.real

#: Pods of a gang are bound one call after the other; a partial that lasts longer is none that ends by itself.
PARTIAL_SECONDS = 3.0
GANG = "train-0"


def longest_partial(scene: Scene, gang: str, minimum: int) -> float:
    """For how many seconds at most the gang had some of the nodes that it needs and not all."""
    on_nodes: set[str] = set()
    since, longest, last = None, 0.0, 0.0
    for seen in scene.ledger.of(kinds.PODS):
        pod, last = seen.object, seen.at
        if pod["metadata"].get("labels", {}).get(labels.POD_GANG) != gang or holds_a_place(pod):
            continue
        leaving = seen.type == "DELETED" or pod["metadata"].get("deletionTimestamp")
        placed = pod["spec"].get("nodeName") and not leaving
        (on_nodes.add if placed else on_nodes.discard)(pod["metadata"]["uid"])
        if 0 < len(on_nodes) < minimum:
            since = seen.at if since is None else since
            longest = max(longest, seen.at - since)
        else:
            since = None
    return max(longest, last - since) if since is not None else longest


def slow(name: str, replicas: int) -> Manifest:
    """A role whose pods take three seconds to end: the simulated kubelets are told by an annotation."""
    return {**role(name, replicas), "annotations": {"embedded.grove.io/shutdown": "3s"}}


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
    assert longest_partial(scene, GANG, 5) < PARTIAL_SECONDS


async def applied_again_at_once(act: Act) -> None:
    scene = act.scene
    await scene.nodes(3)
    await scene.apply(train(slow("worker", 3)))
    await scene.until_running(GANG, 3)
    former = _uids(scene)
    await scene.delete(kinds.CLIQUESETS, "train")
    await scene.apply(train(slow("worker", 3)))
    # The watch is behind: the former pods run in its eyes when the set is applied again.
    await scene.until(
        lambda: not former & _uids(scene) and scene.running(GANG, 3), "the set runs again", seconds=40
    )


async def rescaled_in_a_hurry(act: Act) -> None:
    scene = act.scene
    await scene.nodes(4)
    await scene.apply(train(role("worker", 1), replicas=1))
    for replicas in (0, 4, 1, 3, 0, 2):
        await scene.scale(kinds.CLIQUESETS, "train", replicas)
    await scene.until(
        lambda: scene.running(GANG, 1) and scene.running("train-1", 1) and len(scene.pods()) == 2,
        "two replicas run",
        seconds=40,
    )


async def restarted_with_half_of_the_nodes(act: Act) -> None:
    scene = act.scene
    await scene.nodes(4)
    await scene.apply(train(slow("worker", 4)))
    await scene.until_running(GANG, 4)
    await _cordon(scene, "node-0", "node-1")
    former = {pod["metadata"]["uid"] for pod in scene.pods(GANG)}
    for pod in scene.pods(GANG):
        await scene.delete(kinds.PODS, pod["metadata"]["name"])
    await scene.until(lambda: not former & _uids(scene), "the former pods are gone", seconds=40)
    # Not every scheduler is silent while it tries again.
    await scene.ledger.holds(lambda: scene.bound(GANG) == 0, 5.0, scene.describe)
    await _cordon(scene, "node-0", "node-1", cordoned=False)
    await scene.until(lambda: scene.running(GANG, 4), "the gang runs again", seconds=40)


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


async def ten_gangs_for_the_room_of_six(act: Act) -> None:
    scene = act.scene
    await scene.nodes(12)
    gangs = [f"train-{number}" for number in range(10)]
    await scene.apply(train(role("worker", 2), replicas=len(gangs)))

    def six_whole() -> bool:
        return sorted(scene.bound(gang) for gang in gangs) == [0] * 4 + [2] * 6

    await scene.until(six_whole, "six gangs are placed whole", seconds=150)
    await scene.ledger.holds(six_whole, 5.0, scene.describe)


async def deleted_and_applied_in_a_row(act: Act) -> None:
    scene = act.scene
    await scene.nodes(3)
    # Pods that end at once and pods that take three seconds, deleted before, while and after they are made.
    for pods, made in ((0, role), (1, slow), (2, role), (3, slow), (3, role), (1, slow)):
        await scene.apply(train(made("worker", 3)))
        await scene.until(functools.partial(_exist, scene, pods), "some pods exist")
        await scene.delete(kinds.CLIQUESETS, "train")
    former = _uids(scene)
    await scene.apply(train(role("worker", 3)))
    await scene.until(
        lambda: not former & _uids(scene) and scene.running(GANG, 3), "the last one runs", seconds=60
    )
    assert len(scene.pods()) == 3


async def an_urgent_gang_takes_the_place_of_another(act: Act) -> None:
    scene = act.scene
    await scene.nodes(4)
    await scene.apply(train(slow("worker", 4), name="batch"))
    await scene.until_running("batch-0", 4)
    name = f"{scene.namespace}-urgent"
    priority: Manifest = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000}
    await scene.apply(
        {**priority, "metadata": {"name": name}},
        train(role("worker", 2), name="urgent", priorityClassName=name),
    )
    await scene.until(lambda: scene.running("urgent-0", 2), "the urgent gang runs", seconds=90)
    # One that was whole and lost single pods keeps the others until gangs are recycled.
    left = 0 if scene.judge.name in WHOLE else 2
    await scene.until(lambda: scene.bound("batch-0") == left, "the other one made room", seconds=60)
    await scene.ledger.holds(lambda: scene.bound("batch-0") == left, 5.0, scene.describe)
    await scene.delete(kinds.CLIQUESETS, "urgent")
    await scene.until(lambda: scene.running("batch-0", 4), "the other one runs again", seconds=120)


async def _cordon(scene: Scene, *names: str, cordoned: bool = True) -> None:
    for name in names:
        await scene.user.merge_patch(NODES, Key("", name), {"spec": {"unschedulable": cordoned}})


def _uids(scene: Scene) -> set[str]:
    return {pod["metadata"]["uid"] for pod in scene.ledger.all(kinds.PODS) if not holds_a_place(pod)}


def _exist(scene: Scene, pods: int) -> bool:
    return len(scene.pods()) >= pods


def _all_bound(scene: Scene) -> bool:
    return scene.bound(GANG) == len(scene.pods(GANG)) >= 2


STORIES = {
    "room-for-the-minimum": exactly_the_minimum,
    "applied-again": applied_again_at_once,
    "rescaled": rescaled_in_a_hurry,
    "half-the-nodes": restarted_with_half_of_the_nodes,
    "raised": raised_without_a_written_minimum,
    "ten-for-six": ten_gangs_for_the_room_of_six,
    "in-a-row": deleted_and_applied_in_a_row,
}
#: Those that preempt as they are installed here; Volcano and YuniKorn must be told to.
PREEMPTING = ("kai", "koordinator")
#: Those that preempt whole gangs; the others preempt pod by pod.
WHOLE = ("1.36", "1.37", "kai")


@pytest.mark.parametrize("name", STORIES)
def test_a_gang_is_whole_in_the_end(plane: Plane, name: str) -> None:
    plane.play(name, STORIES[name])


@pytest.mark.parametrize("name", STORIES)
def test_a_gang_is_whole_in_the_end_with_the_scheduler_of_others(other_plane: Plane, name: str) -> None:
    other_plane.play(name, STORIES[name])


def test_a_preempted_gang_makes_room_and_comes_back_whole(plane: Plane) -> None:
    plane.play("urgent", an_urgent_gang_takes_the_place_of_another)


def test_a_preempted_gang_makes_room_and_comes_back_whole_with_the_scheduler_of_others(
    other_plane: Plane,
) -> None:
    if other_plane.judge.name not in PREEMPTING:
        pytest.skip(f"{other_plane.judge.title} preempts only where it is configured to")
    other_plane.play("urgent", an_urgent_gang_takes_the_place_of_another)
