"""Crowds, haste and trouble on real schedulers: gangs run whole or hold no node, and none is wedged.

Every story is judged by what the watch told: a part of a gang that is placed for more than ten seconds fails
it. `make e2e` plays each in a few variants, for the time of CI; `make e2e STORIES=full` plays all of them.
"""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Awaitable, Callable

import pytest
from tests.e2e.conftest import Plane
from tests.e2e.laws import assert_no_part_was_placed_for_long
from tests.e2e.plane import Act
from tests.e2e.scene import NODES, Scene, gates_of, holds_a_place, role, slow, train

from grove.api import kinds
from grove.meta import Key, Manifest, Object
from grove.real.third_party import third_party
from grove.real.versions import SCHEDULER

pytestmark = pytest.mark.real

FULL = os.environ.get("GROVE_E2E_STORIES", "") == "full"
CROWDS = 10 if FULL else 1
RECREATIONS = 30 if FULL else 6
#: How many seconds pods take to end.
STOPS = (0, 2, 8) if FULL else (2,)

GANG = "train-0"
Story = Callable[[Act], Awaitable[None]]


async def ten_gangs_for_the_room_of_six(act: Act, seed: int) -> None:
    scene, chance = act.scene, random.Random(seed)
    await scene.nodes(6)
    names = [f"g{number}" for number in range(10)]
    chance.shuffle(names)
    for name in names:
        await scene.apply(train(role("worker", 4, gpus=2), name=name))
        # Some come together, some while others are being made or placed.
        await _more_is_seen(scene, chance.choice((0, 0, 3, 12)))

    def placed() -> dict[str, int]:
        return {name: scene.bound(f"{name}-0") for name in names}

    def six_whole() -> bool:
        return sorted(placed().values()) == [0] * 4 + [4] * 6

    await scene.until(six_whole, "six gangs are placed whole", seconds=150)
    await scene.ledger.holds(six_whole, 5.0, scene.describe)
    for name in [name for name, pods in placed().items() if pods][:4]:
        await scene.delete(kinds.CLIQUESETS, name)
        names.remove(name)
    await scene.until(
        lambda: all(scene.running(f"{name}-0", 4) for name in names),
        "the others follow when room is made",
        seconds=150,
    )
    assert_no_part_was_placed_for_long(scene, {f"g{number}-0": 4 for number in range(10)})


async def deleted_and_applied_in_a_row(act: Act, stop: int) -> None:
    scene, chance = act.scene, random.Random(stop)
    await scene.nodes(3)
    manifest = train(slow("worker", 3, stop))
    stages = (_anything, _exists, _opens, _is_bound, functools.partial(_runs, scene))
    for _ in range(RECREATIONS):
        begun = len(scene.ledger.history)
        await scene.apply(manifest)
        await _some_pod(scene, chance.choice(stages), since=begun)
        await scene.delete(kinds.CLIQUESETS, "train")
        if chance.random() < 0.5:
            await scene.until(lambda: not scene.pods(), "the pods are leaving", seconds=60)
    former = _uids(scene)
    await scene.apply(manifest)
    # The watch is behind: the former pods run in its eyes when the set is applied again.
    await scene.until(
        lambda: not former & _uids(scene) and scene.running(GANG, 3), "the last one runs", seconds=60
    )
    assert len(scene.pods()) == 3
    assert_no_part_was_placed_for_long(scene, {GANG: 3})


