"""What `kubectl drain` does to a node, through the API: cordon it, then evict what runs there until nothing does."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tests.scenarios.stories import key, uid_of, until_gone

from grove.api import kinds
from grove.embedded.errors import ApiError
from grove.meta import Manifest
from grove.testing.virtual_time import virtual_loop
from grove.testing.world import NODES, World

#: After so long kubectl asks again for an eviction that was refused.
AGAIN_SECONDS: Final = 5.0


@dataclass
class Drain:
    """What came of draining a node."""

    #: What the API server said to evictions that it refused.
    refused: list[str] = field(default_factory=list)
    #: Hostnames in the order in which their evictions were accepted.
    evicted: list[str] = field(default_factory=list)


async def cordon(world: World, node: str, *, closed: bool = True) -> None:
    await world.user.merge_patch(NODES, key(node, ""), {"spec": {"unschedulable": closed or None}})


async def evict(world: World, pod: Manifest) -> str:
    """Ask for one eviction; what the server said if it refused, empty if it did not."""
    name = pod["metadata"]["name"]
    path = f"/api/v1/namespaces/default/pods/{name}/eviction"
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": "default"},
        "deleteOptions": {"preconditions": {"uid": uid_of(pod)}},
    }
    try:
        answer = await world.cluster.client().create(path, body)
    except ApiError as error:
        if error.status == 404:
            return ""
        if (error.status, error.reason) != (429, "TooManyRequests"):
            raise
        return str((error.details or {})["causes"][0]["message"])
    assert answer["status"] == "Success", answer
    return ""


async def pods_on(world: World, node: str) -> list[Manifest]:
    return [pod for pod in await world.pods() if pod["spec"].get("nodeName") == node]


async def drain(world: World, node: str, *, seconds: float = 600) -> Drain:
    """Drain a node; gives up after a while, as `kubectl drain --timeout` does."""
    loop, done = virtual_loop(), Drain()
    deadline = loop.time() + seconds
    await cordon(world, node)
    # Like kubectl: what is there now is evicted, each by itself.
    await asyncio.gather(*(_until_gone(world, pod, done, deadline) for pod in await pods_on(world, node)))
    return done


async def _until_gone(world: World, pod: Manifest, done: Drain, deadline: float) -> None:
    loop = virtual_loop()
    while refusal := await evict(world, pod):
        done.refused.append(refusal)
        if loop.time() >= deadline:
            return
        await asyncio.sleep(AGAIN_SECONDS)
    done.evicted.append(pod["spec"]["hostname"])
    await until_gone(world, kinds.PODS, pod["metadata"]["name"], seconds=300)


class Lowest:
    """Watches how many pods of each clique are ready; remembers the fewest."""

    def __init__(self, world: World, clique_of: Callable[[Manifest], str]) -> None:
        self._world = world
        self._clique_of = clique_of
        self.seen: dict[str, int] = {}

    def look(self, cliques: set[str]) -> None:
        """Count now; straight from the store, so that nothing moves meanwhile."""
        counts = dict.fromkeys(cliques, 0)
        for pod in self._world.cluster.api.all_of("", "pods"):
            if self._clique_of(pod) in counts and is_ready(pod):
                counts[self._clique_of(pod)] += 1
        for clique, count in counts.items():
            self.seen[clique] = min(count, self.seen.get(clique, count))

    async def watch(self, cliques: set[str]) -> None:
        """Count after every write, until cancelled."""
        version = -1
        while True:
            if self._world.cluster.store.revision != version:
                version = self._world.cluster.store.revision
                self.look(cliques)
            await asyncio.sleep(0.01)


def is_ready(pod: Manifest) -> bool:
    conditions = pod["status"].get("conditions") or ()
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]
