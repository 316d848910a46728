"""`python -m bench`: measure, show, keep, check."""

import asyncio
import pstats
import sys
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Console

from bench.cases import CASES, QUICK, REPEATED_PODS, SAME_PODS, WITH_SERVICES, Case, case_named
from bench.checks import failed, verdicts
from bench.floor import Wanted, measure_floor
from bench.measure import limit_for, measure, profiled
from bench.observer import BenchFailed
from bench.pages import write_page
from bench.planes import Kind, Plane, Players
from bench.processes import ROOT
from bench.results import Floor, Report, Run, median_floor, median_run, read, save
from bench.surroundings import empty_report
from bench.tables import costs_table, table, verdict_table
from grove.cli.loop import Interrupted, run_loop, stop_on_signals, unless_stopped

RESULTS: Final = {
    Kind.EMBEDDED: ROOT / "bench" / "results.json",
    Kind.REAL: ROOT / "bench" / "results-real.json",
}
PAGE: Final = ROOT / "docs" / "performance.md"
_PROFILE_LINES: Final = 35
_WIDTH: Final = 190

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


def say(text: str) -> None:
    """Progress, on standard error."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


async def take(
    cases: Sequence[Case], *, repeat: int, plane: Plane, profile: Path | None, settings: str
) -> Report:
    """Measure these cases and their floors, so many times each, in turn; the largest only once.

    Each case right after its floors: a shared machine is not equally fast for an hour.
    """
    report = empty_report(plane, repeat, settings)
    runs: dict[str, list[Run]] = {case.name: [] for case in cases}
    floors: dict[Wanted, list[Floor]] = {}
    for turn in range(1, repeat + 1):
        of = f" ({turn} of {repeat})" if repeat > 1 else ""
        for case in cases:
            if turn > 1 and case.pods > REPEATED_PODS:
                continue
            for wanted in _floors(case, plane):
                taken = floors.setdefault(wanted, [])
                if len(taken) < turn:
                    say(f"{wanted}{of} ...")
                    taken.append(await measure_floor(wanted, plane=plane, limit=limit_for(wanted.pods)))
            say(f"{case.name}: {case.pods} pods{of} ...")
            runs[case.name].append(
                await measure(case, plane=plane, say=say, profile=profile, settings=settings)
            )
    return replace(
        report,
        runs=tuple(median_run(each) for each in runs.values()),
        floors=tuple(median_floor(floors[wanted]) for wanted in sorted(floors, key=Wanted.order)),
    )


def _floors(case: Case, plane: Plane) -> list[Wanted]:
    """What a case is held against."""
    found = [Wanted(case.pods)]
    if plane.real and case in SAME_PODS:
        # A real scheduler needs more for gangs than for plain pods, and a real API server for larger ones.
        found.append(Wanted(case.pods, case))
    if plane.real and case in WITH_SERVICES:
        found.append(Wanted(case.pods, case, services=True))
    return found


async def _unless_told(work: Coroutine[Any, Any, Report]) -> Report:
    with stop_on_signals() as stop:
        return await unless_stopped(work, stop)


def _chosen(only: Sequence[str], quick: bool) -> Sequence[Case]:
    if only:
        try:
            return [case_named(name) for name in only]
        except KeyError as error:
            raise typer.BadParameter(error.args[0], param_hint="--only") from None
    return QUICK if quick else CASES


def _measured(
    cases: Sequence[Case], repeat: int, plane: Plane, profile: Path | None, settings: str
) -> Report:
    if profile is not None:
        profile.mkdir(parents=True, exist_ok=True)
    try:
        work = take(cases, repeat=repeat, plane=plane, profile=profile, settings=settings)
        return run_loop(_unless_told(work))
    except (Interrupted, KeyboardInterrupt, asyncio.CancelledError):
        say("stopped; nothing was written")
        raise typer.Exit(130) from None
    except BenchFailed as error:
        say(str(error))
        raise typer.Exit(1) from None


def _last(kind: Kind) -> Report:
    file = RESULTS[kind]
    try:
        return read(file)
    except (OSError, msgspec.DecodeError) as error:
        say(f"there are no results to use in {file.name} ({error}); run without --last first")
        raise typer.Exit(1) from None


def _show_profiles(folder: Path, cases: Sequence[Case], plane: Plane) -> None:
    for case in cases:
        for who in profiled(plane):
            print(f"\nprofile of the {who}, {case.name}")
            stats = pstats.Stats(str(folder / f"{case.name}.{who}.prof"))
            stats.sort_stats("tottime").print_stats(_PROFILE_LINES)


@app.command()
def bench(
    only: Annotated[list[str] | None, typer.Option(help="Only this case, such as 500x2; repeatable.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Only 10 and 100 pods.")] = False,
    repeat: Annotated[int, typer.Option(min=1, max=99, help="Take medians of so many runs.")] = 1,
    kubernetes: Annotated[str, typer.Option(help="Which Kubernetes the cluster is or plays.")] = "1.36",
    control_plane: Annotated[
        Kind, typer.Option(help="What answers: the embedded cluster, or real programs (after `make real`).")
    ] = Kind.EMBEDDED,
    players: Annotated[
        Players,
        typer.Option(help="Who plays nodes and kubelets of real programs: our simulator, or kwok."),
    ] = Players.OURS,
    settings: Annotated[
        list[str] | None,
        typer.Option(help="A line of the operator's configuration: 'fieldOwnership: Untracked'; repeatable."),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Fail when a target is missed.")] = False,
    last: Annotated[bool, typer.Option("--last", help="Use the kept results; measure nothing.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(help="Where to write; results.json or results-real.json for all cases, else nowhere."),
    ] = None,
    write_docs: Annotated[bool, typer.Option("--write-docs", help="Refresh docs/performance.md.")] = False,
    profile: Annotated[
        Path | None,
        typer.Option(
            help="Profile operator and cluster or players into this folder; times are then inflated."
        ),
    ] = None,
) -> None:
    """Measure how fast Grove makes pods run, and what that costs."""
    cases, plane = _chosen(only or (), quick), Plane(control_plane, kubernetes, players=players)
    usual = players is Players.OURS and not settings
    if players is not Players.OURS and not plane.real:
        raise typer.BadParameter("kwok plays on real programs only", param_hint="--players")
    if write_docs and not usual:
        raise typer.BadParameter(
            "the page's tables are of our players and defaults", param_hint="--write-docs"
        )
    lines = "".join(f"{line}\n" for line in settings or ())
    report = _last(plane.kind) if last else _measured(cases, repeat, plane, profile, lines)
    # Only what every reader would measure is kept beside the code.
    kept = usual and cases == CASES and profile is None and not last
    file = output or (RESULTS[plane.kind] if kept else None)
    if file is not None:
        save(report, file)
        say(f"written to {file.name}")
    console = Console(width=None if sys.stdout.isatty() else _WIDTH, highlight=False)
    console.print(table(report))
    console.print(costs_table(report))
    console.print(verdict_table(verdicts(report)))
    if write_docs:
        write_page(PAGE, report)
    if profile is not None and not last:
        _show_profiles(profile, cases, plane)
    if check and failed(report):
        say("targets were missed")
        raise typer.Exit(1)


if __name__ == "__main__":
    app(prog_name="python -m bench")
