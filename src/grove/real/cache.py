"""Where finished programs are kept: one folder per program and version, shared between checkouts.

A folder appears in one step, complete with a manifest of what it holds, or not at all. Whoever writes holds
the lock. Nothing here builds or downloads.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from grove.real.versions import Tool

MANIFEST = "manifest.json"
LOCK_POLL_SECONDS = 0.5
#: How the folders of unfinished work begin.
WORK = ".work-"


@dataclass(frozen=True, slots=True)
class Entry:
    """What the manifest of one program says."""

    name: str
    version: str
    platform: str
    size: int
    sha256: str
    built_with: str
    #: The checksums of the files that are kept beside it, by name.
    beside: dict[str, str] = field(default_factory=dict)


def default_root(environ: dict[str, str] | None = None) -> Path:
    """The cache of the user who runs this."""
    environ = dict(os.environ) if environ is None else environ
    base = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".cache")
    return Path(base) / "grove" / "real"


def this_platform() -> str:
    """What programs built here run on; a home directory may be shared between machines."""
    return f"{sys.platform}/{platform.machine()}"


@dataclass(frozen=True, slots=True)
class Cache:
    """The programs under one folder."""

    root: Path

    def folder(self, tool: Tool) -> Path:
        return self.root / tool.label

    def path(self, tool: Tool) -> Path:
        return self.folder(tool) / tool.name

    def beside(self, tool: Tool) -> list[Path]:
        """Where the files are that are kept with a program."""
        return [self.folder(tool) / Path(each).name for each in tool.beside]

    def entry(self, tool: Tool) -> Entry | None:
        """What is known about a finished program; None when it is not there or is for another machine."""
        try:
            entry = Entry(**json.loads((self.folder(tool) / MANIFEST).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None
        return entry if entry.platform == this_platform() else None

    def find(self, tool: Tool) -> Path | None:
        """The program, if it is there and of the size that was written down; reads no content."""
        entry, path = self.entry(tool), self.path(tool)
        try:
            whole = entry is not None and path.stat().st_size == entry.size and os.access(path, os.X_OK)
            whole = whole and all(file.stat().st_size for file in self.beside(tool))
        except OSError:
            return None
        return path if whole else None

    def damage(self, tool: Tool) -> str:
        """What is wrong with a program, read byte by byte; empty when nothing is."""
        entry = self.entry(tool)
        if entry is None:
            return (
                "is not installed"
                if not self.folder(tool).exists()
                else "has no readable manifest for this machine"
            )
        path = self.path(tool)
        if not path.exists():
            return "is missing although its manifest is there"
        if path.stat().st_size != entry.size:
            return f"has {path.stat().st_size} bytes instead of {entry.size}"
        if checksum(path) != entry.sha256:
            return "has another checksum than when it was built"
        for name, expected in entry.beside.items():
            file = self.folder(tool) / name
            if not file.exists() or checksum(file) != expected:
                return f"has lost or changed its file {name}"
        return "" if os.access(path, os.X_OK) else "is not executable"

    def store(self, tool: Tool, binary: Path, *, built_with: str, beside: Sequence[Path] = ()) -> Path:
        """Takes a finished program in, with the files that belong to it, in one step."""
        with self.workspace() as place:
            for file in beside:
                shutil.copyfile(file, place / file.name)
            moved = place / tool.name
            shutil.move(binary, moved)
            moved.chmod(0o755)
            entry = Entry(
                name=tool.name,
                version=tool.version,
                platform=this_platform(),
                size=moved.stat().st_size,
                sha256=checksum(moved),
                built_with=built_with,
                beside={file.name: checksum(place / file.name) for file in beside},
            )
            (place / MANIFEST).write_text(json.dumps(asdict(entry), indent=2) + "\n", encoding="utf-8")
            place.chmod(0o755)
            shutil.rmtree(self.folder(tool), ignore_errors=True)
            place.rename(self.folder(tool))
        return self.path(tool)

    def remove(self, tool: Tool) -> None:
        shutil.rmtree(self.folder(tool), ignore_errors=True)

    @contextlib.contextmanager
    def workspace(self) -> Iterator[Path]:
        """A folder on the same file system, gone afterwards whatever happens."""
        self.root.mkdir(parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix=WORK, dir=self.root))
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)

    async def discard(self, folder: Path) -> None:
        """Removes a large folder bit by bit, so that a request to end is heard in between.

        It is out of the way at once; what an interruption leaves of it is swept up by the next writer.
        """
        place = self._put_aside(folder)
        if place is None:
            return
        for entry in _folders(place / folder.name):
            shutil.rmtree(entry, ignore_errors=True)
            await asyncio.sleep(0)
        shutil.rmtree(place, ignore_errors=True)

    def _put_aside(self, folder: Path) -> Path | None:
        """Moves a folder into one that is swept up in any case; None if it is not there."""
        if not folder.exists():
            return None
        place = Path(tempfile.mkdtemp(prefix=WORK, dir=self.root))
        folder.rename(place / folder.name)
        return place

    @contextlib.asynccontextmanager
    async def lock(self, *, waiting: Callable[[str], None]) -> AsyncIterator[None]:
        """Keeps a second writer out; the lock falls with the process that holds it."""
        self.root.mkdir(parents=True, exist_ok=True)
        path = self.root / ".lock"
        with path.open("a+", encoding="utf-8") as file:
            if not _try_lock(file.fileno()):
                file.seek(0)
                holder = file.read().strip() or "unknown"
                waiting(f"Another installation is at work (process {holder}); waiting for it to finish ...")
                # Nobody tells us that a lock has fallen: its holder may have been killed.
                while not _try_lock(file.fileno()):  # noqa: ASYNC110
                    await asyncio.sleep(LOCK_POLL_SECONDS)
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            await self._sweep()
            yield

    async def _sweep(self) -> None:
        """Removes what an installation left that was ended from outside; the lock is held."""
        for place in self.root.glob(f"{WORK}*"):
            for inner in _folders(place):
                await self.discard(inner)
            shutil.rmtree(place, ignore_errors=True)


def _folders(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_dir()]


def checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
