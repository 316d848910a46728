"""Asks the API server whether an object still exists before children are created for it; the cache may lag.

A watch that stands still shows an object long after it is gone. What is created for it then is collected at
once, and its going asks for a new one: without a look at the truth the two would chase each other. The first
creation for an object needs no such look: it has only just appeared.
"""

from grove.errors import NotFound
from grove.kube.client import Client
from grove.meta import Key, Object, Resource


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

    def forget(self, resource: Resource, key: Key) -> None:
        """The cache knows by now that the object is gone."""
        self._begun.pop((resource, key), None)
