"""The folder of one control plane: claimed while it runs, removed afterwards, swept up if its owner died.

A claim is a lock on a file, so it falls with its process. Never removes a file of a folder that it did not
make or find empty.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

from grove.real.failure import RealFailure

PREFIX = "grove-real-"
#: Says that everything in a folder is ours to remove.
MARK = ".grove-real"
#: Locked while its control plane runs.
CLAIM = "claim"
#: A folder younger than this may belong to somebody who is about to claim it.
YOUNG_SECONDS = 60.0


class Place:
    """One claimed folder."""

    def __init__(self, directory: Path | None) -> None:
        if directory is None:
            sweep(Path(tempfile.gettempdir()))
            self.root = Path(tempfile.mkdtemp(prefix=PREFIX))
        else:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.root = directory.resolve()
            if any(self.root.iterdir()) and not (self.root / MARK).exists():
                raise RealFailure(
                    f"{self.root} holds other files; give the control plane an empty or a new directory"
                )
        (self.root / MARK).touch()
        self._descriptor = os.open(self.root / CLAIM, os.O_RDWR | os.O_CREAT, 0o600)
        if not _lock(self._descriptor):
            os.close(self._descriptor)
            raise RealFailure(
                f"{self.root} is in use by another control plane; stop it or choose another directory"
            )

    def release(self) -> None:
        """Gives the folder up and leaves everything in it."""
        (self.root / CLAIM).unlink(missing_ok=True)
        os.close(self._descriptor)

    def clear(self, *, keep: Path | None = None) -> None:
        """Gives the folder up and removes it, save for one folder in it."""
        for entry in self.root.iterdir():
            if entry == keep:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
        os.close(self._descriptor)
        with contextlib.suppress(OSError):
            self.root.rmdir()


def sweep(parent: Path) -> None:
    """Removes the folders of control planes whose owner was killed; those that merely hold logs stay."""
    for claim in parent.glob(f"{PREFIX}*/{CLAIM}"):
        try:
            if time.time() - claim.stat().st_mtime < YOUNG_SECONDS:
                continue
            descriptor = os.open(claim, os.O_RDWR)
        except OSError:
            continue
        try:
            if _lock(descriptor):
                shutil.rmtree(claim.parent, ignore_errors=True)
        finally:
            os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
