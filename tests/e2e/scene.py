"""Where a scenario plays: a cluster with one scheduler, a user, a namespace of its own, and what the watches told.

The same on a real control plane and on the embedded cluster; only who builds it differs. Everything goes
through the API as a user's requests do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec
from tests.e2e.judges import Judge
from tests.e2e.ledger import Ledger
from tests.raw import raw

from grove.api import kinds, labels
from grove.errors import NotFound
from grove.kube.client import Client
from grove.meta import Key, Manifest, Resource, resource
from grove.testing import make

NODES: Final = resource("", "v1", "Node", namespaced=False)
NAMESPACES: Final = resource("", "v1", "Namespace", namespaced=False)
PRIORITY_CLASSES: Final = resource(
    "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False
)
RACK: Final = "topology.kubernetes.io/rack"
ZONE: Final = "topology.kubernetes.io/zone"
GPU: Final = "nvidia.com/gpu"


@dataclass
class Scene:
    """One scenario's stage; `patience` bounds every wait, in seconds."""

    judge: Judge
    namespace: str
    user: Client
    ledger: Ledger
    patience: float = 20.0
    #: Cluster-scoped objects that the scenario made, to be removed after it.
    made: list[tuple[Resource, str]] = field(default_factory=list)

    # What a user does

    async def apply(self, *manifests: Manifest) -> None:
        for manifest in manifests:
            kind = served(manifest)
            metadata = {key: manifest["metadata"][key] for key in _GIVEN if key in manifest["metadata"]}
            if kind.namespaced:
                metadata["namespace"] = self.namespace
            else:
                self.made.append((kind, metadata["name"]))
            await self.user.apply(
                kind, {**manifest, "metadata": metadata}, field_manager="kubectl", force=True
            )

    async def node(self, name: str, gpus: int = 8, **marks: str) -> None:
        """A node that is ready with one request; `rack` and `zone` become its topology labels.

        Whatever is in a rack is in a zone: some schedulers do not see a node that lacks a level.
        """
        if "rack" in marks:
            marks = {"zone": "z", **marks}
        found = {"kubernetes.io/hostname": name}
        found |= {{"rack": RACK, "zone": ZONE}[key]: value for key, value in marks.items()}
        size = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus)}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "plays along"}
        status = {"capacity": size, "allocatable": size, "conditions": [ready]}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": found}}
        self.made.append((NODES, name))
        await self.user.create(NODES, {**node, "status": status})

    async def nodes(self, count: int) -> None:
        for index in range(count):
            await self.node(f"node-{index}")

    async def scale(self, of: Resource, name: str, replicas: int) -> None:
        await self.user.merge_patch(
            of, Key(self.namespace, name), {"spec": {"replicas": replicas}}, subresource="scale"
        )

    async def edit(self, of: Resource, name: str, patch: Manifest) -> None:
        """A change by hand, under a person's name and not under the operator's."""
        await raw(
            self.user,
            "PATCH",
            of.path(self.namespace, name),
            query=[("fieldManager", "kubectl-edit")],
            body=msgspec.json.encode(patch),
            content_type="application/merge-patch+json",
        )

    async def delete(self, of: Resource, name: str) -> None:
        try:
            await self.user.delete(of, Key(self.namespace if of.namespaced else "", name))
        except NotFound:
            return

    # What a user sees

    def pods(self, gang: str = "") -> list[Manifest]:
        """The pods, of one gang or all, that are not on their way out."""
        return [
            pod
            for pod in self.ledger.all(kinds.PODS)
            if (not gang or pod["metadata"]["labels"].get(labels.POD_GANG) == gang)
            and not pod["metadata"].get("deletionTimestamp")
            and not holds_a_place(pod)
        ]

    def bound(self, gang: str = "") -> int:
        return sum(1 for pod in self.pods(gang) if pod["spec"].get("nodeName"))

    def running(self, gang: str, pods: int) -> bool:
        """Whether the gang's status says Running and so many of its pods do."""
        phases = [(pod.get("status") or {}).get("phase") for pod in self.pods(gang)]
        return self.phase(gang) == "Running" and phases == ["Running"] * pods

    def phase(self, gang: str) -> str:
        found = self.ledger.get(kinds.GANGS, gang)
        return str(((found or {}).get("status") or {}).get("phase", ""))

    def condition(self, of: Resource, name: str, type: str) -> Manifest:
        return condition_of(self.ledger.get(of, name), type)

    def said(self, gang: str) -> str:
        """Why a gang is not scheduled, in the words of its condition."""
        return str(self.condition(kinds.GANGS, gang, "Scheduled").get("message", ""))

    def waiting(self, gang: str) -> bool:
        found = self.condition(kinds.GANGS, gang, "Scheduled")
        return (found.get("status"), found.get("reason")) == ("False", "Unschedulable")

    def objects(self) -> list[tuple[Resource, Manifest]]:
        """The scheduler's objects of every kind."""
        return [(each, item) for each in self.judge.objects for item in self.ledger.all(each)]

    async def until(self, holds: Callable[[], bool], what: str, *, seconds: float | None = None) -> None:
        await self.ledger.until(holds, what, seconds=seconds or self.patience, tell=self.describe)

    async def until_running(self, gang: str, pods: int) -> None:
        await self.until(lambda: self.running(gang, pods), f"{gang} runs with {pods} pods")

    async def until_waiting(self, gang: str) -> str:
        await self.until(lambda: self.waiting(gang), f"{gang} says that it cannot be scheduled")
        return self.said(gang)

    def describe(self) -> str:
        """What a person would look at when a scenario fails."""
        lines = []
        for each in self.ledger.resources:
            for item in self.ledger.all(each):
                status, spec = item.get("status") or {}, item.get("spec") or {}
                told = [
                    f"{one['type']}={one['status']}/{one.get('reason', '')}: {one.get('message', '')}"
                    for one in status.get("conditions") or ()
                ]
                gates = [gate["name"] for gate in spec.get("schedulingGates") or ()]
                where = spec.get("nodeName", "-") if each == kinds.PODS else ""
                name, phase = item["metadata"]["name"], status.get("phase", "")
                lines.append(f"{each.kind} {name} {phase} {where} {gates or ''} {' | '.join(told)}")
        return "\n".join(lines)


