"""The life of nodes: every Node object is played, also one that a user made with kubectl.

Fills in what a kubelet would report (capacity, addresses, Ready), renews leases now and then, and plays the
loss of a node: with the annotation `embedded.grove.io/lost: "true"`, or when somebody sets its Ready
condition to False or Unknown, its pods become unready and are evicted after their toleration; when the Node
object goes, its pods go. Never touches pods of healthy nodes.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from grove.embedded.actors.mirror import Mirrors
from grove.embedded.actors.objects import (
    LEASES,
    NODES,
    PODS,
    STRATEGIC,
    Key,
    annotations_of,
    condition,
    is_absent,
    is_deleting,
    is_terminal,
    key_of,
    labels_of,
    node_of,
    uid_of,
)
from grove.embedded.actors.work import Work
from grove.embedded.clock import Clock, parse_rfc3339, rfc3339, rfc3339_micro
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import ActorClient

LOST = "embedded.grove.io/lost"
OUR_MARK = "Kubelet stopped posting node status."
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
LEASE_NAMESPACE = "kube-node-lease"
ORPHAN_SECONDS = 40.0
"""How long a pod may be on a node that never registered."""


@dataclass(frozen=True, slots=True)
class NodeOptions:
    capacity: dict[str, str] = field(
        default_factory=lambda: {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    )
    """What a node has that does not say it itself."""
    eviction_seconds: float = 300.0
    """How long pods without a toleration of their own stay on a lost node."""
    heartbeat_seconds: float = 300.0
    """How often leases are renewed; 0 never."""
    version: str = "v1.36.0-embedded"


def is_lost(node: Manifest) -> bool:
    """Nobody runs this node: by annotation, or because somebody else said that it is not ready."""
    if annotations_of(node).get(LOST, "").lower() == "true":
        return True
    ready = condition(node, "Ready")
    return ready.get("status") in ("False", "Unknown") and ready.get("message") != OUR_MARK


def address_of(node: Manifest) -> str:
    for address in (node.get("status") or {}).get("addresses") or ():
        if address.get("type") == "InternalIP":
            return str(address["address"])
    return "127.0.0.1"


class NodeKeeper:
    """Runs until cancelled."""

    def __init__(
        self,
        client: ActorClient,
        clock: Clock,
        *,
        mirrors: Mirrors | None = None,
        options: NodeOptions | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._options = options or NodeOptions()
        self._own_mirrors = None if mirrors else Mirrors(client)
        self._mirrors = mirrors or self._own_mirrors or Mirrors(client)
        self._on_node: dict[str, dict[Key, None]] = {}
        self._count = 0
        self._beats: dict[str, float] = {}
        self._lost_since: dict[str, str] = {}
        self._seen: set[str] = set()
        self._missed_since: dict[str, datetime] = {}
        self._work: Work[str] = Work("nodes", self._step, workers=8)

    async def run(self) -> None:
        try:
            self._nodes = self._mirrors.of(NODES)
            self._pods = self._mirrors.of(PODS)
            # Nodes first: a pod on a node that we have not listed yet is no orphan.
            await self._mirrors.synced(NODES)
            self._nodes.subscribe(self._node_changed)
            self._pods.subscribe(self._pod_changed)
            await self._work.run()
        finally:
            if self._own_mirrors:
                await self._own_mirrors.close()

    def _node_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        node = new or old
        assert node is not None
        self._work.add(node["metadata"]["name"])

    def _pod_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        pod = new or old
        assert pod is not None
        name = node_of(pod)
        if not name:
            return
        pods = self._on_node.setdefault(name, {})
        if new is None:
            pods.pop(key_of(pod), None)
            if not pods:
                del self._on_node[name]
            return
        is_new = key_of(pod) not in pods
        pods[key_of(pod)] = None
        node = self._nodes.get(("", name))
        if is_new and (node is None or is_lost(node)):
            self._work.add(name)

    async def _step(self, name: str) -> float | None:
        node = self._nodes.get(("", name))
        if node is None:
            return await self._miss(name)
        self._seen.add(name)
        self._missed_since.pop(name, None)
        if is_lost(node):
            return await self._lose(node)
        self._lost_since.pop(name, None)
        await self._keep(node)
        return await self._heartbeat(node)

    async def _miss(self, name: str) -> float | None:
        """A node that was deleted goes with its pods; one that nobody has seen yet may still register."""
        if name not in self._seen:
            since = self._missed_since.setdefault(name, self._clock.now())
            left = ORPHAN_SECONDS - (self._clock.now() - since).total_seconds()
            if left > 0:
                return left
        await self._bury(name)
        return None

    async def _bury(self, name: str) -> None:
        """The node is gone, and with it everything that ran there."""
        self._beats.pop(name, None)
        self._lost_since.pop(name, None)
        self._missed_since.pop(name, None)
        self._seen.discard(name)
        for pod in list(self._pods_on(name)):
            phase = {} if is_terminal(pod) else {"phase": "Failed"}
            await self._say_disrupted(pod, "DeletionByPodGC", "PodGC: node no longer exists", **phase)
            await self._delete(pod, {"gracePeriodSeconds": 0})
        try:
            await self._client.delete(LEASES.path((LEASE_NAMESPACE, name)))
        except ApiError as error:
            if not is_absent(error):
                raise

    async def _keep(self, node: Manifest) -> None:
        meta, status = node["metadata"], node.get("status") or {}
        labels = {
            "kubernetes.io/hostname": meta["name"],
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
        }
        missing = {name: value for name, value in labels.items() if name not in labels_of(node)}
        taints = (node.get("spec") or {}).get("taints") or []
        kept = [taint for taint in taints if taint.get("key") not in (NOT_READY, UNREACHABLE)]
        report = self._report(node, status)
        if report:
            await self._client.patch(
                NODES.path(("", meta["name"]), "status"), {"status": report}, content_type=STRATEGIC
            )
        if missing or len(kept) != len(taints):
            patch: Manifest = {"metadata": {"labels": missing}} if missing else {}
            if len(kept) != len(taints):
                patch["spec"] = {"taints": kept or None}
            await self._client.patch(NODES.path(("", meta["name"])), patch)

    def _report(self, node: Manifest, status: Manifest) -> Manifest:
        report: Manifest = {}
        capacity = status.get("capacity") or status.get("allocatable") or self._options.capacity
        if not status.get("capacity"):
            report["capacity"] = capacity
        if not status.get("allocatable"):
            report["allocatable"] = capacity
        if not status.get("addresses"):
            self._count += 1
            address = f"172.16.{self._count // 250 % 250}.{self._count % 250 + 1}"
            report["addresses"] = [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": node["metadata"]["name"]},
            ]
        if not (status.get("nodeInfo") or {}).get("kubeletVersion"):
            report["nodeInfo"] = self._machine()
        if condition(node, "Ready").get("status") != "True":
            ready = self._condition("Ready", "True", "KubeletReady", "kubelet is posting ready status")
            report["conditions"] = [ready]
        return report

    def _machine(self) -> Manifest:
        names = ("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion")
        machine = dict.fromkeys(names, "embedded")
        machine |= {"kubeletVersion": self._options.version, "kubeProxyVersion": ""}
        return machine | {"operatingSystem": "linux", "architecture": "amd64"}

    async def _heartbeat(self, node: Manifest) -> float | None:
        if self._options.heartbeat_seconds <= 0:
            return None
        name = node["metadata"]["name"]
        time = asyncio.get_running_loop().time()
        rest = self._beats.get(name, -math.inf) + self._options.heartbeat_seconds - time
        if rest > 0:
            return rest
        self._beats[name] = time
        now = rfc3339_micro(self._clock.now())
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now}
        lease = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": {"name": name}, "spec": spec}
        try:
            await self._client.patch(LEASES.path((LEASE_NAMESPACE, name)), {"spec": {"renewTime": now}})
        except ApiError as error:
            if not is_absent(error):
                raise
            await self._try_create(lease)
        return self._options.heartbeat_seconds

    async def _try_create(self, lease: Manifest) -> None:
        try:
            await self._client.create(LEASES.collection(LEASE_NAMESPACE), lease)
        except ApiError as error:
            # Without that namespace there is nobody who would read the lease.
            if error.status not in (403, 404, 409):
                raise

    async def _lose(self, node: Manifest) -> float | None:
        ready = condition(node, "Ready")
        name = node["metadata"]["name"]
        if ready.get("status") not in ("False", "Unknown"):
            ready = self._condition("Ready", "Unknown", "NodeStatusUnknown", OUR_MARK)
            await self._client.patch(
                NODES.path(("", name), "status"), {"status": {"conditions": [ready]}}, content_type=STRATEGIC
            )
        taint = UNREACHABLE if ready["status"] == "Unknown" else NOT_READY
        await self._taint(node, taint)
        # Whoever set the condition may have left out the time: then it counts from our first look.
        noticed = self._lost_since.setdefault(name, rfc3339(self._clock.now()))
        since = parse_rfc3339(ready.get("lastTransitionTime") or noticed)
        gone = (self._clock.now() - since).total_seconds()
        rests = []
        for pod in list(self._pods_on(name)):
            await self._unready(pod)
            patience = self._patience(pod, taint)
            if patience is None or is_deleting(pod) or is_terminal(pod):
                continue
            if patience <= gone:
                why = "Taint manager: deleting due to NoExecute taint"
                await self._say_disrupted(pod, "DeletionByTaintManager", why)
                await self._delete(pod, {})
            else:
                rests.append(patience - gone)
        return min(rests) if rests else None

    async def _taint(self, node: Manifest, key: str) -> None:
        taints = (node.get("spec") or {}).get("taints") or []
        if any(taint.get("key") == key for taint in taints):
            return
        now = rfc3339(self._clock.now())
        added = [{"key": key, "effect": "NoSchedule"}, {"key": key, "effect": "NoExecute", "timeAdded": now}]
        await self._client.patch(NODES.path(key_of(node)), {"spec": {"taints": [*taints, *added]}})

    def _patience(self, pod: Manifest, taint: str) -> float | None:
        """Seconds that the pod tolerates the loss; None for ever."""
        for toleration in pod["spec"].get("tolerations") or ():
            if toleration.get("key") in (taint, None, "") and toleration.get("effect") in (
                None,
                "",
                "NoExecute",
            ):
                seconds = toleration.get("tolerationSeconds")
                return None if seconds is None else float(seconds)
        return self._options.eviction_seconds

    async def _unready(self, pod: Manifest) -> None:
        if condition(pod, "Ready").get("status") != "True":
            return
        # Without a reason: by that it differs from what a kubelet would say.
        unready = {"type": "Ready", "status": "False", "lastTransitionTime": rfc3339(self._clock.now())}
        await self._patch_status(pod, {"conditions": [unready]})

    async def _say_disrupted(self, pod: Manifest, reason: str, message: str, **status: str) -> None:
        """Say on a pod that it goes, and why."""
        said = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": rfc3339(self._clock.now()),
        }
        await self._patch_status(pod, {**status, "conditions": [said]})

    async def _patch_status(self, pod: Manifest, status: Manifest) -> None:
        patch = {"metadata": {"uid": uid_of(pod)}, "status": status}
        try:
            await self._client.patch(PODS.path(key_of(pod), "status"), patch, content_type=STRATEGIC)
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    async def _delete(self, pod: Manifest, options: Manifest) -> None:
        guarded = {**options, "preconditions": {"uid": uid_of(pod)}}
        try:
            await self._client.delete(PODS.path(key_of(pod)), guarded)
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    def _pods_on(self, name: str) -> Iterator[Manifest]:
        for key in list(self._on_node.get(name, ())):
            pod = self._pods.get(key)
            if pod is not None:
                yield pod

    def _condition(self, kind: str, status: str, reason: str, message: str) -> Manifest:
        now = rfc3339(self._clock.now())
        return {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
