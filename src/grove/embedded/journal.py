"""Keeps a cluster's objects on disk so that it can be stopped and started again.

An SQLite file in WAL mode, written behind in small batches: a crash of the process may lose the last
moments, a clean stop loses nothing. Kept are the objects, not the history: after a restart every watch must
list again.
"""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import msgspec

from grove.embedded.store import Event, Store, TableKey

BATCH_SECONDS = 0.02
FILE = "cluster.db"
_SCHEMA = """
create table if not exists objects (
  grp text not null, plural text not null, namespace text not null, name text not null,
  revision integer not null, body blob not null,
  primary key (grp, plural, namespace, name)
) without rowid;
create table if not exists facts (name text primary key, value text not null) without rowid;
"""
_Row = tuple[str, str, str, str]
decode = msgspec.json.Decoder().decode


class Journal:
    """One data directory. `durable` waits for the disk at every batch."""

    def __init__(self, data_dir: Path, *, durable: bool = False) -> None:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._database = sqlite3.connect(data_dir / FILE, isolation_level=None)
        self._database.execute("pragma journal_mode=wal")
        self._database.execute(f"pragma synchronous={'full' if durable else 'normal'}")
        self._database.executescript(_SCHEMA)
        self._pending: dict[_Row, tuple[int, bytes] | None] = {}
        self._revision = 0
        self._timer: asyncio.TimerHandle | None = None

    def fact(self, name: str) -> str | None:
        """A small thing that must survive a restart besides the objects."""
        row = self._database.execute("select value from facts where name = ?", (name,)).fetchone()
        return row[0] if row else None

    def remember(self, name: str, value: str) -> None:
        self._database.execute("insert or replace into facts values (?, ?)", (name, value))

    def load(self, store: Store) -> int:
        """Puts every kept object back into a store; returns how many."""
        count = 0
        rows = self._database.execute("select grp, plural, revision, body from objects")
        for group, plural, revision, body in rows:
            store.load((group, plural), decode(body), bytes(body), revision)
            count += 1
        store.begin_at(int(self.fact("revision") or 0))
        return count

    def record(self, key: TableKey, event: Event) -> None:
        """Takes note of one change; written with the next batch."""
        place = (*key, *event.key)
        self._pending[place] = None if event.type == "DELETED" else (event.revision, event.entry.raw)
        self._revision = event.revision
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(BATCH_SECONDS, self.flush)

    def flush(self) -> None:
        """Writes what is pending in one transaction."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._pending:
            return
        changes, self._pending = self._pending, {}
        kept = [(*place, *value) for place, value in changes.items() if value is not None]
        gone = [place for place, value in changes.items() if value is None]
        database = self._database
        database.execute("begin")
        database.executemany("insert or replace into objects values (?, ?, ?, ?, ?, ?)", kept)
        where = "grp = ? and plural = ? and namespace = ? and name = ?"
        database.executemany(f"delete from objects where {where}", gone)
        database.execute("insert or replace into facts values ('revision', ?)", (str(self._revision),))
        database.execute("commit")

    def close(self) -> None:
        self.flush()
        self._database.close()
