"""How one ClusterTopologyBinding is kept: which objects of schedulers it writes, replaces and leaves alone."""

import asyncio
import logging

import pytest
from tests.controllers.steps import Steps, condition, run_steps

from grove.api import conditions, kinds
from grove.backends.kai.topology import TOPOLOGIES
from grove.controllers.pacing import SETTLE_SECONDS
from grove.controllers.topology import TopologyReconciler
from grove.errors import Forbidden
from grove.meta import Manifest
from grove.runtime.outcome import DONE

NAME = "cluster"
ZONE, RACK = "topology.kubernetes.io/zone", "example.com/rack"


def binding(*keys: str, **spec: object) -> Manifest:
    """A binding with these node labels as its levels, broadest first."""
    domains = ("zone", "rack", "host")
    levels = [{"domain": domain, "key": key} for domain, key in zip(domains, keys, strict=False)]
    return {
        "apiVersion": kinds.TOPOLOGY_BINDINGS.api_version,
        "kind": kinds.TOPOLOGY_BINDINGS.kind,
        "metadata": {"name": NAME},
        "spec": {"levels": levels, **spec},
    }


def referring(name: str, scheduler: str = "kai-scheduler") -> Manifest:
    return binding(
        ZONE,
        RACK,
        schedulerTopologyBindings=[{"schedulerName": scheduler, "topologyReference": name}],
    )


def topology(*keys: str, name: str = NAME) -> Manifest:
    """A Topology that somebody else made."""
    return {
        "apiVersion": TOPOLOGIES.api_version,
        "kind": TOPOLOGIES.kind,
        "metadata": {"name": name},
        "spec": {"levels": [{"nodeLabel": key} for key in keys]},
    }


def levels(manifest: Manifest) -> list[str]:
    return [each["nodeLabel"] for each in manifest["spec"]["levels"]]


async def look(steps: Steps) -> None:
    await steps.rest(TopologyReconciler, NAME)


async def told(steps: Steps, type_: str) -> tuple[str, str]:
    found = condition(await steps.get(kinds.TOPOLOGY_BINDINGS, NAME), type_)
    return found.get("status", ""), found.get("reason", "")


async def scheduler_status(steps: Steps) -> list[tuple[str, bool]]:
    status = (await steps.get(kinds.TOPOLOGY_BINDINGS, NAME))["status"]
    return [(each["schedulerName"], each["inSync"]) for each in status["schedulerTopologyStatuses"]]


DRIFT = conditions.SCHEDULER_TOPOLOGY_DRIFT


def test_a_scheduler_without_the_levels_gets_them_and_the_binding_then_says_so() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(binding(ZONE, RACK))
        await look(steps)
        made = await steps.get(TOPOLOGIES, NAME)
        assert levels(made) == [ZONE, RACK]
        assert [each["name"] for each in made["metadata"]["ownerReferences"]] == [NAME]
        assert "status" not in await steps.get(kinds.TOPOLOGY_BINDINGS, NAME), "what is under way is no drift"
        await look(steps)
        assert await told(steps, DRIFT) == ("False", "InSync")
        assert await told(steps, "Ready") == ("True", "InSync")
        assert await scheduler_status(steps) == [("kai-scheduler", True)]

    run_steps(story, "kai")


def test_what_is_written_stands_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(binding(ZONE, RACK))
        with caplog.at_level(logging.INFO, "grove.controllers.topology"):
            await look(steps)
            await look(steps)
        assert [record.message for record in caplog.records] == ["topology objects written"]

    run_steps(story, "kai")


def test_what_agrees_is_not_written_again() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(binding(ZONE, RACK))
        await look(steps)
        await look(steps)
        steps.writes()
        assert await steps.look(TopologyReconciler, NAME) == DONE
        assert steps.writes() == []

    run_steps(story, "kai")


def test_a_topology_of_its_own_with_other_levels_is_replaced_because_levels_cannot_change() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(binding(ZONE, RACK))
        await look(steps)
        before = (await steps.get(TOPOLOGIES, NAME))["metadata"]["uid"]
        await steps.world.apply(binding(RACK))
        await look(steps)
        assert await steps.names(TOPOLOGIES) == []
        await look(steps)
        after = await steps.get(TOPOLOGIES, NAME)
        assert levels(after) == [RACK]
        assert after["metadata"]["uid"] != before

    run_steps(story, "kai")


def test_one_that_somebody_keeps_from_going_is_waited_for() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(binding(ZONE, RACK))
        await look(steps)
        await steps.keep(TOPOLOGIES, NAME)
        await steps.world.apply(binding(RACK))
        await look(steps)
        steps.writes()
        await look(steps)
        assert [each for each in steps.writes() if "topologies" in each] == []
        status, _ = await told(steps, DRIFT)
        assert status == "True"
        assert await told(steps, conditions.STALLED) == ("", ""), "it is being replaced"

    run_steps(story, "kai")


