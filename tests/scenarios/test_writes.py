"""What a set with scaling groups costs the API server: how many writes there are until it runs, by kind.

Fewer are not possible without giving up a promise. A gang exists before its pods, lists them, says Initialized
before a gate opens, and says at last how it was placed: four writes, of which the list and the conditions cannot be
one, as a status is written by itself. The fifth is the scheduler's object.
"""

from collections import Counter
from dataclasses import replace

import pytest
from bench.cases import TEN_GROUPS, GroupCase, cliqueset, group_case
from tests.scenarios.stories import STAGES

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
