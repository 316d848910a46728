"""`python -m bench.scaling`: how fast replicas come and go when a set is scaled or deleted.

The scale tests of the Go operator, on sets of replicas of two pods each: 0 -> 500, 250 -> 500, 500 -> 250,
500 -> 0 and ten cycles of 25 <-> 50; and a set of 500 that is deleted, in the background or the foreground,
or one of 2500 where `--only` names it. Each on a fresh cluster with a fresh operator that has nothing left to
write, until the last pod runs or is gone, and right before it the floor: the same pods behind the same
services, created and ungated or deleted by a bare loop without an operator. The garbage collector gets
through 20 objects a second, as with default settings.

python -m bench.scaling                       # all of them, some minutes
python -m bench.scaling --tenth               # a tenth of the replicas, for a machine that is busy
python -m bench.scaling --only 500-0 --repeat 3
python -m bench.scaling --only 2500-background
python -m bench.scaling --control-plane real  # on real programs, after make real
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import median
from typing import Annotated, Final

import typer

from bench.arena import Arena, arena, within
from bench.cases import NAMESPACE, SET, Case, cliqueset
from bench.floor import OPEN, each
from bench.gangs import Gangs
from bench.measure import limit_for
from bench.observer import BenchFailed, Watcher
from bench.planes import Kind, Plane
from bench.tally import SeenPod
from grove.api import kinds
from grove.cli.loop import run_loop
from grove.meta import Key, Manifest, manifest_key

SIZE: Final = 2
CYCLES: Final = 10
#: Of a kube-controller-manager with default settings.
COLLECTED_PER_SECOND: Final = 20.0
#: Other programs, which nobody counts, have no more to do after so long.
REST_SECONDS: Final = 6.0
#: What goes may take so many times as long as by a bare loop.
MOST_TIMES: Final = 1.3

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


def say(text: str) -> None:
    """Progress, on standard error."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Step:
    """A set is scaled from so many replicas to so many, or deleted; perhaps to and fro."""

    before: int
    after: int
    propagation: str = ""
    cycles: int = 0

    @property
    def name(self) -> str:
        if self.cycles:
            return f"{self.cycles}x{self.before}-{self.after}"
        return f"{self.before}-{self.propagation.lower() or self.after}"

    @property
    def most(self) -> int:
        return max(self.before, self.after)

    @property
    def shrinks(self) -> bool:
        return self.after < self.before

    def tenth(self) -> "Step":
        return Step(self.before // 10, self.after // 10, self.propagation, self.cycles)


STEPS: Final = (
    Step(0, 500),
    Step(250, 500),
    Step(500, 250),
    Step(500, 0),
    Step(500, 0, "Background"),
    Step(500, 0, "Foreground"),
    Step(25, 50, cycles=CYCLES),
)
#: Measured only where they are named: on real programs it takes minutes until so many pods run.
LARGE: Final = (Step(2500, 0, "Background"),)


@dataclass(frozen=True, slots=True)
class Result:
    """Seconds of each move up and down, by the operator and by the bare loop."""

    step: Step
    up: Sequence[float]
    down: Sequence[float]
    floor_up: Sequence[float]
    floor_down: Sequence[float]

    def rows(self) -> list[str]:
        """A line for each direction that was measured."""
        found = []
        for what, taken, floor in (("up", self.up, self.floor_up), ("down", self.down, self.floor_down)):
            if taken:
                ours, bare = median(taken), median(floor)
                worst = f", at most {max(taken):6.2f} s" if len(taken) > 1 else ""
                times = f"floor {bare:6.2f} s  {ours / bare:5.2f} x"
                found.append(f"{self.step.name:16} {what:5} {ours:7.2f} s{worst}  {times}")
        return found

    @property
    def missed(self) -> bool:
        return bool(self.down) and median(self.down) > MOST_TIMES * median(self.floor_down)


class Pods:
    """The pods of the namespace as a watch shows them, and when it last changed."""

    def __init__(self, place: Arena) -> None:
        self._running: dict[str, bool] = {}
        self._changed = asyncio.Event()
        self.watcher = Watcher(place.client, kinds.PODS, SeenPod, self._saw)

    def _saw(self, pod: SeenPod, at: float, deleted: bool) -> None:
        if deleted:
            self._running.pop(pod.metadata.uid, None)
        else:
            self._running[pod.metadata.uid] = pod.running and pod.metadata.deletion_timestamp is None
        self._changed.set()

    async def number(self, pods: int) -> None:
        """Wait until there are exactly so many, all running."""
        while len(self._running) != pods or not all(self._running.values()):
            self._changed.clear()
            await self._changed.wait()

    def __str__(self) -> str:
        return f"{len(self._running)} pods, {sum(self._running.values())} running"


@asynccontextmanager
async def watched(place: Arena) -> AsyncIterator[Pods]:
    """The pods of an arena, watched as long as the block lasts."""
    pods = Pods(place)
    looking = asyncio.create_task(pods.watcher.run())
    try:
        await pods.watcher.listed.wait()
        yield pods
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


Move = Callable[[int], Awaitable[None]]
Rest = Callable[[], Awaitable[object]]


async def others_rest() -> None:
    """Controllers that follow pods, such as that of EndpointSlices, get the time to come to an end."""
    await asyncio.sleep(REST_SECONDS)


async def moves(
    step: Step, pods: Pods, move: Move, rest: Rest = others_rest
) -> tuple[list[float], list[float]]:
    """The seconds of each move up and of each down, after the first replicas have come and between rests."""
    await move(step.before)
    await pods.number(step.before * SIZE)
    up: list[float] = []
    down: list[float] = []
    targets = [step.after] if not step.cycles else [step.after, step.before] * step.cycles
    now = step.before
    for target in targets:
        await rest()
        began = time.monotonic()
        await move(target)
        await pods.number(target * SIZE)
        (up if target > now else down).append(time.monotonic() - began)
        now = target
    return up, down


async def measure(step: Step, plane: Plane) -> tuple[list[float], list[float]]:
    """With the operator: the set is created, scaled and deleted as a user does it."""
    async with arena(plane) as place, watched(place) as pods, place.operator() as operator:
        made = False

        async def rest() -> None:
            await place.quiet_writes(operator)

        async def move(replicas: int) -> None:
            nonlocal made
            key = Key(NAMESPACE, SET)
            if not made:
                made = True
                await place.client.create(kinds.CLIQUESETS, cliqueset(Case(replicas, SIZE)))
            elif step.propagation and replicas == step.after:
                await place.client.delete(kinds.CLIQUESETS, key, propagation=step.propagation)
            else:
                patch = {"spec": {"replicas": replicas}}
                await place.client.merge_patch(kinds.CLIQUESETS, key, patch, subresource="scale")

        return await _within(step, moves(step, pods, move, rest), pods, place)


async def measure_floor(step: Step, plane: Plane) -> tuple[list[float], list[float]]:
    """The same pods by a bare loop, with nobody else at work."""
    async with arena(plane) as place, watched(place) as pods:
        gangs, client = Gangs(plane.minor, Case(step.most, SIZE)), place.client
        made = [
            ([*gangs.objects(number), (kinds.SERVICES, gangs.service(number))], gangs.pods(number))
            for number in range(step.most)
        ]
        for objects, _ in made:
            for resource, manifest in objects:
                await client.create(resource, manifest)
        now = 0

        async def move(replicas: int) -> None:
            nonlocal now
            low, high = sorted((now, replicas))
            chosen: list[Manifest] = [pod for _, members in made[low:high] for pod in members]

            def create(index: int) -> Awaitable[object]:
                return client.create(kinds.PODS, chosen[index])

            def open_gate(index: int) -> Awaitable[object]:
                return client.json_patch(kinds.PODS, manifest_key(chosen[index]), OPEN)

            def delete(index: int) -> Awaitable[object]:
                return client.delete(kinds.PODS, manifest_key(chosen[index]))

            for request in (create, open_gate) if replicas > now else (delete,):
                await each(range(len(chosen)), request)
            now = replicas

        return await _within(step, moves(step, pods, move), pods, place)


async def _within(
    step: Step,
    work: Awaitable[tuple[list[float], list[float]]],
    pods: Pods,
    place: Arena,
) -> tuple[list[float], list[float]]:
    limit = limit_for(step.most * SIZE * (1 + step.cycles))
    return await within(limit, work, unless=place.children, hope=lambda: f"{step.name}: {pods}")


async def _take(steps: Sequence[Step], plane: Plane, repeat: int) -> list[Result]:
    results = []
    for step in steps:
        taken: list[list[float]] = [[], [], [], []]
        for turn in range(1, repeat + 1):
            say(f"{step.name} ..." if repeat == 1 else f"{step.name} ({turn} of {repeat}) ...")
            floor = await measure_floor(step, plane)
            ours = await measure(step, plane)
            for into, more in zip(taken, (*ours, *floor), strict=True):
                into.extend(more)
        results.append(Result(step, *taken))
    return results


def _chosen(only: Sequence[str], tenth: bool) -> list[Step]:
    known = {step.name: step for step in (*STEPS, *LARGE)}
    for name in only:
        if name not in known:
            raise typer.BadParameter(
                f"there is no step {name!r}; choose from {', '.join(known)}", param_hint="--only"
            )
    chosen = [known[name] for name in dict.fromkeys(only)] or list(STEPS)
    return [step.tenth() if tenth and not step.cycles else step for step in chosen]


@app.command()
def bench(
    only: Annotated[list[str] | None, typer.Option(help="Only this step, such as 500-0; repeatable.")] = None,
    tenth: Annotated[bool, typer.Option("--tenth", help="A tenth of the replicas.")] = False,
    repeat: Annotated[int, typer.Option(min=1, max=99, help="Take medians of so many runs.")] = 1,
    kubernetes: Annotated[str, typer.Option(help="Which Kubernetes the cluster is or plays.")] = "1.36",
    control_plane: Annotated[
        Kind, typer.Option(help="What answers: the embedded cluster, or real programs (after `make real`).")
    ] = Kind.EMBEDDED,
    check: Annotated[bool, typer.Option("--check", help="Fail when a target is missed.")] = False,
) -> None:
    """Measure how fast replicas come and go, against a bare loop."""
    steps = _chosen(only or (), tenth)
    plane = Plane(control_plane, kubernetes, collected_per_second=COLLECTED_PER_SECOND)
    try:
        found = run_loop(_take(steps, plane, repeat))
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("stopped")
        raise typer.Exit(130) from None
    except BenchFailed as error:
        say(str(error))
        raise typer.Exit(1) from None
    for result in found:
        print(*result.rows(), sep="\n")
    missed = [result.step.name for result in found if result.missed]
    if check and missed:
        say(f"the target ({MOST_TIMES} x for what goes) was missed: {', '.join(missed)}")
        raise typer.Exit(1)


if __name__ == "__main__":
    app(prog_name="python -m bench.scaling")
