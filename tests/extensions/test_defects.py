"""A backend with a defect: its gangs stay, say so and are tried again; everybody else's go on."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.extensions.packages import backend_source, install
from tests.scenarios.stories import pass_time, reasons_about, set_condition, until_running

from grove.api import kinds
from grove.api.config import load
from grove.meta import Manifest
from grove.testing import make
from grove.testing.world import World, WorldOptions, configuration_for, run_world

OPTIONS = configuration_for("acme")
WORD = "scheduler backend acme failed with a defect: KeyError: 'oops'"


def training(name: str, scheduler: str) -> Manifest:
    return make.cliqueset_manifest(name, [make.template("worker", 2, pod={"schedulerName": scheduler})])


def run(site: Path, method: str, story: Callable[[World], Awaitable[None]]) -> None:
    """A world whose operator has a backend of which one method fails."""
    body = f"def {method}(self, *arguments): raise KeyError('oops')"
    install(site, "acme-grove", backend_source("acme", body=body), points={"acme": "acme_grove:Backend"})

    async def both(world: World) -> None:
        await world.apply(training("mine", "acme-scheduler"), training("other", "default-scheduler"))
        await until_running(world, "other-0")
        await pass_time(5)
        await story(world)

    run_world(both, WorldOptions(schedulers=("kai",), configuration=load(OPTIONS)))


@pytest.mark.parametrize("method", ["translate", "read"])
def test_the_gang_says_so(site: Path, method: str) -> None:
    async def story(world: World) -> None:
        told = await world.condition("mine-0", "Scheduled")
        assert told["status"] == "False"
        assert WORD in told["message"]

    run(site, method, story)


def test_pods_that_cannot_be_prepared_are_told_on_clique_and_gang(site: Path) -> None:
    async def story(world: World) -> None:
        clique = await world.get(kinds.CLIQUES, "mine-0-worker")
        assert clique is not None
        assert [each["description"] for each in clique["status"]["lastErrors"]] == [WORD]
        assert "PodCreateFailed" in await reasons_about(world, "PodClique", "mine-0-worker")
        assert WORD in (await world.condition("mine-0", "Initialized"))["message"]

    run(site, "prepare_pod", story)


def test_a_set_that_cannot_be_judged_is_not_accepted(site: Path) -> None:
    async def story(world: World) -> None:
        accepted = await set_condition(world, "mine", "Accepted")
        assert (accepted["status"], accepted["reason"]) == ("False", "Unsupported")
        assert WORD in accepted["message"]

    run(site, "validate", story)
