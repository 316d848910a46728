"""The simulated Koordinator: gang groups, gates that it does not see, topology, and the sentences of the real one."""

import json
from collections.abc import Mapping, Sequence

import pytest
from tests.embedded.actors.cluster_objects import add, bound, node, pod, scheduled_condition, ungate
from tests.embedded.actors.fake_server import CLOCK, FakeServer, passes, play

from grove.embedded.actors.schedulers.koordinator import KoordinatorOptions, KoordinatorScheduler
from grove.embedded.actors.schedulers.koordinator_install import definitions, install
from grove.embedded.errors import Manifest

RACK, ZONE = "topology.kubernetes.io/rack", "topology.kubernetes.io/zone"
LABEL = "pod-group.scheduling.sigs.k8s.io"
VERSION = "scheduling.sigs.k8s.io/v1alpha1"
GROUPS = f"/apis/{VERSION}/namespaces/default/podgroups"
TOPOLOGIES = "/apis/scheduling.koordinator.sh/v1alpha1/clusternetworktopologies"


def koordinator(server: FakeServer) -> KoordinatorScheduler:
    return KoordinatorScheduler(server, CLOCK)


async def install_koordinator(server: FakeServer) -> None:
    server.served[VERSION] = ["podgroups", "elasticquotas"]
    server.served["scheduling.koordinator.sh/v1alpha1"] = ["clusternetworktopologies"]
    await install(server)
    for crd in server.all("customresourcedefinitions", "apiextensions.k8s.io"):
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd['metadata']['name']}/status"
        established = {"conditions": [{"type": "Established", "status": "True"}]}
        await server.patch(path, {"status": established})


def groups(minima: Mapping[str, int] | None = None, gather: object = None) -> list[Manifest]:
    """PodGroups of one gang group."""
    minima = minima or {"gang-leader": 2, "gang-worker": 2}
    notes = {
        "gang.scheduling.koordinator.sh/groups": json.dumps([f"default/{name}" for name in sorted(minima)])
    }
    if gather is not None:
        notes["gang.scheduling.koordinator.sh/network-topology-spec"] = json.dumps({"gatherStrategy": gather})
    return [
        {
            "apiVersion": VERSION,
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "default", "annotations": notes},
            "spec": {"minMember": minimum},
        }
        for name, minimum in minima.items()
    ]


def member(name: str, group: str = "", *, gated: bool = False) -> Manifest:
    body = pod(name, gpu=1, gated=gated, schedulerName="koord-scheduler")
    if group:
        body["metadata"]["labels"] = {LABEL: group}
    return body


def members(counts: Mapping[str, int] | None = None, *, gated: Sequence[str] = ()) -> list[Manifest]:
    """Pods of `gang-<role>`, as many as said; two leaders and two workers otherwise."""
    wanted = counts or {"leader": 2, "worker": 2}
    return [
        member(f"gang-{role}-{index}", f"gang-{role}", gated=f"gang-{role}-{index}" in gated)
        for role, count in wanted.items()
        for index in range(count)
    ]


EVERYBODY = [each["metadata"]["name"] for each in members()]


async def demand(server: FakeServer, minimum: int, *names: str) -> None:
    for name in names:
        await server.patch(f"{GROUPS}/{name}", {"spec": {"minMember": minimum}})


def status_of(server: FakeServer, name: str) -> Manifest:
    found = server.find(f"{GROUPS}/{name}")
    assert found is not None
    return dict(found.get("status") or {})


def test_a_group_that_fits_is_bound_whole_and_its_podgroups_say_so() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_koordinator(server)
        await add(server, node("n1", gpu=2), node("n2", gpu=2), *groups(), *members())
        await passes(3)

    server = play(scenario, koordinator)
    assert len(bound(server)) == 4
    assert status_of(server, "gang-worker")["phase"] == "Scheduled"
    assert status_of(server, "gang-worker")["scheduled"] == 2


def test_one_short_binds_nobody_and_says_so_as_koordinator_does() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_koordinator(server)
        await add(server, node("n1", gpu=2), node("n2", gpu=1), *groups(), *members())
        await passes(3)
        assert bound(server) == {}
        nodes = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
        assert scheduled_condition(server, "gang-leader-0")["message"] == (
            '0/1 nodes are available: 1 GangGroup "default/gang-leader,default/gang-worker" gets rejected due to '
            f'member Pod "default/gang-worker-1" is unschedulable with reason "{nodes}", alreadyWaitForBound: 3.'
        )
        assert scheduled_condition(server, "gang-worker-1")["message"] == nodes
        await add(server, node("n3", gpu=1))
        await passes(3)

    assert len(bound(play(scenario, koordinator))) == 4


