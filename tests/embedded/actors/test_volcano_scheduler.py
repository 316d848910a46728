"""The simulated Volcano: what its PodGroups demand, what they do not, and the sentences that the real one writes."""

from collections.abc import Sequence

import pytest
from tests.embedded.actors.cluster_objects import bound, node, pod, scheduled_condition, ungate
from tests.embedded.actors.fake_server import CLOCK, FakeServer, passes, play

from grove.embedded.actors.schedulers.shapes import NodeFacts
from grove.embedded.actors.schedulers.volcano import VolcanoScheduler
from grove.embedded.actors.schedulers.volcano_install import definitions, furniture, install
from grove.embedded.actors.schedulers.volcano_topology import discovered
from grove.embedded.errors import Manifest

RACK = "topology.kubernetes.io/rack"
CLIQUE = "grove.io/podclique"


def volcano(server: FakeServer) -> VolcanoScheduler:
    return VolcanoScheduler(server, CLOCK)


async def install_volcano(server: FakeServer) -> None:
    server.served["scheduling.volcano.sh/v1beta1"] = ["podgroups", "queues"]
    server.served["topology.volcano.sh/v1alpha1"] = ["hypernodes"]
    await install(server)
    for crd in server.all("customresourcedefinitions", "apiextensions.k8s.io"):
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd['metadata']['name']}/status"
        await server.patch(path, {"status": {"conditions": [{"type": "Established", "status": "True"}]}})


PATHS = {
    "Pod": "/api/v1/namespaces/default/pods",
    "Node": "/api/v1/nodes",
    "PodGroup": "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups",
    "HyperNode": "/apis/topology.volcano.sh/v1alpha1/hypernodes",
}


async def add(server: FakeServer, *objects: Manifest) -> None:
    for obj in objects:
        await server.create(PATHS[obj["kind"]], obj)


def policy(role: str, size: int = 2, **fields: object) -> Manifest:
    base: Manifest = {
        "name": role,
        "labelSelector": {"matchLabels": {CLIQUE: role}},
        "matchLabelKeys": [CLIQUE],
        "subGroupSize": size,
        "minSubGroups": 1,
    }
    return {key: value for key, value in {**base, **fields}.items() if value is not None}


def group(*policies: Manifest, least: int = 4, **spec: object) -> Manifest:
    body: Manifest = {"minMember": least, "queue": "default", **spec}
    if policies:
        body["subGroupPolicy"] = list(policies)
    meta = {"name": "g", "namespace": "default"}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": meta, "spec": body}


