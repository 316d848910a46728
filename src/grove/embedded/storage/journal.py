"""Keeps a cluster's objects on disk so that it can be stopped, or killed, and started again.

Every change is appended to a write-ahead file before the store shows it to anybody, so that what was
acknowledged survives the death of the process; only `durable` also waits for the disk, for the death of the
machine. Many changes at a time go on to an SQLite file, and the write-ahead file starts over. A change that
cannot be written is refused and leaves no trace. Kept are the objects, not the history: after a restart every
watch must list again. One process at a time may use a directory.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import logging
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import msgspec

from grove.embedded.errors import NotStored
from grove.embedded.storage.store import Event, Store, TableKey
from grove.embedded.storage.write_ahead import Row, WriteAhead

log = logging.getLogger(__name__)
BATCH_SECONDS = 0.02
RETRY_SECONDS = 1.0
FILE = "cluster.db"
CHANGES = "changes"
LOCK = "lock"
LAYOUT = 1
REVISIONS_AT_ONCE = 10_000
"""How many revisions are set aside at once; as many may be skipped after the process was killed."""
_SCHEMA = """
create table if not exists objects (
  grp text not null, plural text not null, namespace text not null, name text not null,
  revision integer not null, body blob not null,
  primary key (grp, plural, namespace, name)
) without rowid;
create table if not exists facts (name text primary key, value text not null) without rowid;
"""
_PUT = "insert or replace into objects values (?, ?, ?, ?, ?, ?)"
_REMOVE = "delete from objects where grp = ? and plural = ? and namespace = ? and name = ?"
_FULL = (errno.ENOSPC, errno.EDQUOT)
decode = msgspec.json.Decoder().decode


class DirectoryInUse(Exception):
    """Another process works with the data directory; the message names both."""


class Journal:
    """One data directory, locked until `close`. `durable` waits for the disk at every change."""

    def __init__(self, data_dir: Path, *, durable: bool = False) -> None:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = _locked(data_dir)
        try:
            self._database = _opened(data_dir / FILE, durable=durable)
            self._changes = WriteAhead(data_dir / CHANGES, durable=durable)
        except BaseException:
            os.close(self._lock)
            raise
        self._pending: dict[Row, tuple[int, bytes] | None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._reserved = 0

    # --- facts

    def fact(self, name: str) -> str | None:
        """A small thing that must survive a restart besides the objects."""
        row = self._database.execute("select value from facts where name = ?", (name,)).fetchone()
        return row[0] if row else None

    def remember(self, name: str, value: str) -> None:
        """Keeps a fact, and all changes before it, in the main file, where a lost log cannot undo it."""
        self._commit()
        self._database.execute("insert or replace into facts values (?, ?)", (name, value))
        self._checkpoint()

    def _checkpoint(self) -> None:
        busy, _, _ = self._database.execute("pragma wal_checkpoint(truncate)").fetchone()
        if busy:
            raise sqlite3.OperationalError("the write-ahead file cannot be merged into the database")

    # --- objects

    def load(self, store: Store) -> None:
        """Puts every kept object back into a store, which goes on after every revision ever given out."""
        highest = int(self.fact("revision") or 0)
        for row, revision, body in self._changes.replay():
            self._pending[row] = None if body is None else (revision, body)
            highest = max(highest, revision)
        self._commit()
        rows = self._database.execute("select grp, plural, revision, body from objects")
        for group, plural, revision, body in rows:
            store.load((group, plural), decode(body), bytes(body), revision)
            highest = max(highest, revision)
        store.begin_at(highest)
        self._reserve(store.revision)

    def empty(self) -> None:
        """Forgets the objects of a cluster that was never finished, but not its revisions."""
        self._changes.clear()
        self._database.execute("delete from objects")

    def keep(self, changes: Sequence[tuple[TableKey, Event]]) -> None:
        """Writes changes down, all or none; raises `NotStored` when the disk does not take them."""
        try:
            if changes[-1][1].revision >= self._reserved:
                self._reserve(changes[-1][1].revision)
            written = [
                ((*key, *event.key), event.revision, None if event.type == "DELETED" else event.entry.raw)
                for key, event in changes
            ]
            self._changes.append(written)
        except (OSError, sqlite3.Error) as error:
            raise _refusal(error) from error
        for row, revision, body in written:
            self._pending[row] = None if body is None else (revision, body)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(BATCH_SECONDS, self._flush)

    def _flush(self) -> None:
        """Lets the database catch up; tries again later when it cannot, for the changes are safe already."""
        self._timer = None
        try:
            self._commit()
        except (OSError, sqlite3.Error) as error:
            log.warning("the database of the data directory cannot be written", extra={"why": str(error)})
            self._timer = asyncio.get_running_loop().call_later(RETRY_SECONDS, self._flush)

    def _commit(self) -> None:
        """Writes what is pending in one transaction; then the write-ahead file is no longer needed."""
        if not self._pending:
            return
        kept = [(*row, *value) for row, value in self._pending.items() if value is not None]
        gone = [row for row, value in self._pending.items() if value is None]
        # Commits, or takes everything back when it raises.
        with self._database as database:
            database.execute("begin")
            database.executemany(_PUT, kept)
            database.executemany(_REMOVE, gone)
        self._pending.clear()
        self._changes.clear()

    def _reserve(self, revision: int) -> None:
        """Sets revisions aside; the next life begins after them, whatever happens to the changes themselves.

        The last of them is never given out, so that a client who saw any of them lists again.
        """
        highest = revision + REVISIONS_AT_ONCE
        self.remember("revision", str(highest))
        self._reserved = highest

    def close(self, revision: int | None = None) -> None:
        """Ends the use of the directory; after a clean end no revision is skipped."""
        if self._timer is not None:
            self._timer.cancel()
        try:
            self._commit()
            if revision is not None and self._reserved:
                self.remember("revision", str(revision))
        except (OSError, sqlite3.Error) as error:
            # The write-ahead file has what is missing, and the revisions that were set aside stay so.
            log.warning("the database of the data directory cannot be written", extra={"why": str(error)})
        finally:
            self._database.close()
            self._changes.close()
            os.close(self._lock)


def _refusal(error: OSError | sqlite3.Error) -> NotStored:
    if isinstance(error, OSError):
        full = error.errno in _FULL
    else:
        # Extended codes hold the plain one in their lowest byte; errors of the module itself have none.
        full = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
    if full:
        message = "the disk of the data directory is full: nothing was stored"
        return NotStored(507, "InsufficientStorage", message)
    message = f"the data directory cannot be written: nothing was stored: {error}"
    return NotStored(500, "InternalError", message)


def _locked(data_dir: Path) -> int:
    """The lock of a directory, held by this process until the descriptor is closed or the process ends."""
    lock = os.open(data_dir / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(lock, 20).decode("ascii", "replace").strip() or "unknown"
        os.close(lock)
        raise DirectoryInUse(
            f"the data directory {data_dir} is in use by another cluster (process {holder}); "
            "stop that one or choose another directory"
        ) from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def _opened(file: Path, *, durable: bool) -> sqlite3.Connection:
    """The database, readable by its owner only: it holds the administrator's token and every Secret."""
    os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    for each in (file, *(file.with_name(file.name + suffix) for suffix in ("-wal", "-shm"))):
        with contextlib.suppress(FileNotFoundError):
            each.chmod(0o600)
    database = sqlite3.connect(file, isolation_level=None)
    try:
        # Nobody else has it open: the index of the write-ahead file stays in memory.
        database.execute("pragma locking_mode=exclusive")
        database.execute("pragma journal_mode=wal")
        # The write-ahead file is emptied after each commit, so that the commit itself must be on the disk.
        database.execute(f"pragma synchronous={'full' if durable else 'normal'}")
        database.executescript(_SCHEMA)
        _adopt(database)
    except BaseException:
        database.close()
        raise
    return database


def _adopt(database: sqlite3.Connection) -> None:
    """Marks a directory of an earlier layout, whose cluster is complete if it has objects."""
    if database.execute("pragma user_version").fetchone()[0]:
        return
    if database.execute("select 1 from objects limit 1").fetchone():
        database.execute("insert or replace into facts values ('furnished', 'yes')")
    database.execute(f"pragma user_version={LAYOUT}")
