"""What a process has used so far: CPU seconds and memory, as the kernel counts them (Linux)."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_KB: Final = re.compile(r"^(VmHWM|VmRSS):\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU in seconds, resident memory now and at its highest in MB; zero where it cannot be known."""

    cpu: float = 0.0
    rss: float = 0.0
    peak: float = 0.0


def usage_of(pid: int) -> Usage:
    """The usage of a living process; zeros for one that is gone, or on a system without /proc."""
    folder = Path("/proc") / str(pid)
    try:
        stat, status = (folder / "stat").read_text(), (folder / "status").read_text()
    except OSError:
        return Usage()
    return parse(stat, status, ticks=os.sysconf("SC_CLK_TCK"))


def parse(stat: str, status: str, *, ticks: int) -> Usage:
    """Read the two files; the command in `stat` may itself contain blanks and brackets."""
    fields = stat.rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])
    memory = {name: int(number) * 1024 / 1_000_000 for name, number in _KB.findall(status)}
    return Usage((user + system) / ticks, memory.get("VmRSS", 0.0), memory.get("VmHWM", 0.0))