@pytest.mark.parametrize("counts", [{"leader": 2}, {"worker": 2}, {"leader": 4}, {"leader": 3, "worker": 1}])
def test_the_wrong_mix_is_refused_in_silence(counts: dict[str, int]) -> None:
    async def scenario(server: FakeServer) -> None:
        await install_koordinator(server)
        await add(server, node("n1", gpu=8), *groups(), *members(counts))
        await passes(5)

    server = play(scenario, koordinator)
    assert bound(server) == {}
    assert server.all("events") == []
    assert all(not scheduled_condition(server, each) for each in ("gang-leader-0",) if "leader" in counts)


def test_without_all_podgroups_of_the_gang_group_nothing_moves_and_the_last_one_wakes_it() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_koordinator(server)
        leader, worker = groups()
        await add(server, node("n1", gpu=8), worker, *members())
        await passes(5)
        assert bound(server) == {}
        await add(server, leader)
        await passes(1)

    assert len(bound(play(scenario, koordinator))) == 4


def test_gates_that_open_one_by_one_let_a_part_of_the_gang_through() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_koordinator(server)
        await add(server, node("n1", gpu=8), *groups(), *members(gated=EVERYBODY))
        await passes(2)
        assert bound(server) == {}
        await ungate(server, "gang-leader-0")
        await passes(2)

    assert list(bound(play(scenario, koordinator))) == ["gang-leader-0"]


def test_an_unreachable_minimum_holds_the_gang_until_it_is_lowered_for_the_last_podgroup() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_koordinator(server)
        high = groups({"gang-leader": 1_000_000, "gang-worker": 1_000_000})
        await add(server, node("n1", gpu=8), *high, *members(gated=EVERYBODY))
        for each in EVERYBODY:
            await ungate(server, each)
            await passes(1)
        await demand(server, 2, "gang-leader")
        await passes(2)
        assert bound(server) == {}
        await demand(server, 2, "gang-worker")
        await passes(1)

    assert len(bound(play(scenario, koordinator))) == 4


def test_a_replacement_in_a_gang_that_was_placed_is_asked_for_nothing() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_koordinator(server)
        await add(server, node("n1", gpu=8), *groups(), *members())
        await passes(2)
        await demand(server, 1_000_000, "gang-leader", "gang-worker")
        await server.delete("/api/v1/namespaces/default/pods/gang-worker-1", {"gracePeriodSeconds": 0})
        await add(server, member("gang-worker-9", "gang-worker", gated=True))
        await passes(2)
        await ungate(server, "gang-worker-9")
        await passes(2)

    assert sorted(bound(play(scenario, koordinator)))[-1] == "gang-worker-9"


def test_podgroups_recreated_forget_who_runs_so_a_replacement_is_never_tried() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_koordinator(server)
        await add(server, node("n1", gpu=8), *groups(), *members())
        await passes(2)
        for name in ("gang-leader", "gang-worker"):
            await server.delete(f"{GROUPS}/{name}")
        await add(server, *groups())
        await passes(2)
        await server.delete("/api/v1/namespaces/default/pods/gang-worker-1", {"gracePeriodSeconds": 0})
        await add(server, member("gang-worker-9", "gang-worker"))
        await passes(30)

    server = play(scenario, koordinator)
    assert sorted(bound(server)) == EVERYBODY[:3]
    assert status_of(server, "gang-worker")["phase"] == "Pending"


def test_a_member_above_the_minimum_that_does_not_fit_rejects_the_whole_gang() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_koordinator(server)
        await add(server, node("n1", gpu=3), *groups({"gang-leader": 1, "gang-worker": 1}))
        await add(server, *members({"leader": 3, "worker": 1}))
        await passes(5)

    assert bound(play(scenario, koordinator)) == {}


def test_pods_without_a_podgroup_are_scheduled_one_by_one() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_koordinator(server)
        await add(server, node("n1", gpu=1), member("a"), member("b"), member("c", gated=True))
        await passes(2)
        assert list(bound(server)) == ["a"]
        assert scheduled_condition(server, "b")["message"].startswith("0/1 nodes are available")
        await add(server, node("n2", gpu=2))
        await ungate(server, "c")
        await passes(2)

    assert len(bound(play(scenario, koordinator))) == 3


