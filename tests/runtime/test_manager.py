"""The manager: what starts when, what stops when, and what it says meanwhile."""

import asyncio
import gc
import os
import random
import signal
import socket

import aiohttp
import pytest
from tests.runtime.fakes import THINGS, FakeObjects, FakeServer, pass_time

from grove.errors import Forbidden
from grove.meta import Key, Object
from grove.runtime.cache import Cache
from grove.runtime.controller import Controller
from grove.runtime.events import Event, EventTarget, Recorder
from grove.runtime.health import HealthServer, Readiness
from grove.runtime.lease import LeaderElector, LeadershipLost
from grove.runtime.manager import Manager, Stopped
from grove.runtime.metrics import Metrics
from grove.runtime.outcome import DONE, Outcome
from grove.testing.virtual_time import run_virtual, virtual_clock

LEASE = Key("grove-system", "grove")


class Part:
    """Something that runs while the manager leads, and notes what happens to it."""

    def __init__(self, name: str, story: list[str], *, leaving: float = 0.0) -> None:
        self.name = name
        self.story = story
        self.leaving = leaving

    async def run(self) -> None:
        self.story.append(f"{self.name} started")
        try:
            await asyncio.Event().wait()
        finally:
            await pass_time(self.leaving)
            self.story.append(f"{self.name} ended")

    def hurry(self) -> None:
        self.story.append(f"{self.name} hurries")
        self.leaving = 0.0


class Scene:
    def __init__(self, *, elect: bool = True) -> None:
        self.story: list[str] = []
        self.server = FakeServer()
        self.server.put("a")
        self.objects = FakeObjects()
        self.metrics = Metrics()
        self.cache = Cache(self.server, virtual_clock(), rng=random.Random(0))
        self.cache.add(THINGS, Object)
        self.recorder = Recorder(self.objects, virtual_clock(), "grove", metrics=self.metrics)
        self.elector = LeaderElector(
            self.objects, LEASE, "me", clock=virtual_clock(), rng=random.Random(0), metrics=self.metrics
        )
        self.part = Part("controller", self.story)
        self.manager = Manager(
            self.cache,
            [self.part],
            metrics=self.metrics,
            recorder=self.recorder,
            elector=self.elector if elect else None,
            tune_gc=False,
        )
        self.stop = asyncio.Event()

    def start(self) -> "asyncio.Task[None]":
        return asyncio.create_task(self.manager.run(self.stop))

    def holder(self) -> str:
        holder: str = self.objects.objects[LEASE]["spec"]["holderIdentity"]
        return holder


def test_controllers_start_only_when_the_caches_are_synced_and_the_lease_is_ours() -> None:
    async def main() -> None:
        scene = Scene()

        def forbid(verb: str) -> None:
            raise Forbidden("no")

        scene.server.fail = forbid
        running = scene.start()
        await pass_time(20)
        assert scene.story == []
        assert LEASE not in scene.objects.objects, "who cannot work does not lead"
        scene.server.fail = lambda verb: None
        await pass_time(40)
        assert scene.story == ["controller started"]
        assert scene.holder() == "me"
        scene.stop.set()
        await running
        assert scene.story == ["controller started", "controller ended"]
        assert scene.holder() == ""

    run_virtual(main)


def test_a_standby_is_ready_but_does_not_work() -> None:
    async def main() -> None:
        scene, other = Scene(), Scene()
        other.objects = scene.objects
        other.elector._client = scene.objects
        other.elector.identity = "other"
        first = scene.start()
        await pass_time(1)
        second = other.start()
        await pass_time(60)
        assert other.story == []
        assert other.manager.readiness.missing() == []
        assert other.elector.holder == "me"
        scene.stop.set()
        await first
        await pass_time(3)
        assert other.story == ["controller started"]
        other.stop.set()
        await second

    run_virtual(main)


def test_the_way_out_is_controllers_then_events_then_lease_then_caches() -> None:
    async def main() -> None:
        scene = Scene()
        scene.part.leaving = 20
        running = scene.start()
        await scene.manager.working.wait()
        target = EventTarget(THINGS, Key("ns", "a"), "uid-a")
        watches = scene.server.count("watch")

        scene.stop.set()
        await pass_time(19)
        assert scene.story == ["controller started"]
        assert scene.holder() == "me", "the lease is kept while the controllers drain"
        scene.recorder.send(Event("Normal", "Stopped", "last words", target))
        holders: list[str] = []

        async def note(verb: str) -> None:
            if verb == "create":
                holders.append(scene.holder())

        scene.objects.before = note
        await running
        assert holders == ["me"], "news are written while the lease is held"
        assert scene.story == ["controller started", "controller ended"]
        assert scene.holder() == ""
        written = [item.get("message") for item in scene.objects.objects.values()]
        assert "last words" in written
        assert watches == scene.server.count("watch"), "nobody asks the server again on the way out"

    run_virtual(main)


