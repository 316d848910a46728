"""`python -m bench.tenants`: what a large set in one namespace costs the small sets in others.

100 sets of one gang of two pods in 20 namespaces, from their creation until every gate is open: alone, beside
a set of 20,000 replicas that is being created, beside one of 3,000,000, and beside one of 3,000,000 that the
operator's limit refuses. The first three run with the limit raised and with CRDs that have no maxima. Each on
a fresh embedded cluster with a fresh operator, in one run, so that the ratios hold on any machine.

python -m bench.tenants                       # all of them, a few minutes
python -m bench.tenants --beside 20000        # alone and beside 20,000 replicas
python -m bench.tenants --times 5             # five rounds of all of them in turn, and the medians
python -m bench.tenants --after 120           # let the large set grow for two minutes before memory is read
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Annotated, Final

import typer

from bench.arena import Arena, arena, within
from bench.cases import Case, cliqueset
from bench.observer import BenchFailed
from bench.planes import Kind, Plane
from bench.processes import ChildProcess
from grove.api import kinds, labels
from grove.cli.loop import run_loop
from grove.meta import Key, Manifest, Object, View, resource

NAMESPACES: Final = 20
SETS: Final = 100
SMALL: Final = Case(1, 2)
LARGE: Final = (20_000, 3_000_000)
#: The small sets may take so much longer than alone, and the operator so many MB.
MOST_TIMES: Final = 1.5
MOST_MB: Final = 300
_LIMIT_SECONDS: Final = 300.0
#: The large set is in the middle of being created when this many of its gangs exist.
_UNDER_WAY: Final = 300
_LOOK_SECONDS: Final = 0.02
_RAISED: Final = "limits: {podsPerSet: 2000000000}\n"
_CRDS: Final = resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", namespaced=False)
_LARGE_NAMESPACE: Final = "tenant-large"

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


def say(text: str) -> None:
    """Progress, on standard error."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


class _Gated(View):
    """What the driver reads of a pod's spec."""

    scheduling_gates: tuple[Manifest, ...] = ()


class _Pod(Object):
    """A pod as the driver sees it."""

    spec: _Gated = _Gated()


@dataclass(frozen=True, slots=True)
class Setting:
    """What the small sets have beside them; no replicas for nothing."""

    replicas: int = 0
    refused: bool = False

    @property
    def name(self) -> str:
        if not self.replicas:
            return "alone"
        return f"beside {self.replicas:,} replicas{', refused' if self.refused else ''}"


@dataclass(frozen=True, slots=True)
class Result:
    """How long the small sets took, and what the operator needed."""

    setting: Setting
    seconds: float
    #: How many gangs of the large set existed when the small ones were done, and at the end.
    gangs: int
    gangs_later: int
    peak: float


@dataclass(frozen=True, slots=True)
class Summary:
    """One setting over all rounds: medians, and the most memory of any."""

    setting: Setting
    seconds: float
    #: How many times as long as alone in the same round: the median, the least and the most.
    ratio: float
    least: float
    most: float
    gangs: int
    gangs_later: int
    peak: float

    @property
    def missed(self) -> bool:
        return self.ratio > MOST_TIMES or self.peak > MOST_MB

    def row(self) -> str:
        return (
            f"{self.setting.name:<34} {self.seconds:>7.2f} s {self.ratio:>6.2f} x "
            f"({self.least:.2f} to {self.most:.2f}) "
            f"{self.gangs:>8} {self.gangs_later:>8} {self.peak:>7.0f} MB"
        )


def summaries(rounds: Sequence[Sequence[Result]]) -> list[Summary]:
    """Each setting over all rounds; in a round the first is what the others are held against.

    Compared within a round, because a machine is not equally fast all the time.
    """
    found = []
    for results in zip(*rounds, strict=True):
        ratios = [each.seconds / round_[0].seconds for each, round_ in zip(results, rounds, strict=True)]
        found.append(
            Summary(
                results[0].setting,
                median(each.seconds for each in results),
                median(ratios),
                min(ratios),
                max(ratios),
                int(median(each.gangs for each in results)),
                int(median(each.gangs_later for each in results)),
                max(each.peak for each in results),
            )
        )
    return found


async def measure(setting: Setting, after: float) -> Result:
    """One run on a fresh cluster with a fresh operator."""
    async with arena(Plane(Kind.EMBEDDED, "1.36")) as place:
        await _without_maxima(place)
        await place.make_namespaces((_LARGE_NAMESPACE, *map(_namespace, range(NAMESPACES))))
        async with place.operator(settings="" if setting.refused else _RAISED) as operator:
            return await within(
                _LIMIT_SECONDS + after,
                _steps(setting, after, place, operator),
                unless=(operator, *place.children),
                hope=lambda: "the gates of the small sets are not open",
            )


