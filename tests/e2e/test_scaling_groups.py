"""GS1 to GS12 on real schedulers: base and scaled gangs as nodes come and groups grow.

The stories are those of the embedded cluster. `make e2e` plays some, for the time of CI;
`make e2e STORIES=full` plays all of them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

import pytest
from tests.e2e.conftest import Plane
from tests.e2e.plane import Act
from tests.e2e.scene import NODES, Scene, holds_a_place
from tests.scenarios.growing import CASES, Case, Step, play
from tests.scenarios.stories import STAGES

from grove.api import kinds
from grove.meta import Key, Manifest, Resource

pytestmark = pytest.mark.real

FULL = os.environ.get("GROVE_E2E_STORIES", "") == "full"
#: How long a step must stay as it is.
STAYS_SECONDS: Final = 5.0 if FULL else 2.0
#: Base gangs alone; scaled gangs that come with their base, and that are added while it waits.
NAMES: Final = tuple(CASES) if FULL else ("GS1", "GS7", "GS8")
#: YuniKorn keeps nodes with placeholders for a gang that lacks others, however long that takes, and kube-scheduler
#: 1.35 lets the pods that have a node wait for the others of their gang. Which requests they serve first depends on
#: when they came, so a scaled gang may keep one from pods above the minimum of its base.
TAKES_PARTS: Final = ("yunikorn", "1.35")


@dataclass
class Real:
    """A case on a real control plane."""

    scene: Scene

    async def usable(self, nodes: int) -> None:
        for position in range(len([of for of, _ in self.scene.made if of == NODES])):
            patch = {"spec": {"unschedulable": True if position >= nodes else None}}
            await self.scene.user.merge_patch(NODES, Key("", f"node-{position}"), patch)

    async def apply(self, case: Case) -> None:
        # The operator's default is the scheduler that is there: no annotation has to name one.
        await self.scene.apply(case.workload(STAGES["1.36"], "wl"))

    async def scale(self, resource: Resource, name: str, replicas: int) -> None:
        await self.scene.scale(resource, name, replicas)

    async def reaches(self, step: Step, what: str) -> None:
        backend = self.scene.judge.backend
        takes_parts = self.scene.judge.name in TAKES_PARTS

        def reached() -> bool:
            return step.reached(self.scene.pods(), backend, takes_parts=takes_parts)

        # Gangs that keep each other from nodes give them back one after the other, each after ten seconds.
        await self.scene.until(reached, what, seconds=150)
        await self.scene.ledger.holds(reached, STAYS_SECONDS, self.scene.describe)
        if takes_parts and step.beside_a_part is not None:
            await self.scene.until(
                lambda: self.scene.bound() + self._kept() == step.placed, "the other nodes are kept for gangs"
            )

    def _kept(self) -> int:
        """How many nodes the scheduler's own pods keep, or pods that wait there for the others of their gang."""
        return sum(
            "nodeName" in pod["spec"] if holds_a_place(pod) else _waits_at_a_node(pod)
            for pod in self.scene.ledger.all(kinds.PODS)
        )

    async def objects(self, resource: Resource) -> list[Manifest]:
        return self.scene.pods() if resource == kinds.PODS else self.scene.ledger.all(resource)


def _waits_at_a_node(pod: Manifest) -> bool:
    return "nodeName" not in pod["spec"] and bool(pod["status"].get("nominatedNodeName"))


@pytest.mark.parametrize("name", NAMES)
def test_gangs_are_placed_as_nodes_come_and_groups_grow(plane: Plane, name: str) -> None:
    async def story(act: Act) -> None:
        await act.scene.nodes(CASES[name].nodes)
        await play(CASES[name], Real(act.scene))

    plane.play(name.lower(), story)


@pytest.mark.parametrize("name", NAMES)
def test_gangs_are_placed_as_nodes_come_and_groups_grow_with_the_scheduler_of_others(
    other_plane: Plane, name: str
) -> None:
    test_gangs_are_placed_as_nodes_come_and_groups_grow(other_plane, name)
