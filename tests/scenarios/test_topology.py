"""Topology constraints that cannot be resolved, or only with the help of others: each says so, none is dropped."""

import pytest
from tests.scenarios import tas
from tests.scenarios.stories import (
    condition_of,
    owner_of,
    reasons_about,
    scheduler_objects,
    set_condition,
    uid_of,
    until_reason,
    until_running,
)
from tests.scenarios.tas import BLOCK, RACK, ZONE, binding, pack, role, top
from tests.scenarios.test_topology_tas import KAI, nodes_by_name, play, podgroups, until_bound

from grove.api import kinds, labels
from grove.backends.kai.topology import TOPOLOGIES
from grove.meta import Key, Manifest
from grove.testing import make
from grove.testing.world import World


def theirs(name: str, *keys: str) -> Manifest:
    """A Topology of KAI that somebody else manages."""
    return {
        "apiVersion": TOPOLOGIES.api_version,
        "kind": TOPOLOGIES.kind,
        "metadata": {"name": name},
        "spec": {"levels": [{"nodeLabel": key} for key in keys]},
    }


def referencing(name: str) -> Manifest:
    return binding(
        levels={"block": BLOCK, "rack": RACK},
        schedulerTopologyBindings=[{"schedulerName": "kai-scheduler", "topologyReference": name}],
    )


def packed(**fields: object) -> Manifest:
    """Four workers in one rack."""
    return tas.Case([role("worker", 4)], 4, (), {}, constraint=top("rack"), **fields).cliqueset(  # type: ignore[arg-type]
        KAI.annotations
    )


# Topologies of others -----------------------------------------------------------------------------


def test_kai_is_told_of_the_topology_that_the_binding_references() -> None:
    async def story(world: World) -> None:
        await world.apply(theirs("admins", BLOCK, RACK), referencing("admins"))
        await world.apply(packed())
        await until_bound(world, 4)
        assert await podgroups(world, "admins") == {"tas-0": tas.PodGroup((tas.sub("worker", 4),), RACK)}
        gang = await world.gang("tas-0")
        assert gang is not None
        assert gang["metadata"]["annotations"][labels.TOPOLOGY_NAME] == tas.BINDING
        assert gang["metadata"]["annotations"][labels.SCHEDULER_TOPOLOGY] == "admins"
        nodes = await nodes_by_name(world)
        assert (
            len({nodes[pod["spec"]["nodeName"]]["metadata"]["labels"][RACK] for pod in await world.pods()})
            == 1
        )

    play(story)


def test_a_gang_whose_referenced_topology_is_missing_says_so_and_runs_when_it_comes() -> None:
    async def story(world: World) -> None:
        await world.apply(referencing("admins"))
        await world.apply(packed())
        said = await until_reason(world, "tas-0", "Scheduled", "TopologyNotFound")
        assert "KAI has no Topology 'admins'" in said["message"]
        await world.apply(theirs("admins", BLOCK, RACK))
        await until_bound(world, 4)

    play(story)


def test_a_reference_that_is_taken_back_leaves_the_topology_of_others_alone() -> None:
    async def story(world: World) -> None:
        await world.apply(theirs("admins", BLOCK, RACK), referencing("admins"))
        await world.settle()
        before = await world.get(TOPOLOGIES, "admins")
        await world.user.merge_patch(
            kinds.TOPOLOGY_BINDINGS, Key("", tas.BINDING), {"spec": {"schedulerTopologyBindings": None}}
        )
        await world.settle()
        own = await world.get(TOPOLOGIES, tas.BINDING)
        assert own is not None
        assert owner_of(own)[:2] == ("ClusterTopologyBinding", tas.BINDING)
        assert await world.get(TOPOLOGIES, "admins") == before
        drift = condition_of(await world.get(kinds.TOPOLOGY_BINDINGS, tas.BINDING), "SchedulerTopologyDrift")
        assert (drift["status"], drift["reason"]) == ("False", "InSync")

    play(story, nodes=1)


def test_levels_that_drift_apart_are_told_and_told_again_when_they_agree() -> None:
    async def story(world: World) -> None:
        await world.apply(theirs("admins", BLOCK, RACK), referencing("admins"))
        await world.settle()
        await world.user.delete(TOPOLOGIES, Key("", "admins"))
        await world.apply(theirs("admins", BLOCK))
        await world.settle()
        drift = condition_of(await world.get(kinds.TOPOLOGY_BINDINGS, tas.BINDING), "SchedulerTopologyDrift")
        assert (drift["status"], drift["reason"]) == ("True", "Drift")
        assert "levels differ from ClusterTopologyBinding levels" in drift["message"]
        assert "TopologyDriftDetected" in await reasons_about(world, "ClusterTopologyBinding", tas.BINDING)
        await world.user.delete(TOPOLOGIES, Key("", "admins"))
        await world.apply(theirs("admins", BLOCK, RACK))
        await world.settle()
        drift = condition_of(await world.get(kinds.TOPOLOGY_BINDINGS, tas.BINDING), "SchedulerTopologyDrift")
        assert (drift["status"], drift["reason"]) == ("False", "InSync")

    play(story, nodes=1)


