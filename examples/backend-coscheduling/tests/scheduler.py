"""A small kube-scheduler with the coscheduling plugin: enough to place gangs on the embedded cluster.

Acts only through the API. A PodGroup is placed when so many of its pods fit that minMember is reached; until
then none of its pods is bound, and each says why.
"""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from grove.api.kinds import PODS
from grove.kube.client import Client
from grove.meta import Key, Manifest, Resource, resource

from grove_coscheduling.backend import POD_GROUP_LABEL, PODGROUPS, SCHEDULER

NODES = resource("", "v1", "Node", namespaced=False)
GPU = "nvidia.com/gpu"
PAUSE_SECONDS = 0.5


@dataclass
class Cluster:
    """One look at the cluster: free GPUs by node, and the pods of each group."""

    free: dict[str, int]
    waiting: dict[Key, list[Manifest]] = field(default_factory=lambda: defaultdict(list))
    placed: dict[Key, int] = field(default_factory=lambda: defaultdict(int))


class Coscheduler:
    """Looks again and again, and places what can be placed."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def run(self) -> None:
        while True:
            await asyncio.sleep(PAUSE_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Decide once about every PodGroup, in the order of their names."""
        cluster = await self._see()
        for group in sorted(await self._all(PODGROUPS), key=_key):
            needed = int(group["spec"]["minMember"]) - cluster.placed[_key(group)]
            waiting = cluster.waiting[_key(group)]
            if not waiting:
                continue
            choice = _places(waiting, cluster.free)
            if len(choice) >= needed:
                for pod, node in choice:
                    cluster.free[node] -= _gpus(pod)
                    await self._bind(pod, node)
            else:
                message = f"optimistic rejection in PostFilter: {len(choice)} of {needed} pods fit"
                for pod in waiting:
                    await self._refuse(pod, message)

    async def _see(self) -> Cluster:
        nodes = await self._all(NODES)
        cluster = Cluster(
            {each["metadata"]["name"]: int(each["status"]["allocatable"].get(GPU, 0)) for each in nodes}
        )
        for pod in await self._all(PODS):
            node = pod["spec"].get("nodeName")
            group = Key(
                pod["metadata"]["namespace"], (pod["metadata"].get("labels") or {}).get(POD_GROUP_LABEL, "")
            )
            if node:
                cluster.free[node] = cluster.free.get(node, 0) - _gpus(pod)
                cluster.placed[group] += 1
            elif pod["spec"].get("schedulerName") == SCHEDULER and not pod["spec"].get("schedulingGates"):
                cluster.waiting[group].append(pod)
        return cluster

    async def _all(self, kind: Resource) -> list[Manifest]:
        return await self._client.list_all(kind, type=dict)

    async def _bind(self, pod: Manifest, node: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        meta = {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]}
        binding: Manifest = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        await self._client.create(resource("", "v1", "Binding"), binding)

    async def _refuse(self, pod: Manifest, message: str) -> None:
        condition: dict[str, Any] = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        said = {**condition, "message": message}
        if any(said.items() <= each.items() for each in pod["status"].get("conditions") or ()):
            return
        others = [each for each in pod["status"].get("conditions") or () if each["type"] != "PodScheduled"]
        await self._client.merge_patch(
            PODS, _key(pod), {"status": {"conditions": [*others, said]}}, subresource="status"
        )


def _places(pods: list[Manifest], free: dict[str, int]) -> list[tuple[Manifest, str]]:
    """Which pods fit where, the first node that has room."""
    left, found = dict(free), []
    for pod in pods:
        node = next((name for name in sorted(left) if left[name] >= _gpus(pod)), None)
        if node is not None:
            left[node] -= _gpus(pod)
            found.append((pod, node))
    return found


def _gpus(pod: Manifest) -> int:
    containers = pod["spec"]["containers"]
    return sum(int(((each.get("resources") or {}).get("requests") or {}).get(GPU, 0)) for each in containers)


def _key(item: Manifest) -> Key:
    return Key(item["metadata"]["namespace"], item["metadata"]["name"])
