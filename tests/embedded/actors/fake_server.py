"""A small in-memory API server for testing actors on their own: the verbs of `ActorClient`, no schemas, no HTTP.

It keeps what actors rely on: resource versions, uids, watches, finalizers, graceful deletion of bound pods,
bindings, merge patches, discovery. It also breaks watches on demand.
"""

from __future__ import annotations

import asyncio
import builtins
import copy
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from grove.embedded.clock import LoopClock, rfc3339
from grove.embedded.errors import ApiError, Manifest
from grove.testing.virtual_time import EPOCH, run_virtual

CORE = ["pods", "nodes", "namespaces", "events", "configmaps", "secrets", "services"]
CLUSTER_SCOPED = {
    "nodes",
    "namespaces",
    "customresourcedefinitions",
    "queues",
    "topologies",
    "hypernodes",
    "clusternetworktopologies",
    "priorityclasses",
}
KINDS = {
    "pods": "Pod",
    "nodes": "Node",
    "namespaces": "Namespace",
    "events": "Event",
    "configmaps": "ConfigMap",
    "secrets": "Secret",
    "services": "Service",
    "workloads": "Workload",
    "podgroups": "PodGroup",
    "compositepodgroups": "CompositePodGroup",
    "queues": "Queue",
    "topologies": "Topology",
    "hypernodes": "HyperNode",
    "clusternetworktopologies": "ClusterNetworkTopology",
    "customresourcedefinitions": "CustomResourceDefinition",
    "leases": "Lease",
    "priorityclasses": "PriorityClass",
    "gangs": "Gang",
}
GROUPS = {
    "apiextensions.k8s.io/v1": ["customresourcedefinitions"],
    "coordination.k8s.io/v1": ["leases"],
    "scheduling.k8s.io/v1": ["priorityclasses"],
    "scheduling.k8s.io/v1alpha1": ["workloads"],
    "scheduling.k8s.io/v1alpha2": ["podgroups"],
    "scheduling.k8s.io/v1beta1": ["podgroups"],
    "scheduling.k8s.io/v1alpha3": ["compositepodgroups"],
}
SUBRESOURCES = {"status", "binding", "finalize", "eviction"}


