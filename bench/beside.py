"""What stands beside our numbers on a real control plane: others' costs, the Go operator's figures. Pure."""

from bench.reference import GO, GO_FLOOR, Reference
from bench.results import Cost, Floor, Report, Run, times

Grid = tuple[tuple[str, ...], list[tuple[str, ...]]]

_COMPARED = (
    "case",
    "gates open",
    "x floor",
    "running",
    "x floor",
    "set available",
    "writes/pod",
    "CPU s",
    "MB",
    "deleted",
)


def costs(report: Report) -> Grid:
    """CPU seconds and peak memory of every program, a row for each case and floor."""
    measured: tuple[Run | Floor, ...] = (*report.runs, *report.floors)
    names = list(dict.fromkeys(name for each in measured for name in each.components))
    found = [
        (run.case.replace("x", " x "), _cost(Cost(run.cpu, run.rss_peak)), *_others(run, names))
        for run in report.runs
    ]
    found += [(floor.title, "-", *_others(floor, names)) for floor in report.floors]
    return ("case", "operator", *names), found


def _others(measured: Run | Floor, names: list[str]) -> list[str]:
    return [_cost(measured.components[name]) if name in measured.components else "-" for name in names]


def _cost(cost: Cost) -> str:
    return f"{cost.cpu:.2f} s, {cost.peak:.0f} MB"


def beside_go(report: Report) -> Grid:
    """Ours and the Go operator's in each cell, for the cases that were measured with both."""
    return _COMPARED, [_compared(run, GO[run.case], report) for run in report.runs if run.case in GO]


def _compared(run: Run, go: Reference, report: Report) -> tuple[str, ...]:
    floor, go_floor = report.floor(run.pods), GO_FLOOR.get(run.pods)
    pairs = (
        (f"{run.gates_open:.2f} s", f"{go.gates_open:g} s"),
        (
            times(run.gates_open, floor.gates_open if floor else None),
            times(go.gates_open, go_floor[0] if go_floor else None),
        ),
        (f"{run.running:.2f} s", f"{go.running:g} s"),
        (
            times(run.running, floor.running if floor else None),
            times(go.running, go_floor[1] if go_floor else None),
        ),
        (f"{run.available:.2f} s", f"{go.available:g} s"),
        (f"{run.writes_per_pod:.1f}", f"{go.writes_per_pod:g}"),
        (f"{run.cpu:.2f}", f"{go.cpu:g}"),
        (f"{run.rss_peak:.0f}", f"{go.rss:g}"),
        (f"{run.deleted:.2f} s", f"{go.deleted:g} s"),
    )
    return (run.case.replace("x", " x "), *(f"{ours} / {theirs}" for ours, theirs in pairs))
