"""TAS1 to TAS23 with KAI itself: what it is told, and where it puts the pods.

28 nodes in two blocks of two racks each. In every rack one node is half full: KAI fills such nodes first, so that
pods which nothing holds together are in several racks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import pytest
from tests.e2e.conftest import Plane
from tests.e2e.plane import ACCOUNTS, Act, wait_for, wait_gone
from tests.e2e.scene import GPU, NAMESPACES, NODES, Scene, condition_of
from tests.scenarios import tas
from tests.scenarios.stories import EVENTS, STAGES, owner_of, uid_of
from tests.scenarios.tas import BLOCK, CASES, HOST, RACK, SET, ZONE, binding, place_of, role, top

from grove.api import kinds, labels
from grove.backends.kai.backend import PODGROUPS
from grove.backends.kai.topology import TOPOLOGIES
from grove.errors import Invalid, NotFound
from grove.meta import Key, Manifest, Resource

pytestmark = [
    pytest.mark.real,
    # No other scheduler is told all of this.
    pytest.mark.parametrize("other_plane", ["kai"], indirect=True),
]

MARKS: Final = STAGES["kai"].annotations
#: KAI tries again every second, and gangs that wait for a base gang come after it.
PATIENCE: Final = 90.0
BAIT: Final = "half-full"
Story = Callable[[Act], Awaitable[None]]


def node(index: int, **marks: str) -> Manifest:
    name = f"node-{index}"
    size = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: "8"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "plays along"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOST: name, **place_of(index), **marks}},
        "status": {"capacity": size, "allocatable": size, "conditions": [ready]},
    }


def half(index: int) -> Manifest:
    """A pod of nobody's that takes half of a node; no scheduler is asked."""
    limits = {"resources": {"limits": {GPU: "4"}}}
    spec = {
        "nodeName": f"node-{index}",
        "containers": [{"name": "main", "image": "registry.example/other:1", **limits}],
    }
    metadata = {"name": f"half-{index}", "namespace": BAIT}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.fixture(scope="module")
def racks(other_plane: Plane) -> Iterator[Plane]:
    """The plane, with the nodes of all stories here."""
    admin = other_plane.world.admin

    async def furnish() -> None:
        for index in range(tas.NODES):
            await admin.create(NODES, node(index))
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": BAIT}}
        await admin.create(NAMESPACES, namespace)
        await wait_for(admin, ACCOUNTS, Key(BAIT, "default"), lambda _: True)
        for index in range(3, tas.NODES, 7):
            await admin.create(kinds.PODS, half(index))
            await wait_for(admin, kinds.PODS, Key(BAIT, f"half-{index}"), _runs)

    async def clear() -> None:
        await admin.delete(NAMESPACES, Key("", BAIT))
        for index in range(tas.NODES):
            await admin.delete(NODES, Key("", f"node-{index}"))
        await wait_gone(admin, NODES, Key("", f"node-{tas.NODES - 1}"))
        await wait_gone(admin, NAMESPACES, Key("", BAIT), seconds=60)

    other_plane.run(furnish())
    yield other_plane
    other_plane.run(clear())


def play(plane: Plane, name: str, story: Story) -> None:
    """A story with the binding `grove-topology`, which KAI has heard of."""

    async def prepared(act: Act) -> None:
        await act.scene.apply(binding())
        await in_sync(act, tas.BINDING)
        await story(act)

    plane.play(name, prepared)


def _runs(pod: Manifest) -> bool:
    return bool((pod.get("status") or {}).get("phase") == "Running")


async def in_sync(act: Act, name: str) -> None:
    def told(found: Manifest) -> bool:
        return drift(found)[:2] == ("False", "InSync")

    await wait_for(act.world.admin, kinds.TOPOLOGY_BINDINGS, Key("", name), told)


def drift(found: Manifest) -> tuple[str, str, str]:
    told = condition_of(found, "SchedulerTopologyDrift")
    return told.get("status", ""), told.get("reason", ""), told.get("message", "")


async def read(act: Act, of: Resource, name: str) -> Manifest | None:
    try:
        found: Manifest = await act.world.admin.get(of, Key("", name), type=dict)
    except NotFound:
        return None
    return found


