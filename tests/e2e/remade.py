"""Scheduler objects that somebody deletes under a gang, and what the gang does afterwards: as if they had stayed."""

from __future__ import annotations

from collections import Counter

from tests.e2e.scene import NODES, Scene, condition_of, role, train

from grove.api import kinds
from grove.meta import Key

Outcome = dict[str, str]


async def objects_deleted_while_a_gang_waits_do_not_keep_it_from_running(scene: Scene) -> Outcome:
    """The scheduler may forget with an object which pods belong to it; a node more must release them all."""
    if not scene.judge.objects:
        return {"objects": "none"}
    await scene.nodes(2)
    await scene.apply(train(role("worker", 2), role("leader", 1)))
    await scene.until_waiting("train-0")
    await delete_objects(scene)
    assert scene.bound() == 0
    await scene.node("more")
    await scene.until_running("train-0", 3)
    return {"after a node more": f"{scene.bound('train-0')} of 3"}


async def a_pod_lost_after_the_objects_were_deleted_is_replaced(scene: Scene) -> Outcome:
    """The gang runs on; whoever comes into it later must still be taken for one of it."""
    if not scene.judge.objects:
        return {"objects": "none"}
    await scene.nodes(3)
    await scene.apply(train())
    await scene.until_running("train-0", 3)
    await delete_objects(scene)
    assert scene.bound("train-0") == 3
    lost = scene.pods("train-0")[0]["metadata"]
    await scene.delete(kinds.PODS, lost["name"])
    await scene.until(
        lambda: lost["uid"] not in {pod["metadata"]["uid"] for pod in scene.ledger.all(kinds.PODS)},
        "the pod is gone",
    )
    await scene.until_running("train-0", 3)
    return {"after a pod was lost": f"{scene.bound('train-0')} of 3"}


async def objects_deleted_while_a_replacement_waits_do_not_keep_it_from_its_node(scene: Scene) -> Outcome:
    """A pod that comes into a running gang and finds no room: the scheduler may forget it, and the gang with it."""
    if not scene.judge.objects:
        return {"objects": "none"}
    await scene.nodes(3)
    # One role: of several, one object may be back before the next is deleted, and remembers for all.
    await scene.apply(train())
    await scene.until_running("train-0", 3)
    lost = scene.pods("train-0")[0]
    await _cordon(scene, lost["spec"]["nodeName"])
    await scene.delete(kinds.PODS, lost["metadata"]["name"])
    await scene.until(lambda: _waits_for_room(scene), "the replacement finds no room")
    await delete_objects(scene)
    assert scene.bound("train-0") == 2
    await scene.node("more")
    await scene.until_running("train-0", 3)
    return {"after a node more": f"{scene.bound('train-0')} of 3"}


async def _cordon(scene: Scene, name: str) -> None:
    await scene.user.merge_patch(NODES, Key("", name), {"spec": {"unschedulable": True}})


def _waits_for_room(scene: Scene) -> bool:
    waiting = [pod for pod in scene.pods("train-0") if not pod["spec"].get("nodeName")]
    said = [condition_of(pod, "PodScheduled").get("reason") for pod in waiting]
    return scene.bound("train-0") == 2 and said == ["Unschedulable"]


async def delete_objects(scene: Scene) -> None:
    """Delete every scheduler object, and wait until others stand in their place and nothing moves."""
    await scene.ledger.quiet(0.5)
    before = _present(scene)
    for of, item in scene.objects():
        await scene.delete(of, item["metadata"]["name"])
        if item["metadata"].get("finalizers"):
            # A PodGroup is protected while pods use it; whoever insists takes its finalizer off.
            await scene.edit(of, item["metadata"]["name"], {"metadata": {"finalizers": None}})

    def back() -> bool:
        found = _present(scene)
        return Counter(key for key, _ in found) == Counter(key for key, _ in before) and not found & before

    await scene.until(back, "every scheduler object is back")
    await scene.ledger.quiet(0.5)


def _present(scene: Scene) -> set[tuple[tuple[object, str], str]]:
    """The scheduler objects: what each is of which gang or role, and its UID.

    A gang that waits may be restarted under other names; each name ends in the revision of its start.
    """
    return {
        ((of, item["metadata"]["name"].rpartition("-")[0]), item["metadata"]["uid"])
        for of, item in scene.objects()
    }
