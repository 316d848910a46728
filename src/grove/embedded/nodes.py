"""The nodes that a fresh cluster has: labelled by zone and rack, with CPUs, memory and GPUs. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from grove.embedded.errors import Manifest

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
RACK = "topology.kubernetes.io/rack"
GPU = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class NodeShape:
    """What every node of the cluster offers, and how they are spread."""

    nodes: int = 4
    gpus: int = 8
    cpus: int = 64
    memory: str = "512Gi"
    pods: int = 110
    zones: int = 1
    racks: int = 2
    """Racks in the whole cluster; each lies within one zone."""


def node_objects(shape: NodeShape, *, version: str, now: str) -> list[Manifest]:
    return [_node(shape, index, version=version, now=now) for index in range(shape.nodes)]


def _node(shape: NodeShape, index: int, *, version: str, now: str) -> Manifest:
    name = f"node-{index}"
    labels = {
        HOSTNAME: name,
        ZONE: f"zone-{_share(index, shape.nodes, shape.zones)}",
        RACK: f"rack-{_share(index, shape.nodes, shape.racks)}",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    capacity = {"cpu": str(shape.cpus), "memory": shape.memory, "pods": str(shape.pods)}
    if shape.gpus:
        capacity[GPU] = str(shape.gpus)
        labels["nvidia.com/gpu.present"] = "true"
    high, low = divmod(index + 2, 250)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"podCIDR": f"10.{100 + high}.{low}.0/24"},
        "status": {
            "capacity": capacity,
            "allocatable": dict(capacity),
            "addresses": [
                {"type": "InternalIP", "address": f"192.168.{high}.{low}"},
                {"type": "Hostname", "address": name},
            ],
            "conditions": _conditions(now),
            "nodeInfo": _system(version),
        },
    }


def _share(index: int, nodes: int, parts: int) -> int:
    """Which of `parts` equal shares a node falls into; neighbours stay together."""
    return index * max(1, min(parts, nodes)) // nodes


def _conditions(now: str) -> list[Manifest]:
    rows = (
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    )
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        for kind, status, reason, message in rows
    ]


def _system(version: str) -> Manifest:
    return {
        "machineID": "",
        "systemUUID": "",
        "bootID": "",
        "kernelVersion": "simulated",
        "osImage": "simulated",
        "containerRuntimeVersion": "simulated://1",
        "kubeletVersion": version,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }
