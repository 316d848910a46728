"""The whole cluster: what it starts with, and that its actors act."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.embedded.bare_cluster import BARE, PODS, pod, refusal, with_cluster

from grove.embedded.cluster import ClusterOptions, EmbeddedCluster
from grove.embedded.local import LocalClient


def test_a_fresh_cluster_is_furnished() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        namespaces = {n["metadata"]["name"] for n in (await client.list("/api/v1/namespaces"))["items"]}
        assert {"default", "kube-system", "kube-public"} <= namespaces
        assert await client.get("/api/v1/namespaces/default/serviceaccounts/default")
        classes = (await client.list("/apis/scheduling.k8s.io/v1/priorityclasses"))["items"]
        assert {c["metadata"]["name"] for c in classes} == {"system-cluster-critical", "system-node-critical"}

    with_cluster(body)


def test_nodes_are_spread_over_zones_and_racks() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        nodes = (await client.list("/api/v1/nodes"))["items"]
        places = [
            (
                node["metadata"]["labels"]["topology.kubernetes.io/zone"],
                node["metadata"]["labels"]["topology.kubernetes.io/rack"],
            )
            for node in nodes
        ]
        want = [("zone-0", "rack-0"), ("zone-0", "rack-1"), ("zone-1", "rack-2"), ("zone-1", "rack-3")]
        assert places == want
        assert nodes[0]["status"]["allocatable"]["nvidia.com/gpu"] == "4"

    with_cluster(body, replace(BARE, nodes=4, gpus=4, zones=2, racks=4))


@pytest.mark.parametrize("minor", ["1.35", "1.36", "1.37"])
def test_a_pod_is_scheduled_runs_and_goes_on_every_minor(minor: str) -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        made = await client.create(PODS, pod("p"))
        since = made["metadata"]["resourceVersion"]
        async for event in client.watch(PODS, resourceVersion=since, timeoutSeconds="600"):
            if event["object"]["status"]["phase"] == "Running":
                break
        running = await client.get(f"{PODS}/p")
        assert running["spec"]["nodeName"].startswith("node-")
        await client.delete(f"{PODS}/p")
        async for event in client.watch(PODS, resourceVersion=since, timeoutSeconds="600"):
            if event["type"] == "DELETED":
                break
        assert (await refusal(client.get(f"{PODS}/p"))).status == 404

    with_cluster(body, ClusterOptions(listen=False, kubernetes=minor, nodes=2))


def test_a_deleted_namespace_goes_with_everything_in_it() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await client.create("/api/v1/namespaces", {"metadata": {"name": "team"}})
        made = await client.create("/api/v1/namespaces/team/configmaps", {"metadata": {"name": "x"}})
        await client.delete("/api/v1/namespaces/team")
        since = made["metadata"]["resourceVersion"]
        query = {"resourceVersion": since, "fieldSelector": "metadata.name=team", "timeoutSeconds": "600"}
        async for event in client.watch("/api/v1/namespaces", **query):
            if event["type"] == "DELETED":
                break
        assert (await refusal(client.get("/api/v1/namespaces/team"))).status == 404
        assert (await refusal(client.get("/api/v1/namespaces/team/configmaps/x"))).status == 404

    with_cluster(body, ClusterOptions(listen=False, nodes=1))


def test_an_unknown_scheduler_is_refused_by_name() -> None:
    options = ClusterOptions(listen=False, schedulers=("magic",))

    async def body(_: EmbeddedCluster, __: LocalClient) -> None:
        raise AssertionError("it started")

    with pytest.raises(ValueError, match="magic"):
        with_cluster(body, options)
