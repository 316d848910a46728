"""The store: revisions, frames, watches and the past."""

from __future__ import annotations

import msgspec
import pytest

from grove.embedded.errors import ApiError, Manifest
from grove.embedded.storage.store import Store

KEY = ("", "configmaps")


def thing(name: str, **labels: str) -> Manifest:
    return {"metadata": {"name": name, "namespace": "n", "labels": labels}}


def labelled(obj: Manifest) -> bool:
    return (obj["metadata"].get("labels") or {}).get("on") == "yes"


def test_every_write_gets_the_next_revision_of_one_global_counter() -> None:
    store = Store()
    first = store.put(KEY, thing("a"))
    second = store.put(("", "secrets"), thing("b"))
    assert second.revision == first.revision + 1 == store.revision
    assert second.obj["metadata"]["resourceVersion"] == str(store.revision)


def test_a_watch_from_a_revision_replays_what_came_after_it() -> None:
    store = Store()
    seen = store.put(KEY, thing("a")).revision
    store.put(KEY, thing("b"))
    store.remove(KEY, "n", "a")
    watcher = store.watch(KEY, since=seen)
    assert [(kind, event.key[1]) for kind, event in watcher.buffer] == [("ADDED", "b"), ("DELETED", "a")]


def test_a_selector_turns_changes_into_additions_and_removals() -> None:
    store = Store()
    watcher = store.watch(KEY, predicate=labelled)
    store.put(KEY, thing("a"))
    store.put(KEY, thing("a", on="yes"))
    store.put(KEY, thing("a", on="yes", more="1"))
    store.put(KEY, thing("a"))
    store.remove(KEY, "n", "a")
    assert [kind for kind, _ in watcher.buffer] == ["ADDED", "MODIFIED", "DELETED"]


def test_an_object_that_leaves_a_selector_is_shown_as_it_last_matched() -> None:
    store = Store()
    store.put(KEY, thing("a", on="yes"))
    watcher = store.watch(KEY, predicate=labelled)
    store.put(KEY, thing("a"))
    [(kind, event)] = watcher.buffer
    frame = msgspec.json.decode(event.frame(kind))
    assert frame["type"] == "DELETED"
    assert frame["object"]["metadata"]["labels"] == {"on": "yes"}
    assert frame["object"]["metadata"]["resourceVersion"] == str(store.revision)


def test_frames_are_built_once_for_all_watchers() -> None:
    store = Store()
    watchers = [store.watch(KEY) for _ in range(3)]
    store.put(KEY, thing("a"))
    frames = {id(event.frame(kind)) for watcher in watchers for kind, event in watcher.buffer}
    assert len(frames) == 1


def test_a_watch_from_before_the_ring_is_gone() -> None:
    store = Store(ring=2)
    start = store.revision
    for name in "abc":
        store.put(KEY, thing(name))
    with pytest.raises(ApiError) as caught:
        store.watch(KEY, since=start)
    assert caught.value.status == 410


def test_a_watcher_that_does_not_read_is_cut_off() -> None:
    store = Store(watch_buffer=2)
    watcher = store.watch(KEY)
    for name in "abc":
        store.put(KEY, thing(name))
    assert watcher.closed
    assert len(watcher.buffer) == 2


def test_a_table_can_be_shown_as_it_was() -> None:
    store = Store()
    store.put(KEY, thing("a"))
    store.put(KEY, thing("b", on="yes"))
    then = store.revision
    store.put(KEY, thing("b"))
    store.remove(KEY, "n", "a")
    store.put(KEY, thing("c"))
    past = store.table(KEY).as_of(then)
    assert [key[1] for key, _ in past] == ["a", "b"]
    assert labelled(past[1][1].obj)


def test_a_fork_goes_its_own_way() -> None:
    store = Store()
    store.put(KEY, thing("a"))
    twin = store.fork()
    twin.put(KEY, thing("b"))
    store.remove(KEY, "n", "a")
    assert [key for key, _ in twin.table(KEY).in_order()] == [("n", "a"), ("n", "b")]
    assert not store.table(KEY).entries


def test_restoring_ends_open_watches_with_410() -> None:
    store = Store()
    snapshot = store.snapshot()
    watcher = store.watch(KEY)
    store.put(KEY, thing("a"))
    store.restore(snapshot)
    assert watcher.closed
    assert watcher.error is not None
    assert watcher.error.status == 410
    assert not store.table(KEY).entries
