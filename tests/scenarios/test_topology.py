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
from tests.scenarios.tas import BLOCK, RACK, ZONE, binding, pack, place_of, role, top
from tests.scenarios.test_topology_tas import KAI, nodes_by_name, play, podgroups, until_bound

from grove.api import kinds, labels
from grove.backends.kai.topology import TOPOLOGIES
from grove.meta import Key, Manifest
from grove.testing import make
from grove.testing.world import NODES, World


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


# What a replica shares ----------------------------------------------------------------------------


def grown(constraint: Manifest, replicas: int, group: Manifest | None = None) -> Manifest:
    """A router and a scaling group of which one replica is in the base gang; each replica fills a node."""
    workers = tas.group("workers", ["worker"], replicas, 1, group)
    case = tas.Case(
        [role("router", 2), role("worker", 2)], 0, (), {}, groups=[workers], constraint=constraint
    )
    return case.cliqueset(KAI.annotations)


async def racks_of(world: World, gang: str = "") -> set[str]:
    """The racks in which pods are, of one gang or all."""
    nodes = await nodes_by_name(world)
    return {
        nodes[pod["spec"]["nodeName"]]["metadata"]["labels"][RACK]
        for pod in await world.pods()
        if gang in ("", pod["metadata"]["labels"][labels.POD_GANG])
    }


async def cordon_rack(world: World, rack: str, *, cordoned: bool = True) -> None:
    for name, node in (await nodes_by_name(world)).items():
        if node["metadata"]["labels"][RACK] == rack:
            patch = {"spec": {"unschedulable": cordoned or None}}
            await world.user.merge_patch(NODES, Key("", name), patch)


async def settled_away_from_the_first_rack(world: World, workload: Manifest) -> str:
    """The rack of a base gang; not the one that the simulated KAI would choose among racks with equal room."""
    await cordon_rack(world, "rack-0")
    await world.apply(workload)
    await until_bound(world, 4)
    await cordon_rack(world, "rack-0", cordoned=False)
    (home,) = await racks_of(world)
    assert home != "rack-0"
    return home


@pytest.mark.parametrize("group", [None, pack("host")], ids=["the set's constraint", "one of its own"])
def test_a_scaled_gang_goes_to_the_rack_of_its_replica_though_others_have_room(
    group: Manifest | None,
) -> None:
    async def story(world: World) -> None:
        home = await settled_away_from_the_first_rack(world, grown(top("rack"), 1, group))
        await world.scale("tas-0-workers", 3, kinds.SCALING_GROUPS)
        await until_bound(world, 8)
        assert await racks_of(world) == {home}
        gang = await world.gang("tas-0-workers-0")
        assert gang is not None
        assert gang["metadata"]["annotations"][labels.REPLICA_REQUIRED] == RACK

    play(story)


def test_a_scaled_gang_whose_set_asks_for_a_wider_domain_is_free_within_it() -> None:
    async def story(world: World) -> None:
        home = await settled_away_from_the_first_rack(world, grown(top("zone"), 1, pack("rack")))
        await world.scale("tas-0-workers", 2, kinds.SCALING_GROUPS)
        await until_bound(world, 6)
        assert await racks_of(world, "tas-0-workers-0") == {"rack-0"} != {home}

    play(story)


def test_a_scaled_gang_waits_for_room_in_the_rack_of_its_replica_and_says_so() -> None:
    async def story(world: World) -> None:
        home = await settled_away_from_the_first_rack(world, grown(top("rack"), 1))
        await cordon_rack(world, home)
        await world.scale("tas-0-workers", 2, kinds.SCALING_GROUPS)
        said = await until_reason(world, "tas-0-workers-0", "Scheduled", "Unschedulable")
        assert "0 of 2 pods placed" in said["message"]
        await world.settle()
        assert sum("nodeName" in pod["spec"] for pod in await world.pods()) == 4
        await world.add_node("more", labels={**place_of(0), RACK: home})
        await until_bound(world, 6)
        assert await racks_of(world) == {home}

    play(story)


def test_each_replica_of_a_set_has_a_rack_of_its_own() -> None:
    async def story(world: World) -> None:
        await world.apply({**grown(top("rack"), 2), "spec": {**grown(top("rack"), 2)["spec"], "replicas": 2}})
        await until_bound(world, 12)
        for replica in (0, 1):
            base = await racks_of(world, f"tas-{replica}")
            assert len(base) == 1
            assert await racks_of(world, f"tas-{replica}-workers-0") == base

    play(story)


def test_what_a_replica_should_share_is_a_wish_of_its_scaled_gangs_and_told_as_such() -> None:
    async def story(world: World) -> None:
        await world.apply(grown(top(preferred="rack"), 2))
        await until_bound(world, 6)
        loss = await world.condition("tas-0-workers-0", "TranslationLoss")
        assert (loss["status"], loss["reason"]) == ("True", "CannotExpress")
        assert "replica-topology approximated" in loss["message"]
        assert await world.condition("tas-0", "TranslationLoss") == {}

    play(story)
