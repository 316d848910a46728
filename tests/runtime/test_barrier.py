"""Read your own writes: no reconcile sees a store older than what it wrote."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.runtime.fakes import OTHERS, THINGS, FakeServer, gone, pass_time

from grove.meta import Key, Object
from grove.runtime.barrier import Barrier
from grove.runtime.cache import Cache
from grove.runtime.controller import Controller
from grove.runtime.metrics import Metrics
from grove.runtime.outcome import DONE, Outcome
from grove.testing.virtual_time import run_virtual, virtual_clock, virtual_loop

ME = Key("ns", "me")
A = Key("ns", "a")


class Scene:
    """A cache of one resource, and a barrier that notes whom it wakes and when."""

    def __init__(self) -> None:
        self.server = FakeServer()
        self.cache = Cache(self.server, virtual_clock(), rng=random.Random(0))
        self.cache.add(THINGS, Object)
        self.woken: list[tuple[Key, float]] = []
        self.barrier = Barrier(self.cache, wake=self.wake)
        self.running = asyncio.create_task(self.cache.run())

    def wake(self, key: Key) -> None:
        self.woken.append((key, round(virtual_loop().time(), 1)))

    async def synced(self) -> "Scene":
        await self.cache.wait_synced()
        await self.server.connected.wait()
        await pass_time(1)
        return self


def test_a_write_blocks_until_the_informer_has_come_as_far() -> None:
    async def main() -> None:
        scene = await Scene().synced()
        scene.server.silent = True
        item = scene.server.put("a")
        scene.barrier.wrote(ME, THINGS, item.metadata.resource_version)
        assert scene.barrier.pending(ME)
        assert not scene.barrier.pending(A), "others are not held back"
        scene.barrier.park(ME)
        await pass_time(5)
        assert scene.woken == []
        scene.server.silent = False
        await pass_time(1)
        assert [key for key, _ in scene.woken] == [ME]
        assert not scene.barrier.pending(ME)

    run_virtual(main)


@pytest.mark.parametrize("how", ["bookmark", "relist"])
def test_bookmarks_and_lists_count_as_progress(how: str) -> None:
    async def main() -> None:
        scene = await Scene().synced()
        scene.server.revision += 1
        scene.barrier.wrote(ME, THINGS, str(scene.server.revision))
        assert scene.barrier.pending(ME)
        scene.barrier.park(ME)
        if how == "bookmark":
            scene.server.bookmark()
        else:
            scene.server.send(gone())
        await pass_time(1)
        assert len(scene.woken) == 1

    run_virtual(main)


def test_a_relist_that_already_showed_the_object_itself_is_enough_for_it() -> None:
    async def main() -> None:
        scene = await Scene().synced()
        scene.server.silent = True
        scene.server.page_size = 1
        first = scene.server.put("a")
        scene.server.put("b")
        other = Key("ns", "other")
        scene.barrier.wrote(ME, THINGS, first.metadata.resource_version, about=A)
        scene.barrier.wrote(other, THINGS, first.metadata.resource_version)
        seen: list[tuple[bool, bool]] = []
        scene.server.between_pages = lambda: seen.append(
            (scene.barrier.pending(ME), scene.barrier.pending(other))
        )
        scene.server.send(gone())
        await pass_time(1)
        assert seen == [(False, True)]

    run_virtual(main)


def test_a_deletion_blocks_until_the_object_is_gone() -> None:
    async def main() -> None:
        scene = await Scene().synced()
        scene.server.put("a")
        await pass_time(1)
        scene.barrier.deleted(ME, THINGS, A, "uid-a")
        assert scene.barrier.pending(ME)
        scene.barrier.park(ME)
        scene.server.put("b")
        await pass_time(1)
        assert scene.woken == []
        scene.server.delete("a")
        await pass_time(1)
        assert len(scene.woken) == 1

    run_virtual(main)


def test_a_thousand_deletions_cost_a_thousand_looks_and_not_a_million(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        scene = await Scene().synced()
        names = [f"n{number}" for number in range(1000)]
        for name in names:
            scene.server.put(name)
        await pass_time(1)
        for name in names:
            scene.barrier.deleted(ME, THINGS, Key("ns", name), f"uid-{name}")
        assert scene.barrier.pending(ME)
        scene.barrier.park(ME)
        looks = 0
        is_gone = Barrier._gone

        def counted(barrier: Barrier, *about: Any) -> bool:
            nonlocal looks
            looks += 1
            return is_gone(barrier, *about)

        monkeypatch.setattr(Barrier, "_gone", counted)
        for name in reversed(names):
            scene.server.delete(name)
        await pass_time(1)
        assert len(scene.woken) == 1
        assert looks <= 2 * len(names)

    run_virtual(main)


def going(scene: Scene) -> None:
    scene.server.put("a", going=True)


def replaced(scene: Scene) -> None:
    scene.server.put("a", uid="another")


@pytest.mark.parametrize("change", [going, replaced])
def test_a_deletion_is_seen_when_the_object_is_going_or_has_a_namesake(
    change: Callable[[Scene], None],
) -> None:
    async def main() -> None:
        scene = await Scene().synced()
        scene.server.put("a")
        await pass_time(1)
        scene.barrier.deleted(ME, THINGS, A, "uid-a")
        assert scene.barrier.pending(ME)
        change(scene)
        await pass_time(1)
        assert not scene.barrier.pending(ME)

    run_virtual(main)


def test_what_has_no_informer_or_is_seen_already_does_not_block() -> None:
    async def main() -> None:
        scene = await Scene().synced()
        scene.barrier.wrote(ME, OTHERS, "999999")
        scene.barrier.deleted(ME, OTHERS, A, "x")
        scene.barrier.wrote(ME, THINGS, "1")
        scene.barrier.deleted(ME, THINGS, A, "never there")
        assert not scene.barrier.pending(ME)

    run_virtual(main)


def test_an_informer_that_is_removed_blocks_no_longer() -> None:
    async def main() -> None:
        scene = await Scene().synced()
        scene.barrier.wrote(ME, THINGS, "999999")
        assert scene.barrier.pending(ME)
        scene.cache.remove(THINGS)
        assert not scene.barrier.pending(ME)

    run_virtual(main)


def test_a_watch_that_does_not_tell_what_was_written_is_doubted_after_the_guard_and_a_list_ends_the_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        scene = await Scene().synced()
        start = virtual_loop().time()
        scene.server.silent = True
        item = scene.server.put("a")
        for key in (ME, A):
            scene.barrier.wrote(key, THINGS, item.metadata.resource_version)
            scene.barrier.park(key)
        await pass_time(100)
        assert [key for key, _ in scene.woken] == [ME, A]
        assert all(start + 30 <= at < start + 32 for _, at in scene.woken)
        assert scene.server.count("list") == 2, "one list is enough for all who wait"
        assert scene.cache.store(Object).get(A) is not None

    run_virtual(main)
    assert caplog.messages == ["own writes did not appear in the cache in time, listing again"] * 2


def test_nobody_waits_longer_than_twice_the_guard_whatever_lists_say() -> None:
    async def main() -> None:
        scene = await Scene().synced()
        start = virtual_loop().time()
        scene.barrier.wrote(ME, THINGS, "999999")
        scene.barrier.park(ME)
        await pass_time(100)
        assert scene.woken == [(ME, round(start + 60, 1))]
        assert not scene.barrier.pending(ME)

    run_virtual(main)


def test_waits_of_a_key_that_is_never_reconciled_again_are_forgotten_when_they_are_over() -> None:
    async def main() -> None:
        scene = await Scene().synced()
        scene.server.silent = True
        for number in range(100):
            item = scene.server.put(f"o{number}")
            scene.barrier.wrote(
                Key("ns", str(number)), THINGS, item.metadata.resource_version, about=item.key
            )
        assert len(scene.barrier._waits) == 100
        assert scene.barrier.parked == 0
        scene.server.silent = False
        await pass_time(1)
        assert scene.woken == []
        assert (len(scene.barrier._waits), len(scene.barrier._by_object)) == (0, 0)

    run_virtual(main)


def test_nothing_is_remembered_of_a_deletion_that_the_cache_showed_before_its_answer_came() -> None:
    async def main() -> None:
        scene = await Scene().synced()
        scene.barrier.deleted(ME, THINGS, A, "uid-a")
        assert (len(scene.barrier._waits), len(scene.barrier._by_object)) == (0, 0)

    run_virtual(main)


@pytest.mark.parametrize("seed", range(10))
def test_no_reconcile_sees_a_store_older_than_its_own_writes(seed: int) -> None:
    """Events arrive late, in bursts, or only with a relist; still no twin is ever created."""

    async def main() -> None:
        server, metrics, rng = FakeServer(), Metrics(), virtual_loop().rng
        cache = Cache(server, virtual_clock(), rng=random.Random(seed))
        store = cache.add(THINGS, Object).store
        created: list[str] = []
        stale: list[str] = []
        written: dict[Key, set[str]] = {}

        async def reconcile(key: Key) -> Outcome:
            mine = written.setdefault(key, set())
            stale.extend(name for name in mine if Key("ns", name) not in store)
            # Three objects for each key, numbered by what the cache shows: a stale look would make a twin.
            number = sum(1 for item in store if item.name.startswith(key.name + "-"))
            if number == 3:
                return DONE
            await pass_time(rng.uniform(0, 0.2))
            name = f"{key.name}-{number}"
            created.append(name)
            item = server.put(name)
            mine.add(name)
            controller.barrier.wrote(key, THINGS, item.metadata.resource_version, about=item.key)
            controller.enqueue(key)
            return DONE

        controller = Controller(
            "test", reconcile, clock=virtual_clock(), cache=cache, workers=4, metrics=metrics, rng=rng
        )
        tasks = [asyncio.create_task(cache.run()), asyncio.create_task(controller.run())]
        await cache.wait_synced()
        keys = [Key("ns", name) for name in "abcdefgh"]
        for _ in range(40):
            server.silent = rng.random() < 0.5
            controller.enqueue(rng.choice(keys))
            if rng.random() < 0.3:
                server.send(gone())
            await pass_time(rng.uniform(0, 0.5))
        server.silent = False
        server.send(gone())
        for key in keys:
            controller.enqueue(key)
        await pass_time(120)
        assert stale == []
        assert len(created) == len(set(created)) == 24
        assert metrics.value("grove_barrier_waits_total", controller="test") > 0
        assert controller.idle
        for task in tasks:
            task.cancel()

    run_virtual(main, seed=seed)