async def until_running(scene: Scene, pods: int) -> None:
    await scene.until(
        lambda: [_runs(pod) for pod in scene.pods()] == [True] * pods, f"{pods} pods run", seconds=PATIENCE
    )


async def nodes_by_name(act: Act) -> dict[str, Manifest]:
    listing = await act.world.admin.list(NODES, type=dict)
    return {item["metadata"]["name"]: item for item in listing.items}


def podgroups(scene: Scene, topology: str = tas.BINDING) -> dict[str, tas.PodGroup]:
    """What KAI is told, by gang."""
    found = scene.ledger.all(PODGROUPS)
    assert len({owner_of(each)[1] for each in found}) == len(found), "one PodGroup for each gang"
    return {owner_of(each)[1]: tas.podgroup_of(each, topology) for each in found}


def in_this_release(case: tas.Case) -> dict[str, tas.PodGroup]:
    """What KAI 0.12 must be told."""
    return {gang: tas.without_loose_leaves(each) for gang, each in case.podgroups.items()}


def levels_of(topology: Manifest | None) -> list[str]:
    return [level["nodeLabel"] for level in (topology or {})["spec"]["levels"]]


def levels_there(scene: Scene) -> tuple[str, str]:
    found = scene.condition(kinds.CLIQUESETS, SET, "TopologyLevelsUnavailable")
    return found.get("status", ""), found.get("reason", "")


def slug(name: str) -> str:
    return name.partition(" ")[0].lower()


@pytest.mark.parametrize("name", CASES)
def test_pods_are_packed_and_kai_is_told_so(racks: Plane, name: str) -> None:
    case = CASES[name]

    async def story(act: Act) -> None:
        scene = act.scene
        await scene.apply(case.cliqueset(MARKS))
        await until_running(scene, case.pods)
        assert tas.apart(case, scene.pods(), await nodes_by_name(act)) == []
        assert podgroups(scene) == in_this_release(case)
        await scene.until(
            lambda: (
                not case.constraint or levels_there(scene) == ("False", "AllClusterTopologyLevelsAvailable")
            ),
            "every level is there",
        )

    play(racks, slug(name), story)


def test_tas1_kais_topology_has_the_levels_of_the_binding_and_belongs_to_it(racks: Plane) -> None:
    async def story(act: Act) -> None:
        topology = await read(act, TOPOLOGIES, tas.BINDING)
        assert levels_of(topology) == [ZONE, BLOCK, RACK, HOST]
        owner = await read(act, kinds.TOPOLOGY_BINDINGS, tas.BINDING) or {}
        assert owner_of(topology or {}) == ("ClusterTopologyBinding", tas.BINDING, uid_of(owner))
        (told,) = owner["status"]["schedulerTopologyStatuses"]
        assert (told["schedulerName"], told["topologyReference"], told["inSync"]) == (
            "kai-scheduler",
            tas.BINDING,
            True,
        )

    play(racks, "tas1", story)


def test_without_a_constraint_pods_are_in_several_racks(racks: Plane) -> None:
    """What makes the table above say something."""

    async def story(act: Act) -> None:
        scene = act.scene
        await scene.apply(CASES["TAS7 nothing"].cliqueset(MARKS))
        await until_running(scene, 4)
        nodes = await nodes_by_name(act)
        places = {nodes[pod["spec"]["nodeName"]]["metadata"]["labels"][RACK] for pod in scene.pods()}
        assert len(places) > 1

    play(racks, "spread", story)


def test_tas13_a_gang_that_no_rack_holds_waits_whole_and_says_why(racks: Plane) -> None:
    case = tas.TOO_MANY

    async def story(act: Act) -> None:
        scene = act.scene
        await scene.apply(case.cliqueset(MARKS))
        await scene.until(lambda: scene.waiting(f"{SET}-0"), "it cannot be scheduled", seconds=PATIENCE)
        assert RACK in scene.said(f"{SET}-0")
        assert len(scene.pods()) == case.pods
        assert scene.bound() == 0
        assert podgroups(scene) == in_this_release(case)
        newest: dict[str, Manifest] = {}
        listing = await scene.user.list(EVENTS, type=dict, namespace=scene.namespace)
        for event in sorted(listing.items, key=lambda each: each.get("lastTimestamp") or ""):
            if event["involvedObject"]["kind"] == "Pod":
                newest[event["involvedObject"]["name"]] = event
        assert {(each["type"], each["reason"]) for each in newest.values()} == {("Warning", "Unschedulable")}
        assert {pod["metadata"]["name"] for pod in scene.pods()} == newest.keys()
        # One node more in one of the racks.
        more = node(0)
        more["metadata"] |= {"name": "more", "labels": {**more["metadata"]["labels"], HOST: "more"}}
        scene.made.append((NODES, "more"))
        await scene.user.create(NODES, more)
        await until_running(scene, case.pods)

    play(racks, "tas13", story)