def member(name: str, *, gated: bool = False, task: str = "") -> Manifest:
    body = pod(name, gpu=1, gated=gated, schedulerName="volcano")
    role = name.rpartition("-")[0]
    body["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
    if task:
        body["metadata"]["annotations"]["volcano.sh/task-spec"] = task
    body["metadata"]["labels"] = {CLIQUE: role}
    return body


def roles(leaders: int = 2, workers: int = 2, *, gated: Sequence[str] = ()) -> list[Manifest]:
    names = [f"leader-{i}" for i in range(leaders)] + [f"worker-{i}" for i in range(workers)]
    return [member(name, gated=name in gated) for name in names]


PAIR = (policy("leader"), policy("worker"))


def status_of(server: FakeServer) -> Manifest:
    found = server.find(f"{PATHS['PodGroup']}/g")
    assert found is not None
    return dict(found.get("status") or {})


def messages(server: FakeServer, reason: str) -> list[str]:
    told = [each for each in server.all("events") if each["reason"] == reason]
    return [each["message"] for each in told if each["involvedObject"]["kind"] == "PodGroup"]


def test_a_gang_that_fits_is_bound_whole_called_inqueue_and_a_second_later_running() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_volcano(server)
        await add(server, node("n1", gpu=2), node("n2", gpu=2), group(*PAIR), *roles())
        await passes(0.6)
        assert len(bound(server)) == 4
        assert status_of(server)["phase"] == "Inqueue"
        assert [each["type"] for each in status_of(server)["conditions"]] == ["Scheduled"]
        [warning] = messages(server, "Unschedulable")
        assert warning.startswith("0/4 tasks in gang unschedulable: pod group is ready, ")
        await passes(3)

    server = play(scenario, volcano)
    assert status_of(server)["phase"] == "Running"


def test_one_short_binds_nobody_and_says_so_as_volcano_does_and_never_takes_it_back() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_volcano(server)
        await add(server, node("n1", gpu=2), node("n2", gpu=1), group(*PAIR), *roles())
        await passes(3)
        assert bound(server) == {}
        [told] = status_of(server)["conditions"]
        assert (told["type"], told["reason"], told["message"]) == (
            "Unschedulable",
            "NotEnoughResources",
            "1/4 tasks in gang unschedulable: pod group is not ready, 4 Pending, 4 minAvailable; "
            "Pending: 1 Unschedulable, 3 Schedulable",
        )
        last, first = scheduled_condition(server, "worker-1"), scheduled_condition(server, "leader-0")
        assert (last["reason"], last["message"]) == (
            "Unschedulable",
            "pod group is not ready, 4 Pending, 4 minAvailable; Pending: 1 Unschedulable, 3 Schedulable",
        )
        assert first["reason"] == "Schedulable"
        assert first["message"].endswith("once minAvailable is satisfied")
        await add(server, node("n3", gpu=1))
        await passes(3)

    server = play(scenario, volcano)
    assert len(bound(server)) == 4
    assert [each["type"] for each in status_of(server)["conditions"]] == ["Unschedulable", "Scheduled"]


NOTHING_ENFORCED = {
    "no match label keys": policy("leader", matchLabelKeys=None),
    "no minimum of subgroups": policy("leader", minSubGroups=None),
}


@pytest.mark.parametrize("name", NOTHING_ENFORCED)
def test_by_its_defaults_a_policy_demands_nothing(name: str) -> None:
    async def scenario(server: FakeServer) -> None:
        await install_volcano(server)
        lax = NOTHING_ENFORCED[name]
        lax = {**lax, "minSubGroups": lax.get("minSubGroups") if name == "no minimum of subgroups" else 0}
        workers = [member(f"worker-{i}") for i in range(4)]
        await add(server, node("n1", gpu=8), group({k: v for k, v in lax.items() if v is not None}), *workers)
        await passes(3)

    assert len(bound(play(scenario, volcano))) == 4


def test_the_wrong_mix_does_not_start_a_gang_whose_policies_demand() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_volcano(server)
        await add(server, node("n1", gpu=8), group(*PAIR), *[member(f"worker-{i}") for i in range(4)])
        await passes(3)

    assert bound(play(scenario, volcano)) == {}


def test_tasks_are_held_to_their_minima_unless_the_total_is_smaller() -> None:
    def story(least: int) -> dict[str, str]:
        async def scenario(server: FakeServer) -> None:
            await install_volcano(server)
            pods = [member(f"worker-{i}", task="worker") for i in range(4)]
            tasks = {"leader": 1, "worker": 3}
            await add(server, node("n1", gpu=8), group(least=least, minTaskMember=tasks), *pods)
            await passes(3)

        return bound(play(scenario, volcano))

    assert story(4) == {}
    assert len(story(3)) == 4


def test_gates_hold_the_gang_and_volcano_calls_it_a_lack_of_resources() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_volcano(server)
        await add(server, node("n1", gpu=8), group(*PAIR), *roles(gated=["worker-0", "worker-1"]))
        await passes(2)
        assert bound(server) == {}
        assert status_of(server)["conditions"][0]["reason"] == "NotEnoughResources"
        await ungate(server, "worker-0")
        await passes(2)
        assert bound(server) == {}
        await ungate(server, "worker-1")
        await passes(2)

    assert len(bound(play(scenario, volcano))) == 4


SILENT = {
    "an unknown queue": (group(*PAIR, queue="nowhere"), roles()),
    "no PodGroup": (None, roles()),
    "another key in place of the one that is read": (
        group(*PAIR),
        [
            {
                **each,
                "metadata": {**each["metadata"], "annotations": {"scheduling.volcano.sh/group-name": "g"}},
            }
            for each in roles()
        ],
    ),
}


@pytest.mark.parametrize("name", SILENT)
def test_volcano_passes_over_in_silence(name: str) -> None:
    made, pods = SILENT[name]

    async def scenario(server: FakeServer) -> None:
        await install_volcano(server)
        await add(server, node("n1", gpu=8), *([made] if made else []), *pods)
        await passes(3)

    server = play(scenario, volcano)
    assert bound(server) == {}
    assert not scheduled_condition(server, "leader-0")


def test_a_queue_that_is_not_open_is_called_a_lack_of_resources() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_volcano(server)
        queue = "/apis/scheduling.volcano.sh/v1beta1/queues/default"
        await server.patch(f"{queue}/status", {"status": {"state": "Closed"}})
        await add(server, node("n1", gpu=8), group(*PAIR), *roles())
        await passes(3)
        assert bound(server) == {}
        assert (status_of(server)["phase"], status_of(server)["conditions"][0]["reason"]) == (
            "Inqueue",
            "NotEnoughResources",
        )
        await server.patch(f"{queue}/status", {"status": {"state": "Open"}})
        await passes(3)

    assert len(bound(play(scenario, volcano))) == 4


def test_pods_that_request_nothing_count_as_placed_and_are_bound_one_by_one() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_volcano(server)
        small = node("n1")
        small["status"]["allocatable"]["pods"] = "1"
        pods = [member(f"worker-{i}") for i in range(2)]
        for each in pods:
            each["spec"]["containers"][0].pop("resources")
        await add(server, small, group(policy("worker"), least=2), *pods)
        await passes(3)

    assert len(bound(play(scenario, volcano))) == 1


# Topology -----------------------------------------------------------------------------------------


def hypernode(rack: str) -> Manifest:
    member_of = {"type": "Node", "selector": {"labelMatch": {"matchLabels": {RACK: rack}}}}
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": f"rack-{rack}"},
        "spec": {"tier": 1, "tierName": RACK, "members": [member_of]},
    }


