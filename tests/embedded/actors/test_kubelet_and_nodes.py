"""Simulated kubelets and nodes: pods live and die as their annotations say, nodes come, get lost and go."""

import pytest
from tests.embedded.actors.cluster_objects import add, node, pod
from tests.embedded.actors.fake_server import CLOCK, FakeServer, passes, play

from grove.embedded.actors.kubelet import Kubelet, KubeletOptions
from grove.embedded.actors.nodes import NodeKeeper, NodeOptions
from grove.embedded.errors import Manifest

POD = "/api/v1/namespaces/default/pods/p"


def kubelet(server: FakeServer) -> Kubelet:
    return Kubelet(server, CLOCK)


def keeper(server: FakeServer) -> NodeKeeper:
    return NodeKeeper(server, CLOCK)


def running(**annotations: str) -> Manifest:
    body = pod("p", nodeName="n1")
    named = {f"embedded.grove.io/{name.replace('_', '-')}": text for name, text in annotations.items()}
    body["metadata"]["annotations"] = named
    return body


def get(server: FakeServer, path: str = POD) -> Manifest:
    found = server.find(path)
    assert found is not None, f"{path} is gone"
    return found


def is_true(obj: Manifest, kind: str) -> bool:
    return any(c["type"] == kind and c["status"] == "True" for c in obj["status"].get("conditions") or ())


def writes_to(server: FakeServer, path: str) -> int:
    return sum(1 for verb, written in server.writes if written.startswith(path) and verb != "create")


def test_a_bound_pod_becomes_running_and_ready_with_one_write() -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1"), running())
        await passes(5)

    server = play(scenario, kubelet)
    found = get(server)
    assert found["status"]["phase"] == "Running"
    assert is_true(found, "Ready")
    assert is_true(found, "ContainersReady")
    assert found["status"]["podIP"].startswith("10.")
    assert found["status"]["containerStatuses"][0]["state"]["running"]
    assert writes_to(server, POD) == 1


def test_an_unbound_pod_is_not_touched() -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1"), pod("p"))
        await passes(5)

    server = play(scenario, kubelet)
    assert get(server)["status"] == {"phase": "Pending"}


def test_the_startup_annotation_delays_the_pod() -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1"), running(startup="3s"))
        await passes(2.9)
        assert get(server)["status"]["phase"] == "Pending"
        await passes(0.2)

    server = play(scenario, kubelet)
    assert get(server)["status"]["phase"] == "Running"


def test_startup_jitter_depends_on_the_seed_alone() -> None:
    def moments(seed: int) -> list[str]:
        async def scenario(server: FakeServer) -> None:
            await add(server, node("n1", cpu="100"), *(pod(f"p{i}", nodeName="n1") for i in range(20)))
            await passes(100)

        options = KubeletOptions(startup_seconds=1, startup_jitter=60, seed=seed)
        server = play(scenario, lambda s: Kubelet(s, CLOCK, options=options))
        return [p["status"]["startTime"] for p in server.all("pods")]

    assert moments(1) == moments(1)
    assert moments(1) != moments(2)


