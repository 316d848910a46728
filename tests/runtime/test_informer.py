"""The informer against a scripted server: lists, watches, and every way in which they go wrong."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar

import pytest
from tests.runtime.fakes import OTHERS, THINGS, FakeServer, gone, pass_time, thing

from grove.errors import Forbidden, NotFound, Stalled, TooManyRequests, Unreachable
from grove.kube.watch import WatchEvent
from grove.meta import Key, Object, ObjectMeta, UntypedObject
from grove.runtime.cache import Cache
from grove.runtime.informer import Informer
from grove.runtime.store import Store
from grove.testing.virtual_time import run_virtual, virtual_clock, virtual_loop

Change = tuple[str, str]


class Scene:
    """A server, an informer of it, and what the informer told."""

    def __init__(self) -> None:
        self.server = FakeServer()
        self.informer = Informer(
            self.server,
            THINGS,
            Object,
            indexes={"color": lambda item: [item.labels["color"]] if "color" in item.labels else []},
            clock=virtual_clock(),
            rng=random.Random(virtual_loop().rng.random()),
        )
        self.told: list[Change] = []
        self.informer.subscribe(self.note)

    def note(self, old: Object | None, new: Object | None) -> None:
        def show(item: Object | None) -> str:
            return f"{item.name}@{item.uid}" if item else "-"

        self.told.append((show(old), show(new)))

    def names(self) -> list[str]:
        return sorted(item.name for item in self.informer.store)

    @contextmanager
    def running(self) -> Iterator[None]:
        task = asyncio.create_task(self.informer.run())
        try:
            yield
        finally:
            task.cancel()

    async def connected(self) -> None:
        await self.server.connected.wait()
        await pass_time(0.01)
        self.server.connected.clear()


def play(script: Callable[[Scene], Awaitable[None]], *, seed: int = 0) -> None:
    async def main() -> None:
        scene = Scene()
        with scene.running():
            await script(scene)

    run_virtual(main, seed=seed)


def test_all_pages_are_listed_and_then_watched_from_there() -> None:
    async def main() -> None:
        scene = Scene()
        for name in "abcde":
            scene.server.put(name)
        with scene.running():
            await scene.connected()
            assert scene.informer.synced.is_set()
            assert scene.names() == list("abcde")
            assert scene.informer.store.revision == scene.server.revision
            scene.server.put("f")
            scene.server.delete("a")
            await pass_time(0.1)
            assert scene.names() == list("bcdef")
            assert scene.informer.store.revision == scene.server.revision
            assert scene.told[-2:] == [("-", "f@uid-f"), ("a@uid-a", "-")]
            assert scene.server.count("list") == 1

    run_virtual(main)


def test_an_informer_that_keeps_nothing_tells_what_it_sees() -> None:
    async def main() -> None:
        server, told = FakeServer(), list[str]()
        server.put("a")
        informer = Informer(server, THINGS, Object, keeps=False, clock=virtual_clock(), rng=random.Random(0))
        informer.subscribe(lambda old, new: told.append(f"{old and old.name}>{new and new.name}"))
        task = asyncio.create_task(informer.run())
        await server.connected.wait()
        server.put("a")
        server.put("b")
        server.delete("a")
        await pass_time(0.1)
        task.cancel()
        assert told == ["None>a", "None>a", "None>b"]
        assert len(informer.store) == 0
        assert informer.store.revision == server.revision

    run_virtual(main)


def test_others_get_their_turn_between_pages() -> None:
    async def main() -> None:
        scene = Scene()
        for name in "abcde":
            scene.server.put(name)
        sizes: list[int] = []
        scene.server.between_pages = lambda: sizes.append(len(scene.informer.store))
        with scene.running():
            await scene.connected()
        assert sizes == [2, 4]

    run_virtual(main)


def test_a_bookmark_moves_the_revision_and_nothing_else() -> None:
    async def script(scene: Scene) -> None:
        await scene.connected()
        scene.server.revision += 50
        scene.server.bookmark()
        await pass_time(0.1)
        assert scene.informer.store.revision == scene.server.revision
        assert scene.told == []

    play(script)


def test_what_vanished_while_the_watch_was_gone_is_told_as_deleted_after_the_relist() -> None:
    async def script(scene: Scene) -> None:
        scene.server.put("a")
        scene.server.put("b")
        await scene.connected()
        scene.server.silent = True
        scene.server.delete("a")
        scene.server.put("c")
        scene.server.send(gone())
        await scene.connected()
        assert scene.names() == ["b", "c"]
        assert scene.told[-2:] == [("-", "c@uid-c"), ("a@uid-a", "-")]
        assert ("b@uid-b", "b@uid-b") not in scene.told, "what did not change is not told"
        assert scene.server.count("list") == 2

    play(script)


@pytest.mark.parametrize("silent", [True, False], ids=["found by a relist", "seen in the watch"])
def test_a_namesake_with_another_uid_is_a_deletion_and_an_addition(silent: bool) -> None:
    async def script(scene: Scene) -> None:
        scene.server.put("a", uid="first")
        await scene.connected()
        scene.server.silent = silent
        scene.server.put("a", uid="second")
        if silent:
            scene.server.send(gone())
            await scene.connected()
        await pass_time(0.1)
        assert scene.told == [("-", "a@first"), ("a@first", "-"), ("-", "a@second")]

    play(script)


def test_an_expired_list_is_taken_in_one_piece_next_time() -> None:
    async def main() -> None:
        scene = Scene()
        for name in "abc":
            scene.server.put(name)

        def expire() -> None:
            raise gone()

        scene.server.between_pages = expire
        with scene.running():
            await scene.connected()
            assert scene.names() == ["a", "b", "c"]
            assert scene.server.count("list") == 2

    run_virtual(main)


def test_old_events_never_overwrite_newer_objects() -> None:
    async def script(scene: Scene) -> None:
        scene.server.put("a", labels={"color": "red"})
        new = scene.server.put("a", labels={"color": "blue"})
        await scene.connected()
        scene.server.send(WatchEvent("MODIFIED", thing("a", 11), "11"))
        scene.server.send(WatchEvent("DELETED", thing("a", 11), "11"))
        await pass_time(0.1)
        assert scene.informer.store.get(Key("ns", "a")) == new
        assert scene.informer.store.revision == scene.server.revision

    play(script)


def test_a_server_restored_from_a_backup_is_believed() -> None:
    async def script(scene: Scene) -> None:
        scene.server.revision = 1000
        scene.server.put("a")
        await scene.connected()
        scene.server.silent = True
        scene.server.revision = 500
        scene.server.history.clear()
        scene.server.put("a", labels={"color": "red"})
        scene.server.send(gone())
        await scene.connected()
        assert [item.labels for item in scene.informer.store] == [{"color": "red"}]
        assert scene.informer.store.revision == 501

    play(script)


def test_a_clean_end_continues_from_the_last_version_without_a_new_list() -> None:
    async def script(scene: Scene) -> None:
        await scene.connected()
        scene.server.put("a")
        await pass_time(60)
        scene.server.send(None)
        await scene.connected()
        scene.server.put("b")
        await pass_time(0.1)
        assert scene.names() == ["a", "b"]
        assert (scene.server.count("list"), scene.server.count("watch")) == (1, 2)

    play(script)


def test_connections_that_break_now_and_then_are_taken_up_again_quickly_each_time() -> None:
    async def script(scene: Scene) -> None:
        for number in range(30):
            await scene.connected()
            await pass_time(120)
            scene.server.send(Unreachable("reset"))
            await pass_time(0.2)
            scene.server.put(f"o{number}")
            await pass_time(0.1)
            assert len(scene.informer.store) == number + 1
        assert scene.server.count("list") == 1
        assert scene.informer.problem is None

    play(script)


def fail_with(error: Exception, *verbs: str) -> Callable[[str], None]:
    def fail(verb: str) -> None:
        if verb in verbs:
            raise error

    return fail


def test_a_kind_of_which_nothing_is_heard_is_watched_again_and_is_no_problem(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def script(scene: Scene) -> None:
        scene.server.put("a")
        await scene.connected()
        for _ in range(3):
            await pass_time(120)
            scene.server.send(Stalled("silent"))
            await scene.connected()
            assert scene.informer.problem is None
        scene.server.put("b")
        await pass_time(0.01)
        assert scene.names() == ["a", "b"]
        assert (scene.server.count("list"), scene.server.count("watch")) == (1, 4)

    with caplog.at_level(logging.INFO):
        play(script)
    assert caplog.messages == []


class EndsAtOnce(FakeServer):
    """Every watch ends as soon as it has begun."""

    def __init__(self) -> None:
        super().__init__()
        self.error: Exception | None = None

    def _request(self, verb: str) -> None:
        super()._request(verb)
        if verb == "watch":
            asyncio.get_running_loop().call_soon(self.send, self.error)


@pytest.mark.parametrize(
    "error", [None, gone(), Unreachable("reset")], ids=["clean end", "410", "connection lost"]
)
@pytest.mark.parametrize("seed", range(3))
def test_watches_that_end_at_once_never_become_a_hot_loop(error: Exception | None, seed: int) -> None:
    async def main() -> int:
        server = EndsAtOnce()
        server.error = error
        informer = Informer(server, THINGS, Object, clock=virtual_clock(), rng=random.Random(seed))
        task = asyncio.create_task(informer.run())
        await pass_time(600)
        task.cancel()
        return len(server.requests)

    # Ten minutes at one round each 15 to 30 seconds, after a quick start; a round is a list and a watch at most.
    assert 20 < run_virtual(main, seed=seed) < 110


def test_an_unreachable_server_is_asked_ever_more_slowly_and_the_problem_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def script(scene: Scene) -> None:
        scene.server.fail = fail_with(Unreachable("connection refused"), "list", "watch")
        await pass_time(600)
        assert 20 < len(scene.server.requests) < 60
        assert scene.informer.problem == "cannot list things.example.org: connection refused"
        scene.server.fail = lambda verb: None
        await pass_time(60)
        assert scene.informer.synced.is_set()
        assert scene.informer.problem is None

    with caplog.at_level(logging.INFO, "grove"):
        play(script)
    assert [record.message for record in caplog.records] == [
        "resource cannot be read",
        "resource is readable again",
    ]


def test_a_server_that_only_fills_its_cache_of_the_kind_is_asked_again_soon() -> None:
    async def script(scene: Scene) -> None:
        refusal = TooManyRequests("storage is (re)initializing", retry_after=1)
        scene.server.fail = fail_with(refusal, "watch")
        await pass_time(0.05)
        assert scene.informer.synced.is_set()
        scene.server.fail = fail_with(refusal)
        await pass_time(0.5)
        assert scene.server.connected.is_set()

    play(script)


def test_the_wait_that_the_server_asks_for_is_kept() -> None:
    async def script(scene: Scene) -> None:
        scene.server.fail = fail_with(TooManyRequests("slow down", retry_after=100), "list")
        await pass_time(99)
        assert len(scene.server.requests) == 1
        await pass_time(2)
        assert len(scene.server.requests) == 2

    play(script)


@pytest.mark.parametrize(
    ("error", "want"),
    [
        (
            Forbidden("forbidden", status=403),
            "not allowed to list things.example.org in the whole cluster: grant the verbs 'list' and 'watch' on"
            " resource 'things' of API group 'example.org' to the operator's service account"
            " (the server said: forbidden)",
        ),
        (
            NotFound("no such path", status=404),
            "the API server does not serve things.example.org in version v1: install the"
            " CustomResourceDefinition of kind Thing (the server said: no such path)",
        ),
    ],
    ids=["403", "404"],
)
def test_what_only_a_person_can_mend_is_explained_once_and_retried_slowly(
    error: Exception, want: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(scene: Scene) -> None:
        scene.server.fail = fail_with(error, "list")
        await pass_time(600)
        assert scene.informer.problem == want
        assert not scene.informer.synced.is_set()
        assert 15 < len(scene.server.requests) < 50
        scene.server.fail = lambda verb: None
        await pass_time(31)
        assert scene.informer.synced.is_set()
        assert scene.informer.problem is None

    with caplog.at_level(logging.WARNING, "grove"):
        play(script)
    assert [record.message for record in caplog.records] == ["resource cannot be read"]


def test_a_missing_watch_permission_is_told_once_by_its_verb_and_does_not_lead_to_new_lists(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def script(scene: Scene) -> None:
        scene.server.fail = fail_with(Forbidden("no"), "watch")
        await pass_time(600)
        assert scene.informer.synced.is_set()
        assert "not allowed to watch things.example.org" in (scene.informer.problem or "")
        assert scene.server.count("list") == 1
        assert 15 < scene.server.count("watch") < 50
        scene.server.fail = lambda verb: None
        await pass_time(31)
        scene.server.put("a")
        await pass_time(1)
        assert scene.informer.problem is None

    with caplog.at_level(logging.WARNING, "grove"):
        play(script)
    assert [record.message for record in caplog.records] == ["resource cannot be read"]


def test_an_object_in_the_watch_that_cannot_be_read_is_told_once_although_lists_succeed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def script(scene: Scene) -> None:
        scene.server.fail = fail_with(ValueError("not an object"), "watch")
        await pass_time(600)
        assert "cannot watch things.example.org" in (scene.informer.problem or "")
        assert len(scene.server.requests) < 110

    with caplog.at_level(logging.WARNING, "grove"):
        play(script)
    assert len(caplog.records) == 1


def test_an_object_that_cannot_be_read_does_not_kill_the_informer() -> None:
    async def script(scene: Scene) -> None:
        scene.server.fail = fail_with(ValueError("not an object"), "list")
        await pass_time(60)
        assert "unexpected error" in (scene.informer.problem or "")
        scene.server.fail = lambda verb: None
        await pass_time(60)
        assert scene.informer.synced.is_set()

    play(script)


def test_a_listener_that_fails_neither_kills_the_informer_nor_deafens_the_others() -> None:
    async def main() -> None:
        scene = Scene()

        def broken(old: Object | None, new: Object | None) -> None:
            raise RuntimeError("mine")

        scene.informer.subscribe(broken)
        later: list[int] = []
        scene.informer.subscribe(lambda old, new: later.append(len(scene.informer.store)))
        with scene.running():
            await scene.connected()
            scene.server.put("a")
            scene.server.put("b")
            await pass_time(1)
        assert later == [1, 2], "each is told after the store has changed"

    run_virtual(main)


def test_a_late_listener_is_told_what_is_there_and_can_leave_again() -> None:
    async def script(scene: Scene) -> None:
        scene.server.put("a")
        await scene.connected()
        heard: list[str] = []
        leave = scene.informer.subscribe(lambda old, new: heard.append(new.name if new else "-"))
        leave()
        scene.server.put("b")
        await pass_time(1)
        assert heard == ["a"]

    play(script)


def test_indexes_follow_every_change() -> None:
    async def script(scene: Scene) -> None:
        def of(color: str) -> list[str]:
            return [item.name for item in scene.informer.store.index("color", color)]

        scene.server.put("a", labels={"color": "red"})
        scene.server.put("b", labels={"color": "red"})
        await scene.connected()
        assert of("red") == ["a", "b"]
        scene.server.put("a", labels={"color": "blue"})
        await pass_time(0.1)
        assert (of("red"), of("blue")) == (["b"], ["a"])
        scene.server.delete("b")
        scene.server.put("a")
        await pass_time(0.1)
        assert (of("red"), of("blue")) == ([], [])

    play(script)


def test_an_unknown_index_is_an_error_that_names_the_known_ones() -> None:
    store: Store[Object] = Store({"owner": lambda item: []})
    with pytest.raises(KeyError, match="there is no index 'colour'; this store has owner"):
        store.index("colour", "red")


def test_a_kind_of_others_keeps_its_whole_manifest() -> None:
    async def main() -> None:
        server = FakeServer()
        server.put("a")
        informer = Informer(server, OTHERS, UntypedObject, clock=virtual_clock(), rng=random.Random(0))
        task = asyncio.create_task(informer.run())
        await informer.synced.wait()
        await pass_time(1)
        server.put("b")
        await pass_time(1)
        task.cancel()
        for name in ("a", "b"):
            item = informer.store.get(Key("ns", name))
            assert item is not None
            assert (item.uid, item.kind, item.manifest["kind"]) == (f"uid-{name}", "Other", "Other")
            assert item.manifest["spec"] == {"x": 1}

    run_virtual(main)


def test_who_manages_the_fields_of_a_kind_of_others_is_not_kept() -> None:
    metadata = {"name": "a", "labels": {"x": "y"}, "managedFields": [{"manager": "somebody"}]}
    item = UntypedObject.of({"metadata": metadata, "spec": {"x": 1}}, OTHERS)
    assert item.manifest["metadata"] == {"name": "a", "labels": {"x": "y"}}
    assert (item.name, item.manifest["spec"]) == ("a", {"x": 1})


def test_objects_that_were_applied_alike_share_the_names_of_their_fields() -> None:
    def applied(name: str) -> UntypedObject:
        entry = {"manager": "m", "operation": "Apply", "fieldsV1": {"f:spec": {"f:x": {}}}}
        return UntypedObject.of({"metadata": {"name": name, "managedFields": [entry]}}, OTHERS)

    assert applied("a").applied == {"m": {"spec": {"x": {}}}}
    assert applied("a").applied["m"] is applied("b").applied["m"]


def test_the_cache_starts_what_is_added_later_and_says_what_is_missing() -> None:
    async def main() -> None:
        server = FakeServer()
        server.put("a")
        cache = Cache(server, virtual_clock(), rng=random.Random(0))
        first = cache.add(THINGS, Object)
        assert cache.missing() == ["things.example.org is still being listed"]
        running = asyncio.create_task(cache.run())
        await cache.wait_synced()
        assert cache.missing() == []
        second = cache.add(OTHERS, UntypedObject, indexes={"name": lambda item: [item.name]})
        assert cache.missing() == ["others.example.org is still being listed"]
        await cache.wait_synced()
        assert second.store.index("name", "a")[0].name == "a"
        assert cache.store(Object) is first.store
        assert cache.store(UntypedObject) is second.store
        assert cache.add(THINGS, Object, indexes={"uid": lambda item: [item.uid]}) is first
        assert len(first.store.index("uid", "uid-a")) == 1
        with pytest.raises(ValueError, match="already cached as Object"):
            cache.add(THINGS, Object, namespace="elsewhere")
        cache.remove(OTHERS)
        assert cache.informer(OTHERS) is None
        with pytest.raises(KeyError, match="0 cached resources have the type UntypedObject"):
            cache.store(UntypedObject)
        running.cancel()

    run_virtual(main)


def test_waiting_for_the_sync_notices_what_is_added_and_removed_meanwhile() -> None:
    async def main() -> None:
        server = FakeServer()
        server.fail = fail_with(Forbidden("no"), "list")
        cache = Cache(server, virtual_clock(), rng=random.Random(0))
        cache.add(THINGS, Object)
        running = asyncio.create_task(cache.run())
        waiting = asyncio.create_task(cache.wait_synced())
        await pass_time(5)
        assert not waiting.done()
        assert "not allowed to list things.example.org" in cache.missing()[0]
        cache.remove(THINGS)
        await pass_time(1)
        assert waiting.done()
        running.cancel()

    run_virtual(main)


class Worn(Object):
    """A kind whose statuses are often alike."""

    SHARED: ClassVar[tuple[str, ...]] = ("status",)

    status: tuple[str, ...] = ()


def test_equal_values_of_a_shared_field_are_one_value_and_others_stay_apart() -> None:
    store: Store[Worn] = Store()
    for name, status in (("a", "runs"), ("b", "runs"), ("c", "waits")):
        store.put(Worn(metadata=ObjectMeta(name=name), status=(status,)))
    a, b, c = sorted(store, key=lambda item: item.name)
    assert a.status is b.status
    assert (b.status, c.status) == (("runs",), ("waits",))
