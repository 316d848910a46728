"""The file: entries up to a limit, an index of what is in it and of what is not, written in one piece."""

import gzip
import io
import json
import os
import tarfile
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from grove import __version__
from grove.cli.bundling.redaction import REMOVED
from grove.cli.talk import Failed
from grove.meta import Manifest
from grove.words import file_problem

_NOTE = (
    f"Secrets are not collected. Values of environment variables, {REMOVED!r} in their place, last applied "
    "configurations, values of flags and keys that are called like secrets, credentials in URLs and what "
    "looks like a token were removed. Look through it before you hand it on."
)


@dataclass(slots=True)
class Archive:
    """What was collected so far, and what was left out."""

    limit: int
    entries: dict[str, bytes] = field(default_factory=dict)
    skipped: list[Manifest] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(map(len, self.entries.values()))

    def add(self, path: str, content: str) -> bool:
        """Keep a text under a path, if there is room for it."""
        data = content.encode()
        if self.size + len(data) > self.limit:
            self.skip(path, f"the bundle would become larger than {self.limit >> 20} MiB")
            return False
        self.entries[path] = data
        return True

    def skip(self, what: str, why: str) -> None:
        """Say that something is not there."""
        self.skipped.append({"what": what, "why": " ".join(why.split())})

    def write(self, file: Path, facts: Manifest, now: datetime) -> None:
        """Write everything, the index first; whoever reads the file finds it whole or not at all."""
        index: Manifest = {
            "grove": __version__,
            "created": now.isoformat(timespec="seconds"),
            **facts,
            "note": _NOTE,
            "entries": [{"path": path, "bytes": len(data)} for path, data in sorted(self.entries.items())],
            "skipped": self.skipped,
        }
        everything = {
            "index.json": (json.dumps(index, indent=2) + "\n").encode(),
            **dict(sorted(self.entries.items())),
        }
        partial = file.with_name(f".{file.name}.partial")
        try:
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb") as packed:
                self._pack(packed, everything, now)
            partial.replace(file)
        except OSError as error:
            raise Failed(f"the bundle cannot be written: {file_problem(error)}") from None

    def _pack(self, packed: gzip.GzipFile, everything: dict[str, bytes], now: datetime) -> None:
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for path, data in everything.items():
                entry = tarfile.TarInfo(f"grove-bundle/{path}")
                entry.size, entry.mode, entry.mtime = len(data), 0o600, int(now.timestamp())
                tar.addfile(entry, io.BytesIO(data))
