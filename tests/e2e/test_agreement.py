"""The embedded cluster does with gangs what real control planes were recorded doing, minor by minor."""

from __future__ import annotations

import pytest
from tests.e2e.ledger import Ledger
from tests.e2e.recording import recorded
from tests.e2e.scenarios import SCENARIOS, Outcome
from tests.e2e.scene import NAMESPACES, Scene, resources_of

from grove.real import MINORS
from grove.testing.world import World, WorldOptions, run_world

NAMESPACE = "story"


@pytest.mark.parametrize("minor", MINORS)
def test_every_scenario_was_recorded_on_a_real_control_plane(minor: str) -> None:
    assert list(recorded(minor)) == list(SCENARIOS), (
        "run `make e2e RECORD=1` where real control planes are installed"
    )


@pytest.mark.parametrize("minor", MINORS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_embedded_cluster_does_what_a_real_one_did(minor: str, name: str) -> None:
    found: Outcome = {}

    async def story(world: World) -> None:
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await world.user.create(NAMESPACES, manifest)
        async with Ledger(world.user, *resources_of(minor), namespace=NAMESPACE) as ledger:
            found.update(await SCENARIOS[name](Scene(minor, NAMESPACE, world.user, ledger)))

    run_world(story, WorldOptions(kubernetes=minor, nodes=0))
    assert found == recorded(minor)[name]
