"""The actors together in the real embedded cluster: its validation, its status rules, its watches."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from tests.embedded.actors.cluster_objects import pod
from tests.embedded.actors.fake_server import passes
from tests.embedded.actors.test_kai_scheduler import group, member, roles
from tests.embedded.actors.test_native_scheduler import API, gang
from tests.embedded.actors.test_native_scheduler import member as native_member

from grove.embedded.clock import LoopClock
from grove.embedded.cluster import ClusterOptions, EmbeddedCluster
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import LocalClient
from grove.testing.virtual_time import EPOCH, run_virtual

PODS = "/api/v1/namespaces/default/pods"
CM = "/api/v1/namespaces/default/configmaps"


@asynccontextmanager
async def cluster(minor: str = "1.36", *, nodes: int = 2, cpus: int = 8) -> AsyncIterator[LocalClient]:
    options = ClusterOptions(
        kubernetes=minor, nodes=nodes, cpus=cpus, gpus=2, clock=LoopClock(EPOCH), listen=False
    )
    made = EmbeddedCluster(options)
    await made.start()
    try:
        yield LocalClient(made.app)
    finally:
        await made.stop()


def inside(
    scenario: Callable[[LocalClient], Awaitable[None]], minor: str = "1.36", *, nodes: int = 2
) -> None:
    async def main() -> None:
        async with cluster(minor, nodes=nodes) as client:
            await passes(1)
            await scenario(client)

    run_virtual(main)


async def pods(client: LocalClient) -> dict[str, Manifest]:
    return {p["metadata"]["name"]: p for p in (await client.list(PODS))["items"]}


async def is_gone(client: LocalClient, path: str) -> bool:
    try:
        await client.get(path)
    except ApiError as error:
        return error.status == 404
    return False


def is_ready(found: Manifest) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in found["status"]["conditions"])


@pytest.mark.parametrize("minor", ["1.35", "1.36", "1.37"])
def test_a_native_gang_runs_or_waits_as_a_whole(minor: str) -> None:
    plural = "workloads" if minor == "1.35" else "podgroups"
    path = f"/apis/scheduling.k8s.io/{API[minor]}/namespaces/default/{plural}"

    async def scenario(client: LocalClient) -> None:
        await client.create(path, gang(minor, 4))
        for i in range(4):
            await client.create(PODS, native_member(minor, f"p{i}", cpu="5"))
        await passes(5)
        assert not any(p["spec"].get("nodeName") for p in (await pods(client)).values())
        for name in ("x", "y"):
            status = {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "10"}}
            await client.create("/api/v1/nodes", {"metadata": {"name": name}, "status": status})
        await passes(5)
        assert all(is_ready(p) for p in (await pods(client)).values())
        if minor != "1.35":
            found = await client.get(f"{path}/gang")
            assert found["status"]["conditions"][0]["status"] == "True"

    inside(scenario, minor)


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
def test_a_deleted_native_podgroup_waits_for_its_pods(minor: str) -> None:
    path = f"/apis/scheduling.k8s.io/{API[minor]}/namespaces/default/podgroups"

    async def scenario(client: LocalClient) -> None:
        await client.create(path, gang(minor, 1))
        await client.create(PODS, native_member(minor, "p0"))
        await passes(2)
        await client.delete(f"{path}/gang")
        await passes(2)
        assert not await is_gone(client, f"{path}/gang")
        await client.delete(f"{PODS}/p0")
        await passes(2)
        assert await is_gone(client, f"{path}/gang")

    inside(scenario, minor)


def test_a_kai_group_runs_as_a_whole_and_says_why_it_waited() -> None:
    path = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups"

    async def scenario(client: LocalClient) -> None:
        await client.create(path, group(*roles(2, 3)))
        for role, count in (("leader", 2), ("worker", 3)):
            for i in range(count):
                body = member(f"{role}-{i}", role)
                resources = body["spec"]["containers"][0]["resources"]
                resources["limits"] = {"nvidia.com/gpu": "1"}
                await client.create(PODS, body)
        await passes(5)
        assert not any(p["spec"].get("nodeName") for p in (await pods(client)).values())
        told = (await client.get(f"{path}/g"))["status"]["schedulingConditions"][0]
        assert "sub-group worker requires 3 pods" in told["message"]
        capacity = {"cpu": "8", "memory": "8Gi", "pods": "10", "nvidia.com/gpu": "1"}
        await client.create(
            "/api/v1/nodes",
            {"metadata": {"name": "x"}, "status": {"allocatable": capacity, "capacity": capacity}},
        )
        await passes(5)
        assert all(is_ready(p) for p in (await pods(client)).values())
        assert (
            "kai.scheduler/last-start-timestamp" in (await client.get(f"{path}/g"))["metadata"]["annotations"]
        )

    inside(scenario)


def owned(name: str, *owners: Manifest, **meta: object) -> Manifest:
    refs = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        for owner in owners
    ]
    return {"metadata": {"name": name, "ownerReferences": refs, **meta}}


@pytest.mark.parametrize(
    ("policy", "child_goes"), [("Background", True), ("Foreground", True), ("Orphan", False)]
)
def test_dependents_follow_the_propagation_policy(policy: str, child_goes: bool) -> None:
    async def scenario(client: LocalClient) -> None:
        owner = await client.create(CM, owned("a"))
        await client.create(CM, owned("b", owner))
        await passes(1)
        await client.delete(f"{CM}/a", {"propagationPolicy": policy})
        await passes(2)
        assert await is_gone(client, f"{CM}/a")
        assert await is_gone(client, f"{CM}/b") is child_goes

    inside(scenario)


def test_foreground_deletion_shows_its_finalizer_while_a_child_is_held() -> None:
    async def scenario(client: LocalClient) -> None:
        owner = await client.create(CM, owned("a"))
        await client.create(CM, owned("b", owner, finalizers=["test.io/hold"]))
        await passes(1)
        await client.delete(f"{CM}/a", {"propagationPolicy": "Foreground"})
        await passes(2)
        assert (await client.get(f"{CM}/a"))["metadata"]["finalizers"] == ["foregroundDeletion"]
        await client.patch(f"{CM}/b", {"metadata": {"finalizers": None}})
        await passes(2)
        assert await is_gone(client, f"{CM}/a")

    inside(scenario)


def test_two_owners_a_dangling_one_and_one_of_another_namespace() -> None:
    async def scenario(client: LocalClient) -> None:
        a, b = await client.create(CM, owned("a")), await client.create(CM, owned("b"))
        await client.create(CM, owned("c", a, b))
        there = await client.create("/api/v1/namespaces/kube-system/configmaps", owned("there"))
        await client.create(CM, owned("stranger", there))
        await client.create(CM, owned("dangling", {"metadata": {"name": "x", "uid": "nobody"}}))
        await passes(2)
        assert await is_gone(client, f"{CM}/stranger")
        assert await is_gone(client, f"{CM}/dangling")
        await client.delete(f"{CM}/a")
        await passes(2)
        left = (await client.get(f"{CM}/c"))["metadata"]["ownerReferences"]
        assert [ref["name"] for ref in left] == ["b"]
        await client.delete(f"{CM}/b")
        await passes(2)
        assert await is_gone(client, f"{CM}/c")

    inside(scenario)


def test_the_dependents_of_a_custom_resource_go_with_it_by_default() -> None:
    path = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups"

    async def scenario(client: LocalClient) -> None:
        owner = await client.create(path, group())
        body = owned("child", owner)
        reference = body["metadata"]["ownerReferences"][0]
        reference |= {"apiVersion": owner["apiVersion"], "kind": owner["kind"]}
        await client.create(CM, body)
        await passes(2)
        assert not await is_gone(client, f"{CM}/child")
        await client.delete(f"{path}/g")
        await passes(2)
        assert await is_gone(client, f"{CM}/child")

    inside(scenario)


def test_a_namespace_ends_with_everything_in_it() -> None:
    async def scenario(client: LocalClient) -> None:
        await client.create("/api/v1/namespaces", {"metadata": {"name": "ns"}})
        await client.create("/api/v1/namespaces/ns/configmaps", {"metadata": {"name": "x"}})
        body = pod("p")
        body["metadata"]["namespace"] = "ns"
        await client.create("/api/v1/namespaces/ns/pods", body)
        await passes(2)
        await client.delete("/api/v1/namespaces/ns")
        await passes(30)
        assert await is_gone(client, "/api/v1/namespaces/ns")

    inside(scenario)


def test_pods_of_a_deleted_node_are_removed_and_a_deleted_pod_ends() -> None:
    async def scenario(client: LocalClient) -> None:
        await client.create(PODS, pod("a"))
        await client.create(PODS, pod("b"))
        await passes(2)
        found = await pods(client)
        assert all(is_ready(p) for p in found.values())
        await client.delete(f"{PODS}/a")
        await passes(2)
        assert await is_gone(client, f"{PODS}/a")
        await client.delete(f"/api/v1/nodes/{found['b']['spec']['nodeName']}")
        await passes(2)
        assert await is_gone(client, f"{PODS}/b")

    inside(scenario)


def test_an_idle_cluster_is_quiet() -> None:
    async def main() -> int:
        options = ClusterOptions(nodes=3, clock=LoopClock(EPOCH), listen=False)
        made = EmbeddedCluster(options)
        await made.start()
        await passes(10)
        before = made.store.revision
        await passes(250)
        after = made.store.revision
        await made.stop()
        await asyncio.sleep(0)
        return after - before

    assert run_virtual(main) == 0
