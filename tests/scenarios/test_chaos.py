"""Hundreds of seeds of misfortune: whatever goes wrong on the way, the world ends up as if nothing had.

Each seed chooses a backend, what the user does and what goes wrong meanwhile: conflicts, refusals and lost answers to
the operator's requests, watches that drop, stall or lag, compaction, and operators killed at any moment. Then the
misfortune ends, and the world must look like one that never met any; and no promise may have been broken on the way.
A failing seed is replayed with `pytest tests/scenarios/test_chaos.py -k "[seeds-40]"`.
"""

import asyncio
import functools
import os
import random
from contextlib import suppress
from dataclasses import replace

import pytest
from tests.scenarios.draining import cordon, evict, pods_on
from tests.scenarios.shapes import GROUP_REPLICAS, ROLE_REPLICAS, SHAPES, train
from tests.scenarios.stories import STAGES

from grove.api import kinds, labels
from grove.api.cliqueset import ON_DELETE, ROLLING_RECREATE
from grove.embedded.faults import Fault
from grove.errors import Conflict, Invalid, NotFound
from grove.meta import Key, Manifest, Resource, resource
from grove.testing.deletions import LONGEST_LAG
from grove.testing.portrait import Guard, portrait, silent_updates, without
from grove.testing.world import NODES, OPERATOR, World, WorldOptions, run_world

#: `make test` runs these in some minutes; `make chaos` runs them alone, or more of them.
SEEDS = int(os.environ.get("GROVE_CHAOS_SEEDS", "400"))
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
#: What updates change in templates; every run ends with the first of them.
LEVELS = ("0", "1", "2")
#: How updates went, and from which template each gang was started.
HISTORY = ("updateProgress", labels.GENERATION_HASH)
STRATEGIES = (ROLLING_RECREATE, ON_DELETE)
#: Faults by which the operator sees the world later than it is; without them it does so in moments.
LATE = ("gone", "drop", "stall", "delay", "error")
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
    "update",
    "revert",
    "pause",
    "resume",
    "change strategy",
    "change minimum",
    "drain node",
)


def options(backend: str, seed: int = 0) -> WorldOptions:
    return replace(STAGES[{"default": "1.36"}.get(backend, backend)].options, seed=seed)


def training(backend: str, shape: str, replicas: int, stop: int, level: str = LEVELS[0]) -> Manifest:
    """A set of one of the shapes; its roles have a level, which updates change, and say their minimum."""
    made = train(backend, shape, replicas, stop)
    for role in made["spec"]["template"]["cliques"]:
        set_level(role, level)
        role["spec"].setdefault("minAvailable", role["spec"]["replicas"])
    return made


def set_level(role: Manifest, level: str) -> None:
    role["spec"]["podSpec"]["containers"][0]["env"] = [{"name": "LEVEL", "value": level}]


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
    drawn: Manifest = without(await portrait(world, (OBJECTS[backend],)), HISTORY)
    return drawn


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


async def user_acts(world: World, rng: random.Random, backend: str, cliqueset: Manifest) -> list[str]:
    """What a restless user does while the world is on fire; returns what it was."""
    acts = [rng.choice(ACTS) for _ in range(rng.randint(0, 3))]
    for act in acts:
        # What was listed may be gone by now: then nothing happens.
        with suppress(NotFound):
            await act_once(world, rng, backend, cliqueset, act)
        await asyncio.sleep(rng.choice([0.0, 0.05, 0.7, 5.0]))
    return acts


async def act_once(world: World, rng: random.Random, backend: str, cliqueset: Manifest, act: str) -> None:
    """One thing that a user does."""
    match act:
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
        case "update" | "revert":
            await update(world, rng, LEVELS[0] if act == "revert" else rng.choice(LEVELS))
        case "pause" | "resume":
            await pause(world, paused=act == "pause")
        case "change strategy":
            await edit(world, {"spec": {"updateStrategy": {"type": rng.choice(STRATEGIES)}}})
        case "change minimum":
            await change_minimum(world, rng)
        case "drain node":
            await drain(world, rng)
        case "delete and apply":
            await world.user.delete(kinds.CLIQUESETS, Key("default", "train"), propagation="Background")
            await world.apply(cliqueset)
        case _:
            pass


