"""A thousand seeds of misfortune: whatever goes wrong on the way, the world ends up as if nothing had.

Each seed chooses a backend, what the user does and what goes wrong meanwhile: conflicts, refusals and lost answers to
the operator's requests, watches that drop, stall or lag, compaction, and operators killed at any moment. Then the
misfortune ends, and the world must look like one that never met any; and no promise may have been broken on the way.
A failing seed is replayed with `pytest tests/scenarios/test_chaos.py -k "seeds 40"`.
"""

import asyncio
import functools
import os
import random
from contextlib import suppress
from dataclasses import replace

import pytest
from tests.scenarios.shapes import GROUP_REPLICAS, ROLE_REPLICAS, SHAPES, train
from tests.scenarios.stories import STAGES

from grove.api import kinds
from grove.embedded.faults import Fault
from grove.errors import NotFound
from grove.meta import Key, Manifest, Resource, resource
from grove.testing.portrait import Guard, portrait
from grove.testing.world import OPERATOR, World, WorldOptions, run_world

#: `make test` runs these in some minutes; `make chaos` runs them alone, or more of them.
SEEDS = int(os.environ.get("GROVE_CHAOS_SEEDS", "1000"))
CHUNK = 20
OBJECTS: dict[str, Resource] = {
    "default": resource("scheduling.k8s.io", "v1alpha2", "PodGroup"),
    "kai": resource("scheduling.run.ai", "v2alpha2", "PodGroup"),
    "koordinator": resource("scheduling.sigs.k8s.io", "v1alpha1", "PodGroup"),
    "volcano": resource("scheduling.volcano.sh", "v1beta1", "PodGroup"),
}
#: A native PodGroup outlives its deletion for as long as pods belong to it; others go at once.
DELETABLE = ("kai", "koordinator", "volcano")
#: In how many seconds pods stop: within the longest a set can be deleted and applied again.
STOPS = (0, 1, 8)
ACTS = (
    "scale",
    "scale group",
    "delete group",
    "load",
    "edit autoscaler",
    "delete autoscaler",
    "delete pod",
    "delete object",
    "delete and apply",
    "wait",
)


def options(backend: str, seed: int = 0) -> WorldOptions:
    return replace(STAGES[{"default": "1.36"}.get(backend, backend)].options, seed=seed)


@functools.cache
def undisturbed(backend: str, shape: str, replicas: int, stop: int) -> Manifest:
    seen: list[Manifest] = []

    async def run(world: World) -> None:
        await world.apply(train(backend, shape, replicas, stop))
        await world.settle()
        seen.append(await portrait(world, (OBJECTS[backend],)))

    run_world(run, options(backend))
    return seen[0]


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


async def user_acts(world: World, rng: random.Random, backend: str, cliqueset: Manifest) -> None:
    """What a restless user does while the world is on fire; ends in the state that is compared."""
    for _ in range(rng.randint(0, 3)):
        match rng.choice(ACTS):
            case "scale":
                await world.scale("train", rng.randint(0, 3))
            case "scale group" if groups := await world.all(kinds.SCALING_GROUPS):
                name = rng.choice(groups)["metadata"]["name"]
                # Not to zero: a native PodGroup keeps the minimum with which it was placed.
                await world.scale(name, rng.randint(1, 3), kinds.SCALING_GROUPS)
            case "delete group" if groups := await world.all(kinds.SCALING_GROUPS):
                name = rng.choice(groups)["metadata"]["name"]
                await world.user.delete(kinds.SCALING_GROUPS, Key("default", name))
            case "load" if autoscalers := await world.all(kinds.AUTOSCALERS):
                spec = rng.choice(autoscalers)["spec"]
                await scale_target(world, spec, rng.randint(spec["minReplicas"], spec["maxReplicas"]))
            case "edit autoscaler" if autoscalers := await world.all(kinds.AUTOSCALERS):
                key = Key("default", rng.choice(autoscalers)["metadata"]["name"])
                await world.user.merge_patch(kinds.AUTOSCALERS, key, {"spec": {"maxReplicas": 9}})
            case "delete autoscaler" if autoscalers := await world.all(kinds.AUTOSCALERS):
                key = Key("default", rng.choice(autoscalers)["metadata"]["name"])
                await world.user.delete(kinds.AUTOSCALERS, key)
            case "delete pod" if pods := await world.pods():
                pod = rng.choice(pods)["metadata"]
                await world.user.delete(kinds.PODS, Key("default", pod["name"]), uid=pod["uid"])
            case "delete object" if backend in DELETABLE and (objects := await world.all(OBJECTS[backend])):
                name = rng.choice(objects)["metadata"]["name"]
                await world.user.delete(OBJECTS[backend], Key("default", name))
            case "delete and apply":
                await world.user.delete(kinds.CLIQUESETS, Key("default", "train"), propagation="Background")
                await world.apply(cliqueset)
            case _:
                pass
        await asyncio.sleep(rng.choice([0.0, 0.05, 0.7, 5.0]))


