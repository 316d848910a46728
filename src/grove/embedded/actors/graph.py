"""Who owns whom: the owner references of all objects as a graph, kept by uid.

Pure bookkeeping. Answers in constant time who depends on an object, also for owners that nobody has seen yet.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from grove.embedded.actors.objects import Key, Resource
from grove.embedded.errors import Manifest

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
REMEMBERED_DEAD = 100_000


@dataclass(frozen=True, slots=True)
class Owner:
    api_version: str
    kind: str
    name: str
    uid: str
    blocks: bool


@dataclass(slots=True)
class Item:
    """One object as the collector knows it."""

    uid: str
    resource: Resource
    key: Key
    owners: tuple[Owner, ...] = ()
    finalizers: tuple[str, ...] = ()
    deleting: bool = False
    version: str = ""
    references: list[Manifest] = field(default_factory=list)
    """The owner references as they stand in the object."""

    @property
    def awaits_dependents(self) -> bool:
        return self.deleting and FOREGROUND in self.finalizers

    @property
    def orphans_dependents(self) -> bool:
        return self.deleting and ORPHAN in self.finalizers


def item_of(resource: Resource, obj: Manifest) -> Item:
    meta = obj["metadata"]
    references = meta.get("ownerReferences") or []
    owners = tuple(
        Owner(
            ref.get("apiVersion") or "",
            ref.get("kind") or "",
            ref.get("name") or "",
            ref.get("uid") or "",
            bool(ref.get("blockOwnerDeletion")),
        )
        for ref in references
    )
    return Item(
        uid=meta.get("uid") or "",
        resource=resource,
        key=(meta.get("namespace") or "", meta["name"]),
        owners=owners,
        finalizers=tuple(meta.get("finalizers") or ()),
        deleting=bool(meta.get("deletionTimestamp")),
        version=str(meta.get("resourceVersion") or ""),
        references=references,
    )


class OwnerGraph:
    """All known objects and, for each uid, those that name it as an owner."""

    def __init__(self) -> None:
        self.items: dict[str, Item] = {}
        self._dependents: dict[str, dict[str, None]] = {}
        self._dead: dict[str, None] = {}

    def put(self, item: Item) -> Item | None:
        """Learn an object; what was known of it before."""
        old = self.items.get(item.uid)
        gone = {owner.uid for owner in old.owners} if old else set()
        for owner in item.owners:
            gone.discard(owner.uid)
            self._dependents.setdefault(owner.uid, {})[item.uid] = None
        for uid in gone:
            self._unlink(uid, item.uid)
        self.items[item.uid] = item
        return old

    def drop(self, uid: str) -> Item | None:
        """Forget an object that was deleted; its uid is known to be dead from now on."""
        item = self.items.pop(uid, None)
        if item is None:
            return None
        for owner in item.owners:
            self._unlink(owner.uid, uid)
        self.bury(uid)
        return item

    def bury(self, uid: str) -> None:
        self._dead[uid] = None
        if len(self._dead) > REMEMBERED_DEAD:
            del self._dead[next(iter(self._dead))]

    def is_dead(self, uid: str) -> bool:
        return uid in self._dead

    def dependents(self, uid: str) -> list[Item]:
        found = (self.items.get(dependent) for dependent in self._dependents.get(uid, ()))
        return [item for item in found if item is not None]

    def _unlink(self, owner: str, dependent: str) -> None:
        dependents = self._dependents.get(owner)
        if dependents is not None:
            dependents.pop(dependent, None)
            if not dependents:
                del self._dependents[owner]
