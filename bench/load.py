"""What others did on the machine during a measurement: CPU seconds that no process of ours used (Linux).

A measurement beside a busy neighbour says little about us; the report tells how busy it was.
"""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.usage import usage_of

#: Others may use so much of all cores in a run that is called quiet.
QUIET_SHARE: Final = 0.1
#: The columns of /proc/stat in which a core does nothing: idle, and waiting for a disk. The last two are
#: counted among the first two already.
_IDLE: Final = (3, 4)
_COUNTED: Final = 8


@dataclass(frozen=True, slots=True)
class Spent:
    """What the whole machine and our processes have used until a moment; `machine` None where unknown."""

    at: float
    machine: float | None
    ours: float


@dataclass(frozen=True, slots=True)
class Others:
    """What others used: CPU seconds, and which share of all cores that was."""

    seconds: float
    share: float

    @property
    def quiet(self) -> bool:
        return self.share <= QUIET_SHARE


def spent(pids: Iterable[int]) -> Spent:
    """What was used until now; ours are these processes and this one."""
    try:
        text = Path("/proc/stat").read_text()
    except OSError:
        text = ""
    ours = sum(usage_of(pid).cpu for pid in {*pids, os.getpid()})
    return Spent(time.monotonic(), machine_seconds(text, ticks=os.sysconf("SC_CLK_TCK")), ours)


def machine_seconds(stat: str, *, ticks: int) -> float | None:
    """The CPU seconds of all cores in the text of /proc/stat; None if it does not say."""
    words = stat.partition("\n")[0].split()
    if not words or words[0] != "cpu":
        return None
    columns = [int(word) for word in words[1 : 1 + _COUNTED]]
    return sum(each for place, each in enumerate(columns) if place not in _IDLE) / ticks


def others_between(before: Spent, after: Spent, *, cores: int) -> Others | None:
    """What others used in between; None where nobody knows."""
    if before.machine is None or after.machine is None or after.at <= before.at:
        return None
    seconds = max(0.0, after.machine - before.machine - (after.ours - before.ours))
    return Others(seconds, seconds / ((after.at - before.at) * cores))


def most(found: Iterable[Others | None]) -> Others | None:
    """The busiest of several; None if one of them is not known: who cannot tell must not call it quiet."""
    listed = list(found)
    known = [each for each in listed if each is not None]
    return max(known, key=lambda each: each.share) if known and len(known) == len(listed) else None
