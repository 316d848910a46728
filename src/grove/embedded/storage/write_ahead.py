"""A file of changes that are not in the database yet: appended before a change is made, read after a crash.

Each record is one write to the file, with a checksum: after the death of the process everything that was
written is there, because the operating system has it. A record that is torn or damaged, and everything after
it, does not count. Knows nothing about the database.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

Row = tuple[str, str, str, str]
"""Group, plural, namespace, name."""
Change = tuple[Row, int, bytes | None]
"""Which object, at which revision, and its bytes; None when it was removed."""

_FRAME = struct.Struct("<II")
_headers = msgspec.json.Decoder(list[tuple[str, str, str, str, int, int]]).decode
encode = msgspec.json.Encoder().encode
_REMOVED = -1


class WriteAhead:
    """One file, open for appending. `durable` waits for the disk at every record."""

    def __init__(self, file: Path, *, durable: bool = False) -> None:
        self._fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.fchmod(self._fd, 0o600)
        self._durable = durable
        self._end = 0
        """Where the next record begins."""

    def append(self, changes: list[Change]) -> None:
        """Writes changes as one record; OSError when the disk does not take all of it, and then none of it
        counts."""
        record = _record(changes)
        try:
            written = os.pwrite(self._fd, record, self._end)
            while written < len(record):
                # A full disk takes a part first and refuses the rest.
                written += os.pwrite(self._fd, record[written:], self._end + written)
            if self._durable:
                os.fdatasync(self._fd)
        except OSError:
            os.ftruncate(self._fd, self._end)
            raise
        self._end += len(record)

    def replay(self) -> Iterator[Change]:
        """Every change of an earlier life, oldest first; later records follow the last good one."""
        self._end = 0
        content = _whole(self._fd)
        while (payload := _payload(content, self._end)) is not None:
            self._end += _FRAME.size + len(payload)
            head, _, bodies = payload.partition(b"\n")
            start = 0
            for *row, revision, size in _headers(head):
                group, plural, namespace, name = row
                body = None if size == _REMOVED else bodies[start : start + size]
                start += max(size, 0)
                yield (group, plural, namespace, name), revision, body

    def clear(self) -> None:
        """Forgets all records: the database has them."""
        os.ftruncate(self._fd, 0)
        self._end = 0

    def close(self) -> None:
        os.close(self._fd)


def _record(changes: list[Change]) -> bytes:
    heads = [(*row, revision, _REMOVED if body is None else len(body)) for row, revision, body in changes]
    payload = b"\n".join((encode(heads), b"".join(body or b"" for _, _, body in changes)))
    return _FRAME.pack(zlib.crc32(payload), len(payload)) + payload


def _payload(content: bytes, start: int) -> bytes | None:
    """The record at a place; None when there is no whole and undamaged one."""
    if start + _FRAME.size > len(content):
        return None
    checksum, length = _FRAME.unpack_from(content, start)
    payload = content[start + _FRAME.size : start + _FRAME.size + length]
    return payload if len(payload) == length and length and zlib.crc32(payload) == checksum else None


def _whole(fd: int) -> bytes:
    with os.fdopen(os.dup(fd), "rb") as file:
        file.seek(0)
        return file.read()
