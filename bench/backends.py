"""`python -m bench.backends`: what backends cost by themselves, and how fast real schedulers are with them.

python -m bench.backends                # translation, selection, from gang to object
python -m bench.backends --real         # also 1000 pods in gangs of 8 with every scheduler of `make real`
"""

import asyncio
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from bench.cases import EIGHTS
from bench.latency import Latency, latency
from bench.measure import measure
from bench.observer import BenchFailed
from bench.planes import Kind, Plane
from bench.processes import ROOT
from bench.surroundings import commit, machine
from bench.translation import PODGROUPS, Speed, selections, speeds
from grove.backends.registry import BUILT_INS
from grove.cli.loop import run_loop
from grove.real.third_party import THIRD_PARTIES
from grove.testing.kits import kit_for

RESULTS: Final = ROOT / "bench" / "results-backends.json"
PAGE: Final = ROOT / "docs" / "performance.md"
#: Gangs of eight podgroups a second on one core.
LEAST: Final = 10_000
_MINOR: Final = "1.36"
_BEGIN: Final = "<!-- backends: begin; written by python -m bench.backends --real --write-docs -->"
_END: Final = "<!-- backends: end -->"

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@dataclass(frozen=True, slots=True)
class Scheduled:
    """1000 pods in gangs of 8 with one real scheduler; seconds since the set was sent."""

    backend: str
    scheduler: str
    kubernetes: str
    gates_open: float
    running: float
    writes_per_pod: float
    operator_cpu: float
    scheduler_cpu: float


@dataclass(frozen=True, slots=True)
class Results:
    """Everything that was measured, and where."""

    machine: str
    commit: str
    selections: float
    speeds: tuple[Speed, ...]
    latencies: tuple[Latency, ...]
    scheduled: tuple[Scheduled, ...] = ()


def say(text: str) -> None:
    """Progress, on standard error."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


async def latencies() -> list[Latency]:
    """Every built-in backend in turn, each on a cluster of its own."""
    found = []
    for name in BUILT_INS:
        say(f"{name}: from gang to object ...")
        kit = kit_for(name)
        assert kit is not None
        found.append(await latency(kit.backend, kit.contexts(), minor=_MINOR))
    return found


async def scheduled() -> list[Scheduled]:
    """1000 pods in gangs of 8 with kube-scheduler and with every other scheduler, each the real program."""
    planes = [("default", "kube-scheduler", Plane(Kind.REAL, _MINOR))]
    planes += [
        (each.name, each.label, Plane(Kind.REAL, each.minor, each.name)) for each in THIRD_PARTIES.values()
    ]
    found = []
    for name, title, plane in planes:
        say(f"{title}: {EIGHTS.pods} pods in gangs of {EIGHTS.size} ...")
        run = await measure(EIGHTS, plane=plane, say=say)
        programs = _programs(name)
        found.append(
            Scheduled(
                name,
                title,
                plane.minor,
                run.gates_open,
                run.running,
                run.writes_per_pod,
                run.cpu,
                sum(cost.cpu for program, cost in run.components.items() if program in programs),
            )
        )
    return found


def _programs(backend: str) -> set[str]:
    if backend == "default":
        return {"kube-scheduler"}
    return {tool.name for tool in THIRD_PARTIES[backend].programs}


def markdown(results: Results) -> str:
    """The tables of the page."""
    waits = {each.backend: each for each in results.latencies}
    lines = [
        f"Commit {results.commit}, {results.machine}.",
        "",
        f"| backend | gangs of {PODGROUPS} podgroups/s | pods prepared/s | gang to object | at most |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for each in results.speeds:
        wait = waits.get(each.backend, Latency(each.backend))
        lines.append(
            f"| {each.backend} | {each.translated:,.0f} | {each.prepared:,.0f} "
            f"| {_milliseconds(wait.median)} | {_milliseconds(wait.worst)} |"
        )
    lines += ["", f"A set finds its backend {results.selections:,.0f} times a second, all five enabled."]
    if results.scheduled:
        lines += [
            "",
            "| 1000 pods in gangs of 8 | on | gates open | running | writes/pod | operator CPU | its CPU |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        ]
        lines += [
            f"| {each.scheduler} | {each.kubernetes} | {each.gates_open:.2f} s | {each.running:.2f} s "
            f"| {each.writes_per_pod:.2f} | {each.operator_cpu:.1f} s | {each.scheduler_cpu:.1f} s |"
            for each in results.scheduled
        ]
    return "\n".join(lines)


def _milliseconds(value: float | None) -> str:
    return f"{value:.0f} ms" if value is not None else "no object"


def _write_page(file: Path, content: str) -> None:
    before, begin, rest = file.read_text(encoding="utf-8").partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"{file.name} has no place for the numbers: it needs {_BEGIN!r} and {_END!r}")
    file.write_text(f"{before}{begin}\n{content}\n{end}{after}", encoding="utf-8")


async def _take(real: bool) -> Results:
    say("translation and selection ...")
    return Results(
        machine(),
        commit(ROOT),
        selections(),
        tuple(speeds()),
        tuple(await latencies()),
        tuple(await scheduled()) if real else (),
    )


@app.command()
def bench(
    real: Annotated[bool, typer.Option("--real", help="Also with every scheduler of `make real`.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Fail when a backend is too slow.")] = False,
    write_docs: Annotated[bool, typer.Option("--write-docs", help="Refresh docs/performance.md.")] = False,
) -> None:
    """Measure the backends."""
    try:
        results = run_loop(_take(real))
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("stopped; nothing was written")
        raise typer.Exit(130) from None
    except BenchFailed as error:
        say(str(error))
        raise typer.Exit(1) from None
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(asdict(results)), indent=2) + b"\n")
    print(markdown(results))
    if write_docs:
        _write_page(PAGE, markdown(results))
    slow = [each.backend for each in results.speeds if each.translated < LEAST]
    if check and slow:
        say(f"slower than {LEAST:,} gangs a second: {', '.join(slow)}")
        raise typer.Exit(1)


if __name__ == "__main__":
    app(prog_name="python -m bench.backends")
