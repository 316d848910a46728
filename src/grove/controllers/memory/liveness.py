"""Asks the API server whether an object still exists before children are created for it; the cache may lag.

A watch that stands still shows an object long after it is gone. What is created for it then is collected at
once, and its going asks for a new one: without a look at the truth the two would chase each other. The first
creation for an object needs no such look: it has only just appeared. Owners in between are asked about as the
root is: the cliques of a scaling group go with the group, whatever becomes of the set.
"""

from collections.abc import Mapping, Sequence

from grove.errors import NotFound
from grove.kube.client import Client
from grove.meta import Key, Object, Resource
from grove.plan.changes import Change, Create
from grove.plan.children.engine import Children


class Liveness:
    """Remembers for whom something was created already, and asks before it is done again."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._begun: dict[tuple[Resource, Key], str] = {}

    async def confirmed(self, resource: Resource, item: Object) -> bool:
        """Whether something may be created for it: it is new to us, or the API server still has it."""
        entry = (resource, item.key)
        if self._begun.get(entry) != item.uid:
            self._begun[entry] = item.uid
            return True
        return await self.exists(resource, item)

    async def exists(self, resource: Resource, item: Object) -> bool:
        """Whether the API server has the object that the cache shows."""
        try:
            there = await self._client.get(resource, item.key, type=Object)
        except NotFound:
            return False
        return there.uid == item.uid and not there.terminating

    async def without_orphans(self, changes: Sequence[Change], holders: Children) -> list[Change]:
        """The changes without creations for those of `holders` that the API server no longer has."""
        there: dict[str, bool] = {}
        kept: list[Change] = []
        kinds_of = {resource.kind: resource for resource in holders}
        for change in changes:
            if (owner := _owner(change, holders, kinds_of)) is None:
                kept.append(change)
                continue
            resource, holder = owner
            if holder.uid not in there:
                there[holder.uid] = await self.confirmed(resource, holder)
            if there[holder.uid]:
                kept.append(change)
        return kept

    def forget(self, resource: Resource, key: Key) -> None:
        """The cache knows by now that the object is gone."""
        self._begun.pop((resource, key), None)


def _owner(
    change: Change, holders: Children, kinds_of: Mapping[str, Resource]
) -> tuple[Resource, Object] | None:
    """Which of `holders` is to own what is created; None for another owner and for every other change."""
    if not isinstance(change, Create):
        return None
    for reference in change.manifest["metadata"].get("ownerReferences") or ():
        resource = kinds_of.get(reference["kind"])
        holder = holders[resource].get(reference["name"]) if resource is not None else None
        if resource is not None and holder is not None and holder.uid == reference["uid"]:
            return resource, holder
    return None