def test_a_pod_that_may_restart_crashes_and_comes_back() -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1"), running(fail_after="5s", fail_count="1"))
        await passes(6)
        crashed = get(server)
        assert not is_true(crashed, "Ready")
        state = crashed["status"]["containerStatuses"][0]["state"]
        assert state["waiting"]["reason"] == "CrashLoopBackOff"
        await passes(11)

    server = play(scenario, kubelet)
    found = get(server)
    assert is_true(found, "Ready")
    assert found["status"]["containerStatuses"][0]["restartCount"] == 1
    assert found["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1


@pytest.mark.parametrize(("code", "want"), [("0", "Succeeded"), ("3", "Failed")])
def test_a_pod_that_never_restarts_ends_with_its_exit_code(code: str, want: str) -> None:
    async def scenario(server: FakeServer) -> None:
        body = running(fail_after="5s", exit_code=code)
        body["spec"]["restartPolicy"] = "Never"
        await add(server, node("n1"), body)
        await passes(10)

    server = play(scenario, kubelet)
    found = get(server)
    assert found["status"]["phase"] == want
    assert found["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == int(code)


def test_readiness_follows_its_annotation_while_the_pod_runs() -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1"), running(not_ready="true"))
        await passes(1)
        assert get(server)["status"]["phase"] == "Running"
        assert not is_true(get(server), "Ready")
        await server.patch(POD, {"metadata": {"annotations": {"embedded.grove.io/not-ready": None}}})
        await passes(1)

    server = play(scenario, kubelet)
    assert is_true(get(server), "Ready")


def test_a_deleted_pod_stops_after_its_shutdown_time() -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1"), running(shutdown="4s"))
        await passes(1)
        await server.delete(POD)
        await passes(3)
        assert server.find(POD) is not None
        await passes(2)

    server = play(scenario, kubelet)
    assert server.find(POD) is None


def test_a_finalizer_keeps_a_stopped_pod_in_a_terminal_phase() -> None:
    async def scenario(server: FakeServer) -> None:
        body = running()
        body["metadata"]["finalizers"] = ["test/hold"]
        await add(server, node("n1"), body)
        await passes(1)
        await server.delete(POD)
        await passes(5)
        assert get(server)["status"]["phase"] == "Succeeded"
        await server.patch(POD, {"metadata": {"finalizers": None}})

    server = play(scenario, kubelet)
    assert server.find(POD) is None


def test_init_containers_and_sidecars_are_reported() -> None:
    async def scenario(server: FakeServer) -> None:
        body = running()
        body["spec"]["initContainers"] = [
            {"name": "once", "image": "x"},
            {"name": "side", "image": "x", "restartPolicy": "Always"},
        ]
        await add(server, node("n1"), body)
        await passes(1)

    server = play(scenario, kubelet)
    once, side = get(server)["status"]["initContainerStatuses"]
    assert once["state"]["terminated"]["exitCode"] == 0
    assert side["state"]["running"]


def test_a_node_made_by_hand_is_filled_in_and_runs_pods() -> None:
    async def scenario(server: FakeServer) -> None:
        await server.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
        await add(server, running())
        await passes(1)

    server = play(scenario, keeper, kubelet)
    found = get(server, "/api/v1/nodes/n1")
    assert found["status"]["allocatable"]["cpu"] == "8"
    assert is_true(found, "Ready")
    assert found["metadata"]["labels"]["kubernetes.io/hostname"] == "n1"
    assert get(server)["status"]["phase"] == "Running"


def test_capacity_that_a_node_brings_is_kept() -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1", cpu="64", gpu=8))
        await passes(1)

    server = play(scenario, keeper)
    status = get(server, "/api/v1/nodes/n1")["status"]
    assert status["allocatable"] == status["capacity"]
    assert status["capacity"]["nvidia.com/gpu"] == "8"


def test_a_healthy_node_costs_nothing_between_heartbeats() -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1"))
        await passes(10)
        before = len(server.writes)
        await passes(280)
        assert len(server.writes) == before

    server = play(scenario, keeper)
    assert [lease["metadata"]["name"] for lease in server.all("leases", "coordination.k8s.io")] == ["n1"]


def test_pods_of_a_lost_node_become_unready_are_evicted_and_recover_when_it_returns() -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1"), running())
        await passes(1)
        lost = {"metadata": {"annotations": {"embedded.grove.io/lost": "true"}}}
        await server.patch("/api/v1/nodes/n1", lost)
        await passes(1)
        assert not is_true(get(server), "Ready")
        assert not is_true(get(server, "/api/v1/nodes/n1"), "Ready")
        assert {t["effect"] for t in get(server, "/api/v1/nodes/n1")["spec"]["taints"]} == {
            "NoSchedule",
            "NoExecute",
        }
        lost["metadata"]["annotations"] = {"embedded.grove.io/lost": "false"}
        await server.patch("/api/v1/nodes/n1", lost)
        await passes(1)
        assert is_true(get(server), "Ready")
        assert "taints" not in get(server, "/api/v1/nodes/n1")["spec"]

    server = play(scenario, keeper, kubelet)
    assert is_true(get(server, "/api/v1/nodes/n1"), "Ready")


def test_a_lost_node_evicts_after_the_toleration_and_its_end_removes_the_pod() -> None:
    async def scenario(server: FakeServer) -> None:
        body = running()
        body["spec"]["tolerations"] = [
            {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "tolerationSeconds": 60}
        ]
        await add(server, node("n1"), body)
        await passes(1)
        status = {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "Test"}]}
        await server.patch("/api/v1/nodes/n1/status", {"status": status})
        await passes(59)
        assert "deletionTimestamp" not in get(server)["metadata"]
        await passes(5)
        assert "deletionTimestamp" in get(server)["metadata"]
        await passes(600)
        assert server.find(POD) is not None, "a lost kubelet cannot confirm the end of a pod"
        await server.delete("/api/v1/nodes/n1")
        await passes(1)

    server = play(scenario, keeper, kubelet)
    assert server.find(POD) is None


def test_pods_of_a_deleted_node_go_with_it() -> None:
    async def scenario(server: FakeServer) -> None:
        await add(server, node("n1"), node("n2"), running(), pod("q", nodeName="n2"))
        await passes(1)
        await server.delete("/api/v1/nodes/n1")
        await passes(1)

    options = NodeOptions(heartbeat_seconds=0)
    server = play(scenario, lambda s: NodeKeeper(s, CLOCK, options=options), kubelet)
    assert [p["metadata"]["name"] for p in server.all("pods")] == ["q"]