def test_tas17_two_bindings_give_one_domain_two_meanings(racks: Plane) -> None:
    """Two kinds of hardware: what is a block is a rack on one and an NVLink block on the other."""

    async def relabel(act: Act, *, other: bool) -> None:
        for index in range(14, 28):
            marks = (
                tas.nvlink_place(index)
                if other
                else {**dict.fromkeys(tas.nvlink_place(index)), **place_of(index)}
            )
            await act.world.admin.merge_patch(
                NODES, Key("", f"node-{index}"), {"metadata": {"labels": marks}}
            )

    async def story(act: Act) -> None:
        scene = act.scene
        await relabel(act, other=True)
        try:
            for name, levels in tas.HARDWARE.items():
                await scene.apply(binding(f"{name}-topology", levels))
                await in_sync(act, f"{name}-topology")
            await scene.apply(*(tas.on_hardware(name, MARKS) for name in tas.HARDWARE))
            await until_running(scene, 4)
            nodes = await nodes_by_name(act)
            for name, levels in tas.HARDWARE.items():
                assert levels_of(await read(act, TOPOLOGIES, f"{name}-topology")) == list(levels.values())
                chosen = [
                    nodes[pod["spec"]["nodeName"]]["metadata"]["labels"]
                    for pod in scene.pods()
                    if pod["metadata"]["labels"][labels.PART_OF] == name
                ]
                assert len({place[levels["block"]] for place in chosen}) == 1
        finally:
            await relabel(act, other=False)

    play(racks, "tas17", story)


def test_tas18_a_referenced_topology_that_does_not_exist_is_drift(racks: Plane) -> None:
    async def story(act: Act) -> None:
        reference = {"schedulerName": "kai-scheduler", "topologyReference": "nobodys"}
        await act.scene.apply(binding("theirs", schedulerTopologyBindings=[reference]))
        found: list[Manifest] = []

        def told(item: Manifest) -> bool:
            found.append(item)
            return drift(item)[:2] == ("True", "Drift")

        await wait_for(act.world.admin, kinds.TOPOLOGY_BINDINGS, Key("", "theirs"), told)
        assert 'Topology "nobodys" not found' in drift(found[-1])[2]
        (status,) = found[-1]["status"]["schedulerTopologyStatuses"]
        assert (status["topologyReference"], status["inSync"]) == ("nobodys", False)
        assert await read(act, TOPOLOGIES, "theirs") is None, "a referenced Topology is somebody else's"

    play(racks, "tas18", story)


def test_tas19_other_levels_make_another_topology_without_any_drift(racks: Plane) -> None:
    async def story(act: Act) -> None:
        two, three = {"zone": ZONE, "host": HOST}, {"zone": ZONE, "rack": RACK, "host": HOST}
        await act.scene.apply(binding("lifecycle", two))
        await in_sync(act, "lifecycle")
        before = await read(act, TOPOLOGIES, "lifecycle")
        seen: list[tuple[str, str, str]] = []

        def told(item: Manifest) -> bool:
            seen.append(drift(item))
            return condition_of(item, "SchedulerTopologyDrift").get("observedGeneration") == 2

        await act.scene.apply(binding("lifecycle", three))
        await wait_for(
            act.world.admin,
            TOPOLOGIES,
            Key("", "lifecycle"),
            lambda it: levels_of(it) == list(three.values()),
        )
        await wait_for(act.world.admin, kinds.TOPOLOGY_BINDINGS, Key("", "lifecycle"), told)
        assert uid_of(await read(act, TOPOLOGIES, "lifecycle")) != uid_of(before)
        # Grove's own replacement of the object is no drift, not even for a moment.
        assert {each[:2] for each in seen} == {("False", "InSync")}

    play(racks, "tas19", story)