async def rescaled_in_a_hurry(act: Act, stop: int) -> None:
    scene = act.scene
    await scene.nodes(4)
    await scene.apply(train(slow("worker", 2, stop), replicas=1))
    await scene.until_running(GANG, 2)
    for replicas in (0, 4, 1, 3, 0, 2):
        await scene.scale(kinds.CLIQUESETS, "train", replicas)
    last = await scene.user.get(kinds.CLIQUESETS, Key(scene.namespace, "train"), type=Object)

    # A busy operator need not see every number, so that pods of before may be those of the end.
    def two_run() -> bool:
        told = scene.ledger.get(kinds.CLIQUESETS, "train") or {}
        gangs = [item["metadata"]["name"] for item in scene.ledger.all(kinds.GANGS)]
        return (
            sorted(gangs) == [GANG, "train-1"]
            and all(scene.running(gang, 2) for gang in gangs)
            and told.get("status", {}).get("observedGeneration") == last.metadata.generation
            and len(scene.pods()) == 4
        )

    await scene.until(two_run, "two replicas run", seconds=90)
    await scene.ledger.holds(two_run, 3.0, scene.describe)
    assert_no_part_was_placed_for_long(scene, {f"train-{number}": 2 for number in range(4)})


async def restarted_with_half_of_the_nodes(act: Act) -> None:
    scene = act.scene
    await scene.nodes(4)
    await scene.apply(train(slow("worker", 4, 3)))
    await scene.until_running(GANG, 4)
    await _cordon(scene, "node-0", "node-1")
    former = {pod["metadata"]["uid"] for pod in scene.pods(GANG)}
    for pod in scene.pods(GANG):
        await scene.delete(kinds.PODS, pod["metadata"]["name"])
    await scene.until(lambda: not former & _uids(scene), "the former pods are gone", seconds=40)
    # Not every scheduler is silent while it tries again.
    await scene.ledger.holds(lambda: scene.bound(GANG) == 0, 15.0 if FULL else 5.0, scene.describe)
    await _cordon(scene, "node-0", "node-1", cordoned=False)
    await scene.until(lambda: scene.running(GANG, 4), "the gang runs again", seconds=60)
    assert_no_part_was_placed_for_long(scene, {GANG: 4})


async def killed_in_the_middle(act: Act, kill: Story, moment: Callable[[Manifest], bool]) -> None:
    """Two gangs for the room of one; whoever is killed is followed by another at once."""
    scene = act.scene
    await scene.nodes(4)
    await scene.apply(train(role("worker", 4), name="one"), train(role("worker", 4), name="two"))
    await _some_pod(scene, moment)
    await kill(act)

    def one_whole() -> bool:
        return sorted(scene.bound(f"{name}-0") for name in ("one", "two")) == [0, 4]

    await scene.until(one_whole, "one gang is whole and the other holds nothing", seconds=120)
    await scene.ledger.holds(one_whole, 5.0, scene.describe)
    assert_no_part_was_placed_for_long(scene, {"one-0": 4, "two-0": 4})


async def the_operator(act: Act) -> None:
    await act.kill_operator()
    await act.start_operator()


async def the_scheduler(act: Act) -> None:
    other = act.world.judge.third_party
    programs = [tool.name for tool in third_party(other).programs] if other else [SCHEDULER]
    for name in programs:
        await act.world.control.kill(name)
    for name in programs:
        await act.world.control.restart(name)


async def an_urgent_gang_takes_the_place_of_another(act: Act) -> None:
    scene = act.scene
    await scene.nodes(4)
    await scene.apply(train(slow("worker", 4, 3), name="batch"))
    await scene.until_running("batch-0", 4)
    name = f"{scene.namespace}-urgent"
    priority: Manifest = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000}
    await scene.apply(
        {**priority, "metadata": {"name": name}},
        train(role("worker", 2), name="urgent", priorityClassName=name),
    )
    await scene.until(lambda: scene.running("urgent-0", 2), "the urgent gang runs", seconds=90)
    # One that was whole and lost single pods keeps the others until gangs are recycled.
    whole = scene.judge.name in WHOLE
    left = 0 if whole else 2
    await scene.until(lambda: scene.bound("batch-0") == left, "the other one made room", seconds=60)
    await scene.ledger.holds(lambda: scene.bound("batch-0") == left, 5.0, scene.describe)
    await scene.delete(kinds.CLIQUESETS, "urgent")
    await scene.until(lambda: scene.running("batch-0", 4), "the other one runs again", seconds=120)
    assert_no_part_was_placed_for_long(scene, {"urgent-0": 2, **({"batch-0": 4} if whole else {})})


