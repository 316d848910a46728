"""Where a measurement was taken: machine, Python, commit, date. Names no host and no user."""

import datetime
import os
import platform
import re
import subprocess
from pathlib import Path

from bench.planes import Plane
from bench.processes import ROOT
from bench.results import Report


def empty_report(plane: Plane, repeat: int, settings: str = "") -> Report:
    """A report of this moment and place, without measurements."""
    return Report(
        date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        machine=machine(),
        python=platform.python_version(),
        commit=commit(ROOT),
        kubernetes=plane.minor,
        repeat=repeat,
        control_plane=plane.kind,
        players=plane.players,
        settings=settings,
    )


def machine() -> str:
    """Processor, cores and memory in a few words."""
    parts = [f"{platform.system()} {platform.machine()}", f"{os.cpu_count()} cores"]
    if model := _found(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo")):
        parts.append(model)
    if memory := _found(r"^MemTotal:\s*(\d+) kB$", Path("/proc/meminfo")):
        parts.append(f"{int(memory) / 1024 / 1024:.0f} GiB")
    return ", ".join(parts)


def _found(pattern: str, file: Path) -> str:
    try:
        match = re.search(pattern, file.read_text(), re.MULTILINE)
    except OSError:
        return ""
    return match.group(1).strip() if match else ""


def commit(folder: Path) -> str:
    """The checked-out commit, marked when the operator's code differs from it; "unknown" outside of git."""
    head = _git(folder, "rev-parse", "--short", "HEAD")
    if not head:
        return "unknown"
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", "src")
    return f"{head} with changes" if changed else head


def _git(folder: Path, *arguments: str) -> str:
    try:
        ran = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout.strip() if ran.returncode == 0 else ""
