"""Hundreds of seeds of misfortune: whatever goes wrong on the way, the world ends up as if nothing had.

Each seed chooses a backend, what the user does and what goes wrong meanwhile: conflicts, refusals and lost answers to
the operator's requests, watches that drop, stall or lag, compaction, and operators killed or restarted at any moment.
Then the misfortune ends, and the world must look like one that never met any; and no promise may have been broken on
the way: no pod is restarted unless its template changed, never is more down at once than the set allows, an update ends
or says why not, and nothing is recycled before its delay.
A failing seed is replayed with `pytest tests/scenarios/test_chaos.py -k "[seeds-40]"`.
"""

import asyncio
import functools
import os
import random
from dataclasses import replace

import pytest
from tests.scenarios.restless import (
    CHANGE_MINIMUM,
    CHANGE_SCHEDULER,
    DELAYS,
    EMPTY_GROUP,
    LEVELS,
    RestlessUser,
    drawn_acts,
    drawn_limits,
    objects_of,
    training,
)
from tests.scenarios.shapes import BACKENDS, SHAPES, stage_of
from tests.scenarios.stories import revision_of

from grove.api import labels
from grove.api.config import load
from grove.backends.yunikorn.marks import APPLICATION
from grove.embedded.faults import Fault
from grove.meta import Manifest
from grove.testing.deletions import LONGEST_LAG, PROMPT
from grove.testing.portrait import Guard, portrait, silent_updates, without
from grove.testing.world import OPERATOR, World, WorldOptions, configuration_for, run_world

#: `make test` runs these in some minutes; `make chaos` runs them alone, or more of them.
SEEDS = int(os.environ.get("GROVE_CHAOS_SEEDS", "400"))
CHUNK = 20
#: In how many seconds pods stop: within the longest a set can be deleted and applied again.
STOPS = (0, 1, 8)
#: How updates went, and from which template each gang was started.
HISTORY = ("updateProgress", labels.GENERATION_HASH)
#: Faults by which the operator sees the world later than it is; without them it does so in moments.
LATE = ("gone", "drop", "stall", "delay", "error")
#: After what gangs are not placed as their set asks for before they are placed again.
HELD_UP = (CHANGE_MINIMUM, CHANGE_SCHEDULER)
#: The same with Kubernetes' own scheduler: a PodGroup of 1.36 keeps the minimum with which its gang was placed, as
#: docs/reference/edits.md says.
HELD_UP_BY_A_PODGROUP = (*HELD_UP, EMPTY_GROUP)


def options(backend: str, seed: int = 0) -> WorldOptions:
    return replace(stage_of(backend).options, seed=seed)


def with_both(backend: str, other: str, seed: int) -> WorldOptions:
    """A world in which a set can be moved from one backend to another."""
    schedulers = tuple(each for each in (backend, other) if each != "default")
    configuration = load(configuration_for(*schedulers))
    return replace(options(backend, seed), schedulers=schedulers, configuration=configuration)


@functools.cache
def undisturbed(backend: str, shape: str, replicas: int, stop: int) -> Manifest:
    seen: list[Manifest] = []

    async def run(world: World) -> None:
        await world.apply(training(backend, shape, replicas, stop))
        await world.settle()
        seen.append(await picture(world, backend))

    run_world(run, options(backend))
    return seen[0]


async def picture(world: World, backend: str) -> Manifest:
    """The portrait of a world, whatever updates there were before."""
    drawn: Manifest = without(await portrait(world, stage_of(backend).objects), HISTORY)
    return drawn


async def scattered(world: World) -> dict[str, list[str]]:
    """The gangs whose pods belong to several starts of them: what tells those apart is cleaned out of portraits.

    With YuniKorn each start is an application, which stands on the pods and nowhere else.
    """
    found: dict[str, set[str]] = {}
    for pod in await world.pods():
        marks, gang = pod["metadata"]["labels"], pod["metadata"]["labels"][labels.POD_GANG]
        revision = revision_of(pod)
        application = marks.get(APPLICATION, "").removeprefix(f"{gang}-") or revision
        found.setdefault(gang, set()).update((revision, application))
    return {gang: sorted(starts) for gang, starts in found.items() if len(starts) > 1}


