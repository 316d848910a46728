"""The recorder of events: never in the way, never too much."""

import asyncio
from collections.abc import Awaitable, Callable

from tests.runtime.fakes import THINGS, FakeObjects, pass_time

from grove.errors import Forbidden
from grove.meta import Key
from grove.runtime.events import BURST, MESSAGE_LIMIT, QUEUE_LIMIT, SIMILAR, Event, EventTarget, Recorder
from grove.runtime.metrics import Metrics
from grove.testing.virtual_time import run_virtual, virtual_clock

TARGET = EventTarget(THINGS, Key("ns", "a"), "uid-a")


def event(message: str = "gate opened", *, about: EventTarget = TARGET, reason: str = "GateOpened") -> Event:
    return Event("Normal", reason, message, about)


class Scene:
    def __init__(self) -> None:
        self.server = FakeObjects()
        self.metrics = Metrics()
        self.recorder = Recorder(
            self.server, virtual_clock(), "grove-operator", instance="pod-1", metrics=self.metrics
        )
        self.task = asyncio.create_task(self.recorder.run())

    def counts(self) -> list[tuple[str, int]]:
        return [(item["message"], item["count"]) for item in self.server.objects.values()]

    def result(self, result: str) -> float:
        return self.metrics.value("grove_events_total", result=result)


def play(script: Callable[[Scene], Awaitable[None]]) -> None:
    async def main() -> None:
        await script(Scene())

    run_virtual(main)


def test_an_event_is_written_next_to_its_object() -> None:
    async def script(scene: Scene) -> None:
        scene.recorder.send(event())
        await pass_time(1)
        ((key, written),) = scene.server.objects.items()
        assert key.namespace == "ns"
        assert key.name.startswith("a.")
        written = {name: value for name, value in written.items() if name != "metadata"}
        assert written == {
            "apiVersion": "v1",
            "kind": "Event",
            "involvedObject": {
                "apiVersion": "example.org/v1",
                "kind": "Thing",
                "namespace": "ns",
                "name": "a",
                "uid": "uid-a",
            },
            "type": "Normal",
            "reason": "GateOpened",
            "message": "gate opened",
            "count": 1,
            "firstTimestamp": "2030-01-01T00:00:00Z",
            "lastTimestamp": "2030-01-01T00:00:00Z",
            "source": {"component": "grove-operator"},
            "reportingComponent": "grove-operator",
            "reportingInstance": "pod-1",
        }

    play(script)


def test_events_about_cluster_scoped_objects_live_in_default() -> None:
    async def script(scene: Scene) -> None:
        scene.recorder.send(event(about=EventTarget(THINGS, Key("", "a"), "uid-a")))
        await pass_time(1)
        ((key, written),) = scene.server.objects.items()
        assert key.namespace == "default"
        assert "namespace" not in written["involvedObject"]

    play(script)


def test_the_same_news_again_bumps_the_count_and_the_time() -> None:
    async def script(scene: Scene) -> None:
        scene.recorder.send(event())
        await pass_time(60)
        scene.recorder.send(event())
        scene.recorder.send(event())
        await pass_time(1)
        assert scene.counts() == [("gate opened", 3)]
        assert [verb for verb, _ in scene.server.writes] == ["create", "merge_patch"], "two bumps, one patch"
        (written,) = scene.server.objects.values()
        assert (written["firstTimestamp"], written["lastTimestamp"]) == (
            "2030-01-01T00:00:00Z",
            "2030-01-01T00:01:00Z",
        )

    play(script)


def test_an_event_that_the_server_has_forgotten_starts_over() -> None:
    async def script(scene: Scene) -> None:
        scene.recorder.send(event())
        await pass_time(7200)
        scene.server.objects.clear()
        scene.recorder.send(event())
        await pass_time(1)
        assert scene.counts() == [("gate opened", 1)]

    play(script)


def test_one_object_cannot_flood_the_server_and_does_not_silence_the_others() -> None:
    async def script(scene: Scene) -> None:
        for second in range(600):
            scene.recorder.send(event(f"message {second % 5}", reason=f"Reason{second % 5}"))
            await pass_time(1)
        assert len(scene.server.writes) <= BURST + 600 / 30 + 1
        quiet = EventTarget(THINGS, Key("ns", "b"), "uid-b")
        scene.recorder.send(event("hello", about=quiet))
        await pass_time(1)
        assert ("hello", 1) in scene.counts()
        assert scene.result("deferred") > 0
        # Nothing is forgotten: the count goes out with the next write that is allowed.
        await pass_time(3600)
        scene.recorder.send(event("message 0", reason="Reason0"))
        await pass_time(1)
        assert ("message 0", 121) in scene.counts()

    play(script)


def test_too_many_different_messages_with_one_reason_are_combined() -> None:
    async def script(scene: Scene) -> None:
        for number in range(100):
            scene.recorder.send(event(f"pod {number} failed", reason="PodFailed"))
            await pass_time(2)
        assert len(scene.server.objects) == SIMILAR + 1
        message, count = scene.counts()[-1]
        assert message.startswith("more than 10 different messages")
        assert count > 1

    play(script)


def test_sending_never_waits_or_raises_when_the_server_hangs() -> None:
    async def script(scene: Scene) -> None:
        scene.server.before = lambda verb: pass_time(1e5)
        for number in range(2 * QUEUE_LIMIT):
            target = EventTarget(THINGS, Key("ns", f"o{number}"), f"uid-{number}")
            scene.recorder.send(event(about=target))
        await pass_time(1)
        assert scene.result("dropped") >= QUEUE_LIMIT - 1
        scene.task.cancel()
        before = asyncio.get_running_loop().time()
        await asyncio.wait({scene.task})
        assert asyncio.get_running_loop().time() - before <= 3.1, "the end does not wait for ever either"

    play(script)


def test_a_refused_event_is_counted_and_the_next_one_is_tried() -> None:
    async def script(scene: Scene) -> None:
        def refuse(verb: str) -> None:
            raise Forbidden("namespace is terminating")

        scene.server.before = refuse
        scene.recorder.send(event("first"))
        await pass_time(1)
        scene.server.before = lambda verb: None
        scene.recorder.send(event("first"))
        scene.recorder.send(event("second"))
        await pass_time(1)
        assert scene.counts() == [("first", 1), ("second", 1)]
        assert scene.result("failed") == 1

    play(script)


def test_what_waits_is_written_on_the_way_out() -> None:
    async def script(scene: Scene) -> None:
        await pass_time(1)
        scene.recorder.send(event("first"))
        scene.recorder.send(event("second"))
        scene.task.cancel()
        await asyncio.wait({scene.task})
        assert scene.counts() == [("first", 1), ("second", 1)]

    play(script)


def test_long_messages_are_cut() -> None:
    async def script(scene: Scene) -> None:
        scene.recorder.send(event("x" * 5000))
        await pass_time(1)
        ((message, _),) = scene.counts()
        assert len(message) == MESSAGE_LIMIT

    play(script)