# What cannot be resolved --------------------------------------------------------------------------


def test_a_preferred_level_that_is_missing_is_a_condition_and_an_event_and_the_rest_holds() -> None:
    constraint = top("rack", "cage")

    async def story(world: World) -> None:
        await world.apply(
            tas.Case([role("worker", 4)], 4, (), {}, constraint=constraint).cliqueset(KAI.annotations)
        )
        await until_bound(world, 4)
        levels = await set_condition(world, tas.SET, "TopologyLevelsUnavailable")
        assert (levels["status"], levels["reason"]) == ("True", "ClusterTopologyLevelsUnavailable")
        assert "'cage'" in levels["message"]
        assert (await reasons_about(world, "PodCliqueSet", tas.SET)).count("TopologyLevelsUnavailable") == 1
        assert await podgroups(world) == {"tas-0": tas.PodGroup((tas.sub("worker", 4),), RACK)}

    play(story)


@pytest.mark.parametrize("level", ["required", "preferred"])
def test_a_binding_that_contradicts_itself_is_not_acted_on(level: str) -> None:
    constraint = pack(**{level: "rack"}, topology=tas.BINDING)
    case = tas.Case([role("worker", 4)], 4, (), {}, constraint=constraint)

    async def story(world: World) -> None:
        before = await world.get(TOPOLOGIES, tas.BINDING)
        twice = [{"domain": "rack", "key": RACK}, {"domain": "rack", "key": ZONE}]
        await world.apply(make.object_manifest(kinds.TOPOLOGY_BINDINGS, tas.BINDING, {"levels": twice}))
        await world.apply(case.cliqueset(KAI.annotations))
        await world.settle()
        assert await world.get(TOPOLOGIES, tas.BINDING) == before
        levels = await set_condition(world, tas.SET, "TopologyLevelsUnavailable")
        assert (levels["status"], levels["reason"]) == ("Unknown", "ClusterTopologyInvalid")
        assert 'spec.levels[1].domain: Duplicate value: "rack"' in levels["message"]
        accepted = await set_condition(world, tas.SET, "Accepted")
        assert accepted["status"] == ("False" if level == "required" else "True")
        assert len(await world.pods()) == (0 if level == "required" else 4)
        assert "TopologyLevelsUnavailable" in await reasons_about(world, "PodCliqueSet", tas.SET)
        await world.apply(binding())
        await until_bound(world, 4)
        assert (await set_condition(world, tas.SET, "TopologyLevelsUnavailable"))["status"] == "False"

    play(story)


def test_a_reference_that_nobody_follows_is_told_and_the_levels_hold_for_others() -> None:
    async def story(world: World) -> None:
        spec = {"schedulerTopologyBindings": [{"schedulerName": "nobody", "topologyReference": "t"}]}
        await world.user.merge_patch(kinds.TOPOLOGY_BINDINGS, Key("", tas.BINDING), {"spec": spec})
        await world.apply(packed())
        await until_bound(world, 4)
        found = await world.get(kinds.TOPOLOGY_BINDINGS, tas.BINDING)
        assert condition_of(found, "Accepted")["status"] == "False"
        drift = condition_of(found, "SchedulerTopologyDrift")
        assert (drift["status"], drift["reason"]) == ("Unknown", "TopologyNotFound")

    play(story)


def test_a_set_whose_binding_is_gone_still_shrinks_and_grows_again_when_it_is_back() -> None:
    async def story(world: World) -> None:
        await world.apply(packed(replicas=2))
        await until_bound(world, 8)
        kept = {
            uid_of(pod) for pod in await world.pods() if pod["metadata"]["labels"][labels.POD_GANG] == "tas-0"
        }
        await world.user.delete(kinds.TOPOLOGY_BINDINGS, Key("", tas.BINDING))
        await world.scale(tas.SET, 1)
        await until_bound(world, 4)
        assert {uid_of(pod) for pod in await world.pods()} == kept
        assert [owner_of(each)[1] for each in await scheduler_objects(world, KAI)] == ["tas-0"]
        await world.scale(tas.SET, 3)
        await world.settle()
        assert {uid_of(pod) for pod in await world.pods()} == kept
        await world.apply(binding())
        await until_bound(world, 12)
        assert kept <= {uid_of(pod) for pod in await world.pods()}
        await until_running(world, "tas-0", "tas-1", "tas-2")

    play(story)
