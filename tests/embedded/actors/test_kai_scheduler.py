"""The simulated KAI scheduler: subGroups, queues, topologies, and the sentences that the real one writes."""

from collections.abc import Sequence

import pytest
from tests.embedded.actors.cluster_objects import add, bound, node, pod, scheduled_condition, ungate
from tests.embedded.actors.fake_server import CLOCK, FakeServer, passes, play

from grove.embedded.actors.schedulers.kai import KaiOptions, KaiScheduler
from grove.embedded.actors.schedulers.kai_install import definitions, install, queues
from grove.embedded.errors import Manifest

RACK, ZONE = "topology.kubernetes.io/rack", "topology.kubernetes.io/zone"


def kai(server: FakeServer) -> KaiScheduler:
    return KaiScheduler(server, CLOCK)


async def install_kai(server: FakeServer) -> None:
    server.served["scheduling.run.ai/v2alpha2"] = ["podgroups"]
    server.served["scheduling.run.ai/v2"] = ["queues"]
    server.served["kai.scheduler/v1alpha1"] = ["topologies"]
    await install(server)
    for crd in server.all("customresourcedefinitions", "apiextensions.k8s.io"):
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd['metadata']['name']}/status"
        established = {"conditions": [{"type": "Established", "status": "True"}]}
        await server.patch(path, {"status": established})


def group(*subgroups: Manifest, queue: str = "default-queue", **spec: object) -> Manifest:
    body: Manifest = {"queue": queue, **spec}
    if subgroups:
        body["subGroups"] = list(subgroups)
    meta = {"name": "g", "namespace": "default"}
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": meta, "spec": body}


def roles(leader: int = 2, worker: int = 2) -> tuple[Manifest, Manifest]:
    return {"name": "leader", "minMember": leader}, {"name": "worker", "minMember": worker}


def member(name: str, subgroup: str = "", *, gated: bool = False, annotated: bool = True) -> Manifest:
    body = pod(name, gpu=1, gated=gated, schedulerName="kai-scheduler")
    if annotated:
        body["metadata"]["annotations"] = {"pod-group-name": "g"}
    if subgroup:
        body["metadata"]["labels"] = {"kai.scheduler/subgroup-name": subgroup}
    return body


def two_roles(*, gated: Sequence[str] = ()) -> list[Manifest]:
    names = [(f"{role}-{i}", role) for role in ("leader", "worker") for i in range(2)]
    return [member(name, role, gated=name in gated) for name, role in names]


def topology(*labels: str) -> Manifest:
    levels = [{"nodeLabel": label} for label in labels]
    meta = {"name": "topo"}
    version = "kai.scheduler/v1alpha1"
    return {"apiVersion": version, "kind": "Topology", "metadata": meta, "spec": {"levels": levels}}


def condition_of(server: FakeServer) -> Manifest:
    found = server.find("/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups/g")
    assert found is not None
    told = (found.get("status") or {}).get("schedulingConditions") or [{}]
    return dict(told[0])


def test_a_group_that_fits_is_bound_whole_and_stamped() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_kai(server)
        await add(server, node("n1", gpu=2), node("n2", gpu=2), group(*roles()), *two_roles())
        await passes(3)

    server = play(scenario, kai)
    assert len(bound(server)) == 4
    stamped = server.all("podgroups", "scheduling.run.ai")[0]["metadata"]["annotations"]
    assert "kai.scheduler/last-start-timestamp" in stamped


def test_one_short_binds_nobody_and_says_so_as_kai_does() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_kai(server)
        await add(server, node("n1", gpu=2), node("n2", gpu=1), group(*roles()), *two_roles())
        await passes(3)
        assert bound(server) == {}
        told = condition_of(server)
        want = (
            "PodSchedulingErrors: Resources were found for 1 pods from all sub-groups while sub-group worker "
            "requires 2 pods for gang scheduling. Additional pods cannot be scheduled in this sub-group due to: "
            "no nodes with enough resources were found: 2 node(s) didn't have enough resources: GPUs.."
        )
        assert (told["type"], told["status"], told["message"]) == ("UnschedulableOnNodePool", "True", want)
        assert told["reasons"][0]["reason"] == "PodSchedulingErrors"
        assert scheduled_condition(server, "leader-0")["message"] == want
        assert scheduled_condition(server, "worker-1")["message"].startswith("no nodes with enough")
        await add(server, node("n3", gpu=1))
        await passes(3)

    server = play(scenario, kai)
    assert len(bound(server)) == 4
    assert condition_of(server) == {}