def test_a_lost_lease_stops_everything_in_a_hurry_and_is_an_error_of_its_own() -> None:
    async def main() -> None:
        scene = Scene()
        scene.part.leaving = 100
        running = scene.start()
        await scene.manager.working.wait()
        await pass_time(5)
        scene.objects.before = lambda verb: pass_time(1e6)
        started = asyncio.get_running_loop().time()
        with pytest.raises(LeadershipLost) as caught:
            await running
        assert caught.value.code == "ERR_LEADERSHIP_LOST"
        assert scene.story == ["controller started", "controller hurries", "controller ended"]
        # The lease was good for ten seconds; a few more for events that cannot be written.
        assert asyncio.get_running_loop().time() - started < 14

    run_virtual(main)


def test_without_election_health_or_signals_it_runs_until_told_to_stop() -> None:
    async def main() -> None:
        scene = Scene(elect=False)
        seen: list[Key] = []

        async def reconcile(key: Key) -> Outcome:
            seen.append(key)
            return DONE

        controller = Controller(
            "things", reconcile, clock=virtual_clock(), cache=scene.cache, metrics=scene.metrics
        )
        informer = scene.cache.informer(THINGS)
        assert informer is not None
        informer.subscribe(lambda old, new: controller.enqueue((new or old).key) if new or old else None)  # type: ignore[union-attr]
        manager = Manager(scene.cache, [controller], metrics=scene.metrics)
        running = asyncio.create_task(manager.run(scene.stop))
        await manager.working.wait()
        await pass_time(1)
        scene.server.put("b")
        await pass_time(1)
        assert seen == [Key("ns", "a"), Key("ns", "b")]
        scene.stop.set()
        await running

    run_virtual(main)


def test_stopping_before_the_caches_are_synced_works_too() -> None:
    async def main() -> None:
        scene = Scene()

        def forbid(verb: str) -> None:
            raise Forbidden("no")

        scene.server.fail = forbid
        running = scene.start()
        await pass_time(10)
        scene.stop.set()
        await running
        assert scene.story == []

    run_virtual(main)


@pytest.mark.parametrize("fails", [True, False], ids=["fails", "ends"])
def test_a_service_that_does_not_live_takes_the_manager_down(fails: bool) -> None:
    async def main() -> None:
        scene = Scene()

        async def service() -> None:
            await pass_time(30)
            if fails:
                raise OSError("address in use")

        scene.manager.add_service("webhook", service)
        with pytest.raises(
            OSError if fails else Stopped, match="address in use" if fails else "webhook ended"
        ):
            await scene.manager.run(scene.stop)
        assert scene.story == ["controller started", "controller ended"]
        assert scene.holder() == ""

    run_virtual(main)


def test_readiness_says_what_is_missing() -> None:
    async def main() -> None:
        scene = Scene()
        ready = scene.manager.readiness
        assert ready.missing() == ["cache: things.example.org is still being listed"]
        ready.add("webhook", lambda: "no certificate yet")

        def forbid(verb: str) -> None:
            raise Forbidden("no")

        scene.server.fail = forbid
        running = scene.start()
        await pass_time(10)
        cache, webhook = ready.missing()
        assert cache.startswith("cache: not allowed to list things.example.org")
        assert webhook == "webhook: no certificate yet"
        scene.server.fail = lambda verb: None
        ready.add("webhook", lambda: None)
        await pass_time(60)
        assert ready.missing() == []
        scene.stop.set()
        await running

    run_virtual(main)


