"""What was measured, as values; medians; and how they are kept in a file."""

import os
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import msgspec

from bench.cases import case_named
from bench.load import Others, most


@dataclass(frozen=True, slots=True)
class Cost:
    """What one program of the control plane needed: CPU seconds, and at most so many MB."""

    cpu: float
    peak: float


@dataclass(frozen=True, slots=True)
class Run:
    """One case; times in seconds since the set was sent, memory in MB."""

    case: str
    pods: int
    created: float
    gates_open: float
    running: float
    available: float
    #: By verb and resource, without events; `refused` counts attempts that were answered no.
    writes: dict[str, float] = field(default_factory=dict)
    events: float = 0
    #: CPU seconds of the operator from the apply until the set's status says available.
    cpu: float = 0.0
    #: The same for every other program, by name.
    components: dict[str, Cost] = field(default_factory=dict)
    rss_idle: float = 0.0
    rss: float = 0.0
    rss_peak: float = 0.0
    #: Since the deletion was sent.
    deleted: float = 0.0
    #: What a new operator process wrote; None where it was not tried.
    restart_writes: float | None = None
    #: After how many seconds it said that it is ready.
    restart_ready: float | None = None
    #: What others used of the machine meanwhile; None where it is not known.
    others: Others | None = None

    @property
    def writes_per_pod(self) -> float:
        return sum(self.writes.values()) / self.pods

    @property
    def writes_per_pod_with_events(self) -> float:
        return self.writes_per_pod + self.events / self.pods

    @property
    def pods_per_second(self) -> float:
        return self.pods / self.running

    def with_deletion(self, seconds: float) -> "Run":
        return replace(self, deleted=seconds)

    def with_restart(self, writes: int, ready: float) -> "Run":
        return replace(self, restart_writes=writes, restart_ready=ready)


@dataclass(frozen=True, slots=True)
class Floor:
    """Gated pods without an operator: plain ones, or, with a gang size, the very pods of a case."""

    pods: int
    created: float
    gates_open: float
    running: float
    deleted: float
    #: From the first request until the last pod runs, by program.
    components: dict[str, Cost] = field(default_factory=dict)
    gang_size: int = 0
    #: Whether the headless services of the case exist too.
    services: bool = False
    others: Others | None = None

    @property
    def title(self) -> str:
        if not self.gang_size:
            return f"floor of {self.pods}"
        gangs = f"floor of {self.pods // self.gang_size} x {self.gang_size}"
        return f"{gangs}, services" if self.services else gangs

    @property
    def pods_per_second(self) -> float:
        return self.pods / self.running

    @property
    def writes_per_pod(self) -> float:
        """Each pod is created and ungated; each gang has an object, and perhaps a service."""
        return 2 + (1 + self.services) / self.gang_size if self.gang_size else 2


@dataclass(frozen=True, slots=True)
class Report:
    """A whole measurement: where, when and with what, and the medians."""

    date: str
    machine: str
    python: str
    commit: str
    kubernetes: str
    repeat: int
    runs: tuple[Run, ...] = ()
    floors: tuple[Floor, ...] = ()
    #: `embedded` or `real`.
    control_plane: str = "embedded"
    #: Who played nodes and kubelets: `ours` or `kwok`.
    players: str = "ours"
    #: Further lines of the operator's configuration.
    settings: str = ""

    @property
    def others(self) -> Others | None:
        """What others used of the machine in the busiest of all measurements; None where it is not known."""
        return most([*(run.others for run in self.runs), *(floor.others for floor in self.floors)])

    def run(self, case: str) -> Run | None:
        return next((run for run in self.runs if run.case == case), None)

    def floor(self, pods: int) -> Floor | None:
        """What so many plain pods need."""
        return next((each for each in self.floors if each.pods == pods and not each.gang_size), None)

    def same_pods(self, run: Run, *, services: bool = False) -> Floor | None:
        """What the pods of a case need in their gangs, whoever made them."""
        same = (run.pods, case_named(run.case).size, services)
        return next(
            (each for each in self.floors if (each.pods, each.gang_size, each.services) == same), None
        )


def times(seconds: float, floor: float | None) -> str:
    """How many times as long as the floor; "-" where there is none."""
    return f"{seconds / floor:.2f}" if floor else "-"


def median_run(runs: Sequence[Run]) -> Run:
    """Of each number the median over the repetitions; the peak of memory is the highest."""
    first = runs[0]
    names = {name for run in runs for name in run.writes}
    writes = {name: statistics.median(run.writes.get(name, 0) for run in runs) for name in sorted(names)}
    restarts = [run.restart_writes for run in runs if run.restart_writes is not None]
    starts = [run.restart_ready for run in runs if run.restart_ready is not None]
    middle = {
        each.name: statistics.median(getattr(run, each.name) for run in runs)
        for each in fields(Run)
        if each.type in (float, "float")
    }
    return replace(
        first,
        **{
            **middle,
            "writes": writes,
            "components": _median_costs([run.components for run in runs]),
            "rss_peak": max(run.rss_peak for run in runs),
            "restart_writes": max(restarts) if restarts else None,
            "restart_ready": statistics.median(starts) if starts else None,
            "others": most(run.others for run in runs),
        },
    )


def median_floor(floors: Sequence[Floor]) -> Floor:
    """Of each number the median over the repetitions."""
    names = ("created", "gates_open", "running", "deleted")
    middle = {name: statistics.median(getattr(floor, name) for floor in floors) for name in names}
    costs, others = (
        _median_costs([floor.components for floor in floors]),
        most(each.others for each in floors),
    )
    return replace(floors[0], **middle, components=costs, others=others)


def _median_costs(each: Sequence[dict[str, Cost]]) -> dict[str, Cost]:
    """CPU is a median, memory the highest, as with the operator's own."""
    return {
        name: Cost(
            statistics.median(costs[name].cpu for costs in each), max(costs[name].peak for costs in each)
        )
        for name in each[0]
    }


def save(report: Report, file: Path) -> None:
    """Write the report so that a reader finds the old one or the new one, never a part."""
    text = msgspec.json.format(msgspec.json.encode(_rounded(msgspec.to_builtins(report))), indent=2)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f"{file.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(text + b"\n")
        Path(name).chmod(0o644)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read(file: Path) -> Report:
    """The report in a file; raises OSError or msgspec.DecodeError."""
    return msgspec.json.decode(file.read_bytes(), type=Report)


def _rounded(value: object) -> object:
    """Numbers with as many digits as mean something."""
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return value
