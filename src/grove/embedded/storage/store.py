"""Where the objects are: one global revision, a table per resource, and a ring of past events per table.

Objects are immutable once stored: a write replaces the whole object, and whoever reads must not change what
it got. Each object is serialised once, when it is written; lists and watch frames reuse those bytes. The
ring carries the previous object of every event, so a table can be shown as it was at any revision that the
ring still covers: that is what makes list paging consistent and watches resumable. Knows no HTTP and no
kinds.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from grove.embedded.errors import ApiError, Manifest, gone

TableKey = tuple[str, str]
ObjectKey = tuple[str, str]
Predicate = Callable[[Manifest], bool]

encode = msgspec.json.Encoder().encode

RING = 4096
WATCH_BUFFER = 16384


class Entry:
    """One stored object with its bytes."""

    __slots__ = ("obj", "raw", "revision")

    def __init__(self, obj: Manifest, raw: bytes, revision: int) -> None:
        self.obj = obj
        self.raw = raw
        self.revision = revision


class Event:
    """One change of one object; `frame` gives the bytes that a watcher sends."""

    __slots__ = ("_frames", "entry", "key", "previous", "revision", "type")

    def __init__(self, kind: str, key: ObjectKey, entry: Entry, previous: Entry | None) -> None:
        self.type = kind
        self.key = key
        self.entry = entry
        self.previous = previous
        self.revision = entry.revision
        self._frames: dict[str, bytes] = {}

    def frame(self, kind: str) -> bytes:
        """The event as JSON, under the type that the watcher's selector makes of it; built once for all
        watchers."""
        found = self._frames.get(kind)
        if found is None:
            raw = self.entry.raw if kind == self.type or kind != "DELETED" else encode(self.object_for(kind))
            found = b'{"type":"' + kind.encode() + b'","object":' + raw + b"}\n"
            self._frames[kind] = found
        return found

    def object_for(self, kind: str) -> Manifest:
        """The object to show: one that left a selector is shown as it last matched, at the new revision."""
        if kind != "DELETED" or self.type == "DELETED" or self.previous is None:
            return self.entry.obj
        return _at_revision(self.previous.obj, self.revision)


def _at_revision(obj: Manifest, revision: int) -> Manifest:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}


def _removal(place: ObjectKey, previous: Entry, revision: int) -> Event:
    last = _at_revision(previous.obj, revision)
    return Event("DELETED", place, Entry(last, encode(last), revision), previous)


class Watcher:
    """One consumer of a table's events, with its own buffer; a consumer that falls too far behind is cut
    off."""

    __slots__ = ("_limit", "_wake", "buffer", "closed", "error", "namespace", "predicate", "since")

    def __init__(self, namespace: str, predicate: Predicate | None, since: int, limit: int) -> None:
        self.namespace = namespace
        self.predicate = predicate
        self.since = since
        self.buffer: deque[tuple[str, Event]] = deque()
        self.closed = False
        self.error: ApiError | None = None
        self._limit = limit
        self._wake: asyncio.Future[None] | None = None

    def offer(self, event: Event) -> None:
        if event.revision <= self.since or (self.namespace and event.key[0] != self.namespace):
            return
        kind = self._seen_as(event)
        if not kind:
            return
        if len(self.buffer) >= self._limit:
            self.close()
            return
        self.buffer.append((kind, event))
        self.wake()

    def _seen_as(self, event: Event) -> str:
        """The event's type for this watcher; empty when its selector matches neither before nor after."""
        matches = self.predicate
        if matches is None:
            return event.type
        before = event.previous is not None and matches(event.previous.obj)
        if event.type == "DELETED":
            return "DELETED" if before else ""
        if matches(event.entry.obj):
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else ""

    def close(self, error: ApiError | None = None) -> None:
        """Ends the watch after what is buffered, with an ERROR event when there is an error to tell."""
        self.closed = True
        self.error = self.error or error
        self.wake()

    def wake(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def wait(self, timeout: float) -> None:
        """Returns when there is something to send, the watch was closed, or the time is over."""
        if self.buffer or self.closed:
            return
        loop = asyncio.get_running_loop()
        self._wake = loop.create_future()
        timer = loop.call_later(timeout, self.wake)
        try:
            await self._wake
        finally:
            timer.cancel()
            self._wake = None


class Table:
    """The objects of one resource."""

    __slots__ = ("_past", "_sorted", "compacted", "entries", "ring", "watchers")

    def __init__(self, ring: int, compacted: int) -> None:
        self.entries: dict[ObjectKey, Entry] = {}
        self.ring: deque[Event] = deque(maxlen=ring)
        self.watchers: set[Watcher] = set()
        self.compacted = compacted
        """The newest revision that the ring has forgotten: a watch must start at it or later."""
        self._sorted: list[ObjectKey] | None = None
        self._past: dict[int, list[tuple[ObjectKey, Entry]]] = {}

    def copy(self) -> Table:
        twin = Table(self.ring.maxlen or RING, self.compacted)
        twin.entries = dict(self.entries)
        twin.ring.extend(self.ring)
        return twin

    def record(self, event: Event) -> None:
        if event.type != "MODIFIED":
            self._sorted = None
        if len(self.ring) == self.ring.maxlen:
            self.compacted = self.ring[0].revision
        self.ring.append(event)

    def keys(self) -> list[ObjectKey]:
        if self._sorted is None:
            self._sorted = sorted(self.entries)
        return self._sorted

    def in_order(self, namespace: str = "", after: ObjectKey | None = None) -> list[tuple[ObjectKey, Entry]]:
        """The objects by namespace and name, from just after a key on."""
        keys = self.keys()
        start = 0 if after is None else bisect_left(keys, (after[0], after[1] + "\0"))
        end = len(keys)
        if namespace:
            start = max(start, bisect_left(keys, (namespace, "")))
            end = bisect_left(keys, (namespace + "\0", ""))
        entries = self.entries
        return [(key, entries[key]) for key in keys[start:end]]

    def as_of(self, revision: int) -> list[tuple[ObjectKey, Entry]]:
        """The objects as they were at a revision, by undoing the events since; 410 when the ring forgot
        them."""
        if revision < self.compacted:
            raise gone(f"The resourceVersion for the provided list is too old: {revision} ({self.compacted})")
        found = self._past.get(revision)
        if found is None:
            entries = dict(self.entries)
            for event in reversed(self.ring):
                if event.revision <= revision:
                    break
                if event.previous is None:
                    entries.pop(event.key, None)
                else:
                    entries[event.key] = event.previous
            found = sorted(entries.items(), key=lambda item: item[0])
            if len(self._past) >= 4:
                self._past.pop(next(iter(self._past)))
            self._past[revision] = found
        return found

    def compact(self, revision: int) -> None:
        self.ring.clear()
        self._past.clear()
        self.compacted = revision


@dataclass(frozen=True)
class Snapshot:
    """The whole state at one moment; tables are copies, objects are shared because nobody changes them."""

    revision: int
    tables: dict[TableKey, Table] = field(repr=False)


class Store:
    """Every object of the cluster."""

    def __init__(self, *, ring: int = RING, watch_buffer: int = WATCH_BUFFER) -> None:
        self.revision = 1
        self.listeners: list[Callable[[TableKey, Event], None]] = []
        """Told of every change, after it."""
        self.keep: Callable[[Sequence[tuple[TableKey, Event]]], None] | None = None
        """Keeps changes before they are made; when it raises, they are not made."""
        self._ring = ring
        self._watch_buffer = watch_buffer
        self._origin = 1
        self._tables: dict[TableKey, Table] = {}

    def table(self, key: TableKey) -> Table:
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = Table(self._ring, self._origin)
        return table

    def tables(self) -> Iterator[tuple[TableKey, Table]]:
        return iter(self._tables.items())

    def find(self, key: TableKey, namespace: str, name: str) -> Entry | None:
        return self.table(key).entries.get((namespace, name))

    def put(self, key: TableKey, obj: Manifest) -> Entry:
        """Stores an object under the next revision, which it stamps into the object."""
        event = self._put_event(key, obj)
        self._change(key, event)
        return event.entry

    def remove(self, key: TableKey, namespace: str, name: str) -> Entry:
        """Removes an object; its last state, at the revision of the removal, is what watchers are told."""
        previous = self.table(key).entries[namespace, name]
        event = _removal((namespace, name), previous, self.revision + 1)
        self._change(key, event)
        return event.entry

    def retire(self, key: TableKey, obj: Manifest) -> Entry:
        """Stores the last state of an object and removes it, both or neither."""
        stored = self._put_event(key, obj)
        removed = _removal(stored.key, stored.entry, stored.revision + 1)
        self._change(key, stored, removed)
        return removed.entry

    def _put_event(self, key: TableKey, obj: Manifest) -> Event:
        revision = self.revision + 1
        meta = obj["metadata"]
        meta["resourceVersion"] = str(revision)
        place = (meta.get("namespace") or "", meta["name"])
        previous = self.table(key).entries.get(place)
        return Event("MODIFIED" if previous else "ADDED", place, Entry(obj, encode(obj), revision), previous)

    def _change(self, key: TableKey, *events: Event) -> None:
        """Keeps events and only then makes them true."""
        if self.keep is not None:
            self.keep([(key, event) for event in events])
        table = self.table(key)
        for event in events:
            self.revision = event.revision
            if event.type == "DELETED":
                del table.entries[event.key]
            else:
                table.entries[event.key] = event.entry
            self._emit(key, table, event)

    def _emit(self, key: TableKey, table: Table, event: Event) -> None:
        table.record(event)
        for listener in self.listeners:
            listener(key, event)
        for watcher in table.watchers:
            watcher.offer(event)

    def watch(
        self,
        key: TableKey,
        *,
        namespace: str = "",
        predicate: Predicate | None = None,
        since: int | None = None,
    ) -> Watcher:
        """Events after a revision (410 when the ring has forgotten it), or from now on when there is none."""
        table = self.table(key)
        if since is not None and since < table.compacted:
            raise gone(f"too old resource version: {since} ({table.compacted})")
        start = self.revision if since is None else since
        watcher = Watcher(namespace, predicate, start, self._watch_buffer)
        for event in table.ring:
            watcher.offer(event)
        table.watchers.add(watcher)
        return watcher

    def unwatch(self, key: TableKey, watcher: Watcher) -> None:
        self.table(key).watchers.discard(watcher)

    def compact(self) -> None:
        """Forgets every past event: watches and continue tokens from before now get 410."""
        self._origin = self.revision
        for table in self._tables.values():
            table.compact(self.revision)

    def end_watches(self, key: TableKey | None = None, error: ApiError | None = None) -> None:
        """Closes the watches of one table or of all."""
        for table_key, table in self._tables.items():
            if key in (None, table_key):
                for watcher in list(table.watchers):
                    watcher.close(error)

    def load(self, key: TableKey, obj: Manifest, raw: bytes, revision: int) -> None:
        """Puts back an object that a journal kept, without an event."""
        meta = obj["metadata"]
        self.table(key).entries[meta.get("namespace") or "", meta["name"]] = Entry(obj, raw, revision)

    def begin_at(self, revision: int) -> None:
        """Continues the revisions of an earlier life; nothing before this revision can be watched."""
        self.revision = max(self.revision, revision)
        self.compact()

    def snapshot(self) -> Snapshot:
        return Snapshot(self.revision, {key: table.copy() for key, table in self._tables.items()})

    def restore(self, snapshot: Snapshot) -> None:
        """Goes back to a snapshot. Open watches end with 410, for their history is no longer this one."""
        self.end_watches(error=gone("the state of this cluster was restored; list again"))
        self.revision = snapshot.revision
        self._tables = {key: table.copy() for key, table in snapshot.tables.items()}

    def fork(self) -> Store:
        """A second store with the same objects and history; from now on each goes its own way."""
        twin = Store(ring=self._ring, watch_buffer=self._watch_buffer)
        twin._origin = self._origin
        twin.restore(self.snapshot())
        return twin