async def edit(world: World, patch: Manifest) -> None:
    await world.user.merge_patch(kinds.CLIQUESETS, Key("default", "train"), patch)


async def roles(world: World) -> list[Manifest]:
    """The roles of the set as they are now."""
    found = await world.get(kinds.CLIQUESETS, "train")
    assert found is not None
    return list(found["spec"]["template"]["cliques"])


async def update(world: World, rng: random.Random, level: str) -> None:
    """Change the template of one role, or of all."""
    there = await roles(world)
    for role in there if rng.random() < 0.5 else [rng.choice(there)]:
        set_level(role, level)
    await edit(world, {"spec": {"template": {"cliques": there}}})


async def pause(world: World, *, paused: bool) -> None:
    await edit(world, {"metadata": {"annotations": {labels.UPDATE_PAUSED: "true" if paused else None}}})


async def change_minimum(world: World, rng: random.Random) -> None:
    there = await roles(world)
    spec = rng.choice(there)["spec"]
    spec["minAvailable"] = rng.randint(1, spec["replicas"])
    # One above the lower bound of the role's autoscaler is refused, and nothing changes.
    with suppress(Invalid):
        await edit(world, {"spec": {"template": {"cliques": there}}})


async def drain(world: World, rng: random.Random) -> None:
    """Cordon a node and take its pods away; it may be open again at once, or only in the end."""
    node = rng.choice(await world.all(NODES))["metadata"]["name"]
    await cordon(world, node)
    politely = rng.random() < 0.5
    for pod in await pods_on(world, node):
        if politely:
            await evict(world, pod)
        else:
            with suppress(NotFound, Conflict):
                await world.user.delete(
                    kinds.PODS, Key("default", pod["metadata"]["name"]), uid=pod["metadata"]["uid"]
                )
    await asyncio.sleep(rng.choice([0.0, 0.5, 3.0]))
    if rng.random() < 0.7:
        await cordon(world, node, closed=False)


async def as_it_should_end(world: World, wanted: Manifest) -> None:
    """Whatever holds updates and nodes is let go, and the set is edited to be as it is compared."""
    for node in await world.all(NODES):
        if node["spec"].get("unschedulable"):
            await cordon(world, node["metadata"]["name"], closed=False)
    await pause(world, paused=False)
    cliques = wanted["spec"]["template"]["cliques"]
    await edit(world, {"spec": {"updateStrategy": None, "template": {"cliques": cliques}}})


async def place_again(world: World) -> None:
    """What a set with an edit that its scheduler cannot be told of asks its user to do.

    Pods that were made while the minimum was another keep their link to the scheduler's objects, or have none.
    """
    for pod in await world.pods():
        await world.user.delete(kinds.PODS, Key("default", pod["metadata"]["name"]))
    await world.settle(quiet=12)


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
        faults = misfortunes(rng)
        late = any(fault.action in LATE for fault in faults)
        guard = Guard(world.cluster, lag=LONGEST_LAG if late else 1.0)
        for fault in faults:
            world.cluster.faults.add(fault)
        await world.start_operator()
        first = training(backend, shape, rng.randint(1, 3), stop, rng.choice(LEVELS))
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
        assert await silent_updates(world) == [], f"seed {seed}"
        await as_it_should_end(world, training(backend, shape, replicas, stop))
        for group in await world.all(kinds.SCALING_GROUPS):
            await world.scale(group["metadata"]["name"], GROUP_REPLICAS, kinds.SCALING_GROUPS)
        for autoscaler in await world.all(kinds.AUTOSCALERS):
            if autoscaler["spec"]["scaleTargetRef"]["kind"] == kinds.CLIQUES.kind:
                await scale_target(world, autoscaler["spec"], ROLE_REPLICAS)
        await world.settle(quiet=12)
        assert await silent_updates(world) == [], f"seed {seed}"
        if "change minimum" in acting.result():
            await place_again(world)
        assert await picture(world, backend) == want, f"seed {seed}"
        assert guard.broken == [], f"seed {seed}"

    run_world(run, options(backend, seed), operator=False)


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK), ids=lambda first: f"seeds-{first}")
def test_the_world_ends_up_as_if_nothing_had_gone_wrong(first: int) -> None:
    for seed in range(first, first + CHUNK):
        survives(seed)
    assert undisturbed.cache_info().currsize > 0
