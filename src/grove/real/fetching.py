"""Fetch files of a Go module that are used as they are: definitions of kinds, of which no program is needed.

Go keeps the module and verifies it against the pinned `go.sum`. Never builds, and writes nothing but Go's own
module cache.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from grove.real.build import MODULES
from grove.real.failure import NotInstalled
from grove.real.toolchain import build_environment, find_go
from grove.real.versions import ModuleFiles

_SECONDS = 300


def fetched(wanted: ModuleFiles, *, offline: bool = False) -> list[Path]:
    """Where the files are; raises NotInstalled with the reason where they cannot be had.

    With `offline` nobody is asked for what Go does not have already.
    """
    go = find_go()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "module"
        shutil.copytree(MODULES / wanted.module, place)
        environment = build_environment(Path(folder) / "go-build")
        if offline:
            environment["GOPROXY"] = "off"
        command = [str(go.path), "mod", "download", "-json", wanted.source]
        try:
            ran = subprocess.run(
                command,
                cwd=place,
                env=environment,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise NotInstalled(f"{wanted.label} did not arrive within {_SECONDS} s.") from None
    return _files(wanted, ran)


def _files(wanted: ModuleFiles, ran: subprocess.CompletedProcess[str]) -> list[Path]:
    said = json.loads(ran.stdout) if ran.stdout.startswith("{") else {}
    if ran.returncode != 0:
        why = " ".join((said.get("Error") or ran.stderr).split())
        raise NotInstalled(
            f"{wanted.label} is not there: {why}. `python -m grove.real fetch {wanted.name}` fetches it."
        )
    files = [Path(said["Dir"]) / name for name in wanted.files]
    if missing := [each.name for each in files if not each.is_file()]:
        raise NotInstalled(f"{wanted.label} has no file {', '.join(missing)}.")
    return files
