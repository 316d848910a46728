"""GS1 to GS12 of the incumbent's end-to-end tests: base and scaled gangs as nodes come and groups grow.

Each pod takes a node. A step makes nodes available or scales something, and says how many pods are then on
nodes, of how many that exist.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from tests.scenarios.stories import GANG_STAGES, Stage
from tests.scenarios.workloads import wl1, wl2

from grove.api import kinds, labels
from grove.meta import Key, Manifest, Resource
from grove.testing.world import NODES, World, run_world

#: The schedulers that serve gangs below their minimum before pods above it.
STARVED_FIRST = ("kai", "volcano")


@dataclass(frozen=True)
class Step:
    """What is done, and how many pods are on nodes, of how many, once it has taken effect."""

    placed: int
    pods: int
    #: So many nodes can be used from now on; 0 leaves them as they are.
    nodes: int = 0
    scale: tuple[Resource, str, int] | None = None
    #: How many are on nodes where the scheduler serves what is older first: pods above the minimum of a gang
    #: may then take the room in which a scaled gang would fit.
    oldest_first: int | None = None


def group(replica: int, replicas: int) -> tuple[Resource, str, int]:
    return kinds.SCALING_GROUPS, f"wl-{replica}-sg-x", replicas


def whole(replicas: int) -> tuple[Resource, str, int]:
    return kinds.CLIQUESETS, "wl", replicas


@dataclass(frozen=True)
class Case:
    workload: Callable[[Stage, str], Manifest]
    nodes: int
    steps: tuple[Step, ...]


CASES = {
    "GS1": Case(wl1, 10, (Step(0, 10, nodes=9), Step(10, 10, nodes=10))),
    "GS2": Case(
        wl1,
        14,
        (
            Step(0, 10, nodes=9),
            Step(10, 10, nodes=10),
            Step(10, 14, scale=group(0, 3)),
            Step(14, 14, nodes=14),
        ),
    ),
    "GS3": Case(
        wl1,
        20,
        (Step(0, 10, nodes=9), Step(10, 10, nodes=10), Step(10, 20, scale=whole(2)), Step(20, 20, nodes=20)),
    ),
    "GS4": Case(
        wl1,
        28,
        (
            Step(0, 10, nodes=9),
            Step(10, 10, nodes=10),
            Step(10, 14, scale=group(0, 3)),
            Step(14, 14, nodes=14),
            Step(14, 24, scale=whole(2)),
            Step(24, 24, nodes=24),
            Step(24, 28, scale=group(1, 3)),
            Step(28, 28, nodes=28),
        ),
    ),
    "GS5": Case(wl2, 10, (Step(0, 10, nodes=2), Step(3, 10, nodes=3), Step(10, 10, nodes=10))),
    "GS6": Case(
        wl2,
        14,
        (
            Step(0, 10, nodes=2),
            Step(3, 10, nodes=3),
            Step(10, 10, nodes=10),
            Step(10, 14, scale=group(0, 3)),
            Step(12, 14, nodes=12),
            Step(14, 14, nodes=14),
        ),
    ),
    "GS7": Case(
        wl2,
        14,
        (
            Step(0, 10, nodes=2),
            Step(3, 10, nodes=3),
            Step(5, 10, nodes=5),
            Step(10, 10, nodes=10),
            Step(10, 14, scale=group(0, 3)),
            Step(12, 14, nodes=12),
            Step(14, 14, nodes=14),
        ),
    ),
    "GS8": Case(
        wl2,
        14,
        (
            Step(0, 10, nodes=2),
            Step(0, 14, scale=group(0, 3)),
            Step(3, 14, nodes=3),
            Step(7, 14, nodes=7, oldest_first=6),
            Step(14, 14, nodes=14),
        ),
    ),
    "GS9": Case(
        wl2,
        20,
        (
            Step(0, 10, nodes=2),
            Step(3, 10, nodes=3),
            Step(10, 10, nodes=10),
            Step(10, 20, scale=whole(2)),
            Step(13, 20, nodes=13),
            Step(20, 20, nodes=20),
        ),
    ),
    "GS10": Case(
        wl2,
        20,
        (
            Step(0, 10, nodes=2),
            Step(0, 20, scale=whole(2)),
            Step(6, 20, nodes=6),
            Step(10, 20, nodes=10),
            Step(20, 20, nodes=20),
        ),
    ),
    "GS11": Case(
        wl2,
        28,
        (
            Step(0, 10, nodes=2),
            Step(3, 10, nodes=3),
            Step(10, 10, nodes=10),
            Step(10, 14, scale=group(0, 3)),
            Step(12, 14, nodes=12),
            Step(14, 14, nodes=14),
            Step(14, 24, scale=whole(2)),
            Step(17, 24, nodes=17),
            Step(24, 24, nodes=24),
            Step(24, 28, scale=group(1, 3)),
            Step(26, 28, nodes=26),
            Step(28, 28, nodes=28),
        ),
    ),
    "GS12": Case(
        wl2,
        28,
        (
            Step(0, 10, nodes=2),
            Step(0, 14, scale=group(0, 3)),
            Step(0, 24, scale=whole(2)),
            Step(0, 28, scale=group(1, 3)),
            Step(6, 28, nodes=6),
            Step(14, 28, nodes=14),
            Step(28, 28, nodes=28),
        ),
    ),
}


@pytest.mark.parametrize("stage", GANG_STAGES.values(), ids=GANG_STAGES)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_gangs_are_placed_as_nodes_come_and_groups_grow(case: Case, stage: Stage) -> None:
    async def story(world: World) -> None:
        await cordon_all_but(world, case.steps[0].nodes)
        await world.apply(case.workload(stage, "wl"))
        for number, each in enumerate(case.steps):
            step = replace(each, oldest_first=None) if stage.backend in STARVED_FIRST else each
            if number and step.nodes:
                await cordon_all_but(world, step.nodes)
            if step.scale is not None:
                resource, name, replicas = step.scale
                await world.scale(name, replicas, resource)
            what = f"step {number}: {step.placed} of {step.pods} pods on nodes"
            await world.until(lambda: reached(world, step), what, seconds=900)  # noqa: B023 - awaited here
            await world.settle(seconds=3600)
            assert await reached(world, step), f"{what}, and it stays so\n{await world.describe()}"
            await gangs_are_whole_and_bases_come_first(world)

    run_world(story, replace(stage.options, nodes=case.nodes))


async def cordon_all_but(world: World, number: int) -> None:
    nodes = sorted(node["metadata"]["name"] for node in await world.all(NODES))
    for position, name in enumerate(nodes):
        patch = {"spec": {"unschedulable": True if position >= number else None}}
        await world.user.merge_patch(NODES, Key("", name), patch)


async def reached(world: World, step: Step) -> bool:
    pods = [pod for pod in await world.pods() if not pod["metadata"].get("deletionTimestamp")]
    allowed = {step.placed, step.placed if step.oldest_first is None else step.oldest_first}
    return sum("nodeName" in pod["spec"] for pod in pods) in allowed and len(pods) == step.pods


async def gangs_are_whole_and_bases_come_first(world: World) -> None:
    bound = Counter(
        pod["metadata"]["labels"][labels.POD_CLIQUE]
        for pod in await world.pods()
        if "nodeName" in pod["spec"]
    )
    placed: dict[str, bool] = {}
    gangs = {gang["metadata"]["name"]: gang for gang in await world.all(kinds.GANGS)}
    for name, gang in gangs.items():
        groups = gang["spec"]["podgroups"]
        placed[name] = all(bound[group["name"]] >= group["minReplicas"] for group in groups)
        assert placed[name] or not any(bound[group["name"]] for group in groups), f"{name} is placed in part"
    for name, gang in gangs.items():
        base = gang["metadata"]["labels"].get(labels.BASE_POD_GANG)
        assert not (base and placed[name] and not placed[base]), f"{name} is placed before {base}"
