"""One case, measured: apply a set, watch it run, restart the operator, delete the set."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.arena import Arena, arena, within
from bench.cases import RESTARTED, Case, cliquesets
from bench.load import others_between
from bench.observer import Observer
from bench.planes import Plane
from bench.processes import ChildProcess
from bench.results import Run
from bench.tally import Milestone
from bench.writes import about_events
from grove.api import kinds, labels
from grove.meta import Object, Resource, manifest_key

Say = Callable[[str], None]

_OURS: Final = f"{labels.MANAGED_BY}={labels.MANAGER}"
_LOOK_AGAIN_SECONDS: Final = 0.05


def limit_for(pods: int) -> float:
    """After so many seconds something is wrong, however slow the machine."""
    return 60 + pods * 0.2


def profiled(plane: Plane) -> tuple[str, ...]:
    """Whose time a profile accounts for."""
    return ("operator", plane.profiled) if plane.profiled else ("operator",)


async def measure(
    case: Case, *, plane: Plane, say: Say, profile: Path | None = None, settings: str = ""
) -> Run:
    """One run on a fresh cluster with a fresh operator, whose profiles are left in the folder, if given.

    `settings` are further lines of its configuration.
    """
    files = (
        {who: profile / f"{case.name}.{who}.prof" for who in profiled(plane)} if profile is not None else {}
    )
    async with (
        arena(plane, profile=files.get(plane.profiled)) as place,
        Observer(place.client, case.pods, len(cliquesets(case))).watching() as observer,
    ):
        await place.make_namespaces(manifest_key(each).namespace for each in cliquesets(case))
        async with place.operator(profile=files.get("operator"), settings=settings) as operator:
            run = await _apply(case, place, operator, observer)
            say(f"{case.name}: running after {run.running:.2f} s, {run.writes_per_pod:.2f} writes a pod")
            if case not in RESTARTED or profile is not None:
                return await _delete(case, place, operator, observer, run)
        await place.cluster.ask("forget")
        began = time.monotonic()
        async with place.operator(settings=settings) as operator:
            ready = time.monotonic() - began
            counts = await place.quiet_writes(operator)
            run = run.with_restart(sum(counts.values()), ready)
            say(f"{case.name}: ready {ready:.2f} s after a restart, {run.restart_writes} writes")
            return await _delete(case, place, operator, observer, run)


async def _apply(case: Case, place: Arena, operator: ChildProcess, observer: Observer) -> Run:
    await place.cluster.ask("forget")
    before, others_before, spent_before = operator.usage(), place.usages(), place.spent(operator)

    async def steps() -> None:
        observer.began = time.monotonic()
        async with asyncio.TaskGroup() as sending:
            for each in cliquesets(case):
                sending.create_task(place.client.create(kinds.CLIQUESETS, each))
        await observer.milestone(Milestone.RUNNING)
        await observer.until(lambda: observer.available is not None)

    def hope() -> str:
        state = "says" if observer.available is not None else "does not say yet"
        return f"{case.name}: {observer.tally}; the status of every set {state} that it is available"

    await within(limit_for(case.pods), steps(), unless=(operator, *place.children), hope=hope)
    usage, costs = operator.usage(), place.costs_since(others_before)
    others = others_between(spent_before, place.spent(operator), cores=os.cpu_count() or 1)
    counts = await place.quiet_writes(operator)
    settled = operator.usage()
    reached, began = observer.tally.reached, observer.began
    assert observer.available is not None
    return Run(
        case=case.name,
        pods=case.pods,
        created=reached[Milestone.CREATED] - began,
        gates_open=reached[Milestone.OPEN] - began,
        running=reached[Milestone.RUNNING] - began,
        available=observer.available - began,
        writes={name: number for name, number in counts.items() if not about_events(name)},
        events=sum(number for name, number in counts.items() if about_events(name)),
        cpu=usage.cpu - before.cpu,
        components=costs,
        rss_idle=before.rss,
        rss=settled.rss,
        rss_peak=settled.peak,
        others=others,
    )


async def _delete(case: Case, place: Arena, operator: ChildProcess, observer: Observer, run: Run) -> Run:
    """Delete the sets and wait until nothing of them is left."""

    async def steps() -> float:
        observer.deletion = time.monotonic()
        async with asyncio.TaskGroup() as sending:
            for each in map(manifest_key, cliquesets(case)):
                sending.create_task(place.client.delete(kinds.CLIQUESETS, each, propagation="Background"))
        await observer.milestone(Milestone.GONE)
        await observer.until(lambda: observer.sets_gone is not None)
        for kind in (kinds.GANGS, kinds.CLIQUES, kinds.SERVICES):
            await _until_none(place, kind)
        return time.monotonic() - observer.deletion

    def hope() -> str:
        return f"{case.name}: after the deletion of the set {observer.tally}"

    return run.with_deletion(
        await within(limit_for(case.pods), steps(), unless=(operator, *place.children), hope=hope)
    )


async def _until_none(place: Arena, resource: Resource) -> None:
    while True:
        if not (await place.client.list(resource, type=Object, labels=_OURS, limit=1)).items:
            return
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)
