"""Owner references are honoured as by kube-controller-manager, and namespaces and PodGroups end cleanly."""

from tests.embedded.actors.cluster_objects import pod
from tests.embedded.actors.fake_server import CLOCK, FakeServer, passes, play

from grove.embedded.actors.garbage import GarbageCollector
from grove.embedded.actors.namespaces import NamespaceDeleter
from grove.embedded.actors.podgroup_protection import FINALIZER, PodGroupProtection
from grove.embedded.errors import Manifest

CM = "/api/v1/namespaces/default/configmaps"


def collector(server: FakeServer) -> GarbageCollector:
    return GarbageCollector(server, CLOCK)


async def make(server: FakeServer, name: str, *owners: Manifest, path: str = CM, **meta: object) -> Manifest:
    refs = [
        {
            "apiVersion": owner.get("apiVersion", "v1"),
            "kind": owner.get("kind", "ConfigMap"),
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        for owner in owners
    ]
    body: Manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}}
    if refs:
        body["metadata"]["ownerReferences"] = refs
    return await server.create(path, body)


def names(server: FakeServer) -> set[str]:
    return {cm["metadata"]["name"] for cm in server.all("configmaps")}


def test_a_collector_may_be_told_to_be_as_slow_as_a_real_one() -> None:
    left: list[int] = []

    async def scenario(server: FakeServer) -> None:
        owner = await make(server, "owner")
        for number in range(20):
            await make(server, f"dependent-{number}", owner)
        await passes(1)
        await server.delete(f"{CM}/owner", {"propagationPolicy": "Background"})
        for _ in range(3):
            await passes(1)
            left.append(len(names(server)))

    play(scenario, lambda server: GarbageCollector(server, CLOCK, per_second=10))
    first, second, third = left
    assert 9 <= first <= 11
    assert second <= 1
    assert third == 0


def test_background_deletion_takes_a_chain_of_dependents_along() -> None:
    async def scenario(server: FakeServer) -> None:
        a = await make(server, "a")
        b = await make(server, "b", a)
        await make(server, "c", b)
        await make(server, "other")
        await passes(1)
        await server.delete(f"{CM}/a", {"propagationPolicy": "Background"})
        await passes(1)

    assert names(play(scenario, collector)) == {"other"}


def test_foreground_deletion_waits_for_blocking_dependents() -> None:
    async def scenario(server: FakeServer) -> None:
        a = await make(server, "a")
        await make(server, "b", a, finalizers=["test/hold"])
        await passes(1)
        await server.delete(f"{CM}/a", {"propagationPolicy": "Foreground"})
        await passes(1)
        owner, child = server.find(f"{CM}/a"), server.find(f"{CM}/b")
        assert owner is not None
        assert owner["metadata"]["finalizers"] == ["foregroundDeletion"]
        assert child is not None
        assert "deletionTimestamp" in child["metadata"]
        await server.patch(f"{CM}/b", {"metadata": {"finalizers": None}})
        await passes(1)

    assert names(play(scenario, collector)) == set()


def test_foreground_deletion_reaches_grandchildren_first() -> None:
    async def scenario(server: FakeServer) -> None:
        a = await make(server, "a")
        b = await make(server, "b", a)
        await make(server, "c", b, finalizers=["test/hold"])
        await passes(1)
        await server.delete(f"{CM}/a", {"propagationPolicy": "Foreground"})
        await passes(1)
        assert names(server) == {"a", "b", "c"}
        await server.patch(f"{CM}/c", {"metadata": {"finalizers": None}})
        await passes(1)

    assert names(play(scenario, collector)) == set()


def test_orphaned_dependents_stay_and_lose_the_reference() -> None:
    async def scenario(server: FakeServer) -> None:
        a = await make(server, "a")
        await make(server, "b", a)
        await passes(1)
        await server.delete(f"{CM}/a", {"propagationPolicy": "Orphan"})
        await passes(1)

    server = play(scenario, collector)
    assert names(server) == {"b"}
    assert "ownerReferences" not in server.all("configmaps")[0]["metadata"]


def test_an_object_with_two_owners_goes_with_the_last() -> None:
    async def scenario(server: FakeServer) -> None:
        a, b = await make(server, "a"), await make(server, "b")
        await make(server, "c", a, b)
        await passes(1)
        await server.delete(f"{CM}/a", {"propagationPolicy": "Background"})
        await passes(1)
        child = server.find(f"{CM}/c")
        assert child is not None
        assert [ref["name"] for ref in child["metadata"]["ownerReferences"]] == ["b"]
        await server.delete(f"{CM}/b", {"propagationPolicy": "Background"})
        await passes(1)

    assert names(play(scenario, collector)) == set()


def test_a_dangling_owner_is_looked_up_and_counts_as_absent() -> None:
    async def scenario(server: FakeServer) -> None:
        ghost = {"metadata": {"name": "never", "uid": "00000000"}}
        await make(server, "a", ghost)
        await passes(1)

    assert names(play(scenario, collector)) == set()