# What the stories wait for


async def _more_is_seen(scene: Scene, changes: int) -> None:
    wanted = len(scene.ledger.history) + changes
    await scene.until(lambda: len(scene.ledger.history) >= wanted, f"{changes} changes more were seen")


async def _some_pod(scene: Scene, holds: Callable[[Manifest], bool], *, since: int = 0) -> None:
    """Wait until a pod is as wanted; of those that were seen before `since` none counts."""
    if holds is _anything:
        return
    former = {seen.object["metadata"]["uid"] for seen in scene.ledger.history[:since]}
    await scene.until(
        lambda: any(holds(pod) for pod in scene.pods() if pod["metadata"]["uid"] not in former),
        f"a pod {holds}",
        seconds=60,
    )


def _anything(_: Manifest) -> bool:
    return True


def _exists(pod: Manifest) -> bool:
    return bool(pod)


def _opens(pod: Manifest) -> bool:
    return not gates_of(pod)


def _is_bound(pod: Manifest) -> bool:
    return bool(pod["spec"].get("nodeName"))


def _runs(scene: Scene, pod: Manifest) -> bool:
    return _is_bound(pod) and scene.running(GANG, 3)


async def _cordon(scene: Scene, *names: str, cordoned: bool = True) -> None:
    for name in names:
        await scene.user.merge_patch(NODES, Key("", name), {"spec": {"unschedulable": cordoned}})


def _uids(scene: Scene) -> set[str]:
    return {pod["metadata"]["uid"] for pod in scene.ledger.all(kinds.PODS) if not holds_a_place(pod)}


MOMENTS = {"first-binding": _is_bound}
if FULL:
    MOMENTS |= {"first-pod": _exists, "first-open-gate": _opens}

STORIES: dict[str, Story] = {
    **{
        f"ten-for-six-{seed}": functools.partial(ten_gangs_for_the_room_of_six, seed=seed)
        for seed in range(CROWDS)
    },
    **{f"in-a-row-{stop}s": functools.partial(deleted_and_applied_in_a_row, stop=stop) for stop in STOPS},
    **{f"rescaled-{stop}s": functools.partial(rescaled_in_a_hurry, stop=stop) for stop in STOPS},
    **{
        f"{who.__name__.removeprefix('the_')}-killed-at-{at}": functools.partial(
            killed_in_the_middle, kill=who, moment=moment
        )
        for who in (the_operator, the_scheduler)
        for at, moment in MOMENTS.items()
    },
    "half-the-nodes": restarted_with_half_of_the_nodes,
}
#: Those that preempt as they are installed here; Volcano and YuniKorn must be told to.
PREEMPTING = ("kai", "koordinator")
#: Those that preempt whole gangs; the others preempt pod by pod.
WHOLE = ("1.36", "1.37", "kai")


@pytest.mark.parametrize("name", STORIES)
def test_a_gang_is_whole_or_holds_nothing(plane: Plane, name: str) -> None:
    plane.play(name, STORIES[name])


@pytest.mark.parametrize("name", STORIES)
def test_a_gang_is_whole_or_holds_nothing_with_the_scheduler_of_others(other_plane: Plane, name: str) -> None:
    other_plane.play(name, STORIES[name])


def test_a_preempted_gang_makes_room_and_comes_back_whole(plane: Plane) -> None:
    plane.play("urgent", an_urgent_gang_takes_the_place_of_another)


def test_a_preempted_gang_makes_room_and_comes_back_whole_with_the_scheduler_of_others(
    other_plane: Plane,
) -> None:
    if other_plane.judge.name not in PREEMPTING:
        pytest.skip(f"{other_plane.judge.title} preempts only where it is configured to")
    other_plane.play("urgent", an_urgent_gang_takes_the_place_of_another)
