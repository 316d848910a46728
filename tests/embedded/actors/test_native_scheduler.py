"""The simulated kube-scheduler keeps gangs whole and says why they wait where the real one says it."""

import pytest
from tests.embedded.actors.cluster_objects import add, bound, node, pod, scheduled_condition, ungate
from tests.embedded.actors.fake_server import CLOCK, FakeServer, passes, play

from grove.embedded.actors.schedulers.native import NativeScheduler
from grove.embedded.errors import Manifest

ZONE = "topology.kubernetes.io/zone"
API = {"1.35": "v1alpha1", "1.36": "v1alpha2", "1.37": "v1beta1"}
GROUPED = ["1.36", "1.37"]
ALL = ["1.35", *GROUPED]


def scheduler(minor: str):  # type: ignore[no-untyped-def]
    return lambda server: NativeScheduler(server, CLOCK, minor=minor)


def gang(minor: str, count: int, *, name: str = "gang", topology: str = "", **spec: object) -> Manifest:
    meta = {"name": name, "namespace": "default"}
    version = f"scheduling.k8s.io/{API[minor]}"
    if minor == "1.35":
        groups = [{"name": "workers", "policy": {"gang": {"minCount": count}}}]
        return {"apiVersion": version, "kind": "Workload", "metadata": meta, "spec": {"podGroups": groups}}
    body: Manifest = {"schedulingPolicy": {"gang": {"minCount": count}}, **spec}
    if topology:
        body["schedulingConstraints"] = {"topology": [{"key": topology}]}
    return {"apiVersion": version, "kind": "PodGroup", "metadata": meta, "spec": body}


def member(minor: str, name: str, *, group: str = "gang", cpu: str = "3", gated: bool = False) -> Manifest:
    if minor == "1.35":
        return pod(name, cpu=cpu, gated=gated, workloadRef={"name": group, "podGroup": "workers"})
    return pod(name, cpu=cpu, gated=gated, schedulingGroup={"podGroupName": group})


def members(minor: str, count: int, *, gated: bool = False) -> list[Manifest]:
    return [member(minor, f"p{i}", gated=gated) for i in range(count)]


def group_condition(server: FakeServer, name: str = "gang") -> Manifest:
    group = next(g for g in server.all("podgroups", "scheduling.k8s.io") if g["metadata"]["name"] == name)
    conditions = (group.get("status") or {}).get("conditions") or [{}]
    return {k: v for k, v in conditions[0].items() if k in ("type", "status", "reason", "message")}


@pytest.mark.parametrize("minor", ALL)
def test_a_gang_that_fits_is_bound_whole(minor: str) -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1"), node("n2"), gang(minor, 4), *members(minor, 4))
        await passes(5)

    server = play(scenario, scheduler(minor))
    assert sorted(bound(server).values()) == ["n1", "n1", "n2", "n2"]


@pytest.mark.parametrize("minor", ALL)
def test_a_gang_that_is_one_short_binds_nobody_and_is_bound_when_a_node_comes(minor: str) -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1", cpu="4"), node("n2", cpu="4"), node("n3", cpu="4"))
        await add(server, gang(minor, 4), *members(minor, 4))
        await passes(30)
        assert bound(server) == {}
        await add(server, node("n4", cpu="4"))
        await passes(5)

    server = play(scenario, scheduler(minor))
    assert set(bound(server)) == {"p0", "p1", "p2", "p3"}


@pytest.mark.parametrize("minor", ALL)
def test_pods_before_their_group_are_held_silently(minor: str) -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1"), node("n2"), *members(minor, 4))
        await passes(30)
        assert bound(server) == {}
        assert scheduled_condition(server, "p0") == {}
        await add(server, gang(minor, 4))
        await passes(1)

    server = play(scenario, scheduler(minor))
    assert len(bound(server)) == 4


@pytest.mark.parametrize("minor", ALL)
def test_a_gang_waits_for_its_last_pod_in_silence(minor: str) -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1"), node("n2"), gang(minor, 4), *members(minor, 3))
        await passes(30)

    server = play(scenario, scheduler(minor))
    assert bound(server) == {}
    assert [scheduled_condition(server, f"p{i}") for i in range(3)] == [{}, {}, {}]


@pytest.mark.parametrize("minor", ALL)
def test_gated_pods_are_held_until_the_last_gate_opens(minor: str) -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1"), node("n2"), gang(minor, 4), *members(minor, 4, gated=True))
        for i in range(3):
            await ungate(server, f"p{i}")
            await passes(1)
            assert bound(server) == {}
        await ungate(server, "p3")
        await passes(1)

    server = play(scenario, scheduler(minor))
    assert len(bound(server)) == 4


def test_1_35_nominates_the_pods_at_permit_and_explains_only_on_the_unfit_ones() -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1", cpu="4"), node("n2", cpu="2"), gang("1.35", 2), *members("1.35", 2))
        await passes(10)

    server = play(scenario, scheduler("1.35"))
    first = server.find("/api/v1/namespaces/default/pods/p0")
    assert first is not None
    assert first["status"].get("nominatedNodeName") == "n1"
    assert scheduled_condition(server, "p0") == {}
    want = (
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are "
        "available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
    )
    assert scheduled_condition(server, "p1")["message"] == want
    assert [e["reason"] for e in server.all("events")] == ["FailedScheduling"]