def machines(*counts: int) -> list[Manifest]:
    """Nodes of so many GPUs, two in each rack."""
    return [
        node(f"n{index}", gpu=count, labels={RACK: f"r{index // 2 + 1}"})
        for index, count in enumerate(counts)
    ]


def hard(tier: str = RACK) -> Manifest:
    return {"mode": "hard", "highestTierName": tier}


#: By its number: in a policy the name of a tier is ignored.
TIER_1: Manifest = {"mode": "hard", "highestTierAllowed": 1}


async def racked(server: FakeServer, made: Manifest, *nodes: Manifest) -> None:
    await install_volcano(server)
    await add(server, hypernode("r1"), hypernode("r2"), *nodes, made, *roles())


def test_a_hard_topology_keeps_the_gang_in_one_rack() -> None:
    async def scenario(server: FakeServer) -> None:
        await racked(server, group(*PAIR, networkTopology=hard()), *machines(2, 1, 2, 2))
        await passes(3)

    assert set(bound(play(scenario, volcano)).values()) == {"n2", "n3"}


def test_no_rack_with_room_for_all_binds_nobody_and_names_the_hypernode() -> None:
    async def scenario(server: FakeServer) -> None:
        await racked(server, group(*PAIR, networkTopology=hard()), *machines(2, 1, 2, 1))
        await passes(3)
        [told] = status_of(server)["conditions"]
        assert told["message"].endswith(
            "Pending: 1 Unschedulable, 3 Schedulable. Origin reason is worker-1: In hyperNode rack-r1: "
            "0/2 nodes are unavailable: 2 Insufficient nvidia.com/gpu."
        )

    assert bound(play(scenario, volcano)) == {}


