"""Gangs in a crowd, in a hurry and in trouble: on every scheduler they run whole or hold nothing."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from tests.scenarios.disturbing import SHUTDOWN, cordon, until_right
from tests.scenarios.disturbing import Scene as DisturbedScene
from tests.scenarios.judging import Expected, is_leaving
from tests.scenarios.sampling import Sampler, watched_faults
from tests.scenarios.stories import (
    STAGES,
    Stage,
    condition_of,
    gates_of,
    gpu_role,
    key,
    pass_time,
    uid_of,
    until_running,
)

from grove.api import kinds, labels
from grove.embedded.faults import Fault
from grove.meta import Manifest
from grove.testing.virtual_time import virtual_loop
from grove.testing.world import NODES, World, run_world

BACKENDS = {
    name: STAGES[name] for name in ("1.35", "1.36", "1.37", "kai", "koordinator", "volcano", "yunikorn")
}
FIVE = {name: BACKENDS[name] for name in ("1.36", "kai", "koordinator", "volcano", "yunikorn")}
on_all = pytest.mark.parametrize("stage", BACKENDS.values(), ids=BACKENDS)
#: And 1.35, which holds places for parts of several gangs at once.
CROWDED = {name: BACKENDS[name] for name in ("1.35", *FIVE)}
on_crowded = pytest.mark.parametrize("stage", CROWDED.values(), ids=CROWDED)
on_five = pytest.mark.parametrize("stage", FIVE.values(), ids=FIVE)

Milestones = Callable[[World], Awaitable[None]]


def run(story: Milestones, stage: Stage, *, nodes: int, gpus: int = 8, seed: int = 0) -> None:
    wrong = ""
    try:
        run_world(story, replace(stage.options, nodes=nodes, gpus=gpus, seed=seed))
    except AssertionError as error:
        wrong = str(error)
    if wrong:
        where = f"scheduler {stage.scheduler_name}, Kubernetes {stage.options.kubernetes}"
        pytest.fail(f"{where}: {wrong}", pytrace=False)


def gang_of(stage: Stage, name: str, pods: int, gpus: int, *, stop: float = 0, **fields: object) -> Manifest:
    """A set of one gang with one role, all of whose pods are needed."""
    marks = {"annotations": {SHUTDOWN: f"{stop:g}s"}} if stop else {}
    return stage.cliqueset(
        name, cliques=[gpu_role("worker", pods, gpus, minAvailable=pods, **marks)], **fields
    )


async def held(world: World, *, reserved: bool = True) -> dict[str, int]:
    """How many pods of each gang are on nodes, with those that only hold places for them unless told otherwise."""
    found: dict[str, int] = {}
    for pod in await (world.all(kinds.PODS) if reserved else world.pods()):
        if pod["spec"].get("nodeName") and not is_leaving(pod):
            gang = (pod["metadata"].get("labels") or {}).get(labels.POD_GANG) or owner_gang(pod)
            found[gang] = found.get(gang, 0) + 1
    return found


def owner_gang(pod: Manifest) -> str:
    """Which gang a placeholder belongs to, as far as its name tells."""
    return "-".join(str(pod["metadata"]["name"]).removeprefix("tg-").split("-")[:2])


async def until_held(
    world: World, wanted: Callable[[dict[str, int]], bool], what: str, seconds: float
) -> None:
    """Let time pass until the gangs hold what they should; fail with what each of them holds."""
    loop = virtual_loop()
    deadline = loop.time() + seconds
    while not wanted(now := await held(world)):
        if loop.time() >= deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}; placed pods by gang: {now}")
        await asyncio.sleep(1)


# Room for exactly the minimum ---------------------------------------------------------------------


@pytest.mark.parametrize("later", [False, True], ids=["room from the start", "room that is made later"])
@on_all
def test_roles_of_different_sizes_run_where_there_is_room_for_exactly_the_minimum(
    stage: Stage, later: bool
) -> None:
    async def story(world: World) -> None:
        roles = [
            gpu_role("router", 1, 0, minAvailable=1),
            gpu_role("prefill", 3, 2, minAvailable=2),
            gpu_role("decode", 2, 4, minAvailable=2),
        ]
        async with Sampler(world) as sampler:
            if later:
                # Two GPUs are left: one prefill would fit, the gang does not.
                await world.user.create(kinds.PODS, FILLER)
                await pass_time(5)
            await world.apply(stage.cliqueset(cliques=roles))
            if later:
                await pass_time(15)
                await world.user.delete(kinds.PODS, key("filler"))
            await until_running(world, "train-0")
            await pass_time(30)
            assert await held(world) == {"train-0": 5}
            await world.add_node("more", 2)
            await until_held(world, lambda now: now == {"train-0": 6}, "the third prefill follows", 60)
            minima = {"router": 1, "prefill": 2, "decode": 2}
            assert watched_faults(sampler.record(), minima, end=virtual_loop().time()) == []

    run(story, stage, nodes=1, gpus=12)


FILLER: Manifest = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "filler", "namespace": "default"},
    "spec": {
        "containers": [{"name": "main", "image": "a", "resources": {"limits": {"nvidia.com/gpu": "10"}}}]
    },
}


# A crowd ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
@on_crowded
def test_of_ten_gangs_in_the_room_of_six_six_run_whole_and_the_others_hold_nothing(
    stage: Stage, seed: int
) -> None:
    chance = random.Random(seed)
    names = [f"g{index}" for index in range(10)]
    chance.shuffle(names)

    async def story(world: World) -> None:
        for name in names:
            await world.apply(gang_of(stage, name, 4, 2))
            await pass_time(chance.choice((0.0, 0.01, 0.2, 1.0)))
        whole = [4] * 6
        await until_held(world, lambda now: sorted(now.values()) == whole, "six gangs of ten are whole", 300)
        await pass_time(30)
        now = await held(world)
        assert sorted(now.values()) == whole
        for gang in now:
            assert await world.phase(gang) == "Running"
        for gang in sorted(now)[:4]:
            await world.user.delete(kinds.CLIQUESETS, key(gang.removesuffix("-0")))
        rest = {f"{name}-0": 4 for name in names if f"{name}-0" not in sorted(now)[:4]}
        await until_held(world, lambda now: now == rest, "the other four follow when room is made", 300)

    run(story, stage, nodes=6, seed=seed)


@pytest.mark.parametrize(("pods", "gpus", "nodes"), [(4, 2, 6), (2, 8, 12), (3, 8, 18)])
@on_crowded
def test_ten_replicas_that_come_at_once_in_the_room_of_six_do_not_keep_it_from_one_another(
    stage: Stage, pods: int, gpus: int, nodes: int
) -> None:
    async def story(world: World) -> None:
        async with Sampler(world) as sampler:
            await world.apply(gang_of(stage, "g", pods, gpus, replicas=10))
            whole = [pods] * 6
            await until_held(world, lambda now: sorted(now.values()) == whole, "six of ten are whole", 150)
            assert watched_faults(sampler.record(), {"worker": pods}, end=virtual_loop().time()) == []

    run(story, stage, nodes=nodes)


def test_a_gang_that_never_fits_does_not_keep_the_room_of_one_that_does() -> None:
    stage = BACKENDS["1.35"]

    async def story(world: World) -> None:
        # Five pods on four nodes: places for four of them are held, and the other gang would fit.
        await world.apply(gang_of(stage, "large", 5, 8))
        await pass_time(5)
        await world.apply(gang_of(stage, "small", 3, 8))
        await until_held(world, lambda now: now == {"small-0": 3}, "the gang that fits is placed", 200)

    run(story, stage, nodes=4)


# A hurry ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [0.0, 2.0, 8.0], ids=["stop at once", "stop in 2 s", "stop in 8 s"])
@on_all
def test_a_name_deleted_and_applied_thirty_times_ends_with_one_whole_gang(stage: Stage, stop: float) -> None:
    async def story(world: World) -> None:
        manifest = gang_of(stage, "train", 4, 4, stop=stop)
        async with Sampler(world) as sampler:
            await world.apply(manifest)
            for _ in range(30):
                await pass_time(world.rng.choice((0.0, 0.05, 0.3, 1.0, 3.0)))
                await world.user.delete(kinds.CLIQUESETS, key("train"), propagation="Background")
                await pass_time(world.rng.choice((0.0, 0.0, 0.05, 1.0)))
                await world.apply(manifest)
            await until_right(
                DisturbedScene(world, stage, manifest, Expected("train", {"worker": 4})), "after all"
            )
            assert watched_faults(sampler.record(), {"worker": 4}, end=virtual_loop().time()) == []

    run(story, stage, nodes=6)


@pytest.mark.parametrize("stop", [0.0, 2.0, 8.0], ids=["stop at once", "stop in 2 s", "stop in 8 s"])
@on_all
def test_replicas_moved_to_and_fro_within_a_second_end_with_the_last_number(
    stage: Stage, stop: float
) -> None:
    async def story(world: World) -> None:
        manifest = gang_of(stage, "train", 2, 4, stop=stop)
        async with Sampler(world) as sampler:
            await world.apply(manifest)
            await until_running(world, "train-0")
            for replicas in (0, 4, 1, 3, 0, 2):
                await world.scale("train", replicas)
                await pass_time(world.rng.uniform(0, 0.3))
            expected = Expected("train", {"worker": 2}, replicas=2)
            await until_right(DisturbedScene(world, stage, manifest, expected), "after all")
            assert watched_faults(sampler.record(), {"worker": 2}, end=virtual_loop().time()) == []

    run(story, stage, nodes=6)


# Trouble ------------------------------------------------------------------------------------------


async def first_pod(world: World, holds: Callable[[Manifest], bool]) -> None:
    """Wait for the first pod like this, as a watch tells it."""
    async for event in world.user.watch(kinds.PODS, type=dict, resource_version="0"):
        if event.type in ("ADDED", "MODIFIED") and holds(event.object):
            return


def is_open(pod: Manifest) -> bool:
    return not gates_of(pod) and labels.POD_CLIQUE in (pod["metadata"].get("labels") or {})


def is_bound(pod: Manifest) -> bool:
    return bool(pod["spec"].get("nodeName"))


MOMENTS = {"at the first pod": lambda _: True, "as gates open": is_open, "at the first binding": is_bound}
on_moments = pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)


async def two_for_the_room_of_one(world: World, stage: Stage) -> None:
    await world.apply(gang_of(stage, "one", 4, 8), gang_of(stage, "two", 4, 8))


async def one_whole_and_one_without(world: World) -> None:
    await until_held(world, lambda now: list(now.values()) == [4], "one of the two gangs is whole", 180)
    await pass_time(30)
    assert list((await held(world)).values()) == [4]


@on_moments
@on_five
def test_an_operator_killed_in_the_middle_leaves_no_part_of_a_gang(
    stage: Stage, moment: Callable[[Manifest], bool]
) -> None:
    async def story(world: World) -> None:
        reached = asyncio.create_task(first_pod(world, moment))
        await two_for_the_room_of_one(world, stage)
        await asyncio.wait_for(reached, 60)
        await world.kill_operator()
        await pass_time(15)
        await world.start_operator()
        await one_whole_and_one_without(world)

    run(story, stage, nodes=4)


@on_five
def test_a_scheduler_killed_between_two_bindings_leaves_no_part_of_a_gang(stage: Stage) -> None:
    async def story(world: World) -> None:
        await two_for_the_room_of_one(world, stage)
        await kill_after_two_bindings(world, stage)
        await pass_time(15)
        world.start_scheduler(stage.backend)
        await one_whole_and_one_without(world)

    run(story, stage, nodes=4)


@on_five
def test_a_half_placed_gang_that_cannot_be_completed_gives_its_room_to_one_that_fits(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(gang_of(stage, "one", 4, 8))
        await kill_after_two_bindings(world, stage)
        taken = {pod["spec"].get("nodeName") for pod in await world.all(kinds.PODS)}
        free = sorted({each["metadata"]["name"] for each in await world.all(NODES)} - taken)
        await cordon(world, free[0], True)
        await world.apply(gang_of(stage, "two", 3, 8))
        await pass_time(15)
        world.start_scheduler(stage.backend)
        await until_held(world, lambda now: now == {"two-0": 3}, "the gang that fits is whole alone", 300)

    run(story, stage, nodes=4)


async def kill_after_two_bindings(world: World, stage: Stage) -> None:
    """The third binding and all that follow are lost with the scheduler."""
    bound: set[str] = set()

    def is_second(pod: Manifest) -> bool:
        if is_bound(pod):
            bound.add(uid_of(pod))
        return len(bound) == 2

    # By their names: YuniKorn binds pods that hold places, too.
    lost = Fault("error", verb="create", resource="pods/binding", name="*-0-worker-?????", skip=2)
    world.cluster.faults.add(lost)
    await asyncio.wait_for(first_pod(world, is_second), 60)
    await world.stop_scheduler(stage.backend)
    world.cluster.faults.clear()


@on_moments
@on_five
def test_a_scheduler_killed_in_the_middle_leaves_no_part_of_a_gang(
    stage: Stage, moment: Callable[[Manifest], bool]
) -> None:
    async def story(world: World) -> None:
        reached = asyncio.create_task(first_pod(world, moment))
        await two_for_the_room_of_one(world, stage)
        await asyncio.wait_for(reached, 60)
        await world.stop_scheduler(stage.backend)
        await pass_time(15)
        world.start_scheduler(stage.backend)
        await one_whole_and_one_without(world)

    run(story, stage, nodes=4)


@pytest.mark.parametrize("stop", [0.0, 3.0], ids=["stop at once", "stop in 3 s"])
@on_all
def test_a_gang_whose_pods_are_all_deleted_while_half_of_the_nodes_are_closed_holds_nothing(
    stage: Stage, stop: float
) -> None:
    async def story(world: World) -> None:
        manifest = gang_of(stage, "train", 4, 8, stop=stop)
        async with Sampler(world) as sampler:
            await world.apply(manifest)
            await until_running(world, "train-0")
            nodes = sorted(each["metadata"]["name"] for each in await world.all(NODES))
            for node in nodes[:2]:
                await cordon(world, node, True)
            for pod in await world.pods():
                await world.user.delete(kinds.PODS, key(pod["metadata"]["name"]))
            await pass_time(60)
            # What YuniKorn reserves for a gang that waits is its way of placing it, and not the gang's pods.
            assert await held(world, reserved=False) == {}, "a part of the gang holds GPUs"
            for node in nodes[:2]:
                await cordon(world, node, False)
            await until_right(
                DisturbedScene(world, stage, manifest, Expected("train", {"worker": 4})), "uncordoned"
            )
            assert watched_faults(sampler.record(), {"worker": 4}, end=virtual_loop().time()) == []

    run(story, stage, nodes=4)


# Urgency ------------------------------------------------------------------------------------------

URGENT: Manifest = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "urgent"},
    "value": 1000,
}
PATIENT: Manifest = {**URGENT, "metadata": {"name": "patient"}, "preemptionPolicy": "Never"}
PREEMPTING = {name: BACKENDS[name] for name in ("1.35", "1.36", "1.37", "kai", "koordinator")}
#: These look for room for the gang as a whole, and let go no more than that takes.
PREEMPTING_WHOLE = {name: BACKENDS[name] for name in ("1.36", "1.37", "kai")}
#: With the configuration that Grove ships, and within one queue, these preempt nobody.
WAITING = {name: BACKENDS[name] for name in ("volcano", "yunikorn")}
#: A gang that is preempted is recreated once, and perhaps once more while its pods go one by one.
MADE = 3


def urgent_gang(stage: Stage, pods: int, *, urgency: str = "urgent") -> Manifest:
    return gang_of(stage, "urgent", pods, 8, template={"priorityClassName": urgency})


def made(sampler: Sampler, gang: str) -> int:
    """How many pods were ever made for a gang."""
    pods = [each.object for each in sampler.record() if each.kind == "Pod"]
    return len({uid_of(pod) for pod in pods if pod["metadata"]["labels"].get(labels.POD_GANG) == gang})


@pytest.mark.parametrize("stop", [0.0, 3.0], ids=["stop at once", "stop in 3 s"])
@pytest.mark.parametrize("stage", PREEMPTING.values(), ids=PREEMPTING)
def test_an_urgent_gang_takes_the_place_of_another_which_steps_back_and_comes_back_whole(
    stage: Stage, stop: float
) -> None:
    async def story(world: World) -> None:
        async with Sampler(world) as sampler:
            await world.apply(URGENT, gang_of(stage, "calm", 4, 8, stop=stop))
            await until_running(world, "calm-0")
            await world.apply(urgent_gang(stage, 4))
            await until_held(world, lambda now: now == {"urgent-0": 4}, "the urgent gang is whole alone", 60)
            await pass_time(90)
            assert await held(world) == {"urgent-0": 4}
            assert await world.phase("urgent-0") == "Running"
            assert await world.phase("calm-0") == "Pending"
            await world.user.delete(kinds.CLIQUESETS, key("urgent"))
            await until_held(world, lambda now: now == {"calm-0": 4}, "the calm gang comes back", 90)
            await until_running(world, "calm-0")
            assert made(sampler, "calm-0") <= MADE * 4
            assert made(sampler, "urgent-0") == 4
            assert watched_faults(sampler.record(), {"worker": 4}, end=virtual_loop().time()) == []

    run(story, stage, nodes=4)


@pytest.mark.parametrize("stage", PREEMPTING.values(), ids=PREEMPTING)
def test_preempted_pods_say_so_before_they_are_deleted(stage: Stage) -> None:
    async def story(world: World) -> None:
        async with Sampler(world) as sampler:
            await world.apply(URGENT, gang_of(stage, "calm", 4, 8, stop=3))
            await until_running(world, "calm-0")
            first = {uid_of(pod) for pod in await world.pods()}
            await world.apply(urgent_gang(stage, 4))
            await until_held(world, lambda now: now == {"urgent-0": 4}, "the urgent gang is whole alone", 60)
            marked: dict[str, str] = {}
            for each in sampler.record():
                if each.kind == "Pod" and uid_of(each.object) in first and is_leaving(each.object):
                    reason = condition_of(each.object, "DisruptionTarget").get("reason", "none")
                    marked.setdefault(uid_of(each.object), reason)
            assert list(marked.values()) == ["PreemptionByScheduler"] * 4

    run(story, stage, nodes=4)


@pytest.mark.parametrize("stage", WAITING.values(), ids=WAITING)
def test_an_urgent_gang_waits_and_says_why_where_its_scheduler_does_not_preempt(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(URGENT, gang_of(stage, "calm", 4, 8))
        await until_running(world, "calm-0")
        await world.apply(urgent_gang(stage, 4))
        await waits_beside(world, {"calm-0": 4})
        await world.user.delete(kinds.CLIQUESETS, key("calm"))
        await until_held(world, lambda now: now == {"urgent-0": 4}, "the urgent gang follows", 60)

    run(story, stage, nodes=4)


@pytest.mark.parametrize("stage", PREEMPTING.values(), ids=PREEMPTING)
def test_a_gang_whose_priority_never_preempts_waits_and_says_why(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(PATIENT, gang_of(stage, "calm", 4, 8))
        await until_running(world, "calm-0")
        await world.apply(urgent_gang(stage, 4, urgency="patient"))
        await waits_beside(world, {"calm-0": 4})

    run(story, stage, nodes=4)


@pytest.mark.parametrize("stage", PREEMPTING_WHOLE.values(), ids=PREEMPTING_WHOLE)
def test_an_urgent_gang_that_would_not_fit_anyway_evicts_nobody(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(URGENT, gang_of(stage, "calm", 4, 8))
        await until_running(world, "calm-0")
        await world.apply(urgent_gang(stage, 5))
        await waits_beside(world, {"calm-0": 4})

    run(story, stage, nodes=4)


@pytest.mark.parametrize("stage", PREEMPTING_WHOLE.values(), ids=PREEMPTING_WHOLE)
def test_an_urgent_gang_evicts_one_whole_gang_and_leaves_the_other_alone(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(URGENT, gang_of(stage, "older", 2, 8))
        await until_running(world, "older-0")
        await pass_time(5)
        await world.apply(gang_of(stage, "younger", 2, 8))
        await until_running(world, "younger-0")
        await world.apply(urgent_gang(stage, 1))
        kept = {"older-0": 2, "urgent-0": 1}
        await until_held(world, lambda now: now == kept, "the younger gang made room as a whole", 60)
        await pass_time(90)
        assert await held(world) == kept
        await world.add_node("more", 8)
        whole = {**kept, "younger-0": 2}
        await until_held(world, lambda now: now == whole, "the younger gang comes back", 90)

    run(story, stage, nodes=4)


async def waits_beside(world: World, others: dict[str, int]) -> None:
    """The urgent gang has nothing, says why, and nobody goes for it."""
    await pass_time(60)
    assert await held(world, reserved=False) == others
    assert await world.phase("urgent-0") == "Pending"
    scheduled = await world.condition("urgent-0", "Scheduled")
    assert (scheduled["status"], scheduled["reason"]) == ("False", "Unschedulable")
    assert "gpu" in scheduled["message"].lower(), scheduled