def test_tas20_a_required_rack_waits_while_its_binding_is_gone(racks: Plane) -> None:
    """Where the incumbent runs the pods without the constraint, a required one is refused with the reason."""
    case = tas.Case([role("worker", 2)], 2, (), {}, constraint=top("rack"), replicas=0)
    there = ("False", "AllClusterTopologyLevelsAvailable")

    async def story(act: Act) -> None:
        scene = act.scene
        await scene.apply(case.cliqueset(MARKS))
        await scene.until(lambda: levels_there(scene) == there, "every level is there")
        await scene.delete(kinds.TOPOLOGY_BINDINGS, tas.BINDING)
        await wait_gone(act.world.admin, TOPOLOGIES, Key("", tas.BINDING))
        gone = ("Unknown", "ClusterTopologyNotFound")
        await scene.until(lambda: levels_there(scene) == gone, "the set says that its binding is gone")
        await scene.scale(kinds.CLIQUESETS, SET, 1)
        await scene.until(
            lambda: scene.condition(kinds.CLIQUESETS, SET, "Accepted").get("status") == "False",
            "the set is refused",
        )
        told = scene.condition(kinds.CLIQUESETS, SET, "Accepted")
        assert told["reason"] == "TopologyLevelsUnavailable"
        assert f'ClusterTopologyBinding "{tas.BINDING}" not found' in told["message"]
        await scene.ledger.holds(lambda: not scene.pods(), 2.0, scene.describe)
        await scene.scale(kinds.CLIQUESETS, SET, 0)
        await scene.apply(binding())
        await scene.until(lambda: levels_there(scene) == there, "every level is there again")
        await scene.scale(kinds.CLIQUESETS, SET, 1)
        await until_running(scene, 2)

    play(racks, "tas20", story)


@pytest.mark.parametrize("name", tas.INVALID_BINDINGS)
def test_tas21_an_invalid_binding_is_refused_with_the_words_that_clients_match(
    racks: Plane, name: str
) -> None:
    manifest, text = tas.invalid_binding(name)

    async def story(act: Act) -> None:
        await act.scene.apply(manifest)
        found: list[Manifest] = []

        def judged(item: Manifest) -> bool:
            found.append(condition_of(item, "Accepted"))
            return bool(found[-1])

        await wait_for(
            act.world.admin, kinds.TOPOLOGY_BINDINGS, Key("", manifest["metadata"]["name"]), judged
        )
        assert (found[-1]["status"], found[-1]["reason"]) == ("False", "Invalid")
        assert text in found[-1]["message"]

    play(racks, "tas21", story)


def test_tas21_a_clique_inherits_the_name_of_the_binding(racks: Plane) -> None:
    case = tas.Case([role("worker", 1, tas.pack("host"))], 1, (), {}, constraint=top("zone"))

    async def story(act: Act) -> None:
        await act.scene.apply(case.cliqueset(MARKS))
        await until_running(act.scene, 1)
        assert podgroups(act.scene) == {"tas-0": tas.PodGroup((tas.sub("worker", 1, HOST),), ZONE)}

    play(racks, "tas21-inherits", story)


def test_tas22_an_invalid_set_is_not_stored_and_a_preference_alone_is_accepted(racks: Plane) -> None:
    async def story(act: Act) -> None:
        scene = act.scene
        for name in tas.INVALID_SETS:
            case, text = tas.invalid_set(name)
            with pytest.raises(Invalid) as refused:
                await scene.apply(case.cliqueset(MARKS))
            assert text in str(refused.value), name
        assert scene.ledger.all(kinds.CLIQUESETS) == []
        preferred = tas.Case([role("worker", 1)], 0, (), {}, constraint=top(preferred="host"), replicas=0)
        await scene.apply(preferred.cliqueset(MARKS))
        await scene.until(
            lambda: scene.condition(kinds.CLIQUESETS, SET, "Accepted").get("status") == "True",
            "the set is accepted",
        )

    play(racks, "tas22", story)
