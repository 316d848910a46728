"""`grove up --control-plane kubeconfig`: a cluster that is already there gets what was asked for, no more."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from grove.cli.guests import GuestClient, OnlyNodes
from grove.cli.playing import PLAYED, playing_guests
from grove.cli.talk import Failed
from grove.embedded.cluster import ClusterOptions, EmbeddedCluster
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import LocalClient
from grove.embedded.nodes import NodeShape
from grove.kube.config import load
from grove.kube.transport import HttpTransport

from .conftest import Grove
from .processes import kubectl, started

GUEST = ("up", "--control-plane", "kubeconfig")
PODS = "/api/v1/namespaces/default/pods"


def pod(name: str, node: str) -> Manifest:
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "pause"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def until_running(client: LocalClient, name: str) -> None:
    async with aclosing(client.watch(PODS, resourceVersion="0")) as events:
        async for event in events:
            seen = event["object"]
            if seen["metadata"]["name"] == name and seen["status"]["phase"] == "Running":
                return


def in_cluster_of_others(folder: Path, check: Callable[[LocalClient, GuestClient], Awaitable[None]]) -> None:
    """Run a check against a cluster with one node and nobody who plays it."""

    async def main() -> None:
        options = ClusterOptions(nodes=1, actors=False)
        async with EmbeddedCluster(options) as cluster:
            cluster.kubeconfig(folder / "kubeconfig")
            transport = HttpTransport(load(str(folder / "kubeconfig")))
            try:
                await asyncio.wait_for(
                    check(cluster.client(), GuestClient(transport, agent="test")), timeout=30
                )
            finally:
                await transport.close()

    asyncio.run(main())


def test_only_pods_on_our_own_nodes_are_played_and_our_nodes_go_again(tmp_path: Path) -> None:
    async def check(admin: LocalClient, guest: GuestClient) -> None:
        theirs = await admin.create(PODS, pod("theirs", "node-0"))
        lost = await admin.create(PODS, pod("lost", "never-registered"))
        node = await admin.get("/api/v1/nodes/node-0")
        async with playing_guests(guest, NodeShape(nodes=2), version="v1.36.0"):
            names = {each["metadata"]["name"] for each in (await admin.list("/api/v1/nodes"))["items"]}
            assert names == {"node-0", "grove-node-0", "grove-node-1"}
            await admin.create(PODS, pod("ours", "grove-node-1"))
            await until_running(admin, "ours")
        assert await admin.get(f"{PODS}/theirs") == theirs
        assert await admin.get(f"{PODS}/lost") == lost
        assert await admin.get("/api/v1/nodes/node-0") == node
        assert len((await admin.list("/api/v1/nodes"))["items"]) == 1

    in_cluster_of_others(tmp_path, check)


def test_a_node_of_that_name_that_is_not_ours_stays_and_nothing_is_played(tmp_path: Path) -> None:
    async def check(admin: LocalClient, guest: GuestClient) -> None:
        precious = await admin.create("/api/v1/nodes", {"metadata": {"name": "grove-node-1"}})
        with pytest.raises(Failed, match="'grove-node-1' that grove did not make"):
            async with playing_guests(guest, NodeShape(nodes=2), version="v1.36.0"):
                raise AssertionError("it must not start")
        names = [each["metadata"]["name"] for each in (await admin.list("/api/v1/nodes"))["items"]]
        assert sorted(names) == ["grove-node-1", "node-0"]
        assert await admin.get("/api/v1/nodes/grove-node-1") == precious

    in_cluster_of_others(tmp_path, check)


def test_a_player_sees_no_other_nodes_and_no_pods_but_those_on_its_own(tmp_path: Path) -> None:
    """A pod on a node that was never seen would be taken for an orphan, and removed."""

    async def check(admin: LocalClient, guest: GuestClient) -> None:
        for name, node in (("theirs", "node-0"), ("lost", "never-registered"), ("ours", "grove-node-0")):
            await admin.create(PODS, pod(name, node))
        only = OnlyNodes(guest, {"grove-node-0"})
        assert (await only.list("/api/v1/nodes"))["items"] == []
        page = await only.list("/api/v1/pods")
        assert [each["metadata"]["name"] for each in page["items"]] == ["ours"]
        async with aclosing(only.watch("/api/v1/pods", resourceVersion="0")) as events:
            first = await anext(events)
        assert first["object"]["metadata"]["name"] == "ours"

    in_cluster_of_others(tmp_path, check)


def test_a_player_cannot_write_to_a_node_that_is_not_its_own(tmp_path: Path) -> None:
    async def check(admin: LocalClient, guest: GuestClient) -> None:
        before = await admin.get("/api/v1/nodes/node-0")
        only = OnlyNodes(guest, {"grove-node-0"})
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        for forbidden in (
            only.patch("/api/v1/nodes/node-0", {"metadata": {"labels": {"a": "b"}}}),
            only.patch("/api/v1/nodes/node-0/status", {"status": {}}),
            only.delete("/api/v1/nodes/node-0"),
            only.delete("/api/v1/nodes"),
            only.create(leases, {"metadata": {"name": "node-0"}}),
        ):
            with pytest.raises(ApiError, match="outside what the node simulator may touch"):
                await forbidden
        assert await admin.get("/api/v1/nodes/node-0") == before

    in_cluster_of_others(tmp_path, check)


def test_the_operator_works_in_the_cluster_and_says_what_it_lacks(tmp_path: Path, examples: Path) -> None:
    theirs = tmp_path / "theirs"
    with started("up", "--no-operator", "--write-kubeconfig", str(theirs), folder=tmp_path) as cluster:
        assert cluster.output.readline(), cluster.said
        kubectl(theirs, "delete", "crd", "bindrequests.scheduling.run.ai")
        guest = tmp_path / "guest"
        guest.mkdir()
        with started(*GUEST, "--kubeconfig", str(theirs), folder=guest) as process:
            assert process.output.readline() == f"export KUBECONFIG={theirs}\n", process.said
            kubectl(theirs, "apply", "-f", str(examples / "disaggregated.yaml"))
            ready = "--for=jsonpath={.status.availableReplicas}=1"
            kubectl(theirs, "wait", "podcliqueset/disaggregated", ready, "--timeout=30s")
            assert "scheduler kai: the cluster does not serve bindrequests.scheduling.run.ai" in process.said
            nodes = json.loads(kubectl(theirs, "get", "nodes", "-o", "json"))["items"]
            assert len(nodes) == 4
            assert not any(PLAYED in each["metadata"]["labels"] for each in nodes)
            assert process.ask_to_stop() == 0
        assert theirs.exists()
        assert cluster.ask_to_stop() == 0


def test_crds_are_installed_only_when_asked_for(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    with started("up", "--no-operator", "--write-kubeconfig", str(theirs), folder=tmp_path) as cluster:
        assert cluster.output.readline(), cluster.said
        kubectl(theirs, "delete", "crd", "--all")
        guest = tmp_path / "guest"
        guest.mkdir()
        with started(*GUEST, "--kubeconfig", str(theirs), folder=guest) as process:
            assert process.end() == 1
            assert "does not serve podcliquesets.grove.io" in process.said
            assert "--install-crds" in process.said
        assert kubectl(theirs, "get", "crds", "-o", "name") == ""
        with started(*GUEST, "--kubeconfig", str(theirs), "--install-crds", folder=guest) as process:
            assert process.output.readline(), process.said
            assert "podcliquesets.grove.io" in kubectl(theirs, "get", "crds", "-o", "name")
            assert "run.ai" not in kubectl(theirs, "get", "crds", "-o", "name")
            assert process.ask_to_stop() == 0
        assert cluster.ask_to_stop() == 0


def test_an_operator_that_leads_there_is_not_disturbed(tmp_path: Path, grove: Grove) -> None:
    theirs = tmp_path / "theirs"
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "grove-operator-leader-election", "namespace": "kube-system"},
        "spec": {
            "holderIdentity": "grove-7f9c",
            "leaseDurationSeconds": 600,
            "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        },
    }
    (tmp_path / "lease.json").write_text(json.dumps(lease))
    with started("up", "--no-operator", "--write-kubeconfig", str(theirs), folder=tmp_path) as cluster:
        assert cluster.output.readline(), cluster.said
        kubectl(theirs, "create", "-f", str(tmp_path / "lease.json"))
        ran = grove(*GUEST, "--kubeconfig", str(theirs))
        assert cluster.ask_to_stop() == 0
    assert (ran.code, ran.out) == (1, "")
    assert "grove: the operator 'grove-7f9c' is running in this cluster (Lease kube-system/" in ran.err


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ((*GUEST, "--nodes", "3"), "--nodes would change nothing"),
        ((*GUEST, "--gpus", "3"), "--gpus would change nothing"),
        ((*GUEST, "--play-nodes"), "give their number with --nodes"),
        ((*GUEST, "--data-dir", "x"), "--data-dir has no meaning"),
        (("up", "--play-nodes"), "--play-nodes goes with --control-plane kubeconfig only"),
        (("up", "--control-plane", "real", "--context", "x"), "--context goes with"),
    ],
    ids=lambda value: " ".join(value[1:]) if isinstance(value, tuple) else "",
)
def test_options_that_would_have_no_effect_are_wrong_usage(
    grove: Grove, arguments: tuple[str, ...], want: str
) -> None:
    ran = grove(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert want in " ".join(ran.err.split())