def test_an_owner_of_another_namespace_counts_as_absent() -> None:
    async def scenario(server: FakeServer) -> None:
        there = await make(server, "there", path="/api/v1/namespaces/elsewhere/configmaps")
        await make(server, "here", there)
        await passes(1)

    assert names(play(scenario, collector)) == {"there"}


def test_a_recreated_owner_of_the_same_name_is_another_owner() -> None:
    async def scenario(server: FakeServer) -> None:
        a = await make(server, "a")
        await make(server, "b", a)
        await passes(1)
        await server.delete(f"{CM}/a")
        await make(server, "a")
        await passes(1)

    assert names(play(scenario, collector)) == {"a"}


def test_objects_of_a_crd_that_comes_later_are_collected_too() -> None:
    async def scenario(server: FakeServer) -> None:
        await passes(1)
        server.served["test.io/v1"] = ["gangs"]
        crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        await server.create(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            {
                **crd,
                "metadata": {"name": "gangs.test.io"},
                "spec": {"versions": [{"name": "v1", "served": True}]},
                "status": {"conditions": [{"type": "Established", "status": "True"}]},
            },
        )
        await passes(1)
        path = "/apis/test.io/v1/namespaces/default/gangs"
        body = {"apiVersion": "test.io/v1", "kind": "Gang", "metadata": {"name": "g"}}
        owner = await server.create(path, body)
        await make(server, "child", owner)
        await passes(1)
        assert names(server) == {"child"}
        await server.delete(f"{path}/g")
        await passes(1)

    assert names(play(scenario, collector)) == set()


def test_a_kind_that_nobody_serves_keeps_its_dependents() -> None:
    async def scenario(server: FakeServer) -> None:
        owner = {"apiVersion": "no.io/v1", "kind": "Nothing", "metadata": {"name": "x", "uid": "u"}}
        await make(server, "a", owner)
        await passes(60)

    assert names(play(scenario, collector)) == {"a"}


def test_deleting_one_owner_among_many_objects_costs_only_its_dependents() -> None:
    async def scenario(server: FakeServer) -> None:
        owners = [await make(server, f"o{i}") for i in range(50)]
        for i in range(1000):
            await make(server, f"c{i}", owners[i % 50])
        await passes(1)
        server.writes.clear()
        await server.delete(f"{CM}/o7", {"propagationPolicy": "Background"})
        await passes(1)

    server = play(scenario, collector)
    assert len(server.writes) == 21
    assert len(names(server)) == 1050 - 21


def test_collection_survives_refusals_and_broken_watches() -> None:
    from grove.embedded.errors import ApiError

    async def scenario(server: FakeServer) -> None:
        a = await make(server, "a")
        for i in range(10):
            await make(server, f"c{i}", a)
        await passes(1)
        faults = [ApiError(409, "Conflict", "no"), ApiError(500, "InternalError", "no")] * 5
        server.refuse = lambda verb, path: (
            faults.pop() if verb == "delete" and "configmaps/c" in path and faults else None
        )
        server.compact()
        await server.delete(f"{CM}/a", {"propagationPolicy": "Background"})
        await passes(30)

    assert names(play(scenario, collector)) == set()


def test_a_deleted_namespace_is_emptied_and_released() -> None:
    async def scenario(server: FakeServer) -> None:
        await server.create("/api/v1/namespaces", {"metadata": {"name": "ns"}})
        await make(server, "a", path="/api/v1/namespaces/ns/configmaps", finalizers=["test/hold"])
        await make(server, "b", path="/api/v1/namespaces/ns/configmaps")
        await make(server, "elsewhere")
        await server.delete("/api/v1/namespaces/ns")
        await passes(5)
        ns = server.find("/api/v1/namespaces/ns")
        assert ns is not None
        assert ns["status"]["phase"] == "Terminating"
        told = {c["type"]: c for c in ns["status"]["conditions"]}
        assert "test/hold in 1 resource instances" in told["NamespaceFinalizersRemaining"]["message"]
        assert names(server) == {"a", "elsewhere"}
        await server.patch("/api/v1/namespaces/ns/configmaps/a", {"metadata": {"finalizers": None}})
        await passes(20)

    server = play(scenario, lambda s: NamespaceDeleter(s, CLOCK))
    assert server.find("/api/v1/namespaces/ns") is None
    assert names(server) == {"elsewhere"}


def test_a_deleted_podgroup_goes_when_its_last_pod_has_ended() -> None:
    async def scenario(server: FakeServer) -> None:
        path = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
        body = {"metadata": {"name": "g", "finalizers": [FINALIZER]}, "spec": {}}
        await server.create(path, body)
        pods = "/api/v1/namespaces/default/pods"
        await server.create(pods, pod("a", schedulingGroup={"podGroupName": "g"}))
        await server.create(pods, pod("b", schedulingGroup={"podGroupName": "g"}))
        await passes(1)
        await server.delete(f"{path}/g")
        await server.delete(f"{pods}/a")
        await passes(1)
        assert server.find(f"{path}/g") is not None
        await server.patch(f"{pods}/b/status", {"status": {"phase": "Succeeded"}})
        await passes(1)

    server = play(scenario, lambda s: PodGroupProtection(s, CLOCK, minor="1.36"))
    assert server.all("podgroups", "scheduling.k8s.io") == []
