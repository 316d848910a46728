"""A report for people: tables on a terminal, readable without colour, and in Markdown. Pure."""

from collections.abc import Sequence

from rich.box import ASCII2
from rich.table import Table

from bench.beside import beside_go, costs
from bench.checks import Verdict
from bench.load import Others
from bench.planes import Kind, Players
from bench.reference import EXPLAINED
from bench.results import Floor, Report, Run, times

COSTS = (
    "CPU seconds from the first request until the set is available (floor: until the last pod runs), and the "
    "most memory that it ever had, of every program:"
)
HEAD = (
    "case",
    "pods",
    "created",
    "gates open",
    "running",
    "set available",
    "pods/s",
    "open x floor",
    "run x floor",
    "writes/pod",
    "with events",
    "CPU s",
    "peak MB",
    "deleted",
)


def rows(report: Report) -> list[tuple[str, ...]]:
    """A row for each case, then one for each floor."""
    found = [_run(run, report.floor(run.pods)) for run in report.runs]
    return found + [_floor(floor, report.floor(floor.pods)) for floor in report.floors]


def _run(run: Run, floor: Floor | None) -> tuple[str, ...]:
    return (
        run.case.replace("x", " x "),
        str(run.pods),
        *(_time(seconds) for seconds in (run.created, run.gates_open, run.running, run.available)),
        f"{run.pods_per_second:.0f}",
        times(run.gates_open, floor.gates_open if floor is not None else None),
        times(run.running, floor.running if floor is not None else None),
        f"{run.writes_per_pod:.2f}",
        f"{run.writes_per_pod_with_events:.2f}",
        f"{run.cpu:.2f}",
        f"{run.rss_peak:.0f}" if run.rss_peak else "-",
        _time(run.deleted),
    )


def _floor(floor: Floor, bare: Floor | None) -> tuple[str, ...]:
    writes = f"{floor.writes_per_pod:.2f}"
    return (
        floor.title,
        str(floor.pods),
        *(_time(seconds) for seconds in (floor.created, floor.gates_open, floor.running)),
        "-",
        f"{floor.pods_per_second:.0f}",
        times(floor.gates_open, bare.gates_open if bare is not None else None),
        times(floor.running, bare.running if bare is not None else None),
        writes,
        writes,
        "-",
        "-",
        _time(floor.deleted),
    )


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s"


def _unusual(report: Report) -> str:
    """What makes a measurement another one than everybody's."""
    players = " with kwok" if report.players == Players.KWOK else ""
    lines = ", ".join(report.settings.splitlines())
    return f"{players} ({lines})" if lines else players


def table(report: Report) -> Table:
    """The measurements, for a terminal."""
    made = Table(box=ASCII2, title=caption(report), title_justify="left", title_style="")
    for index, name in enumerate(HEAD):
        made.add_column(name, justify="right" if index else "left", no_wrap=True)
    for index, row in enumerate(rows(report)):
        made.add_row(*row, end_section=index == len(report.runs) - 1)
    return made


def costs_table(report: Report) -> Table:
    """What every program needed, for a terminal."""
    head, body = costs(report)
    made = Table(*head, box=ASCII2)
    for row in body:
        made.add_row(*row)
    return made


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
    """The targets, for a terminal."""
    made = Table(box=ASCII2)
    for name in ("target", "measured", "met"):
        made.add_column(name)
    for each in verdicts:
        made.add_row(each.target, each.measured, _word(each))
    return made


def caption(report: Report) -> str:
    """Where, when and with what."""
    times = (
        "one run" if report.repeat == 1 else f"medians of {report.repeat} runs, of more than 1000 pods one"
    )
    return (
        f"{report.date}, commit {report.commit}, Python {report.python}, "
        f"{report.control_plane} Kubernetes {report.kubernetes}{_unusual(report)}, {report.machine}; {times}"
        f"{_beside(report.others)}"
    )


def _beside(others: Others | None) -> str:
    """Whether the machine was quiet; nothing in reports of which that is not known."""
    if others is None:
        return ""
    used = f"others used up to {others.share:.0%} of it ({others.seconds:.1f} CPU seconds in one measurement)"
    return f"; the machine was {'quiet' if others.quiet else 'not quiet'}: {used}"


def markdown(report: Report, verdicts: Sequence[Verdict]) -> str:
    """Caption, measurements and targets, as the documentation shows them."""
    lines = [f"{caption(report)}.", "", *grid(HEAD, rows(report)), ""]
    lines += grid(
        ("target", "measured", "met"), [(each.target, each.measured, _word(each)) for each in verdicts]
    )
    if report.control_plane == Kind.REAL:
        lines += ["", COSTS, "", *grid(*costs(report)), "", EXPLAINED, "", *grid(*beside_go(report))]
    return "\n".join(lines)


def grid(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    rule = ["---", *("---:" for _ in head[1:])]
    return [f"| {' | '.join(row)} |" for row in (head, rule, *body)]


def _word(verdict: Verdict) -> str:
    return {True: "yes", False: "NO", None: "-"}[verdict.met]
