"""Volcano's controller manager as far as scheduling depends on it: it opens queues and discovers HyperNodes.

Never closes a queue, and touches only HyperNodes that it made itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from grove.embedded.actors.mirror import Mirrors
from grove.embedded.actors.objects import CRDS, MERGE, NODES, key_of, labels_of, uid_of
from grove.embedded.actors.schedulers.sessions import established
from grove.embedded.actors.schedulers.shapes import node_facts
from grove.embedded.actors.schedulers.volcano_rules import CONFIG_MAPS, HYPERNODES, QUEUES
from grove.embedded.actors.schedulers.volcano_topology import SOURCE, discovered
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import ActorClient

CONFIGURATION = ("volcano-system", "volcano-controller-configmap")
PERIOD_SECONDS = 0.1


class VolcanoControllers:
    """Runs until cancelled."""

    def __init__(self, client: ActorClient, *, mirrors: Mirrors | None = None) -> None:
        self._client = client
        self._own_mirrors = None if mirrors else Mirrors(client)
        self._mirrors = mirrors or self._own_mirrors or Mirrors(client)
        self._installed = False
        self._wake = asyncio.Event()

    async def run(self) -> None:
        try:
            for resource in (CRDS, NODES, CONFIG_MAPS):
                self._mirrors.of(resource).subscribe(self._changed)
            while True:
                await self._wake.wait()
                await asyncio.sleep(PERIOD_SECONDS)
                self._wake.clear()
                if self._is_installed():
                    await self._mirrors.synced(QUEUES, HYPERNODES, NODES, CONFIG_MAPS)
                    await self._open_queues()
                    await self._discover()
        finally:
            if self._own_mirrors:
                await self._own_mirrors.close()

    def _changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if old is None or new is None or _substance(old) != _substance(new):
            self._wake.set()

    def _is_installed(self) -> bool:
        if not self._installed and established(self._mirrors, QUEUES, HYPERNODES):
            self._installed = True
            self._mirrors.of(QUEUES).subscribe(self._changed)
            self._mirrors.of(HYPERNODES).subscribe(self._changed)
        return self._installed

    async def _open_queues(self) -> None:
        for queue in self._mirrors.of(QUEUES):
            if not (queue.get("status") or {}).get("state"):
                patch = {"metadata": {"uid": uid_of(queue)}, "status": {"state": "Open"}}
                await self._try(
                    self._client.patch(QUEUES.path(key_of(queue), "status"), patch, content_type=MERGE)
                )

    async def _discover(self) -> None:
        configuration = self._mirrors.of(CONFIG_MAPS).get(CONFIGURATION)
        wanted = discovered(configuration, [node_facts(node) for node in self._mirrors.of(NODES)])
        there = {each["metadata"]["name"]: each for each in self._mirrors.of(HYPERNODES)}
        for name, made in wanted.items():
            if name not in there:
                await self._try(self._client.create(HYPERNODES.collection(), made))
            elif there[name].get("spec") != made["spec"] and SOURCE in labels_of(there[name]):
                patch = {"spec": made["spec"]}
                await self._try(self._client.patch(HYPERNODES.path(("", name)), patch, content_type=MERGE))
        for name in there.keys() - wanted.keys():
            if SOURCE in labels_of(there[name]):
                await self._try(self._client.delete(HYPERNODES.path(("", name))))

    async def _try(self, request: Awaitable[Manifest]) -> None:
        try:
            await request
        except (ApiError, OSError, TimeoutError):
            # Somebody was faster, or the server is not well: whatever changed will wake us again.
            return


def _substance(obj: Manifest) -> object:
    """What matters here of a node, a queue, a HyperNode, a definition or a configuration; no heartbeats."""
    spec = None if obj.get("kind") == NODES.kind else obj.get("spec")
    status = obj.get("status") or {}
    told = status.get("conditions") if obj.get("kind") == CRDS.kind else None
    return labels_of(obj), obj.get("data"), spec, status.get("state"), told
