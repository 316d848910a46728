"""A mirror follows its resource through expired versions, dropped streams and refusals."""

import asyncio

from tests.embedded.actors.cluster_objects import add, node
from tests.embedded.actors.fake_server import FakeServer, passes, play

from grove.embedded.actors.mirror import Mirror, Mirrors
from grove.embedded.actors.objects import NODES, PODS
from grove.embedded.actors.work import Work
from grove.embedded.errors import ApiError, Manifest
from grove.testing.virtual_time import run_virtual

Change = tuple[str, str]


class Follower:
    """An actor that only looks."""

    def __init__(self, server: FakeServer, seen: list[Change]) -> None:
        self.mirror = Mirror(server, NODES)
        self.mirror.subscribe(self.told)
        self.seen = seen

    def told(self, old: Manifest | None, new: Manifest | None) -> None:
        what = "added" if old is None else "deleted" if new is None else "changed"
        self.seen.append((what, ((new or old) or {})["metadata"]["name"]))

    async def run(self) -> None:
        await self.mirror.run()


def test_changes_are_told_in_order() -> None:
    seen: list[Change] = []

    async def scenario(server: FakeServer) -> None:
        await add(server, node("a"), node("b"))
        await server.patch("/api/v1/nodes/a", {"metadata": {"labels": {"x": "y"}}})
        await server.delete("/api/v1/nodes/b")
        await passes(1)

    play(scenario, lambda s: Follower(s, seen))
    assert seen == [("added", "a"), ("added", "b"), ("changed", "a"), ("deleted", "b")]


def test_a_dropped_watch_goes_on_where_it_was() -> None:
    seen: list[Change] = []

    async def scenario(server: FakeServer) -> None:
        await add(server, node("a"))
        await passes(1)
        lists = len(server.lists)
        server.drop_watches()
        await add(server, node("b"))
        await passes(5)
        assert len(server.lists) == lists

    play(scenario, lambda s: Follower(s, seen))
    assert seen == [("added", "a"), ("added", "b")]


def test_after_an_expired_version_a_new_list_tells_what_was_missed() -> None:
    seen: list[Change] = []

    async def scenario(server: FakeServer) -> None:
        await add(server, node("a"), node("b"))
        await passes(1)
        seen.clear()
        server.refuse = lambda verb, path: (
            ApiError(503, "ServiceUnavailable", "no") if verb == "list" else None
        )
        server.compact()
        await passes(0.01)
        # Nobody watches now: these two are seen only by comparing lists.
        server._history.clear()
        await server.delete("/api/v1/nodes/a")
        await add(server, node("a"), node("c"))
        await server.delete("/api/v1/nodes/b")
        server.compact()
        await passes(10)
        server.refuse = lambda verb, path: None
        await passes(10)

    play(scenario, lambda s: Follower(s, seen))
    assert sorted(seen) == [("added", "a"), ("added", "c"), ("deleted", "a"), ("deleted", "b")]


def test_one_mirror_is_shared_and_late_listeners_hear_what_is_there() -> None:
    async def main() -> list[str]:
        server = FakeServer()
        await add(server, node("a"))
        mirrors = Mirrors(server)
        await mirrors.synced(NODES, PODS)
        heard: list[str] = []
        mirrors.of(NODES).subscribe(lambda old, new: heard.append((new or {})["metadata"]["name"]))
        assert mirrors.of(NODES) is mirrors.of(NODES)
        await mirrors.close()
        return heard

    assert run_virtual(main) == ["a"]


def test_work_retries_after_failures_and_keeps_one_worker_per_key() -> None:
    async def main() -> tuple[list[str], int]:
        done: list[str] = []
        most = running = 0
        faults = [ApiError(500, "InternalError", "no"), ValueError("bug")]

        async def step(key: str) -> float | None:
            nonlocal most, running
            running += 1
            most = max(most, running)
            await passes(0.1)
            running -= 1
            if faults:
                raise faults.pop()
            done.append(key)
            return None

        work: Work[str] = Work("test", step, workers=4)
        task = asyncio.get_running_loop().create_task(work.run())
        for _ in range(3):
            work.add("a")
        await passes(0.05)
        work.add("a")
        await passes(5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return done, most

    done, most = run_virtual(main)
    assert set(done) == {"a"}
    assert most == 1