async def scale_target(world: World, autoscaler: Manifest, replicas: int) -> None:
    """What an autoscaler does; its target may just have gone."""
    target = autoscaler["scaleTargetRef"]
    of = kinds.CLIQUES if target["kind"] == kinds.CLIQUES.kind else kinds.SCALING_GROUPS
    with suppress(NotFound):
        await world.scale(target["name"], replicas, of)


def survives(seed: int) -> None:
    rng = random.Random(seed)
    backend, shape = rng.choice(list(OBJECTS)), rng.choice(list(SHAPES))
    replicas, stop = rng.randint(1, 3), rng.choice(STOPS)
    want = undisturbed(backend, shape, replicas, stop)

    async def run(world: World) -> None:
        guard = Guard(world.cluster)
        for fault in misfortunes(rng):
            world.cluster.faults.add(fault)
        await world.start_operator()
        first = train(backend, shape, rng.randint(1, 3), stop)
        await world.apply(first)
        acting = asyncio.create_task(user_acts(world, rng, backend, first))
        for _ in range(rng.randint(0, 3)):
            await asyncio.sleep(rng.random() * rng.choice([0.05, 0.5, 8.0]))
            match rng.choice(["kill", "compact", "drop"]):
                case "kill":
                    await world.kill_operator()
                    await world.start_operator()
                case "compact":
                    world.cluster.compact()
                case "drop":
                    world.cluster.drop_watches()
        await acting
        await asyncio.sleep(rng.random() * 5)
        world.cluster.faults.clear()
        await world.scale("train", replicas)
        # A watch that stands still is noticed after two minutes; only then is silence a sign of peace.
        await world.settle(quiet=150)
        for group in await world.all(kinds.SCALING_GROUPS):
            await world.scale(group["metadata"]["name"], GROUP_REPLICAS, kinds.SCALING_GROUPS)
        for autoscaler in await world.all(kinds.AUTOSCALERS):
            if autoscaler["spec"]["scaleTargetRef"]["kind"] == kinds.CLIQUES.kind:
                await scale_target(world, autoscaler["spec"], ROLE_REPLICAS)
        await world.settle(quiet=12)
        assert await portrait(world, (OBJECTS[backend],)) == want, f"seed {seed}"
        assert guard.broken == [], f"seed {seed}"

    run_world(run, options(backend, seed), operator=False)


#: Seeds that break a promise today, and how; each is to be mended, and leaves this table then.
BROKEN = {
    255: "the operator does not come to rest: it is still writing after 900 s",
    882: "two pods of a clique live under one hostname for a moment",
}


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK), ids=lambda first: f"seeds {first}")
def test_the_world_ends_up_as_if_nothing_had_gone_wrong(first: int) -> None:
    for seed in range(first, first + CHUNK):
        if seed not in BROKEN:
            survives(seed)
    assert undisturbed.cache_info().currsize > 0


@pytest.mark.parametrize(
    "seed",
    [
        # To find out that there is no rest takes minutes.
        pytest.param(255, marks=pytest.mark.xfail(run=False, reason=BROKEN[255])),
        pytest.param(882, marks=pytest.mark.xfail(strict=True, reason=BROKEN[882])),
    ],
)
def test_a_seed_that_breaks_a_promise_today(seed: int) -> None:
    survives(seed)
