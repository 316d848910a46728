"""Garbage collection by owner references: background, foreground and orphan deletion.

Follows every deletable resource, also those of CRDs that appear later, and acts on events alone: the cost of
a deletion is the number of its dependents, not the number of objects. An owner that was never seen is looked
up on the server before anything is deleted for it. Deletes only what has no living owner left. May be told to
be as slow as a real one, which with default settings gets through 20 objects a second.
"""

from __future__ import annotations

import asyncio

from grove.embedded.actors.discovery import UNCOLLECTED, Discovery, follow_crds
from grove.embedded.actors.graph import FOREGROUND, ORPHAN, Item, Owner, OwnerGraph, item_of
from grove.embedded.actors.mirror import Mirrors
from grove.embedded.actors.objects import Resource, is_stale
from grove.embedded.actors.work import Work
from grove.embedded.clock import Clock
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import ActorClient

DISCOVERY = "discovery"


class GarbageCollector:
    """Runs until cancelled."""

    def __init__(
        self, client: ActorClient, clock: Clock, *, mirrors: Mirrors | None = None, per_second: float = 0.0
    ) -> None:
        self._client = client
        self._own_mirrors = None if mirrors else Mirrors(client)
        self._mirrors = mirrors or self._own_mirrors or Mirrors(client)
        self._discovery = Discovery(client)
        self._graph = OwnerGraph()
        self._followed: dict[Resource, _Listener] = {}
        self._unknown_kinds: dict[str, None] = {}
        #: How many objects it gets through in a second; 0 for as many as it can.
        self._per_second = per_second
        self._next_turn = 0.0
        self._work: Work[str] = Work("garbage collector", self._step, workers=16)

    async def run(self) -> None:
        follow_crds(self._mirrors, lambda: self._work.add(DISCOVERY))
        self._work.add(DISCOVERY)
        try:
            await self._work.run()
        finally:
            if self._own_mirrors:
                await self._own_mirrors.close()

    # What happened

    def changed(self, resource: Resource, old: Manifest | None, new: Manifest | None) -> None:
        if new is None:
            assert old is not None
            self._deleted(str(old["metadata"].get("uid") or ""))
            return
        item = item_of(resource, new)
        before = self._graph.put(item)
        if item.deleting and (item.awaits_dependents or item.orphans_dependents):
            self._work.add(item.uid)
        if item.awaits_dependents:
            self._add_all(self._graph.dependents(item.uid))
        if before is None or before.owners != item.owners:
            self._owners_changed(item, before)
        if before is not None and item.deleting and not before.deleting:
            self._wake_waiting_owners(item.owners)

    def _owners_changed(self, item: Item, before: Item | None) -> None:
        for owner in item.owners:
            known = self._graph.items.get(owner.uid)
            if known is None or known.awaits_dependents or not _reaches(known, item):
                self._work.add(item.uid)
        if before is not None:
            self._wake_waiting_owners(before.owners)

    def _deleted(self, uid: str) -> None:
        dependents = self._graph.dependents(uid)
        item = self._graph.drop(uid)
        self._work.forget(uid)
        self._add_all(dependents)
        if item is not None:
            self._wake_waiting_owners(item.owners)

    def _wake_waiting_owners(self, owners: tuple[Owner, ...]) -> None:
        for owner in owners:
            known = self._graph.items.get(owner.uid)
            if known is not None and known.awaits_dependents:
                self._work.add(owner.uid)

    def _add_all(self, items: list[Item]) -> None:
        for item in items:
            self._work.add(item.uid)

    # What to do about it

    async def _step(self, uid: str) -> float | None:
        if uid == DISCOVERY:
            await self._discover()
            return None
        if self._is_idle(uid):
            return None
        await self._turn()
        item = self._graph.items.get(uid)
        if item is None:
            return None
        if item.orphans_dependents:
            await self._orphan(item)
        elif item.awaits_dependents:
            await self._finish_foreground(item)
        elif not item.deleting and item.owners:
            await self._judge(item)
        return None

    def _is_idle(self, uid: str) -> bool:
        """Whether there is nothing to do for an object, which costs no turn."""
        item = self._graph.items.get(uid)
        return item is None or (item.deleting and not item.awaits_dependents and not item.orphans_dependents)

    async def _turn(self) -> None:
        if self._per_second:
            now = asyncio.get_running_loop().time()
            self._next_turn = max(now, self._next_turn + 1 / self._per_second)
            await asyncio.sleep(self._next_turn - now)

    async def _discover(self) -> None:
        await self._discovery.refresh()
        served = {r for r in self._discovery.resources if (r.group, r.plural) not in UNCOLLECTED}
        for resource in [r for r in self._followed if r not in served]:
            listener = self._followed.pop(resource)
            mirror = self._mirrors.of(resource)
            mirror.unsubscribe(listener)
            for obj in mirror:
                self._deleted(str(obj["metadata"].get("uid") or ""))
        for resource in sorted(served - set(self._followed)):
            listener = _Listener(self, resource)
            self._followed[resource] = listener
            self._mirrors.of(resource).subscribe(listener)
        retry, self._unknown_kinds = self._unknown_kinds, {}
        for uid in retry:
            self._work.add(uid)

    async def _judge(self, item: Item) -> None:
        """Delete the object if no owner is left; otherwise cut the references that lead nowhere."""
        solid, dangling, waiting = [], [], []
        for owner in item.owners:
            found = await self._find(owner, item)
            if found is None:
                dangling.append(owner)
            elif isinstance(found, Item) and found.awaits_dependents:
                waiting.append(owner)
            else:
                solid.append(owner)
        if solid:
            if dangling or waiting:
                await self._cut(item, {owner.uid for owner in (*dangling, *waiting)})
            return
        policy = "Background"
        if ORPHAN in item.finalizers:
            policy = "Orphan"
        elif FOREGROUND in item.finalizers or (waiting and self._graph.dependents(item.uid)):
            policy = "Foreground"
            await self._break_cycles(item)
        await self._delete(item, policy)

    async def _find(self, owner: Owner, item: Item) -> Item | bool | None:
        """The owner; True when it lives unseen (or cannot be judged); None when it is absent."""
        known = self._graph.items.get(owner.uid)
        if known is not None:
            return known if _reaches(known, item) else None
        if self._graph.is_dead(owner.uid):
            return None
        resource = self._discovery.of_kind(owner.api_version, owner.kind)
        if resource is None:
            self._unknown_kinds[item.uid] = None
            return True
        if resource.namespaced and not item.key[0]:
            # A cluster-scoped object cannot have a namespaced owner: nobody can say whether it lives.
            return True
        namespace = item.key[0] if resource.namespaced else ""
        try:
            live = await self._client.get(resource.path((namespace, owner.name)))
        except ApiError as error:
            if error.status != 404:
                raise
            live = {"metadata": {}}
        if live["metadata"].get("uid") == owner.uid:
            return item_of(resource, live)
        self._bury(owner, resource, item)
        return None

    def _bury(self, owner: Owner, resource: Resource, item: Item) -> None:
        # In another namespace an object of that uid may well live: then the uid is not dead.
        if not resource.namespaced or not item.key[0]:
            self._graph.bury(owner.uid)

    async def _finish_foreground(self, item: Item) -> None:
        blocking = False
        for dependent in self._graph.dependents(item.uid):
            if not dependent.deleting:
                self._work.add(dependent.uid)
            blocking = blocking or any(o.uid == item.uid and o.blocks for o in dependent.owners)
        if not blocking:
            await self._drop_finalizer(item, FOREGROUND)

    async def _orphan(self, item: Item) -> None:
        for dependent in self._graph.dependents(item.uid):
            await self._cut(dependent, {item.uid})
        await self._drop_finalizer(item, ORPHAN)

    async def _break_cycles(self, item: Item) -> None:
        """Two objects that own each other would wait for each other for ever."""
        for dependent in self._graph.dependents(item.uid):
            if dependent.awaits_dependents:
                references = [
                    {**ref, "blockOwnerDeletion": False} if ref.get("uid") == item.uid else ref
                    for ref in dependent.references
                ]
                await self._patch(dependent, {"ownerReferences": references})

    async def _cut(self, item: Item, uids: set[str]) -> None:
        references = [ref for ref in item.references if ref.get("uid") not in uids]
        await self._patch(item, {"ownerReferences": references or None})

    async def _drop_finalizer(self, item: Item, name: str) -> None:
        left = [finalizer for finalizer in item.finalizers if finalizer != name]
        await self._patch(item, {"finalizers": left or None})

    async def _patch(self, item: Item, metadata: Manifest) -> None:
        # The version guards the lists, which a merge patch replaces whole.
        guarded = {"uid": item.uid, "resourceVersion": item.version, **metadata}
        try:
            await self._client.patch(item.resource.path(item.key), {"metadata": guarded})
        except ApiError as error:
            if error.status != 404:
                raise

    async def _delete(self, item: Item, policy: str) -> None:
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": policy,
            "preconditions": {"uid": item.uid, "resourceVersion": item.version},
        }
        try:
            await self._client.delete(item.resource.path(item.key), options)
        except ApiError as error:
            if not is_stale(error):
                raise
            if error.status == 409 and self._graph.items.get(item.uid) is not None:
                raise


class _Listener:
    """Ties a mirror's changes to the resource they are about."""

    def __init__(self, collector: GarbageCollector, resource: Resource) -> None:
        self._collector = collector
        self._resource = resource

    def __call__(self, old: Manifest | None, new: Manifest | None) -> None:
        self._collector.changed(self._resource, old, new)


def _reaches(owner: Item, dependent: Item) -> bool:
    """An owner counts only if it is cluster-scoped or lives in the dependent's namespace."""
    return not owner.key[0] or owner.key[0] == dependent.key[0]