def test_a_check_that_breaks_counts_as_missing() -> None:
    readiness = Readiness()
    readiness.add("odd", lambda: str(1 // 0))
    assert readiness.missing() == [
        "odd: the check itself failed: ZeroDivisionError: integer division or modulo by zero"
    ]


def test_the_health_server_tells_life_readiness_and_metrics_and_sigterm_ends_it_all() -> None:
    async def main() -> None:
        server = FakeServer()
        gate = asyncio.Event()
        cache = Cache(server)
        cache.add(THINGS, Object)
        manager = Manager(cache, health_address=("127.0.0.1", 0))
        assert manager.health is not None
        manager.readiness.add("gate", lambda: None if gate.is_set() else "the gate is shut")
        running = asyncio.create_task(manager.run(signals=True))
        await manager.working.wait()

        async def fetch(path: str) -> tuple[int, str]:
            assert manager.health is not None
            url = f"http://127.0.0.1:{manager.health.port}{path}"
            async with aiohttp.ClientSession() as session, session.get(url) as answer:
                return answer.status, await answer.text()

        assert await fetch("/healthz") == (200, "ok\n")
        assert await fetch("/readyz") == (503, "not ready:\n- gate: the gate is shut\n")
        gate.set()
        assert await fetch("/readyz") == (200, "ok\n")
        status, page = await fetch("/metrics")
        assert status == 200
        assert 'grove_gc_pause_seconds_count{generation="2"} 1.0' in page, "the collection before the freeze"
        assert gc.get_freeze_count() > 0
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(5):
            await running
        with pytest.raises(aiohttp.ClientConnectorError):
            await fetch("/healthz")

    before = gc.get_threshold()
    asyncio.run(main())
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)


async def page_of(port: int, path: str) -> tuple[int, str]:
    url = f"http://127.0.0.1:{port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


def test_metrics_have_a_server_of_their_own_that_serves_nothing_else() -> None:
    async def main() -> None:
        server, stop = FakeServer(), asyncio.Event()
        cache = Cache(server)
        cache.add(THINGS, Object)
        manager = Manager(cache, health_address=("127.0.0.1", 0), metrics_address=("localhost", 0))
        running = asyncio.create_task(manager.run(stop))
        await manager.working.wait()
        assert manager.health is not None
        assert manager.metrics_server is not None
        port = manager.metrics_server.port
        assert port != manager.health.port
        status, page = await page_of(port, "/metrics")
        assert status == 200
        assert "grove_ready 1.0" in page
        assert f'grove_cache_objects{{resource="{THINGS}"}} 0.0' in page
        assert f'grove_watch_age_seconds{{resource="{THINGS}"}}' in page
        assert 'grove_leader{lease=""} 1.0' in page, "without an election it leads"
        assert (await page_of(port, "/healthz"))[0] == 404
        # Everybody may probe, and not everybody may read metrics.
        assert (await page_of(manager.health.port, "/metrics"))[0] == 404
        assert (await page_of(manager.health.port, "/readyz"))[0] == 200
        stop.set()
        await running

    asyncio.run(main())


def test_a_port_for_metrics_that_is_taken_is_said_and_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        stop = asyncio.Event()
        taken = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        port = taken.sockets[0].getsockname()[1]
        manager = Manager(
            Cache(FakeServer()), health_address=("127.0.0.1", 0), metrics_address=("127.0.0.1", port)
        )
        running = asyncio.create_task(manager.run(stop))
        await manager.working.wait()
        assert manager.health is not None
        assert (await page_of(manager.health.port, "/readyz"))[0] == 200
        assert (await page_of(manager.health.port, "/metrics"))[0] == 404
        stop.set()
        await running
        taken.close()

    asyncio.run(main())
    (told,) = [each for each in caplog.records if each.message == "metrics are not served"]
    assert "choose another with server.metrics.port" in vars(told)["error"]


def test_probes_and_metrics_on_one_address_are_one_server() -> None:
    manager = Manager(
        Cache(FakeServer()), health_address=("127.0.0.1", 2751), metrics_address=("127.0.0.1", 2751)
    )
    assert manager.metrics_server is None


@pytest.mark.skipif(not socket.has_ipv6, reason="this Python cannot speak IPv6")
def test_a_blank_host_is_every_address_of_both_families() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        server = HealthServer(Readiness(), host="", port=port)
        await server.start()
        assert server._server is not None
        heard = {each.getsockname()[0] for each in server._server.sockets}
        await server.stop()
        assert heard == {"0.0.0.0", "::"}

    asyncio.run(main())


def test_a_second_signal_cuts_the_grace_short() -> None:
    class Stubborn(Part):
        async def run(self) -> None:
            self.over = asyncio.Event()
            self.story.append("started")
            try:
                await asyncio.Event().wait()
            finally:
                self.story.append("draining")
                os.kill(os.getpid(), signal.SIGINT)
                await self.over.wait()

        def hurry(self) -> None:
            self.story.append("hurries")
            self.over.set()

    async def main() -> list[str]:
        story: list[str] = []
        cache = Cache(FakeServer())
        cache.add(THINGS, Object)
        manager = Manager(cache, [Stubborn("stubborn", story)], tune_gc=False)
        running = asyncio.create_task(manager.run(signals=True))
        await manager.working.wait()
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(5):
            await running
        return story

    assert asyncio.run(main()) == ["started", "draining", "hurries"]
