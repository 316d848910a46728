"""Replicas that an update adds, where there is less room than they and the others need together."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from grove.api import kinds, labels
from grove.embedded.actors.kubelet import KubeletOptions
from grove.meta import Key, Manifest
from grove.testing import make
from grove.testing.world import World, WorldOptions, run_world

#: Two pods of half a node each: a replica takes as much as a node has.
PODS = 2


def training(image: str, replicas: int, **limits: object) -> Manifest:
    resources = {"limits": {"nvidia.com/gpu": "4"}}
    pod = {"containers": [{"name": "main", "image": image, "resources": resources}]}
    role = make.template("a", PODS, pod=pod)
    role["annotations"] = {"embedded.grove.io/startup": "2s"}
    strategy = {"type": "RollingRecreate", "rollingRecreate": limits}
    return make.cliqueset_manifest("m", [role], replicas=replicas, strategy=strategy)


def play(story: Callable[[World], Awaitable[None]], nodes: int, seed: int = 0) -> None:
    kubelet = KubeletOptions(startup_jitter=2.0 if seed else 0.0, seed=seed)
    run_world(story, WorldOptions(seed=seed, nodes=nodes, kubelet=kubelet))


async def status_of(world: World) -> Manifest:
    found = await world.get(kinds.CLIQUESETS, "m")
    assert found is not None
    status: Manifest = found.get("status") or {}
    return status


async def progress_of(world: World) -> Manifest:
    return (await status_of(world)).get("updateProgress") or {}


async def told(world: World) -> str:
    said = {each["type"]: each["message"] for each in (await status_of(world))["conditions"]}
    return str(said.get("UpdateInProgress", ""))


async def whole(world: World) -> set[int]:
    """The replicas of which every pod serves, the surplus ones too."""
    ready: Counter[int] = Counter()
    for pod in await world.all(kinds.PODS, labels.PART_OF):
        if "deletionTimestamp" not in pod["metadata"]:
            conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", ())}
            ready[int(pod["metadata"]["labels"][labels.SET_REPLICA_INDEX])] += (
                conditions.get("Ready") == "True"
            )
    return {replica for replica, number in ready.items() if number >= PODS}


async def images(world: World) -> set[str]:
    pods = await world.all(kinds.PODS, labels.PART_OF)
    return {pod["spec"]["containers"][0]["image"] for pod in pods}


async def replicas_of(world: World) -> set[int]:
    return {int(each["metadata"]["name"].rpartition("-")[2]) for each in await world.all(kinds.GANGS)}


async def started(world: World, replicas: int, **limits: object) -> None:
    await world.apply(training("one", replicas, **limits))

    async def up() -> bool:
        return len(await whole(world)) == replicas

    await world.until(up, "every replica serves")
    await world.settle()
    await world.apply(training("two", replicas, **limits))


async def to_its_end(world: World, replicas: int, least: int) -> None:
    """The update ends, so many replicas serve at any time, and none that was given up comes again."""
    gone, before = set[int](), set[int]()
    for _ in range(1200):
        there = await replicas_of(world)
        gone |= before - there
        assert not gone & there, f"replicas were made again: {gone & there}"
        assert len(await whole(world)) >= least, await told(world)
        before = there
        if (await progress_of(world)).get("updateEndedAt") and there == set(range(replicas)):
            break
        await asyncio.sleep(0.1)
    assert await replicas_of(world) == set(range(replicas)), await told(world)
    assert await images(world) == {"two"}
    assert await whole(world) == set(range(replicas))
    assert "surplusReplicas" not in await progress_of(world)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("nodes", [5, 6, 7])
def test_an_update_whose_surplus_finds_less_room_than_it_may_take_ends(nodes: int, seed: int) -> None:
    """What they took of the room of others they gave back: two replicas waited for one pod each, for ever."""

    async def story(world: World) -> None:
        await started(world, 4, maxUnavailable=0, maxSurge="100%")
        await to_its_end(world, 4, least=4)

    play(story, nodes, seed)


def test_so_it_ends_where_replicas_may_be_down_and_there_is_no_room_at_all() -> None:
    async def story(world: World) -> None:
        await started(world, 4, maxUnavailable=1, maxSurge="100%")
        await to_its_end(world, 4, least=3)

    play(story, nodes=4)


def test_the_next_operator_knows_how_many_were_given_up() -> None:
    async def story(world: World) -> None:
        await started(world, 4, maxUnavailable=0, maxSurge="100%")

        async def some_are_left() -> bool:
            return (await progress_of(world)).get("surplusReplicas") == 2

        await world.until(some_are_left, "two of four surplus replicas are left")
        await world.kill_operator()
        await world.start_operator()
        assert max(await replicas_of(world)) == 5
        await to_its_end(world, 4, least=4)

    play(story, nodes=6)


def test_surplus_that_is_needed_and_holds_room_is_named_and_goes_when_more_may_be_down() -> None:
    """Another tenant takes what the first pod leaves; undoing goes the same way."""

    async def story(world: World) -> None:
        await started(world, 2, maxUnavailable=0, maxSurge=1)

        async def placed() -> bool:
            return await world.phase("m-2") == "Starting"

        await world.until(placed, "the surplus replica has a place")
        resources = {"limits": {"nvidia.com/gpu": "4"}}
        spec = {"containers": [{"name": "main", "image": "tenant", "resources": resources}]}
        tenant = make.object_manifest(kinds.PODS, "tenant", spec)
        await world.user.create(kinds.PODS, tenant)

        async def said() -> bool:
            return (await told(world)).endswith(
                "surplus replica 2 holds room: raise maxUnavailable to free it"
            )

        await world.until(said, "the set names what holds room")
        await asyncio.sleep(60)
        assert await said()
        assert "gang m-0: 1 of 2 pods placed" in await told(world)
        await world.apply(training("one", 2, maxUnavailable=0, maxSurge=1))
        await asyncio.sleep(60)
        assert await said()
        assert len(await whole(world)) == 2
        limits = {"maxUnavailable": 1, "maxSurge": 1}
        patch = {"spec": {"updateStrategy": {"rollingRecreate": limits}}}
        await world.user.merge_patch(kinds.CLIQUESETS, Key("default", "m"), patch)

        async def undone() -> bool:
            return bool((await progress_of(world)).get("updateEndedAt")) and await whole(world) == {0, 1}

        await world.until(undone, "the update is undone")
        await world.settle()
        assert await images(world) == {"one"}
        assert await replicas_of(world) == {0, 1}

    play(story, nodes=3)
