"""An update whose template breaks a replica that gang termination then recycles: it goes no further."""

import asyncio
from datetime import datetime, timedelta

from grove.api import kinds
from grove.meta import Key, Manifest
from grove.testing import make
from grove.testing.world import NODES, World, WorldOptions, run_world

DELAY = timedelta(seconds=15)


def serving(annotations: dict[str, dict[str, str]], *, pods: int = 3, replicas: int = 3) -> Manifest:
    """A set of these roles, with the annotations of their pods; each pod takes a node."""
    resources = {"limits": {"nvidia.com/gpu": "8"}}
    pod = {"containers": [{"name": "main", "image": "one", "resources": resources}]}
    roles = [make.template(name, pods, pod=pod) for name in annotations]
    for role in roles:
        role["annotations"] = {"embedded.grove.io/startup": "1s", **annotations[role["name"]]}
    made = make.cliqueset_manifest("c", roles, replicas=replicas)
    made["spec"]["template"]["terminationDelay"] = f"{DELAY.seconds}s"
    return made


CRASHES = {"a": {"embedded.grove.io/fail-after": "3s"}}
FINE: dict[str, dict[str, str]] = {"a": {}}


async def status_of(world: World) -> Manifest:
    found = await world.get(kinds.CLIQUESETS, "c")
    assert found is not None
    status: Manifest = found["status"]
    return status


async def told(world: World) -> str:
    said = {each["type"]: each["message"] for each in (await status_of(world))["conditions"]}
    return str(said.get("UpdateInProgress", ""))


async def turns(world: World) -> list[int]:
    progress = (await status_of(world)).get("updateProgress") or {}
    return [each["replicaIndex"] for each in progress.get("currentlyUpdating") or ()]


async def ended(world: World) -> bool:
    return bool((await status_of(world)).get("updateProgress", {}).get("updateEndedAt"))


async def uids(world: World, clique: str) -> set[str]:
    return {
        pod["metadata"]["uid"] for pod in await world.pods() if pod["metadata"]["name"].startswith(clique)
    }


def test_a_template_that_crashes_a_moment_after_it_is_ready_stays_at_the_first_replica() -> None:
    async def story(world: World) -> None:
        await world.apply(serving(FINE))
        await world.settle()
        others = await uids(world, "c-1-") | await uids(world, "c-2-")
        await world.apply(serving(CRASHES))
        said = set()
        for _ in range(600):
            await asyncio.sleep(0.5)
            assert await turns(world) in ([], [0])
            said.add("recycled during its update" in await told(world))
        assert said == {True, False}
        assert "it keeps its turn until it has been available for 15 s" in await told(world)
        assert others == await uids(world, "c-1-") | await uids(world, "c-2-")
        assert (await status_of(world))["availableReplicas"] >= 2
        # The next operator goes on with it, and going back does not wait for anything.
        await world.kill_operator()
        await world.start_operator()
        await asyncio.sleep(30)
        assert await turns(world) == [0]
        await world.apply(serving(FINE))

        async def undone() -> bool:
            return await ended(world) and (await status_of(world))["availableReplicas"] == 3

        await world.until(undone, "the update is undone", seconds=10)
        assert others == await uids(world, "c-1-") | await uids(world, "c-2-")

    run_world(story, WorldOptions(nodes=9))


def test_a_replica_that_was_recycled_and_works_gives_its_turn_on_after_a_while() -> None:
    """One role is updated, the other still starts, when a pod of the first is lost for longer than it may be."""

    async def story(world: World) -> None:
        await world.apply(serving({"a": {}, "b": {}}, pods=1, replicas=2))
        await world.settle()
        slow = {"embedded.grove.io/startup": "60s"}
        await world.apply(serving({"a": {"x/version": "2"}, "b": slow}, pods=1, replicas=2))

        async def a_is_new() -> bool:
            progress = ((await world.get(kinds.CLIQUES, "c-0-a")) or {})["status"].get("updateProgress") or {}
            return bool(progress.get("updateEndedAt"))

        await world.until(a_is_new, "the first role is updated")
        (lost,) = [pod for pod in await world.pods() if pod["metadata"]["name"].startswith("c-0-a")]
        await cordon(world, lost["spec"]["nodeName"], unschedulable=True)
        await world.user.delete(kinds.PODS, Key("default", lost["metadata"]["name"]))

        async def is_recycled() -> bool:
            return "replica 0 was recycled" in await told(world)

        await world.until(is_recycled, "the replica was recycled")
        await cordon(world, lost["spec"]["nodeName"], unschedulable=None)

        async def is_next() -> bool:
            return await turns(world) == [1]

        await world.until(is_next, "the next replica has its turn", seconds=600)
        began = (await status_of(world))["updateProgress"]["currentlyUpdating"][0]["updateStartedAt"]
        clique = await world.get(kinds.CLIQUES, "c-0-b")
        assert clique is not None
        available = {each["type"]: each for each in clique["status"]["conditions"]}["Available"]
        waited = _moment(began) - _moment(available["lastTransitionTime"])
        assert DELAY <= waited <= DELAY + timedelta(seconds=2)

        async def over() -> bool:
            return await ended(world)

        await world.until(over, "the update ends", seconds=600)

    run_world(story, WorldOptions(nodes=4))


def _moment(stamp: str) -> datetime:
    return datetime.fromisoformat(stamp)


async def cordon(world: World, node: str, *, unschedulable: bool | None) -> None:
    await world.user.merge_patch(NODES, Key("", node), {"spec": {"unschedulable": unschedulable}})