def test_kai_0_12_leaves_the_condition_after_scheduling() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_kai(server)
        await add(server, group(*roles()), *two_roles())
        await passes(3)
        await add(server, node("n1", gpu=8))
        await passes(3)

    server = play(scenario, lambda s: KaiScheduler(s, CLOCK, options=KaiOptions(keeps_conditions=True)))
    assert len(bound(server)) == 4
    assert condition_of(server)["status"] == "True"


def test_the_wrong_mix_does_not_satisfy_the_minimums() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_kai(server)
        workers = [member(f"worker-{i}", "worker") for i in range(4)]
        await add(server, node("n1", gpu=8), group(*roles()), *workers)
        await passes(3)

    server = play(scenario, kai)
    assert bound(server) == {}
    events = [e["message"] for e in server.all("events") if e["reason"] == "NotReady"]
    assert events == [
        "Job is not ready for scheduling. Waiting for 2 pods for SubGroup leader, currently 0 exist, 0 are gated."
    ]


def test_gated_pods_hold_the_group_until_the_last_gate_opens() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_kai(server)
        gated = ["worker-0", "worker-1"]
        await add(server, node("n1", gpu=8), group(*roles()), *two_roles(gated=gated))
        await passes(2)
        told = [e["message"] for e in server.all("events") if e["reason"] == "NotReady"]
        assert told[0].endswith("Waiting for 2 pods for SubGroup worker, currently 2 exist, 2 are gated.")
        await ungate(server, "worker-0")
        await passes(2)
        assert bound(server) == {}
        await ungate(server, "worker-1")
        await passes(2)

    server = play(scenario, kai)
    assert len(bound(server)) == 4


def test_pods_above_the_minimum_are_elastic() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_kai(server)
        extra = [member(f"extra-{i}", "worker") for i in range(3)]
        await add(server, group(*roles()), *two_roles(), *extra, node("n1", gpu=5))
        await passes(3)

    server = play(scenario, kai)
    assert {"leader-0", "leader-1"} <= set(bound(server))
    assert len(bound(server)) == 5
    assert condition_of(server) == {}


QUEUE_CASES = {
    "no such queue": "nowhere",
    "a parent queue takes no work": "default-parent-queue",
    "a queue without its parent": "stray",
}


@pytest.mark.parametrize("queue", QUEUE_CASES.values(), ids=QUEUE_CASES)
def test_only_a_leaf_queue_with_its_parent_takes_work(queue: str) -> None:
    async def scenario(server: FakeServer) -> None:
        await install_kai(server)
        stray = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "stray"}}
        await add(server, {**stray, "spec": {"parentQueue": "missing"}})
        await add(server, node("n1", gpu=8), group(*roles(), queue=queue), *two_roles())
        await passes(3)

    server = play(scenario, kai)
    assert bound(server) == {}
    assert condition_of(server)["reasons"][0]["reason"] == "QueueDoesNotExist"


def test_a_queue_that_comes_later_lets_the_group_start() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_kai(server)
        await add(server, node("n1", gpu=8), group(*roles(), queue="later"), *two_roles())
        await passes(3)
        later = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "later"}}
        await add(server, {**later, "spec": {"parentQueue": "default-parent-queue"}})
        await passes(3)

    assert len(bound(play(scenario, kai))) == 4


def racks(*gpus: int) -> list[Manifest]:
    return [
        node(f"r{i + 1}", gpu=count, labels={ZONE: "z1", RACK: f"r{i + 1}"}) for i, count in enumerate(gpus)
    ]


def rack_constraint(level: str = RACK, kind: str = "requiredTopologyLevel") -> Manifest:
    return {"topology": "topo", kind: level}


