"""GS1 to GS12 on the embedded cluster, with every scheduler that it plays."""

from dataclasses import dataclass, replace

import pytest
from tests.scenarios.growing import CASES, Case, Step, play
from tests.scenarios.stories import GANG_STAGES, Stage

from grove.api import kinds
from grove.meta import Key, Manifest, Resource
from grove.testing.world import NODES, World, run_world


@dataclass
class Simulated:
    """A case on the embedded cluster."""

    world: World
    stage: Stage

    async def usable(self, nodes: int) -> None:
        names = sorted(node["metadata"]["name"] for node in await self.world.all(NODES))
        for position, name in enumerate(names):
            patch = {"spec": {"unschedulable": True if position >= nodes else None}}
            await self.world.user.merge_patch(NODES, Key("", name), patch)

    async def apply(self, case: Case) -> None:
        await self.world.apply(case.workload(self.stage, "wl"))

    async def scale(self, resource: Resource, name: str, replicas: int) -> None:
        await self.world.scale(name, replicas, resource)

    async def reaches(self, step: Step, what: str) -> None:
        async def reached() -> bool:
            return step.reached(await self.world.pods(), self.stage.backend)

        await self.world.until(reached, what, seconds=900)
        await self.world.settle(seconds=3600)
        assert await reached(), f"{what}, and it stays so\n{await self.world.describe()}"

    async def objects(self, resource: Resource) -> list[Manifest]:
        return await (self.world.pods() if resource == kinds.PODS else self.world.all(resource))


@pytest.mark.parametrize("stage", GANG_STAGES.values(), ids=GANG_STAGES)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_gangs_are_placed_as_nodes_come_and_groups_grow(case: Case, stage: Stage) -> None:
    async def story(world: World) -> None:
        await play(case, Simulated(world, stage))

    run_world(story, replace(stage.options, nodes=case.nodes))