@dataclass(frozen=True)
class Target:
    table: str
    """Group (or "core") and plural: all versions of a group share objects."""
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse(path: str) -> Target:
    parts = path.strip("/").split("/")
    group, rest = ("core", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in SUBRESOURCES:
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    return Target(f"{group}/{rest[0]}", namespace, name, rest[2] if len(rest) > 2 else "")


@dataclass
class Watcher:
    target: Target
    queue: asyncio.Queue[Manifest | None] = field(default_factory=asyncio.Queue)


class FakeServer:
    """Implements `ActorClient`; every write is remembered in `writes` as (verb, path)."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[tuple[str, str], Manifest]] = {}
        self.revision = 100
        self.served = {k: list(v) for k, v in GROUPS.items()}
        self.writes: list[tuple[str, str]] = []
        self.refuse: Callable[[str, str], ApiError | None] = lambda verb, path: None
        self.lists: list[str] = []
        self._history: list[tuple[int, str, Manifest]] = []
        self._oldest = 0
        self._watchers: list[Watcher] = []
        self._uid = 0

    # ActorClient

    async def get(self, path: str, **query: str) -> Manifest:
        if path in ("/api", "/apis") or path.count("/") <= 3:
            found = self._discovery(path)
            if found is not None:
                return found
        return copy.deepcopy(self._must(parse(path)))

    async def list(self, path: str, **query: str) -> Manifest:
        self.lists.append(path)
        self._check("list", path)
        target = self._served(parse(path))
        objects = self.tables.get(target.table, {})
        items = [copy.deepcopy(obj) for (ns, _), obj in objects.items() if target.namespace in ("", ns)]
        return {"metadata": {"resourceVersion": str(self.revision)}, "items": items}

    async def create(self, path: str, obj: Manifest, **query: str) -> Manifest:
        self._check("create", path)
        target = self._served(parse(path))
        if target.subresource == "binding":
            return self._bind(target, obj)
        obj = copy.deepcopy(obj)
        meta = obj.setdefault("metadata", {})
        if target.namespace:
            meta["namespace"] = target.namespace
        key = (target.namespace, meta["name"])
        if key in self.tables.get(target.table, {}):
            raise ApiError(409, "AlreadyExists", f"{meta['name']} already exists")
        self._uid += 1
        meta["uid"] = f"uid-{self._uid}"
        meta["creationTimestamp"] = rfc3339(LoopClock(EPOCH).now())
        if target.table == "core/pods":
            obj.setdefault("status", {"phase": "Pending"})
            obj["spec"].setdefault("schedulerName", "default-scheduler")
        if target.table == "core/namespaces":
            obj["spec"] = {"finalizers": ["kubernetes"]}
        return copy.deepcopy(self._put(target.table, key, obj, "ADDED"))

    async def update(self, path: str, obj: Manifest, **query: str) -> Manifest:
        self._check("update", path)
        target = self._served(parse(path))
        live = self._must(target)
        version = obj["metadata"].get("resourceVersion")
        if version and version != live["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "the object has been modified")
        new = copy.deepcopy(live)
        if target.subresource == "status":
            new["status"] = copy.deepcopy(obj.get("status"))
        else:
            new.update(copy.deepcopy({k: v for k, v in obj.items() if k != "metadata"}))
            for part in ("labels", "annotations", "finalizers", "ownerReferences"):
                new["metadata"].pop(part, None)
                if obj["metadata"].get(part):
                    new["metadata"][part] = copy.deepcopy(obj["metadata"][part])
        return self._replace(target, live, new)

    async def patch(
        self,
        path: str,
        patch: Manifest | builtins.list[Manifest],
        *,
        content_type: str = "application/merge-patch+json",
        **query: str,
    ) -> Manifest:
        self._check("patch", path)
        assert isinstance(patch, dict)
        target = self._served(parse(path))
        live = self._must(target)
        meta = patch.get("metadata") or {}
        for part in ("uid", "resourceVersion"):
            if meta.get(part) and meta[part] != live["metadata"][part]:
                raise ApiError(409, "Conflict", f"{part} does not match")
        new = merge(live, patch, by_type="strategic" in content_type)
        return self._replace(target, live, new)

    async def delete(self, path: str, body: Manifest | None = None, **query: str) -> Manifest:
        self._check("delete", path)
        target = self._served(parse(path))
        if not target.name:
            for ns, name in list(self.tables.get(target.table, {})):
                if target.namespace in ("", ns):
                    self._delete_one(Target(target.table, ns, name), body or {})
            return {"kind": "Status"}
        return self._delete_one(target, body or {})

    def watch(self, path: str, **query: str) -> AsyncIterator[Manifest]:
        return self._watch(self._served(parse(path)), int(query.get("resourceVersion") or "0"))

    # For tests

    def all(self, plural: str, group: str = "core") -> builtins.list[Manifest]:
        return list(self.tables.get(f"{group}/{plural}", {}).values())

    def find(self, path: str) -> Manifest | None:
        target = parse(path)
        return self.tables.get(target.table, {}).get((target.namespace, target.name))

    def drop_watches(self) -> None:
        """End every open watch cleanly, as a server does after its timeout."""
        for watcher in self._watchers:
            watcher.queue.put_nowait(None)

    def compact(self) -> None:
        """Forget all history: a watch from an older version is answered 410."""
        self._history.clear()
        self._oldest = self.revision
        self.drop_watches()

    # Inside

    async def _watch(self, target: Target, since: int) -> AsyncIterator[Manifest]:
        if since < self._oldest:
            yield {"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}}
            return
        watcher = Watcher(target)
        for revision, table, event in self._history:
            if revision > since and table == target.table:
                watcher.queue.put_nowait(event)
        self._watchers.append(watcher)
        try:
            while True:
                fresh = await watcher.queue.get()
                if fresh is None:
                    return
                yield copy.deepcopy(fresh)
        finally:
            self._watchers.remove(watcher)

    def _check(self, verb: str, path: str) -> None:
        if verb != "list":
            self.writes.append((verb, path))
        error = self.refuse(verb, path)
        if error is not None:
            raise error

    def _served(self, target: Target) -> Target:
        group, plural = target.table.split("/")
        plurals = set(CORE) if group == "core" else set()
        for version, names in self.served.items():
            plurals.update(names if version.split("/")[0] == group else ())
        if plural not in plurals:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        return target

    def _must(self, target: Target) -> Manifest:
        found = self.tables.get(target.table, {}).get((target.namespace, target.name))
        if found is None:
            raise ApiError(404, "NotFound", f"{target.name} not found")
        return found

    def _put(self, table: str, key: tuple[str, str], obj: Manifest, kind: str) -> Manifest:
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        objects = self.tables.setdefault(table, {})
        if kind == "DELETED":
            objects.pop(key, None)
        else:
            objects[key] = obj
        event = {"type": kind, "object": obj}
        self._history.append((self.revision, table, event))
        for watcher in self._watchers:
            if watcher.target.table == table:
                watcher.queue.put_nowait(event)
        return obj

    def _replace(self, target: Target, live: Manifest, new: Manifest) -> Manifest:
        key = (target.namespace, target.name)
        if new == live:
            return copy.deepcopy(live)
        ended = not new["metadata"].get("finalizers") and not (
            target.table == "core/namespaces" and new["spec"].get("finalizers")
        )
        bound = target.table == "core/pods" and new["metadata"].get("deletionGracePeriodSeconds")
        if new["metadata"].get("deletionTimestamp") and ended and not bound:
            return self._put(target.table, key, new, "DELETED")
        return copy.deepcopy(self._put(target.table, key, new, "MODIFIED"))

    def _bind(self, target: Target, binding: Manifest) -> Manifest:
        live = self._must(target)
        if live["spec"].get("nodeName") or live["spec"].get("schedulingGates"):
            raise ApiError(409, "Conflict", "pod is already assigned or gated")
        new = copy.deepcopy(live)
        new["spec"]["nodeName"] = binding["target"]["name"]
        bound = {"type": "PodScheduled", "status": "True"}
        new = merge(new, {"status": {"conditions": [bound]}}, by_type=True)
        self._put(target.table, (target.namespace, target.name), new, "MODIFIED")
        return {"kind": "Status"}

    def _delete_one(self, target: Target, options: Manifest) -> Manifest:
        live = self._must(target)
        wanted = options.get("preconditions") or {}
        for part in ("uid", "resourceVersion"):
            if wanted.get(part) and wanted[part] != live["metadata"][part]:
                raise ApiError(409, "Conflict", f"{part} does not match")
        new = copy.deepcopy(live)
        meta = new["metadata"]
        finalizers = list(meta.get("finalizers") or ())
        policy = options.get("propagationPolicy")
        for name in ("foregroundDeletion", "orphan"):
            if (policy or "").lower() == name.removesuffix("Deletion") and name not in finalizers:
                finalizers.append(name)
        if finalizers:
            meta["finalizers"] = finalizers
        grace = self._grace(target, new, options)
        waits = finalizers or grace or (target.table == "core/namespaces" and new["spec"].get("finalizers"))
        if not waits:
            return self._put(target.table, (target.namespace, target.name), new, "DELETED")
        meta.setdefault("deletionTimestamp", rfc3339(LoopClock(EPOCH).now()))
        if target.table == "core/pods":
            meta["deletionGracePeriodSeconds"] = grace
        if target.table == "core/namespaces":
            new.setdefault("status", {})["phase"] = "Terminating"
        return self._replace(target, live, new)

    def _grace(self, target: Target, pod: Manifest, options: Manifest) -> int:
        if target.table != "core/pods" or not pod["spec"].get("nodeName"):
            return 0
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return 0
        given = options.get("gracePeriodSeconds")
        return int(pod["spec"].get("terminationGracePeriodSeconds", 30) if given is None else given)

    def _discovery(self, path: str) -> Manifest | None:
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/api/v1":
            return {"kind": "APIResourceList", "groupVersion": "v1", "resources": rows(CORE)}
        if path == "/apis":
            groups: dict[str, list[str]] = {}
            for gv in self.served:
                groups.setdefault(gv.split("/")[0], []).append(gv)
            return {
                "groups": [
                    {"name": g, "versions": [{"groupVersion": v, "version": v.split("/")[1]} for v in vs]}
                    for g, vs in groups.items()
                ]
            }
        names = self.served.get(path.removeprefix("/apis/"))
        return None if names is None else {"groupVersion": path[6:], "resources": rows(names)}


def rows(plurals: list[str]) -> list[Manifest]:
    verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
    return [
        {"name": p, "kind": KINDS[p], "namespaced": p not in CLUSTER_SCOPED, "verbs": verbs} for p in plurals
    ]


def merge(live: Manifest, patch: Manifest, *, by_type: bool = False) -> Manifest:
    new = copy.deepcopy(live)
    for name, value in patch.items():
        if value is None:
            new.pop(name, None)
        elif isinstance(value, dict):
            base = new.get(name)
            new[name] = merge(base if isinstance(base, dict) else {}, value, by_type=by_type)
        elif name == "conditions" and by_type:
            fresh = {each["type"]: each for each in value}
            kept = [{**old, **fresh.pop(old["type"], {})} for old in new.get(name) or ()]
            new[name] = kept + copy.deepcopy(list(fresh.values()))
        else:
            new[name] = copy.deepcopy(value)
    return new


async def passes(seconds: float) -> None:
    """Let so much virtual time pass; everything that is due before is done."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()
    loop.call_later(seconds, over.set_result, None)
    await over


def play(
    scenario: Callable[[FakeServer], Coroutine[Any, Any, None]],
    *actors: Callable[[FakeServer], Any],
) -> FakeServer:
    """Run a scenario under virtual time next to the given actors, and hand back the server for assertions."""
    server = FakeServer()

    async def main() -> None:
        tasks = [asyncio.get_running_loop().create_task(actor(server).run()) for actor in actors]
        await passes(0.1)
        try:
            await scenario(server)
        finally:
            for task in tasks:
                if task.done() and not task.cancelled():
                    task.result()
                task.cancel()
            for task in tasks:
                with suppress(asyncio.CancelledError):
                    await task

    run_virtual(main)
    return server


CLOCK = LoopClock(EPOCH)