async def _steps(setting: Setting, after: float, place: Arena, operator: ChildProcess) -> Result:
    if setting.replicas:
        await place.client.create(
            kinds.CLIQUESETS, _set("large", _LARGE_NAMESPACE, Case(setting.replicas, 1))
        )
        if setting.refused:
            await asyncio.sleep(1)
        else:
            await _until(lambda: _under_way(place))
    began = time.monotonic()
    await asyncio.gather(*(_create_small(place, number) for number in range(SETS)))
    await _until(lambda: _all_open(place))
    seconds, gangs = time.monotonic() - began, await _large_gangs(place)
    await asyncio.sleep(after if setting.replicas else 0)
    return Result(setting, seconds, gangs, await _large_gangs(place), operator.usage().peak)


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():  # noqa: ASYNC110 - the server is asked, nobody tells
        await asyncio.sleep(_LOOK_SECONDS)


async def _under_way(place: Arena) -> bool:
    return await _large_gangs(place) >= _UNDER_WAY


async def _create_small(place: Arena, number: int) -> None:
    name = _namespace(number % NAMESPACES)
    await place.client.create(kinds.CLIQUESETS, _set(f"small-{number}", name, SMALL))


async def _all_open(place: Arena) -> bool:
    """Whether every pod of the small sets exists and has no gate; each namespace is asked for by itself."""
    count = 0
    for number in range(NAMESPACES):
        page = await place.client.list(kinds.PODS, type=_Pod, namespace=_namespace(number), limit=0)
        if any(pod.spec.scheduling_gates for pod in page.items):
            return False
        count += len(page.items)
    return count == SETS * SMALL.pods


async def _large_gangs(place: Arena) -> int:
    page = await place.client.list(kinds.GANGS, type=Object, namespace=_LARGE_NAMESPACE, limit=1)
    return len(page.items) + (page.remaining or 0)


def _namespace(number: int) -> str:
    return f"tenant-{number}"


def _set(name: str, namespace: str, case: Case) -> Manifest:
    manifest = cliqueset(case)
    return {**manifest, "metadata": {"name": name, "namespace": namespace, "labels": {labels.NAME: name}}}


async def _without_maxima(place: Arena) -> None:
    """The CRDs as they are on clusters that were set up before they had maxima."""
    for each in (kinds.CLIQUESETS, kinds.CLIQUES):
        key = Key("", str(each))
        crd: Manifest = await place.client.get(_CRDS, key, type=dict)
        await place.client.merge_patch(
            _CRDS, key, {"spec": {"versions": _unbounded(crd["spec"]["versions"])}}
        )


def _unbounded(node: object) -> object:
    if isinstance(node, dict):
        return {name: _unbounded(value) for name, value in node.items() if name != "maximum"}
    return [_unbounded(value) for value in node] if isinstance(node, list) else node


async def _take(settings: Sequence[Setting], after: float, times: int) -> list[list[Result]]:
    rounds = []
    for number in range(1, times + 1):
        results = []
        for setting in settings:
            say(f"{setting.name} ..." if times == 1 else f"round {number} of {times}: {setting.name} ...")
            results.append(await measure(setting, after))
        rounds.append(results)
    return rounds


@app.command()
def bench(
    beside: Annotated[
        list[int] | None, typer.Option(help="Replicas of the large set; repeatable. 20000 and 3000000.")
    ] = None,
    after: Annotated[
        float, typer.Option(help="Let the large set grow for so many seconds before memory is read.")
    ] = 20.0,
    times: Annotated[
        int, typer.Option(min=1, help="Measure everything so many times, in turn, and show the medians.")
    ] = 1,
    check: Annotated[bool, typer.Option("--check", help="Fail when a target is missed.")] = False,
) -> None:
    """Measure how long 100 small sets in 20 namespaces take, alone and beside a large one elsewhere."""
    large = beside or LARGE
    settings = [Setting(), *(Setting(each) for each in large), Setting(max(large), refused=True)]
    try:
        found = summaries(run_loop(_take(settings, after, times)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("stopped")
        raise typer.Exit(130) from None
    except BenchFailed as error:
        say(str(error))
        raise typer.Exit(1) from None
    print(
        f"{SETS} sets in {NAMESPACES} namespaces until all gates are open; gangs of the large one then, later"
    )
    for each in found:
        print(each.row())
    missed = [each.setting.name for each in found if each.missed]
    if check and missed:
        say(f"targets ({MOST_TIMES} x, {MOST_MB} MB) were missed: {', '.join(missed)}")
        raise typer.Exit(1)


if __name__ == "__main__":
    app(prog_name="python -m bench.tenants")