DROPPED = ("an unknown tier", "no plugin")


@pytest.mark.parametrize("name", DROPPED)
def test_a_hard_topology_is_dropped_in_silence_for(name: str) -> None:
    async def scenario(server: FakeServer) -> None:
        await racked(
            server,
            group(*PAIR, networkTopology=hard("block" if name == "an unknown tier" else RACK)),
            *machines(2, 1, 2, 1),
        )
        if name == "no plugin":
            path = "/api/v1/namespaces/volcano-system/configmaps/volcano-scheduler-configmap"
            await server.patch(path, {"data": {"volcano-scheduler.conf": "tiers: []"}})
        await passes(3)

    assert len(bound(play(scenario, volcano))) == 4


def test_a_subgroup_wants_a_rack_with_room_for_all_of_its_pods() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_volcano(server)
        made = group(policy("leader", 1), policy("worker", 2, networkTopology=TIER_1), least=3)
        await add(server, hypernode("r1"), hypernode("r2"), *machines(2, 1, 2, 1), made, *roles(1, 4))
        await passes(3)

    assert bound(play(scenario, volcano)) == {}


@pytest.mark.parametrize("by_name", [False, True], ids=["by number", "by name"])
def test_a_policy_takes_a_tier_by_its_number_and_ignores_its_name(by_name: bool) -> None:
    async def scenario(server: FakeServer) -> None:
        await install_volcano(server)
        made = group(
            policy("leader", 1), policy("worker", 4, networkTopology=hard() if by_name else TIER_1), least=5
        )
        await add(server, hypernode("r1"), hypernode("r2"), *machines(2, 1, 2, 1), made, *roles(1, 4))
        await passes(3)

    assert len(bound(play(scenario, volcano))) == (5 if by_name else 0)


def test_a_hypernode_with_two_parents_stops_every_gang_with_a_topology_and_no_other() -> None:
    async def scenario(server: FakeServer) -> None:
        await racked(server, group(*PAIR, networkTopology=hard()), *machines(2, 2, 2, 2))
        inner = {"type": "HyperNode", "selector": {"exactMatch": {"name": "rack-r1"}}}
        for name in ("z1", "z2"):
            outer = hypernode(name)
            outer["metadata"]["name"] = name
            outer["spec"] = {"tier": 2, "tierName": "zone", "members": [inner]}
            await add(server, outer)
        await passes(3)
        assert bound(server) == {}
        assert status_of(server)["conditions"][0]["message"].endswith("; Pending: 4 Unschedulable")
        await server.delete(f"{PATHS['HyperNode']}/z2")
        await passes(3)

    assert len(bound(play(scenario, volcano))) == 4


def test_a_soft_topology_is_a_wish() -> None:
    async def scenario(server: FakeServer) -> None:
        await racked(server, group(*PAIR, networkTopology={"mode": "soft"}), *machines(2, 1, 2, 1))
        await passes(3)

    assert len(bound(play(scenario, volcano))) == 4


def test_discovery_makes_hypernodes_of_labels_and_names_tiers_by_them() -> None:
    [conf] = [each for each in furniture() if each["metadata"]["name"] == "volcano-controller-configmap"]
    zone = "topology.kubernetes.io/zone"
    nodes = [NodeFacts(f"n{i}", {RACK: f"r{i}", zone: "z1"}) for i in range(2)]
    made = discovered(conf, nodes)
    assert {name: (each["spec"]["tier"], each["spec"]["tierName"]) for name, each in made.items()} == {
        "hypernode-embedded-tier1-r0": (1, RACK),
        "hypernode-embedded-tier1-r1": (1, RACK),
        "hypernode-embedded-tier2-z1": (2, zone),
    }


def test_the_older_definitions_know_no_subgroups_and_no_names_of_tiers() -> None:
    text = str(definitions(subgroups=False))
    assert "subGroupPolicy" not in text
    assert "highestTierName" not in text
    assert "minTaskMember" in text
