"""TAS1 to TAS23 of the incumbent's end-to-end tests, with the simulated KAI."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import pytest
from tests.scenarios import tas
from tests.scenarios.stories import (
    STAGES,
    condition_of,
    events_about,
    owner_of,
    reasons_about,
    scheduler_objects,
    set_condition,
    uid_of,
    until_reason,
)
from tests.scenarios.tas import BLOCK, CASES, HOST, RACK, ZONE, binding, pack, place_of, role, top

from grove.api import kinds, labels
from grove.backends.kai.topology import TOPOLOGIES
from grove.errors import Invalid
from grove.meta import Key, Manifest
from grove.testing.world import NODES, World, run_world

KAI: Final = STAGES["kai"]
SET: Final = tas.SET
Story = Callable[[World], Awaitable[None]]


def play(story: Story, nodes: int = tas.NODES) -> None:
    """A story on a cluster whose nodes stand in racks and blocks, with the binding `grove-topology`."""

    async def prepared(world: World) -> None:
        for index in range(nodes):
            await world.user.merge_patch(
                NODES, Key("", f"node-{index}"), {"metadata": {"labels": place_of(index)}}
            )
        await world.apply(binding())
        await world.settle()
        await story(world)

    run_world(prepared, replace(KAI.options, nodes=nodes))


async def until_bound(world: World, pods: int) -> None:
    async def all_run() -> bool:
        found = await world.pods()
        return len(found) == pods and all(pod["status"].get("phase") == "Running" for pod in found)

    await world.until(all_run, f"{pods} pods run", seconds=300)
    await world.settle()


async def nodes_by_name(world: World) -> dict[str, Manifest]:
    return {node["metadata"]["name"]: node for node in await world.all(NODES)}


async def podgroups(world: World, topology: str = tas.BINDING) -> dict[str, tas.PodGroup]:
    """What KAI is told, by gang."""
    found = await scheduler_objects(world, KAI)
    assert len({owner_of(each)[1] for each in found}) == len(found), "one PodGroup for each gang"
    return {owner_of(each)[1]: tas.podgroup_of(each, topology) for each in found}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_pods_are_packed_and_kai_is_told_so(case: tas.Case) -> None:
    async def story(world: World) -> None:
        await world.apply(case.cliqueset(KAI.annotations))
        await until_bound(world, case.pods)
        assert tas.apart(case, await world.pods(), await nodes_by_name(world)) == []
        assert await podgroups(world) == case.podgroups

    play(story)


def test_tas1_kais_topology_has_the_levels_of_the_binding_and_belongs_to_it() -> None:
    async def story(world: World) -> None:
        topology = await world.get(TOPOLOGIES, tas.BINDING)
        assert topology is not None
        assert [level["nodeLabel"] for level in topology["spec"]["levels"]] == [ZONE, BLOCK, RACK, HOST]
        owner = await world.get(kinds.TOPOLOGY_BINDINGS, tas.BINDING)
        assert owner_of(topology) == ("ClusterTopologyBinding", tas.BINDING, uid_of(owner))
        (told,) = (owner or {})["status"]["schedulerTopologyStatuses"]
        assert (told["schedulerName"], told["topologyReference"], told["inSync"]) == (
            "kai-scheduler",
            tas.BINDING,
            True,
        )
        for node in await world.all(NODES):
            assert {ZONE, BLOCK, RACK, HOST} <= node["metadata"]["labels"].keys()

    play(story)


def test_without_a_constraint_pods_are_spread() -> None:
    """What makes the table above say something: the simulated KAI does not pack of its own accord."""

    async def story(world: World) -> None:
        await world.apply(CASES["TAS7 nothing"].cliqueset(KAI.annotations))
        await until_bound(world, 4)
        nodes = await nodes_by_name(world)
        places = [nodes[pod["spec"]["nodeName"]]["metadata"]["labels"] for pod in await world.pods()]
        assert len({place[RACK] for place in places}) > 1
        assert len({place[HOST] for place in places}) == 4

    play(story)


def test_tas13_a_gang_that_no_rack_holds_waits_whole_and_says_why() -> None:
    case = tas.TOO_MANY

    async def story(world: World) -> None:
        await world.apply(case.cliqueset(KAI.annotations))
        said = await until_reason(world, "tas-0", "Scheduled", "Unschedulable")
        await world.settle()
        assert RACK in said["message"]
        pods = await world.pods()
        assert len(pods) == case.pods
        for pod in pods:
            assert "nodeName" not in pod["spec"]
            newest = (await events_about(world, "Pod", pod["metadata"]["name"]))[-1]
            assert (newest["type"], newest["reason"], newest["source"]["component"]) == (
                "Warning",
                "Unschedulable",
                "kai-scheduler",
            )
        assert await podgroups(world) == case.podgroups
        # An eighth node in one of the racks.
        await world.add_node("more", labels=place_of(0))
        await until_bound(world, case.pods)

    play(story)


def test_tas17_two_bindings_give_one_domain_two_meanings() -> None:
    """Two kinds of hardware: what is a block is a rack on one and an NVLink block on the other."""

    async def story(world: World) -> None:
        for index in range(14, 28):
            marks = {"metadata": {"labels": tas.nvlink_place(index)}}
            await world.user.merge_patch(NODES, Key("", f"node-{index}"), marks)
        await world.apply(*(binding(f"{name}-topology", levels) for name, levels in tas.HARDWARE.items()))
        await world.apply(*(tas.on_hardware(name, KAI.annotations) for name in tas.HARDWARE))
        await until_bound(world, 4)
        for name, levels in tas.HARDWARE.items():
            topology = await world.get(TOPOLOGIES, f"{name}-topology")
            assert topology is not None
            assert [each["nodeLabel"] for each in topology["spec"]["levels"]] == list(levels.values())
            nodes = await nodes_by_name(world)
            chosen = [
                nodes[pod["spec"]["nodeName"]]["metadata"]["labels"]
                for pod in await world.pods()
                if pod["metadata"]["labels"][labels.PART_OF] == name
            ]
            assert len({place[levels["block"]] for place in chosen}) == 1

    play(story)


async def drift(world: World, name: str) -> tuple[str, str, str]:
    found = condition_of(await world.get(kinds.TOPOLOGY_BINDINGS, name), "SchedulerTopologyDrift")
    return found["status"], found["reason"], found["message"]


def test_tas18_a_referenced_topology_that_does_not_exist_is_drift() -> None:
    async def story(world: World) -> None:
        reference = {"schedulerName": "kai-scheduler", "topologyReference": "nobodys"}
        await world.apply(binding("theirs", schedulerTopologyBindings=[reference]))
        await world.settle()
        status, reason, message = await drift(world, "theirs")
        assert (status, reason) == ("True", "Drift")
        assert 'Topology "nobodys" not found' in message
        (told,) = (await world.get(kinds.TOPOLOGY_BINDINGS, "theirs") or {})["status"][
            "schedulerTopologyStatuses"
        ]
        assert (told["topologyReference"], told["inSync"]) == ("nobodys", False)
        assert await world.get(TOPOLOGIES, "theirs") is None, "a referenced Topology is somebody else's"
        assert await reasons_about(world, "ClusterTopologyBinding", "theirs") == ["TopologyDriftDetected"]

    play(story, nodes=1)


def test_tas19_other_levels_make_another_topology_without_any_drift() -> None:
    async def story(world: World) -> None:
        two, three = {"zone": ZONE, "host": HOST}, {"zone": ZONE, "rack": RACK, "host": HOST}
        await world.apply(binding("lifecycle", two))
        await world.settle()
        before = await world.get(TOPOLOGIES, "lifecycle")
        assert (await drift(world, "lifecycle"))[:2] == ("False", "InSync")
        await world.apply(binding("lifecycle", three))
        await world.settle()
        after = await world.get(TOPOLOGIES, "lifecycle")
        assert uid_of(after) != uid_of(before)
        assert [each["nodeLabel"] for each in (after or {})["spec"]["levels"]] == list(three.values())
        assert (await drift(world, "lifecycle"))[:2] == ("False", "InSync")
        # Grove's own replacement of the object is no drift, not even for a moment.
        assert set(await reasons_about(world, "ClusterTopologyBinding", "lifecycle")) == {"TopologyInSync"}

    play(story, nodes=1)


def test_tas20_a_required_rack_waits_while_its_binding_is_gone() -> None:
    """Where the incumbent runs the pods without the constraint, a required one is refused with the reason."""
    case = tas.Case([role("worker", 2)], 2, (), {}, constraint=top("rack"), replicas=0)

    async def levels(world: World) -> tuple[str, str]:
        found = await set_condition(world, SET, "TopologyLevelsUnavailable")
        return found["status"], found["reason"]

    async def story(world: World) -> None:
        await world.apply(case.cliqueset(KAI.annotations))
        await world.settle()
        assert await levels(world) == ("False", "AllClusterTopologyLevelsAvailable")
        await world.user.delete(kinds.TOPOLOGY_BINDINGS, Key("", tas.BINDING))
        await world.settle()
        assert await world.get(TOPOLOGIES, tas.BINDING) is None
        assert await levels(world) == ("Unknown", "ClusterTopologyNotFound")
        await world.scale(SET, 1)
        await world.settle()
        accepted = await set_condition(world, SET, "Accepted")
        assert (accepted["status"], accepted["reason"]) == ("False", "TopologyLevelsUnavailable")
        assert f'ClusterTopologyBinding "{tas.BINDING}" not found' in accepted["message"]
        assert "Refused" in await reasons_about(world, "PodCliqueSet", SET)
        assert await world.pods() == []
        await world.scale(SET, 0)
        await world.apply(binding())
        await world.settle()
        assert await levels(world) == ("False", "AllClusterTopologyLevelsAvailable")
        await world.scale(SET, 1)
        await until_bound(world, 2)

    play(story)


@pytest.mark.parametrize("name", tas.INVALID_BINDINGS)
def test_tas21_an_invalid_binding_is_refused_with_the_words_that_clients_match(name: str) -> None:
    manifest, text = tas.invalid_binding(name)

    async def story(world: World) -> None:
        await world.apply(manifest)
        await world.settle()
        accepted = condition_of(await world.get(kinds.TOPOLOGY_BINDINGS, "invalid"), "Accepted")
        assert (accepted["status"], accepted["reason"]) == ("False", "Invalid")
        assert text in accepted["message"]
        assert "Refused" in await reasons_about(world, "ClusterTopologyBinding", "invalid")

    play(story, nodes=1)


def test_tas21_a_clique_inherits_the_name_of_the_binding() -> None:
    case = tas.Case([role("worker", 1, pack("host"))], 1, (), {}, constraint=top("zone"))

    async def story(world: World) -> None:
        accepted = condition_of(await world.get(kinds.TOPOLOGY_BINDINGS, tas.BINDING), "Accepted")
        assert (accepted["status"], accepted["reason"]) == ("True", "Valid")
        await world.apply(case.cliqueset(KAI.annotations))
        await until_bound(world, 1)
        assert await podgroups(world) == {"tas-0": tas.PodGroup((tas.sub("worker", 1, HOST),), ZONE)}

    play(story)


@pytest.mark.parametrize("name", tas.INVALID_SETS)
def test_tas22_an_invalid_set_is_not_stored(name: str) -> None:
    case, text = tas.invalid_set(name)

    async def story(world: World) -> None:
        with pytest.raises(Invalid) as refused:
            await world.apply(case.cliqueset(KAI.annotations))
        assert text in str(refused.value)
        assert await world.get(kinds.CLIQUESETS, SET) is None

    play(story, nodes=1)


def test_tas22_a_preference_alone_is_accepted() -> None:
    case = tas.Case([role("worker", 1)], 0, (), {}, constraint=top(preferred="host"), replicas=0)

    async def story(world: World) -> None:
        await world.apply(case.cliqueset(KAI.annotations))
        await world.settle()
        assert (await set_condition(world, SET, "Accepted"))["status"] == "True"

    play(story, nodes=1)


def test_tas23_a_set_with_preferred_packs_says_that_every_level_is_there() -> None:
    async def story(world: World) -> None:
        await world.apply(CASES["TAS23 preferred packs"].cliqueset(KAI.annotations))
        await until_bound(world, 3)
        found = await set_condition(world, SET, "TopologyLevelsUnavailable")
        assert (found["status"], found["reason"]) == ("False", "AllClusterTopologyLevelsAvailable")

    play(story)
