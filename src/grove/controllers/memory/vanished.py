"""Pods that left the cache, perhaps only because they lost the label that the cache selects by.

The cache sees pods by a label. A pod from which somebody takes that label looks as if it were gone; its
clique would make another one in its place. A pod that ends in an orderly way is seen terminating first: only
one that was not is asked about.

Pods that lost the label while no operator ran were never seen. A clique that says of itself that it has more
pods than the cache shows makes us list, once in each namespace, the pods without that label.
"""

import asyncio
from collections.abc import Sequence

from grove.api import kinds, labels
from grove.api.clique import PodClique
from grove.api.pod import Pod
from grove.errors import NotFound
from grove.kube.client import Client
from grove.meta import Key, Object
from grove.runtime.cache import Cache


class Vanished:
    """Remembers which pods of a clique left the cache without being deleted first."""

    def __init__(self, client: Client, cache: Cache) -> None:
        self._client = client
        self._cache = cache
        #: By the UID of the clique, pods by their UID.
        self._suspects: dict[str, dict[str, Key]] = {}
        #: Namespaces whose pods without the label were listed.
        self._searched: set[str] = set()
        self._searching = asyncio.Lock()

    def saw(self, old: Object | None, new: Object | None) -> None:
        """A pod came, changed or left the cache."""
        if new is not None:
            if self._suspects and new.owner is not None:
                self._suspects.get(new.owner.uid, {}).pop(new.uid, None)
            return
        if old is None or old.terminating or old.owner is None or old.owner.kind != kinds.CLIQUES.kind:
            return
        clique = self._cache.store(PodClique).get(Key(old.namespace, old.owner.name))
        if clique is not None and clique.uid == old.owner.uid and not clique.terminating:
            self._suspects.setdefault(clique.uid, {})[old.uid] = old.key

    async def found(self, clique: PodClique, shown: Sequence[Pod]) -> list[Pod]:
        """The pods of a clique that exist although the cache does not show them; each is asked about once."""
        if clique.status.replicas > sum(not pod.terminating for pod in shown):
            await self._search(clique.namespace)
        there = []
        for uid, key in self._suspects.pop(clique.uid, {}).items():
            try:
                pod = await self._client.get(kinds.PODS, key, type=Pod)
            except NotFound:
                continue
            if pod.uid == uid and not pod.terminating:
                there.append(pod)
        return there

    async def _search(self, namespace: str) -> None:
        """Suspect every pod without our label that a clique owns; the cache tells what loses it later."""
        async with self._searching:
            if namespace in self._searched:
                return
            unlabelled = f"!{labels.POD_GANG}"
            pages = self._client.pages(kinds.PODS, type=Object, namespace=namespace, labels=unlabelled)
            async for page in pages:
                for pod in page.items:
                    if pod.owner is not None and pod.owner.kind == kinds.CLIQUES.kind:
                        self._suspects.setdefault(pod.owner.uid, {})[pod.uid] = pod.key
            self._searched.add(namespace)