@pytest.mark.parametrize("keys", [(RACK,), (RACK, ZONE), (ZONE, RACK, "example.com/host")])
def test_a_topology_of_somebody_else_with_other_levels_is_drift_and_left_alone(keys: tuple[str, ...]) -> None:
    async def story(steps: Steps) -> None:
        await steps.create(TOPOLOGIES, topology(*keys))
        before = await steps.get(TOPOLOGIES, NAME)
        await steps.world.apply(binding(ZONE, RACK))
        await look(steps)
        assert await steps.get(TOPOLOGIES, NAME) == before
        assert await told(steps, DRIFT) == ("True", "Drift")
        assert await told(steps, "Ready") == ("False", "Drift")
        assert (await told(steps, conditions.STALLED))[0] == "True", "nothing that we write would change it"
        assert await steps.events() == ["TopologyDriftDetected"]

    run_steps(story, "kai")


def test_a_topology_of_somebody_else_with_the_same_levels_is_taken_as_it_is() -> None:
    async def story(steps: Steps) -> None:
        await steps.create(TOPOLOGIES, topology(ZONE, RACK))
        before = await steps.get(TOPOLOGIES, NAME)
        await steps.world.apply(binding(ZONE, RACK))
        await look(steps)
        assert await steps.get(TOPOLOGIES, NAME) == before
        assert await told(steps, DRIFT) == ("False", "InSync")

    run_steps(story, "kai")


@pytest.mark.parametrize("there", [None, (RACK,)], ids=["missing", "other levels"])
def test_a_topology_that_a_binding_refers_to_is_never_written(there: tuple[str, ...] | None) -> None:
    async def story(steps: Steps) -> None:
        if there is not None:
            await steps.create(TOPOLOGIES, topology(*there, name="admins"))
        found = await steps.names(TOPOLOGIES)
        await steps.world.apply(referring("admins"))
        await look(steps)
        assert await steps.names(TOPOLOGIES) == found
        assert await told(steps, DRIFT) == ("True", "Drift")

    run_steps(story, "kai")


def test_drift_that_is_over_is_told_once_more_as_an_event() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(referring("admins"))
        await look(steps)
        await steps.create(TOPOLOGIES, topology(ZONE, RACK, name="admins"))
        await look(steps)
        assert await told(steps, DRIFT) == ("False", "InSync")
        assert await told(steps, conditions.STALLED) == ("", "")
        assert await steps.events() == ["TopologyDriftDetected", "TopologyInSync"]

    run_steps(story, "kai")


def test_drift_that_goes_on_is_told_once() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(referring("admins"))
        await look(steps)
        await steps.create(TOPOLOGIES, topology(RACK, name="admins"))
        await look(steps)
        assert await steps.events() == ["TopologyDriftDetected"]

    run_steps(story, "kai")


def test_a_binding_that_contradicts_itself_is_refused_and_no_scheduler_hears_of_it() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(binding(ZONE, ZONE))
        await look(steps)
        assert await steps.names(TOPOLOGIES) == []
        assert await told(steps, conditions.ACCEPTED) == ("False", conditions.INVALID)
        assert await told(steps, "Ready") == ("False", conditions.INVALID)

    run_steps(story, "kai")


def test_whether_a_scheduler_agrees_whose_kinds_are_not_installed_is_unknown() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(binding(ZONE, RACK))
        await look(steps)
        assert await told(steps, DRIFT) == ("Unknown", "TopologyNotFound")

    run_steps(story)


def test_a_reference_for_a_scheduler_that_is_not_enabled_is_refused() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(referring("admins", scheduler="nobody"))
        await look(steps)
        await look(steps)
        assert await told(steps, conditions.ACCEPTED) == ("False", conditions.INVALID)
        assert ("nobody", False) in await scheduler_status(steps)

    run_steps(story, "kai")


def test_a_refused_write_is_raised_and_the_binding_says_what_is_missing() -> None:
    async def story(steps: Steps) -> None:
        steps.forbid("PATCH", f"/topologies/{NAME}")
        await steps.world.apply(binding(ZONE, RACK))
        with pytest.raises(Forbidden):
            await steps.look(TopologyReconciler, NAME)
        await asyncio.sleep(SETTLE_SECONDS)
        with pytest.raises(Forbidden):
            await steps.look(TopologyReconciler, NAME)
        assert await steps.names(TOPOLOGIES) == []
        assert await told(steps, DRIFT) == ("True", "Drift")
        assert await scheduler_status(steps) == [("kai-scheduler", False)]

    run_steps(story, "kai")


def test_nothing_is_written_for_a_binding_that_goes() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(binding(ZONE, RACK))
        await steps.keep(kinds.TOPOLOGY_BINDINGS, NAME)
        await steps.delete(kinds.TOPOLOGY_BINDINGS, NAME)
        assert await steps.look(TopologyReconciler, NAME) == DONE
        assert steps.writes() == []

    run_steps(story, "kai")


def test_one_that_is_gone_needs_nothing() -> None:
    async def story(steps: Steps) -> None:
        assert await steps.look(TopologyReconciler, NAME) == DONE
        assert steps.writes() == []

    run_steps(story, "kai")
