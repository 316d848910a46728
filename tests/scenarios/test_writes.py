"""What a set with scaling groups costs the API server: how many writes there are until it runs, by kind.

Fewer are not possible without giving up a promise. A gang exists before its pods, lists them, says Initialized
before a gate opens, and says at last how it was placed: four writes, of which the list and the conditions cannot be
one, as a status is written by itself. The fifth is the scheduler's object.
"""

from collections import Counter
from dataclasses import replace

import pytest
from bench.cases import TEN_GROUPS, Case, GroupCase, cliqueset, group_case
from tests.scenarios.stories import STAGES, condition_of

from grove.api import kinds
from grove.embedded.actors.kubelet import KubeletOptions
from grove.testing.world import OPERATOR, World, WorldOptions, run_world

CASES = (
    TEN_GROUPS,
    group_case("12x8 group", 1, standalone=0, workers=7, group_replicas=12, minimum=1),
    group_case("3 x (2 + 4x2)", 3, standalone=2, workers=1, group_replicas=4, minimum=2),
)


def fewest(case: GroupCase) -> dict[str, int]:
    """By what is written, the fewest writes that bring a case to its end; of a set the status twice."""
    gangs = case.gangs * (1 + case.group_replicas - case.minimum)
    cliques = case.gangs * (bool(case.standalone) + 2 * case.group_replicas)
    return {
        "create controllerrevisions": 1,
        "create pods": case.pods,
        "patch pods": case.pods,
        "create podgangs": gangs,
        "patch podgangs": gangs,
        "patch podgangs/status": 2 * gangs,
        "apply podgroups": gangs,
        "create podcliques": cliques,
        "patch podcliques/status": cliques,
        "create podcliquescalinggroups": case.gangs,
        "patch podcliquescalinggroups/status": case.gangs,
        "create services": case.gangs,
        "patch podcliquesets/status": 2,
    }


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_set_with_groups_is_written_with_the_fewest_writes(case: GroupCase) -> None:
    async def story(world: World) -> None:
        await world.apply(cliqueset(case))
        await world.settle(quiet=10)
        assert {pod["status"]["phase"] for pod in await world.pods()} == {"Running"}
        assert written(world) == fewest(case)

    options: WorldOptions = STAGES["1.36"].options
    run_world(story, replace(options, nodes=20))


#: Cases that kube-scheduler places at once and whose pods get ready one after the other, within ten seconds.
FLOODS = (Case(150, 2), Case(40, 8), Case(1, 300))


@pytest.mark.parametrize("stage", ["1.36", "no gang API"])
@pytest.mark.parametrize("case", FLOODS, ids=[case.name for case in FLOODS])
def test_gangs_and_cliques_say_placed_and_ready_together_while_many_pods_start(
    case: Case, stage: str
) -> None:
    async def story(world: World) -> None:
        await world.apply(cliqueset(case))
        await world.settle(quiet=40)
        ready = [condition_of(gang, "Ready").get("status") for gang in await world.all(kinds.GANGS)]
        assert ready == ["True"] * case.gangs
        writes = written(world)
        # One gang or clique by itself tells every five seconds how it gets on.
        extra = 2 if case.gangs == 1 else 0
        assert writes["patch podgangs/status"] <= 2 * case.gangs + extra
        assert writes["patch podcliques/status"] <= case.gangs + extra
        objects = case.gangs if STAGES[stage].objects else 0
        assert sum(writes.values()) <= 2 * case.pods + 7 * case.gangs + objects + 4 + 2 * extra

    kubelet = KubeletOptions(startup_jitter=10)
    run_world(story, replace(STAGES[stage].options, nodes=100, kubelet=kubelet))


@pytest.mark.parametrize("stage", STAGES)
def test_a_gang_that_is_placed_costs_one_event(stage: str) -> None:
    case = Case(60, 2)

    async def story(world: World) -> None:
        await world.apply(cliqueset(case))
        await world.settle(quiet=40)
        ready = [condition_of(gang, "Ready").get("status") for gang in await world.all(kinds.GANGS)]
        assert ready == ["True"] * case.gangs
        # Those beside the gangs' are about the set.
        assert 0 < events_written(world) <= case.gangs + 1

    kubelet = KubeletOptions(startup_jitter=10)
    run_world(story, replace(STAGES[stage].options, nodes=40, kubelet=kubelet))


def events_written(world: World) -> int:
    """How many events the operator wrote, counting those that it wrote again."""
    return sum(
        each.is_write and each.user == OPERATOR.name and each.resource.startswith("events")
        for each in world.cluster.requests
    )


def written(world: World) -> dict[str, int]:
    """The operator's writes by verb and kind, events and leases aside; refused ones count too."""
    found: Counter[str] = Counter()
    for each in world.cluster.requests:
        if (
            each.is_write
            and each.user == OPERATOR.name
            and not each.resource.startswith(("events", "leases"))
        ):
            plural, _, subresource = each.resource.partition("/")
            name = plural.partition(".")[0]
            found[f"{each.verb} {name}/{subresource}" if subresource else f"{each.verb} {name}"] += 1
    return dict(found)