def test_a_required_rack_holds_the_whole_group() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_kai(server)
        await add(server, topology(ZONE, RACK), *racks(3, 3), node("bare", gpu=8))
        await add(server, group(*roles(), topologyConstraint=rack_constraint()), *two_roles())
        await passes(3)
        assert bound(server) == {}
        message = condition_of(server)["message"]
        assert "node-group z1.r1 can allocate only 3 of 4 required pods." in message
        assert f"topology topo, requirement {RACK} couldn't be satisfied for job <default/g>." in message
        await add(server, node("r2b", gpu=1, labels={ZONE: "z1", RACK: "r2"}))
        await passes(3)

    server = play(scenario, kai)
    assert set(bound(server).values()) == {"r2", "r2b"}


def test_a_preferred_rack_is_used_when_it_has_room_and_else_forgotten() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_kai(server)
        wish = rack_constraint(kind="preferredTopologyLevel")
        await add(server, topology(ZONE, RACK), *racks(3, 3))
        await add(server, group(*roles(), topologyConstraint=wish), *two_roles())
        await passes(3)

    assert set(bound(play(scenario, kai)).values()) == {"r1", "r2"}


def test_each_subgroup_may_have_a_rack_of_its_own() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_kai(server)
        leader, worker = roles()
        both = [{**role, "topologyConstraint": rack_constraint()} for role in (leader, worker)]
        await add(server, topology(ZONE, RACK), *racks(2, 2), group(*both), *two_roles())
        await passes(3)

    server = play(scenario, kai)
    where = bound(server)
    assert where["leader-0"] == where["leader-1"] != where["worker-0"] == where["worker-1"]


def test_an_unknown_level_says_only_that_it_is_unable() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_kai(server)
        constraint = rack_constraint("topology.kubernetes.io/block")
        await add(server, topology(ZONE, RACK), *racks(8))
        await add(server, group(*roles(), topologyConstraint=constraint), *two_roles())
        await passes(3)

    server = play(scenario, kai)
    assert bound(server) == {}
    assert condition_of(server)["message"] == "Unable to schedule podgroup"


def test_a_parent_needs_only_its_minimum_of_children() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_kai(server)
        children = [{"name": f"c{i}", "parent": "top", "minMember": 2} for i in range(2)]
        spec = group({"name": "top", "minSubGroup": 1}, *children)
        pods = [member(f"c{i}-{j}", f"c{i}") for i in range(2) for j in range(2)]
        await add(server, node("n1", gpu=3), spec, *pods)
        await passes(3)

    assert set(bound(play(scenario, kai))) == {"c0-0", "c0-1"}


def test_a_pod_of_an_unknown_subgroup_is_told_so_and_the_rest_starts() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_kai(server)
        await add(server, node("n1", gpu=8), group(*roles()), *two_roles(), member("odd", "nobody"))
        await passes(3)

    server = play(scenario, kai)
    assert len(bound(server)) == 4
    assert "references subgroup nobody which does not exist" in scheduled_condition(server, "odd")["message"]


def test_pods_without_a_group_and_groups_without_subgroups() -> None:
    async def scenario(server: FakeServer) -> None:
        await install_kai(server)
        await add(server, node("n1", gpu=2), group(minMember=2), member("a"), member("b"))
        await add(server, member("lonely", annotated=False))
        await passes(3)

    server = play(scenario, kai)
    assert set(bound(server)) == {"a", "b"}
    assert scheduled_condition(server, "lonely") == {}


def test_it_idles_until_its_kinds_are_installed() -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1", gpu=8), *two_roles())
        await passes(60)
        assert not any(path for path in server.lists if "scheduling.run.ai" in path)
        await install_kai(server)
        await add(server, group(*roles()))
        await passes(3)

    assert len(bound(play(scenario, kai))) == 4


def test_the_package_brings_four_kinds_and_two_queues() -> None:
    assert [crd["metadata"]["name"] for crd in definitions()] == [
        "bindrequests.scheduling.run.ai",
        "podgroups.scheduling.run.ai",
        "queues.scheduling.run.ai",
        "topologies.kai.scheduler",
    ]
    assert [queue["metadata"]["name"] for queue in queues()] == ["default-parent-queue", "default-queue"]
