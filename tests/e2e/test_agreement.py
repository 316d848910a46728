"""The embedded cluster does with gangs what real schedulers were recorded doing, judge by judge."""

from __future__ import annotations

import pytest
from tests.e2e.judges import JUDGES
from tests.e2e.ledger import Ledger
from tests.e2e.recording import recorded
from tests.e2e.scenarios import SCENARIOS, Outcome
from tests.e2e.scene import NAMESPACES, Scene, served

from grove.api.config import load
from grove.testing.world import World, WorldOptions, run_world

NAMESPACE = "story"


@pytest.mark.parametrize("judge", JUDGES)
def test_every_scenario_was_recorded_on_a_real_control_plane(judge: str) -> None:
    assert list(recorded(judge)) == list(SCENARIOS), (
        "run `make e2e RECORD=1 SCHEDULERS=all` where the real programs are installed"
    )


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_embedded_cluster_does_what_a_real_one_did(judge: str, name: str) -> None:
    found: Outcome = {}
    played = JUDGES[judge]

    async def story(world: World) -> None:
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await world.user.create(NAMESPACES, manifest)
        for each in played.furniture:
            await world.user.create(served(each), each)
        async with Ledger(world.user, *played.resources, namespace=NAMESPACE) as ledger:
            found.update(await SCENARIOS[name](Scene(played, NAMESPACE, world.user, ledger)))

    options = WorldOptions(
        kubernetes=played.minor,
        nodes=0,
        schedulers=(played.third_party,) if played.third_party else (),
        configuration=load(played.configuration),
    )
    run_world(story, options)
    assert found == recorded(judge)[name]