def test_1_35_gives_held_capacity_back_after_five_minutes() -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1", cpu="4"), gang("1.35", 2), *members("1.35", 2))
        await passes(200)
        await add(server, pod("other", cpu="3"))
        await passes(50)
        assert bound(server) == {}
        await passes(60)

    server = play(scenario, scheduler("1.35"))
    assert bound(server) == {"other": "n1"}


def test_1_36_puts_the_verdict_on_the_group_and_the_lack_on_the_pods() -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1", cpu="2"), node("n2", cpu="2"), gang("1.36", 4), *members("1.36", 4))
        await passes(10)

    server = play(scenario, scheduler("1.36"))
    assert group_condition(server) == {
        "type": "PodGroupScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 placements are available, first placement status: pod group is unschedulable, "
        "No preemption victims found for incoming preemptor",
    }
    want = (
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, "
        "preemption: not eligible due to workload aware preemption enabled"
    )
    assert {scheduled_condition(server, f"p{i}")["message"] for i in range(4)} == {want}


def test_1_37_names_the_missing_count_on_the_group_and_the_lack_on_one_pod() -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1", cpu="2"), node("n2", cpu="2"), gang("1.37", 4), *members("1.37", 4))
        await passes(10)

    server = play(scenario, scheduler("1.37"))
    told = group_condition(server)
    assert (told["type"], told["reason"]) == ("PodGroupInitiallyScheduled", "Unschedulable")
    assert "minCount (4) cannot be satisfied: 0 scheduled, 3 remaining" in told["message"]
    messages = [scheduled_condition(server, f"p{i}")["message"] for i in range(4)]
    assert messages == ["0/2 nodes are available: 2 Insufficient cpu.", *[told["message"]] * 3]


@pytest.mark.parametrize("minor", GROUPED)
def test_success_is_told_once_and_never_taken_back(minor: str) -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1"), gang(minor, 2), *members(minor, 2))
        await passes(3)
        await add(server, member(minor, "late", cpu="100"))
        await passes(3)

    server = play(scenario, scheduler(minor))
    assert group_condition(server)["status"] == "True"
    assert "Insufficient cpu" in scheduled_condition(server, "late")["message"]


@pytest.mark.parametrize("minor", GROUPED)
def test_a_topology_key_keeps_the_gang_in_one_domain(minor: str) -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("a1", cpu="4", labels={ZONE: "a"}), node("a2", cpu="4", labels={ZONE: "a"}))
        await add(server, node("b1", cpu="4", labels={ZONE: "b"}), node("none", cpu="64"))
        await add(server, gang(minor, 3, topology=ZONE), *members(minor, 3))
        await passes(5)
        assert bound(server) == {}
        await add(server, node("b2", labels={ZONE: "b"}))
        await passes(5)

    server = play(scenario, scheduler(minor))
    assert set(bound(server).values()) == {"b1", "b2"}
    assert len(bound(server)) == 3


def composite(name: str, minimum: int, *, parent: str = "", topology: str = "") -> Manifest:
    spec: Manifest = {"schedulingPolicy": {"gang": {"minGroupCount": minimum}}}
    spec["parentCompositePodGroupName"] = parent
    if topology:
        spec["schedulingConstraints"] = {"topology": [{"key": topology}]}
    meta = {"name": name, "namespace": "default"}
    version = "scheduling.k8s.io/v1alpha3"
    return {"apiVersion": version, "kind": "CompositePodGroup", "metadata": meta, "spec": spec}


def test_a_composite_tree_is_bound_whole_in_one_domain_or_not_at_all() -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, *(node(f"a{i}", cpu="4", labels={ZONE: "a"}) for i in range(3)))
        await add(server, *(node(f"b{i}", cpu="4", labels={ZONE: "b"}) for i in range(3)))
        await add(server, composite("root", 2, topology=ZONE))
        await add(server, gang("1.37", 1, name="leader", parentCompositePodGroupName="root"))
        await add(server, gang("1.37", 3, name="worker", parentCompositePodGroupName="root"))
        await add(server, member("1.37", "l0", group="leader"))
        await add(server, *(member("1.37", f"w{i}", group="worker") for i in range(3)))
        await passes(5)
        assert bound(server) == {}
        assert group_condition(server, "worker")["reason"] == "Unschedulable"
        assert group_condition(server, "leader")["reason"] == "Unschedulable"
        assert "0/2 placements are available" in group_condition(server, "leader")["message"]
        assert "minCount (2) cannot be satisfied: 1 scheduled" in group_condition(server, "leader")["message"]
        await add(server, node("b3", cpu="4", labels={ZONE: "b"}))
        await passes(5)

    server = play(scenario, scheduler("1.37"))
    assert sorted(bound(server).values()) == ["b0", "b1", "b2", "b3"]
    root = server.all("compositepodgroups", "scheduling.k8s.io")[0]
    assert "status" not in root


