"""How often the operator looks at a gang and its cliques over their life: each look costs, and most change nothing."""

from collections import Counter
from dataclasses import replace

import pytest
from bench.cases import Case, cliqueset
from tests.scenarios.stories import STAGES

from grove.api import kinds
from grove.meta import Key
from grove.testing.world import World, WorldOptions, run_world

#: With one clique each: what a gang and its clique may cost together, from the set's creation until all is gone.
MOST_LOOKS_A_GANG = 12


@pytest.mark.parametrize("case", [Case(60, 2), Case(30, 8)], ids=lambda case: case.name)
def test_a_gang_is_looked_at_at_most_twelve_times_from_its_creation_until_it_is_gone(case: Case) -> None:
    async def story(world: World) -> None:
        await world.apply(cliqueset(case))
        await world.settle(quiet=10)
        assert {pod["status"]["phase"] for pod in await world.pods()} == {"Running"}
        await world.user.delete(kinds.CLIQUESETS, Key("default", "bench"), propagation="Background")
        await world.settle(quiet=10)
        assert not await world.pods()
        assert not await world.all(kinds.GANGS)
        found = looks(world)
        assert found["gang"] >= case.gangs
        assert found.total() / case.gangs <= MOST_LOOKS_A_GANG, found

    options: WorldOptions = STAGES["1.36"].options
    run_world(story, replace(options, nodes=20))


def looks(world: World) -> Counter[str]:
    """How many reconciles each controller has made so far."""
    assert world.operator is not None
    found: Counter[str] = Counter()
    for metric in world.operator.metrics.registry.collect():
        for sample in metric.samples:
            if sample.name == "grove_reconciles_total":
                found[sample.labels["controller"]] += int(sample.value)
    return found
