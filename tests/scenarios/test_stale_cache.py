"""What the operator believes may be old: a watch that stands still must not make it do harm."""

import asyncio
from collections import Counter

import pytest
from tests.scenarios.restless import NOT_READY

from grove.api import conditions, kinds
from grove.embedded.actors.kubelet import KubeletOptions
from grove.embedded.faults import Fault
from grove.meta import Key, Resource
from grove.testing import make
from grove.testing.portrait import Guard
from grove.testing.world import OPERATOR, World, WorldOptions, run_world

#: Each is deleted while the operator's watch of it stands still.
STALE: dict[str, tuple[Resource, str]] = {
    "a clique": (kinds.CLIQUES, "train-0-worker"),
    "a gang": (kinds.GANGS, "train-0"),
    "a set": (kinds.CLIQUESETS, "train"),
    "a scaling group": (kinds.SCALING_GROUPS, "train-0-dec"),
}
#: Without its group, whose watch stands still, no clique of the group can come to stay.
GROUP = make.scaling_group("dec", ["worker"], replicas=2, minAvailable=1)


@pytest.mark.parametrize(("resource", "name"), STALE.values(), ids=STALE)
def test_nothing_is_created_again_and_again_for(resource: Resource, name: str) -> None:
    async def story(world: World) -> None:
        world.cluster.faults.add(
            Fault("stall", resource=str(resource), user=OPERATOR.name, events=20, probability=1.0)
        )
        world.cluster.drop_watches()
        groups = [GROUP] if resource == kinds.SCALING_GROUPS else []
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}, groups=groups))
        await world.settle()
        for number in range(20):
            patch = {"metadata": {"annotations": {"touched": str(number)}}}
            await world.user.merge_patch(resource, Key("default", name), patch)
        before = world.writes()
        await world.user.delete(resource, Key("default", name))
        for _ in range(120):
            await asyncio.sleep(0.5)
            assert world.writes() - before < 40

    run_world(story)


def test_the_world_is_right_again_once_the_stalled_watch_is_noticed() -> None:
    async def story(world: World) -> None:
        stall = world.cluster.faults.add(Fault("stall", resource="podcliques.*", user=OPERATOR.name, times=1))
        world.cluster.drop_watches()
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}))

        async def running() -> bool:
            return await world.phase("train-0") == "Running"

        await world.until(running, "the gang runs although a watch stood still", seconds=300)
        assert stall.happened == 1

    run_world(story)


def test_a_scaling_group_that_was_deleted_while_its_watch_stood_still_comes_back_with_its_cliques() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}, groups=[GROUP]))
        await world.settle()
        world.cluster.faults.add(
            Fault("stall", resource="podcliquescalinggroups.*", user=OPERATOR.name, times=1)
        )
        world.cluster.drop_watches()
        await asyncio.sleep(5)
        await world.user.delete(kinds.SCALING_GROUPS, Key("default", "train-0-dec"))
        await world.settle(quiet=150)
        group = await world.get(kinds.SCALING_GROUPS, "train-0-dec") or {}
        owners = {
            each["metadata"]["name"]: each["metadata"]["ownerReferences"][0]["uid"]
            for each in await world.all(kinds.CLIQUES)
        }
        uid = group["metadata"]["uid"]
        assert owners == {"train-0-dec-0-worker": uid, "train-0-dec-1-worker": uid}
        assert [await world.phase(gang) for gang in ("train-0", "train-0-dec-0")] == ["Running", "Running"]

    run_world(story)


def test_no_pod_is_created_beside_one_of_an_earlier_clique_whose_placement_the_cache_does_not_show() -> None:
    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        await world.stop_scheduler("default")
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}))
        await world.settle()
        world.cluster.faults.add(Fault("stall", resource="pods", user=OPERATOR.name, times=1))
        world.cluster.drop_watches()
        await asyncio.sleep(5)
        world.start_scheduler("default")
        await asyncio.sleep(5)
        before = {pod["metadata"]["uid"] for pod in await world.pods() if pod["spec"].get("nodeName")}
        assert len(before) == 2
        await world.user.delete(kinds.CLIQUES, Key("default", "train-0-worker"))
        await world.settle(quiet=150)
        assert guard.broken == []
        after = {pod["metadata"]["uid"] for pod in await world.pods() if pod["spec"].get("nodeName")}
        assert len(after) == 2
        assert not after & before
        assert await world.phase("train-0") == "Running"

    run_world(story, WorldOptions(kubelet=KubeletOptions(shutdown_seconds=8.0)))


@pytest.mark.parametrize("events", [1, 3, 5])
def test_no_place_has_two_pods_however_little_the_watch_tells_of_pods_that_somebody_deleted(
    events: int,
) -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}, replicas=2))
        await world.settle()
        world.cluster.faults.add(Fault("stall", resource="pods", user=OPERATOR.name, events=events))
        world.cluster.drop_watches()
        await asyncio.sleep(3)
        for pod in await world.pods():
            await world.user.delete(kinds.PODS, Key("default", pod["metadata"]["name"]))
        for _ in range(400):
            await asyncio.sleep(0.5)
            living = [pod for pod in await world.pods() if not pod["metadata"].get("deletionTimestamp")]
            places = Counter(pod["spec"]["hostname"] for pod in living)
            assert not places or max(places.values()) == 1, places
        world.cluster.faults.clear()
        world.cluster.drop_watches()
        await world.settle(quiet=150)
        assert [await world.phase(gang) for gang in ("train-0", "train-1")] == ["Running", "Running"]

    run_world(story)


def test_a_gang_that_recovered_is_not_recycled_because_the_watch_of_its_pods_stands_still() -> None:
    async def story(world: World) -> None:
        manifest = make.cliqueset_manifest("train", {"worker": 3}, template={"terminationDelay": "30s"})
        await world.apply(manifest)
        await world.settle()
        before = {pod["metadata"]["uid"] for pod in await world.pods()}
        key = Key("default", (await world.pods())[0]["metadata"]["name"])
        await world.user.merge_patch(kinds.PODS, key, {"metadata": {"annotations": {NOT_READY: "true"}}})
        await asyncio.sleep(5)
        assert await counts_down(world)
        world.cluster.faults.add(Fault("stall", resource="pods", user=OPERATOR.name))
        world.cluster.drop_watches()
        await asyncio.sleep(1)
        await world.user.merge_patch(kinds.PODS, key, {"metadata": {"annotations": {NOT_READY: None}}})
        await asyncio.sleep(26)
        world.cluster.faults.clear()
        await asyncio.sleep(20)
        assert before == {pod["metadata"]["uid"] for pod in await world.pods()}
        assert not await counts_down(world), "what the API server told makes the operator list its pods anew"

    run_world(story)


async def counts_down(world: World) -> bool:
    """Whether the set says that something of it is recycled."""
    cliqueset = await world.get(kinds.CLIQUESETS, "train") or {}
    return any(
        each["type"] == conditions.GANG_TERMINATION_PENDING for each in cliqueset["status"]["conditions"]
    )