def holds_a_place(pod: Manifest) -> bool:
    """Whether a pod is YuniKorn's own, which keeps the place of one of ours."""
    marks = pod["metadata"].get("annotations") or {}
    return marks.get("internal.yunikorn.apache.org/placeholder") == "true"


_GIVEN = ("name", "labels", "annotations")
_CLUSTER_WIDE = {
    "ClusterRole": resource("rbac.authorization.k8s.io", "v1", "ClusterRole", namespaced=False),
    "ClusterRoleBinding": resource("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", namespaced=False),
    "ClusterTopologyBinding": kinds.TOPOLOGY_BINDINGS,
    "ClusterNetworkTopology": resource(
        "scheduling.koordinator.sh",
        "v1alpha1",
        "ClusterNetworkTopology",
        "clusternetworktopologies",
        namespaced=False,
    ),
    "PriorityClass": PRIORITY_CLASSES,
    "DeviceClass": resource("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", namespaced=False),
    "ResourceSlice": resource("resource.k8s.io", "v1", "ResourceSlice", namespaced=False),
}


def served(manifest: Manifest) -> Resource:
    kind = str(manifest["kind"])
    if kind in _CLUSTER_WIDE:
        return _CLUSTER_WIDE[kind]
    group, _, version = str(manifest["apiVersion"]).rpartition("/")
    return resource(group, version, kind)


def condition_of(item: Manifest | None, type: str) -> Manifest:
    """A condition of any object; empty when it has none of this type."""
    listed = ((item or {}).get("status") or {}).get("conditions") or ()
    return next((each for each in listed if each["type"] == type), {})


def gates_of(pod: Manifest) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


def role(
    name: str, replicas: int, *, gpus: int = 8, pod: Manifest | None = None, **fields: object
) -> Manifest:
    """A role whose pods take so many GPUs each: one fills a node unless told otherwise."""
    container = {
        "name": "main",
        "image": "registry.example/serve:1",
        "resources": {"limits": {GPU: str(gpus)}},
    }
    beside = {key: fields.pop(key) for key in ("topologyConstraint",) if key in fields}
    made = make.template(name, replicas, pod={"containers": [container], **(pod or {})}, **beside)
    made["spec"].update(fields)
    return made


def slow(name: str, replicas: int, seconds: int) -> Manifest:
    """A role whose pods take so long to end: the simulated kubelets are told by an annotation."""
    return {**role(name, replicas), "annotations": {"embedded.grove.io/shutdown": f"{seconds}s"}}


def train(*roles: Manifest, name: str = "train", replicas: int = 1, **template: object) -> Manifest:
    """A set; three workers that fill a node each unless roles are given."""
    return make.cliqueset_manifest(
        name, list(roles) or [role("worker", 3)], replicas=replicas, template=dict(template)
    )


def packed(domain: str) -> Manifest:
    """A topology constraint that must hold."""
    return {"topologyName": "cluster", "pack": {"required": domain}}


def topology(**levels: str) -> Manifest:
    """A binding named `cluster` whose domains are the keywords."""
    listed = [{"domain": domain, "key": key} for domain, key in levels.items()]
    return make.object_manifest(kinds.TOPOLOGY_BINDINGS, "cluster", {"levels": listed})


def reason_class(text: str) -> str:
    """What kind of reason a sentence gives: the schedulers' words differ, what they mean must not."""
    if not text:
        return "none"
    for name, pattern in (
        ("capacity", r"insufficient|not enough|too few|didn't have enough|no share left|no node has room"),
        ("node selector", r"affinity|selector"),
        ("topology", r"placement|topology|domain|rack"),
        ("waiting", r"wait|gate"),
    ):
        if re.search(pattern, text, re.IGNORECASE):
            return name
    return "other"
