"""What is kept of the events that a scheduler writes about pods, and who is told."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
from tests.raw import raw

from grove.api import kinds
from grove.api.event import EVENTS
from grove.api.pod import Pod
from grove.backends.base import EventSource, Remark
from grove.controllers.schedulers.remarks import MOST_UNKNOWN, Remarks
from grove.meta import Key, Manifest
from grove.runtime.cache import Cache
from grove.testing import make
from grove.testing.virtual_time import virtual_clock
from grove.testing.world import World, run_world

SOURCE = EventSource("yunikorn", "Informational")


class Listener:
    """Remarks over a cache of all pods of a cluster, and what they told."""

    def __init__(self, world: World) -> None:
        clock = virtual_clock()
        self.world = world
        self.cache = Cache(world.user, clock, rng=random.Random(0))
        pods = self.cache.add(kinds.PODS, Pod)
        self.remarks = Remarks(world.user, self.cache, clock, random.Random(0))
        pods.subscribe(self.remarks.saw)
        self.told: list[str] = []
        self.listed: list[str] = []
        self.remarks.changed.append(lambda pod: self.told.append(pod.name))
        self.remarks.listed.append(self.listed.append)
        self.remarks.want({"yunikorn": SOURCE})

    def about(self, pod: Manifest) -> Remark | None:
        found = self.remarks.of("yunikorn", self.cache.store(Pod))
        return (found or {}).get(pod["metadata"]["uid"])

    async def pod(self, name: str) -> Manifest:
        spec = {"containers": [{"name": "main", "image": "registry.example/x:1"}], "schedulerName": "nobody"}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}}
        return await self.world.user.create(kinds.PODS, {**body, "spec": spec}, type=dict)

    async def event(self, name: str, pod: Manifest, text: str, **fields: object) -> None:
        about = {"kind": "Pod", "namespace": "default", **{k: pod["metadata"][k] for k in ("name", "uid")}}
        body: Manifest = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": "default"},
            "involvedObject": about,
            "reason": "Informational",
            "message": text,
            "reportingComponent": "yunikorn",
            "reportingInstance": "yunikorn",
        }
        await self.world.user.create(EVENTS, {**body, **fields}, type=dict)


def play(story: Callable[[Listener], Awaitable[None]]) -> None:
    async def main(world: World) -> None:
        listener = Listener(world)
        async with running(listener):
            await asyncio.sleep(1)
            await story(listener)

    run_world(main, operator=False)


@asynccontextmanager
async def running(listener: Listener) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(each) for each in (listener.cache.run(), listener.remarks.run())]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def test_the_newest_text_about_a_pod_is_kept_and_told_once() -> None:
    async def story(listener: Listener) -> None:
        pod = await listener.pod("a")
        await listener.event("one", pod, "no share left")
        await asyncio.sleep(2)
        await listener.event("two", pod, "nodes are tainted")
        await asyncio.sleep(1)
        assert listener.about(pod) == Remark("nodes are tainted")
        assert listener.told == ["a", "a"]
        await listener.world.user.merge_patch(EVENTS, Key("default", "two"), {"count": 5})
        await asyncio.sleep(1)
        assert listener.told == ["a", "a"]

    play(story)


def test_a_repeated_event_is_as_old_as_its_text_and_says_that_it_was_repeated() -> None:
    async def story(listener: Listener) -> None:
        pod = await listener.pod("a")
        await listener.event("one", pod, "no share left")
        await asyncio.sleep(2)
        await listener.event("two", pod, "nodes are tainted")
        await asyncio.sleep(1)
        series = {"series": {"count": 2, "lastObservedTime": "2030-01-01T00:00:00.000000Z"}}
        await listener.world.user.merge_patch(EVENTS, Key("default", "one"), series)
        await asyncio.sleep(1)
        assert listener.about(pod) == Remark("nodes are tainted")
        await listener.world.user.merge_patch(EVENTS, Key("default", "two"), series)
        await asyncio.sleep(1)
        assert listener.about(pod) == Remark("nodes are tainted", repeated=True)

    play(story)


def test_only_events_of_the_source_are_asked_for() -> None:
    async def story(listener: Listener) -> None:
        pod = await listener.pod("a")
        await listener.event("one", pod, "another's words", reportingComponent="kubelet")
        await listener.event("two", pod, "another matter", reason="Scheduled")
        await asyncio.sleep(1)
        assert listener.about(pod) is None
        assert listener.told == []

    play(story)


def test_an_event_may_come_before_its_pod_is_seen_and_of_strange_pods_only_some_are_kept() -> None:
    async def story(listener: Listener) -> None:
        for index in range(MOST_UNKNOWN + 5):
            stranger = {"metadata": {"name": f"x-{index}", "uid": f"uid-{index}"}}
            await listener.event(f"x-{index}", stranger, "said of somebody else's pod")
        await asyncio.sleep(1)
        assert len(listener.remarks._unknown) == MOST_UNKNOWN
        first, last = (
            make.view(
                Pod, {"metadata": {"name": f"x-{index}", "namespace": "default", "uid": f"uid-{index}"}}
            )
            for index in (0, MOST_UNKNOWN + 4)
        )
        for pod in (first, last):
            listener.remarks.saw(None, pod)
        found = listener.remarks.of("yunikorn", (first, last))
        assert found == {last.uid: Remark("said of somebody else's pod")}

    play(story)


def test_nothing_is_kept_of_a_pod_that_is_gone_or_has_a_node() -> None:
    async def story(listener: Listener) -> None:
        gone, placed = await listener.pod("gone"), await listener.pod("placed")
        for pod in (gone, placed):
            await listener.event(pod["metadata"]["name"], pod, "no share left")
        await asyncio.sleep(1)
        assert len(listener.remarks._kept) == 2
        await listener.world.user.delete(kinds.PODS, Key("default", "gone"))
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "placed", "namespace": "default"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "node-0"},
        }
        path = kinds.PODS.path("default", "placed", "binding")
        await raw(listener.world.user, "POST", path, body=msgspec.json.encode(binding))
        await asyncio.sleep(1)
        assert listener.remarks._kept == {}

    play(story)


def test_what_was_said_stays_known_when_the_event_expires_and_unknown_until_events_are_listed() -> None:
    async def story(listener: Listener) -> None:
        assert listener.listed == ["yunikorn"]
        pod = await listener.pod("a")
        await listener.event("one", pod, "no share left")
        await asyncio.sleep(1)
        await listener.world.user.delete(EVENTS, Key("default", "one"))
        await asyncio.sleep(1)
        assert listener.about(pod) == Remark("no share left")
        listener.remarks.want({})
        assert listener.remarks.of("yunikorn", listener.cache.store(Pod)) is None
        assert listener.remarks._kept == {}

    play(story)