def test_one_gated_pod_holds_the_whole_composite_in_silence() -> None:
    async def gated_first(server: FakeServer) -> None:
        await add(server, member("1.37", "w1", group="worker", gated=True))
        await add(server, node("n1", cpu="64"), composite("root", 2))
        await add(server, gang("1.37", 1, name="leader", parentCompositePodGroupName="root"))
        await add(server, gang("1.37", 1, name="worker", parentCompositePodGroupName="root"))
        await add(server, member("1.37", "l0", group="leader"), member("1.37", "w0", group="worker"))
        await passes(5)
        assert bound(server) == {}
        await ungate(server, "w1")
        await passes(2)

    server = play(gated_first, scheduler("1.37"))
    assert set(bound(server)) == {"l0", "w0", "w1"}


def test_a_wrong_priority_is_a_scheduler_error_in_1_37() -> None:
    async def scenario(server: FakeServer) -> None:
        odd = member("1.37", "p1")
        odd["spec"]["priority"] = 7
        await add(server, node("n1"), gang("1.37", 2), member("1.37", "p0"), odd)
        await passes(5)

    server = play(scenario, scheduler("1.37"))
    assert bound(server) == {}
    assert group_condition(server)["reason"] == "SchedulerError"


def test_plain_pods_go_by_priority_and_wait_for_room() -> None:
    async def scenario(server: FakeServer) -> None:
        urgent = pod("urgent", cpu="6", priority=100)
        await add(server, pod("lazy", cpu="6"), urgent, node("n1"))
        await passes(2)
        assert bound(server) == {"urgent": "n1"}
        await server.delete("/api/v1/namespaces/default/pods/urgent", {"gracePeriodSeconds": 0})
        await passes(2)

    server = play(scenario, scheduler("1.36"))
    assert bound(server) == {"lazy": "n1"}


def test_pods_of_other_schedulers_are_left_alone_but_counted() -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1"), pod("theirs", cpu="6", schedulerName="other", nodeName="n1"))
        await add(server, pod("waiting", schedulerName="other"), pod("ours", cpu="6"))
        await passes(2)

    server = play(scenario, scheduler("1.36"))
    assert bound(server) == {"theirs": "n1"}


def test_a_refused_binding_is_tried_again() -> None:
    from grove.embedded.errors import ApiError

    async def scenario(server: FakeServer) -> None:
        refusals = [ApiError(500, "InternalError", "no"), ApiError(409, "Conflict", "no")]
        server.refuse = lambda verb, path: refusals.pop() if path.endswith("binding") and refusals else None
        await add(server, node("n1"), gang("1.36", 2), *members("1.36", 2))
        await passes(10)

    server = play(scenario, scheduler("1.36"))
    assert set(bound(server)) == {"p0", "p1"}


def test_a_group_that_cannot_be_read_does_not_stop_the_others() -> None:
    async def scenario(server: FakeServer) -> None:
        broken = member("1.36", "broken", group="odd")
        broken["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "lots"
        await add(server, node("n1"), gang("1.36", 1, name="odd"), broken)
        await add(server, gang("1.36", 2), *members("1.36", 2))
        await passes(5)

    assert set(bound(play(scenario, scheduler("1.36")))) == {"p0", "p1"}


def test_an_unschedulable_gang_causes_no_further_writes_while_nothing_changes() -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1", cpu="2"), gang("1.37", 2), *members("1.37", 2))
        await passes(5)
        before = len(server.writes)
        await passes(3600)
        assert len(server.writes) == before

    server = play(scenario, scheduler("1.37"))
    assert bound(server) == {}


# Pod affinity ----------------------------------------------------------------------------------------


def neighbour(of: str, key: str = "rack") -> Manifest:
    term = {"labelSelector": {"matchLabels": {"app": of}}, "topologyKey": key}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def labelled(name: str, app: str, **spec: object) -> Manifest:
    made = pod(name, **spec)  # type: ignore[arg-type]
    made["metadata"]["labels"] = {"app": app}
    return made


NEAR = {
    "next to where the others are": (labelled("p", "b", affinity=neighbour("a")), "there"),
    "nobody is there yet": (labelled("p", "b", affinity=neighbour("c")), None),
    "the first of its kind goes anywhere": (labelled("p", "c", affinity=neighbour("c")), "here"),
    "what the nodes do not carry is nowhere": (labelled("p", "b", affinity=neighbour("a", "cage")), None),
}


@pytest.mark.parametrize(("wanted", "where"), NEAR.values(), ids=NEAR)
def test_required_pod_affinity_keeps_a_pod_in_the_domain_of_the_others(
    wanted: Manifest, where: str | None
) -> None:
    async def story(server: FakeServer) -> None:
        await add(server, node("here", labels={"rack": "r1"}), node("there", cpu="4", labels={"rack": "r2"}))
        await add(server, labelled("first", "a", nodeName="there"), wanted)
        await passes(5)
        assert bound(server).get("p") == where
        if where is None:
            assert "node(s) didn't match pod affinity rules" in scheduled_condition(server, "p")["message"]

    play(story, scheduler("1.36"))