def misfortunes(rng: random.Random) -> list[Fault]:
    """A handful of faults, each rare enough that work goes on."""
    user = OPERATOR.name
    choices = [
        Fault("conflict", verb="patch", user=user, probability=0.3),
        Fault("conflict", verb="apply", user=user, probability=0.3),
        Fault("throttle", verb="write", user=user, probability=0.2, seconds=1),
        Fault("error", verb="write", user=user, probability=0.2),
        Fault("error", verb="write", user=user, probability=0.2, after=True),
        Fault("lose", verb="write", user=user, probability=0.2),
        Fault("lose", verb="write", user=user, probability=0.2, after=True),
        Fault("error", verb="list", user=user, probability=0.5),
        Fault("gone", verb="watch", user=user, probability=0.5),
        Fault("drop", user=user, probability=0.7, events=rng.randrange(6)),
        Fault("stall", user=user, probability=0.3, events=rng.randrange(6), times=3),
        Fault("delay", user=user, probability=0.5, seconds=rng.choice([0.05, 0.5, 3.0])),
    ]
    return rng.sample(choices, rng.randint(1, 4))


def first_set(rng: random.Random, backend: str, shape: str, stop: int) -> Manifest:
    """The set as its user applies it first: with limits of its updates and a delay before it is recycled."""
    made = training(backend, shape, rng.randint(1, 3), stop, rng.choice(LEVELS))
    limits = {name: limit for name, limit in drawn_limits(rng).items() if limit is not None}
    made["spec"]["updateStrategy"] = {"type": "RollingRecreate", "rollingRecreate": limits}
    if (delay := rng.choice(DELAYS)) is not None:
        made["spec"]["template"]["terminationDelay"] = delay
    return made


async def trouble(world: World, rng: random.Random) -> None:
    """What becomes of operators and their watches meanwhile."""
    for _ in range(rng.randint(0, 3)):
        await asyncio.sleep(rng.random() * rng.choice([0.05, 0.5, 8.0]))
        match rng.choice(["kill", "restart", "compact", "drop"]):
            case "kill":
                await world.kill_operator()
                await world.start_operator()
            case "restart":
                await world.stop_operator()
                await world.start_operator()
            case "compact":
                world.cluster.compact()
            case "drop":
                world.cluster.drop_watches()


def survives(seed: int) -> None:
    rng = random.Random(seed)
    backend, shape = rng.choice(BACKENDS), rng.choice(list(SHAPES))
    other = rng.choice([each for each in BACKENDS if each != backend])
    replicas, stop = rng.randint(1, 3), rng.choice(STOPS)
    acts, later = drawn_acts(rng, shape)
    moves = CHANGE_SCHEDULER in (*acts, *later)
    want = undisturbed(backend, shape, replicas, stop)

    async def run(world: World) -> None:
        faults = misfortunes(rng)
        late = any(fault.action in LATE for fault in faults)
        guard = Guard(world.cluster, lag=LONGEST_LAG if late else PROMPT)
        for fault in faults:
            world.cluster.faults.add(fault)
        await world.start_operator()
        first = first_set(rng, backend, shape, stop)
        await world.apply(first)
        user = RestlessUser(world, rng, first, backend, other)
        acting = asyncio.create_task(user.act(*acts))
        await trouble(world, rng)
        await acting
        await asyncio.sleep(rng.random() * 5)
        world.cluster.faults.clear()
        await world.scale("train", replicas)
        # A watch that stands still is noticed after two minutes; only then is silence a sign of peace.
        await world.settle(quiet=150)
        assert await silent_updates(world) == [], f"seed {seed}"
        # A watch keeps the fault that it met, and may yet come to it: what comes now is seen in time.
        world.cluster.drop_watches()
        await world.settle()
        guard.expect_promptness()
        await user.act(*later)
        await world.scale("train", replicas)
        await user.let_go(training(backend, shape, replicas, stop))
        await world.settle(quiet=12)
        await user.edit({"spec": {"updateStrategy": None}})
        await world.settle(quiet=12)
        assert await silent_updates(world) == [], f"seed {seed}"
        held_up = HELD_UP_BY_A_PODGROUP if backend == "default" else HELD_UP
        if not set(held_up).isdisjoint((*acts, *later)):
            await user.place_again()
        assert await picture(world, backend) == want, f"seed {seed}"
        assert not moves or await objects_of(world, other) == [], f"seed {seed}"
        assert await objects_of(world, "yunikorn") == [], f"seed {seed}: places are held for nobody"
        assert await scattered(world) == {}, f"seed {seed}"
        assert guard.broken == [], f"seed {seed}"

    run_world(run, with_both(backend, other, seed) if moves else options(backend, seed), operator=False)


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK), ids=lambda first: f"seeds-{first}")
def test_the_world_ends_up_as_if_nothing_had_gone_wrong(first: int) -> None:
    for seed in range(first, first + CHUNK):
        survives(seed)
    assert undisturbed.cache_info().currsize > 0
