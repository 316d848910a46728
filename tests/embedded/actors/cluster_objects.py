"""Builders of the few objects that the actors' tests need."""

from tests.embedded.actors.fake_server import FakeServer

from grove.embedded.errors import Manifest

GPU = "nvidia.com/gpu"


def node(name: str, *, cpu: str = "8", gpu: int = 0, labels: dict[str, str] | None = None) -> Manifest:
    allocatable = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
    if gpu:
        allocatable[GPU] = str(gpu)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def pod(name: str, *, cpu: str = "1", gpu: int = 0, gated: bool = False, **spec: object) -> Manifest:
    requests = {"cpu": cpu}
    if gpu:
        requests[GPU] = str(gpu)
    body: Manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": requests}}], **spec},
    }
    if gated:
        body["spec"]["schedulingGates"] = [{"name": "test"}]
    return body


async def add(server: FakeServer, *objects: Manifest, group: str = "") -> None:
    """Create objects at the path that their kind says."""
    plurals = {"Pod": "pods", "Node": "nodes", "PodGroup": "podgroups", "Workload": "workloads"}
    plurals |= {"CompositePodGroup": "compositepodgroups", "Queue": "queues", "Topology": "topologies"}
    for obj in objects:
        version = obj["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        plural = plurals[obj["kind"]]
        if obj["kind"] not in ("Node", "Queue", "Topology"):
            root += "/namespaces/default"
        await server.create(f"{root}/{plural}", obj)


def bound(server: FakeServer) -> dict[str, str]:
    """Pods that have a node."""
    return {
        p["metadata"]["name"]: p["spec"]["nodeName"] for p in server.all("pods") if p["spec"].get("nodeName")
    }


def scheduled_condition(server: FakeServer, name: str) -> Manifest:
    found = server.find(f"/api/v1/namespaces/default/pods/{name}")
    assert found is not None
    conditions = (found.get("status") or {}).get("conditions") or ()
    return next((c for c in conditions if c["type"] == "PodScheduled"), {})


async def ungate(server: FakeServer, name: str) -> None:
    await server.patch(f"/api/v1/namespaces/default/pods/{name}", {"spec": {"schedulingGates": None}})