# Topology -------------------------------------------------------------------------------------------


async def racks(server: FakeServer, *layers: Manifest, name: str = "default") -> None:
    chain: list[Manifest] = [
        {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "RackLayer"},
        {"topologyLayer": "RackLayer", "parentTopologyLayer": "ZoneLayer", "labelKey": [RACK]},
        {"topologyLayer": "ZoneLayer", "labelKey": [ZONE]},
    ]
    topology = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "ClusterNetworkTopology",
        "metadata": {"name": name},
        "spec": {"networkTopologySpec": list(layers) or chain},
    }
    await server.create(TOPOLOGIES, topology)


def racked(name: str, gpu: int, rack: str) -> Manifest:
    return node(name, gpu=gpu, labels={ZONE: "z1", RACK: rack, "kubernetes.io/hostname": name})


MUST = [{"layer": "RackLayer", "strategy": "MustGather"}]


def test_a_must_finds_the_only_rack_that_fits() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_koordinator(server)
        await racks(server)
        await add(server, racked("a1", 3, "r1"), racked("b1", 2, "r2"), racked("b2", 2, "r2"))
        await add(server, *groups(gather=MUST), *members())
        await passes(3)

    assert set(bound(play(scenario, koordinator)).values()) == {"b1", "b2"}


def test_without_a_rack_that_fits_nobody_is_bound_and_each_rack_is_counted() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_koordinator(server)
        await racks(server)
        await add(server, racked("a1", 3, "r1"), racked("b1", 3, "r2"))
        await add(server, *groups(gather=MUST), *members())
        await passes(3)
        assert bound(server) == {}
        assert scheduled_condition(server, "gang-leader-0")["message"].startswith(
            "no candidate topology nodes can accommodate job, desiredOfferSlot: 4, topology topologyNode "
            "RackLayer/r1: 3;topology topologyNode RackLayer/r2: 3, 0/2 nodes are available: 2 Insufficient "
            "nvidia.com/gpu."
        )
        await add(server, racked("b2", 1, "r2"))
        await passes(3)

    assert set(bound(play(scenario, koordinator)).values()) == {"b1", "b2"}


def test_a_wish_packs_as_tightly_as_it_can_and_gives_way() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_koordinator(server)
        await racks(server)
        await add(server, racked("a1", 3, "r1"), racked("b1", 3, "r2"))
        wish = [{"layer": "RackLayer", "strategy": "PreferGather"}]
        await add(server, *groups(gather=wish), *members())
        await passes(3)

    assert set(bound(play(scenario, koordinator)).values()) == {"a1", "b1"}


STUCK = {
    "no topology": ("other", [], MUST, True, "no cluster network topology"),
    "a topology that is no chain": (
        "default",
        [{"topologyLayer": "RackLayer", "labelKey": [RACK]}],
        MUST,
        True,
        "no cluster network topology",
    ),
    "the feature is off": ("default", [], MUST, False, "no cluster network topology"),
    "an unknown layer": (
        "default",
        [],
        [{"layer": "BlockLayer", "strategy": "MustGather"}],
        True,
        "no candidate topology nodes can accommodate job",
    ),
}


@pytest.mark.parametrize("name", STUCK)
def test_what_wedges_a_gang_with_room_enough(name: str) -> None:
    topology, layers, gather, on, words = STUCK[name]

    async def scenario(server: FakeServer) -> None:
        await install_koordinator(server)
        await racks(server, *layers, name=topology)
        await add(server, racked("a1", 8, "r1"), *groups(gather=gather), *members())
        await passes(5)
        assert scheduled_condition(server, "gang-leader-0")["message"].startswith(words)

    options = KoordinatorOptions(topology=on)
    assert bound(play(scenario, lambda s: KoordinatorScheduler(s, CLOCK, options=options))) == {}


def test_until_its_kinds_are_installed_it_idles() -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1", gpu=8), member("a"))
        await passes(5)
        assert bound(server) == {}
        await install_koordinator(server)
        await passes(5)

    assert list(bound(play(scenario, koordinator))) == ["a"]


def test_its_podgroup_has_no_status_subresource_as_the_real_one() -> None:
    [crd] = [each for each in definitions() if each["metadata"]["name"].startswith("podgroups.")]
    assert "subresources" not in crd["spec"]["versions"][0]
