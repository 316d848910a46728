"""What `kubectl get` shows."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.embedded.bare_cluster import (
    CRDS,
    EPOCH,
    GANGS,
    MAPS,
    PODS,
    config_map,
    gang,
    gang_crd,
    json_of,
    pod,
    send,
    with_cluster,
)

from grove.embedded.cluster import EmbeddedCluster
from grove.embedded.errors import Manifest
from grove.embedded.local import LocalClient
from grove.embedded.machinery.jsonpath import evaluate
from grove.embedded.server.columns import age, duration

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
DURATIONS = {
    0: "0s",
    119: "119s",
    120: "2m",
    150: "2m30s",
    3600: "60m",
    4 * 3600 + 60: "4h1m",
    200_000: "2d7h",
    900_000: "10d",
}


async def table(cluster: EmbeddedCluster, path: str, **query: str) -> Manifest:
    return json_of(await send(cluster, "GET", path, headers={"accept": TABLE}, query=query))


@pytest.mark.parametrize("seconds", DURATIONS)
def test_ages_are_written_as_kubectl_writes_them(seconds: int) -> None:
    assert duration(seconds) == DURATIONS[seconds]
    assert age("2026-01-01T00:00:00Z", EPOCH + timedelta(seconds=seconds)) == DURATIONS[seconds]


def init(name: str, state: Manifest, *, ready: bool = False) -> Manifest:
    return {"name": name, "state": state, "ready": ready, "started": "running" in state, "restartCount": 1}


RUNNING: Manifest = {"running": {}}
LATER: Manifest = {"waiting": {"reason": "PodInitializing"}}
DONE: Manifest = {"terminated": {"exitCode": 0, "reason": "Completed"}}
INITIALIZING = {
    "the first of three runs": ([init("a", RUNNING), init("b", LATER), init("d", LATER)], "0/2", "Init:0/3"),
    "the sidecar runs, and the third": (
        [init("a", DONE, ready=True), init("b", RUNNING, ready=True), init("d", RUNNING)],
        "1/2",
        "Init:2/3",
    ),
    "one crashes": (
        [init("a", {"waiting": {"reason": "CrashLoopBackOff"}}), init("b", LATER), init("d", LATER)],
        "0/2",
        "Init:CrashLoopBackOff",
    ),
    "one failed": (
        [init("a", {"terminated": {"exitCode": 3, "reason": "Error"}}), init("b", LATER), init("d", LATER)],
        "0/2",
        "Init:Error",
    ),
    "all are through": (
        [init("a", DONE, ready=True), init("b", RUNNING, ready=True), init("d", DONE, ready=True)],
        "1/2",
        "PodInitializing",
    ),
}


@pytest.mark.parametrize(("statuses", "ready", "want"), INITIALIZING.values(), ids=INITIALIZING)
def test_pods_show_how_far_their_init_containers_are(statuses: list[Manifest], ready: str, want: str) -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        containers = [{"name": name, "image": "i"} for name in "abd"]
        containers[1]["restartPolicy"] = "Always"
        await client.create(PODS, pod("p", nodeName="node-1", initContainers=containers))
        waiting = {"name": "c", "state": LATER, "ready": False, "restartCount": 0}
        images = {"image": "i", "imageID": "i"}
        status = {
            "phase": "Pending",
            "initContainerStatuses": [{**each, **images} for each in statuses],
            "containerStatuses": [{**waiting, **images}],
        }
        await client.patch(f"{PODS}/p/status", {"status": status})
        (row,) = (await table(cluster, PODS))["rows"]
        assert row["cells"][1:3] == [ready, want]

    with_cluster(body)


def test_pods_show_readiness_status_and_node() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(PODS, pod("gated", schedulingGates=[{"name": "a.b/c"}]))
        await client.create(PODS, pod("up", nodeName="node-1"))
        ready = {"name": "c", "ready": True, "restartCount": 2, "image": "x", "imageID": "x"}
        status = {"phase": "Running", "podIP": "10.0.0.9", "containerStatuses": [ready]}
        await client.patch(f"{PODS}/up/status", {"status": status})
        shown = await table(cluster, PODS)
        names = [column["name"] for column in shown["columnDefinitions"]]
        assert names[:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
        gated, up = (row["cells"] for row in shown["rows"])
        assert gated[:3] == ["gated", "0/1", "SchedulingGated"]
        assert up[:4] + up[5:7] == ["up", "1/1", "Running", "2", "10.0.0.9", "node-1"]

    with_cluster(body)


def test_custom_columns_come_from_the_crd() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(CRDS, gang_crd())
        await client.create(GANGS, gang("g"))
        conditions = [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]
        await client.patch(f"{GANGS}/g/status", {"status": {"conditions": conditions}})
        shown = await table(cluster, GANGS)
        assert [column["name"] for column in shown["columnDefinitions"]] == ["Name", "Min", "Ready", "Age"]
        assert shown["rows"][0]["cells"] == ["g", 2, "True", "0s"]

    with_cluster(body)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/nodes",
        "/api/v1/namespaces",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        "/api/v1/serviceaccounts",
    ],
)
def test_every_row_has_a_cell_for_every_column(path: str) -> None:
    async def body(cluster: EmbeddedCluster, _: LocalClient) -> None:
        shown = await table(cluster, path)
        assert shown["rows"]
        assert all(len(row["cells"]) == len(shown["columnDefinitions"]) for row in shown["rows"])

    with_cluster(body)


def test_rows_carry_metadata_or_the_object_or_nothing() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(MAPS, config_map("a"))
        kinds = [
            (await table(cluster, MAPS, includeObject=mode))["rows"][0] for mode in ("Metadata", "Object")
        ]
        assert [row["object"]["kind"] for row in kinds] == ["PartialObjectMetadata", "ConfigMap"]
        assert "object" not in (await table(cluster, MAPS, includeObject="None"))["rows"][0]

    with_cluster(body)


def test_metadata_only_lists_have_no_data() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(MAPS, config_map("a"))
        accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        listed = json_of(await send(cluster, "GET", MAPS, headers={"accept": accept}))
        assert listed["kind"] == "PartialObjectMetadataList"
        assert set(listed["items"][0]) == {"kind", "apiVersion", "metadata"}

    with_cluster(body)


PATHS: dict[str, list[object]] = {
    ".spec.count": [3],
    "{.spec.count}": [3],
    ".spec.list[1]": ["b"],
    ".spec.list[*]": ["a", "b"],
    ".metadata.labels['a.b/c']": ["d"],
    r".metadata.labels.a\.b/c": ["d"],
    '.items[?(@.type=="x")].value': [1],
    ".items[?(@.type!='x')].value": [2],
    ".nothing.here": [],
    "(((": [],
}


@pytest.mark.parametrize("path", PATHS)
def test_json_paths_find_what_printer_columns_need(path: str) -> None:
    obj = {
        "spec": {"count": 3, "list": ["a", "b"]},
        "metadata": {"labels": {"a.b/c": "d"}},
        "items": [{"type": "x", "value": 1}, {"type": "y", "value": 2}],
    }
    assert evaluate(path, obj) == PATHS[path]
