"""Deletes pods whose clique, scaling group or set goes, directly and many at once, and then other children.

Where many pods go, the other children wait for them while they are still ending: pods hold nodes, nothing
else does, and the API server has only so much time for all of them.

The garbage collector would do the same, at its own pace. What is doomed is decided in `plan.doomed`. The
cache only tells where to look: nothing is deleted before the API server has said that the owner is gone or
awaited, and every deletion names the version that was decided on. The collector does what is left out here.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from grove.api import kinds, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.pod import Pod
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.controllers.apply import Applied, Applier, WriteBarrier
from grove.controllers.members import PODS_BY_CLIQUE, PODS_BY_OWNER
from grove.errors import Conflict, NotFound
from grove.kube.client import Client
from grove.meta import Key, Object, Resource
from grove.plan.changes import Change, Delete
from grove.plan.children import CliqueSetState, registry
from grove.plan.doomed import Fate, Owners, deletions, doomed_pods, only_owner
from grove.runtime.cache import Cache

#: Kinds that are deleted together with the pods. The others are few, and pods use them until they are gone.
_DIRECT = tuple(
    sorted(
        (
            kind
            for kind in registry.KINDS
            if kind.resource not in registry.OPTIONAL
            and kind.resource not in (kinds.ROLES, kinds.ROLE_BINDINGS)
        ),
        key=lambda kind: kind.removal,
    )
)

#: So many pods that go at once keep an API server busy.
MANY_PODS: Final = 64
#: Other children wait for them so long at most.
PODS_FIRST_SECONDS: Final = 10.0
#: When none has gone for so long, they take their time to stop, and nothing is busy meanwhile.
PODS_PAUSE_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 0.1

log = logging.getLogger(__name__)


class Removal:
    """Removes what goes with its owner, and the pods of cliques that their set removes."""

    def __init__(self, client: Client, cache: Cache, applier: Applier) -> None:
        self._client = client
        self._cache = cache
        self._applier = applier
        self._cached = Owners(
            lambda key: cache.store(PodCliqueSet).get(key),
            lambda key: cache.store(PodCliqueScalingGroup).get(key),
        )
        #: UIDs of pods whose deletion was sent; the cache may not show it yet.
        self._sent: set[str] = set()
        #: UIDs of cliques that their set removes at this moment.
        self._removing: set[str] = set()

    def forget(self, pod: str) -> None:
        """A pod of this UID is gone."""
        self._sent.discard(pod)

    def is_removing(self, clique: PodClique) -> bool:
        """Whether the set of a clique removes it at this moment."""
        return clique.uid in self._removing

    def is_doomed(self, item: Object) -> bool:
        """Whether an object goes with its owner, as far as the cache knows: nothing is made for it."""
        return self._cached.fate(item) is not Fate.STAYS

    @asynccontextmanager
    async def pods_first(
        self, key: Key, changes: Sequence[Change], barrier: WriteBarrier
    ) -> AsyncIterator[None]:
        """Deletes the pods of cliques that are about to be removed; none is made again within the block.

        A pod that cannot be deleted now does not keep its clique: it is found once that is gone.
        """
        cliques = {
            each.uid for each in changes if isinstance(each, Delete) and each.resource == kinds.CLIQUES
        }
        self._removing |= cliques
        try:
            pods = (pod for uid in cliques for pod in self._pods_owned_by(uid))
            await self._until_ended(key, await self._delete(key, pods, barrier))
            yield
        finally:
            self._removing -= cliques

    async def pods_left(self, key: Key, barrier: WriteBarrier) -> None:
        """Delete the pods whose clique of this name is gone, or is deleted in the foreground."""
        pods = [
            pod for pod in self._cache.store(Pod).index(PODS_BY_CLIQUE, str(key)) if pod.uid not in self._sent
        ]
        suspects = doomed_pods(pods, key, self._cache.store(PodClique).get(key))
        if not suspects:
            return
        there = await self._there(kinds.CLIQUES, key)
        applied = await self._delete(key, doomed_pods(suspects, key, there), barrier, of="clique")
        # A pod that changed meanwhile wakes its clique once the cache shows how.
        _raise_unless(Conflict, applied)

    async def children(self, key: Key, seen: CliqueSetState | None, barrier: WriteBarrier) -> None:
        """Delete what goes with the set of this name, with an earlier one, or with one of its groups."""
        if not self._may_have_doomed(key, seen):
            return
        suspects = [
            (kind.resource, item)
            for kind in _DIRECT
            for item in self._cache.store(kind.view).index("set", str(key))
            if self.is_doomed(item)
        ]
        if not any(self._can_do_something(*each) for each in suspects):
            return
        owners = await self._owners(key, [item for _, item in suspects])
        going = await self._going_cliques(key, suspects, owners)
        pods = await self._delete(key, (pod for uid in going for pod in self._pods_owned_by(uid)), barrier)
        removals = [
            Delete(resource, item.key, item.uid, item.metadata.resource_version)
            for resource, item in suspects
            if not item.terminating
            and (going.get(item.uid) if resource == kinds.CLIQUES else owners.fate(item)) is Fate.GOES
        ]
        if removals and (seen is None or seen.cliqueset.terminating):
            # Where the set lives, or one was made again under its name, somebody waits for their names.
            await self._until_ended(key, pods)
        applied = await self._applier.apply(removals, barrier=barrier, key=key, to_the_end=True)
        if removals:
            log.info("children removed", extra={"set": str(key), "children": len(applied.done)})
        for each in (applied, pods):
            each.raise_failure()

    def _may_have_doomed(self, key: Key, seen: CliqueSetState | None) -> bool:
        """Whether it is worth looking at every child: few sets have any that goes with an owner."""
        if seen is None or seen.cliqueset.terminating:
            return True
        if any(group.terminating for group in seen.groups.values()):
            return True
        return any(
            self._cache.store(kind.view).count("set", str(key)) > len(seen.children.get(kind.resource, ()))
            for kind in _DIRECT
        )

    def _can_do_something(self, resource: Resource, item: Object) -> bool:
        """Whether a doomed child is not on its way yet, or has pods that are not."""
        if not item.terminating and self._cached.fate(item) is Fate.GOES:
            return True
        if resource != kinds.CLIQUES:
            return False
        return any(not pod.terminating and pod.uid not in self._sent for pod in self._pods_owned_by(item.uid))

    async def _owners(self, key: Key, suspects: Iterable[Object]) -> Owners:
        """The owners of suspects, as the API server has them."""
        sets, groups = _owner_names(suspects, kinds.CLIQUESETS), _owner_names(suspects, kinds.SCALING_GROUPS)
        found: dict[str, Object | None] = {}
        if groups:
            listed = (await self._list(kinds.SCALING_GROUPS, key)).values()
            found = {group.name: group for group in listed if group.name in groups}
            for name in groups - found.keys():
                # One that lost its labels is not listed, and yet is there.
                found[name] = await self._there(kinds.SCALING_GROUPS, Key(key.namespace, name))
            sets |= _owner_names(filter(None, found.values()), kinds.CLIQUESETS)
        cliquesets = {name: await self._there(kinds.CLIQUESETS, Key(key.namespace, name)) for name in sets}
        return Owners(lambda wanted: cliquesets[wanted.name], lambda wanted: found[wanted.name])

    async def _going_cliques(
        self, key: Key, suspects: Iterable[tuple[Resource, Object]], owners: Owners
    ) -> dict[str, Fate]:
        """By UID, what becomes of the cliques among the suspects that still have the owner that goes.

        Pods are deleted before their clique, so that a version which it would have to be of protects neither.
        """
        cliques = {item.uid: item for resource, item in suspects if resource == kinds.CLIQUES}
        listed = await self._list(kinds.CLIQUES, key) if cliques else {}
        return {
            uid: fate
            for uid, item in cliques.items()
            if (there := listed.get(uid)) is not None
            and only_owner(there) == only_owner(item)
            and (fate := owners.fate(there)) is not Fate.STAYS
        }

    async def _there(self, resource: Resource, key: Key) -> Object | None:
        try:
            return await self._client.get(resource, key, type=Object)
        except NotFound:
            return None

    async def _list(self, resource: Resource, cliqueset: Key) -> dict[str, Object]:
        """The objects of a kind that carry the label of a set, by UID."""
        selector = f"{labels.PART_OF}={cliqueset.name}"
        found = await self._client.list_all(
            resource, type=Object, namespace=cliqueset.namespace, labels=selector
        )
        return {item.uid: item for item in found}

    def _pods_owned_by(self, clique: str) -> Iterable[Pod]:
        return self._cache.store(Pod).index(PODS_BY_OWNER, clique)

    async def _delete(
        self, key: Key, pods: Iterable[Pod], barrier: WriteBarrier, *, of: str = "set"
    ) -> Applied:
        """Delete the pods that are not on their way out and that nobody else owns too."""
        doomed = [
            pod
            for pod in pods
            if not pod.terminating and pod.uid not in self._sent and only_owner(pod) is not None
        ]
        self._sent.update(pod.uid for pod in doomed)
        applied = await self._applier.apply(deletions(doomed), barrier=barrier, key=key, to_the_end=True)
        done = {change.uid for change in applied.done if isinstance(change, Delete)}
        self._sent.difference_update(pod.uid for pod in doomed if pod.uid not in done)
        if done:
            log.info("pods deleted", extra={of: str(key), "pods": len(done)})
        return applied

    async def _until_ended(self, key: Key, deleted: Applied) -> None:
        """Wait while deleted pods go one after the other and nobody edits their set."""
        pods = {change.uid for change in deleted.done if isinstance(change, Delete)}
        if len(pods) < MANY_PODS:
            return
        edited = self._generation(key)
        left, paused = len(pods), 0.0
        for _ in range(round(PODS_FIRST_SECONDS / _LOOK_SECONDS)):
            before, left = left, len(pods & self._sent)
            paused = 0.0 if left < before else paused + _LOOK_SECONDS
            if not left or paused > PODS_PAUSE_SECONDS or self._generation(key) != edited:
                return
            await asyncio.sleep(_LOOK_SECONDS)

    def _generation(self, key: Key) -> int:
        cliqueset = self._cache.store(PodCliqueSet).get(key)
        return cliqueset.metadata.generation if cliqueset is not None else 0


def _owner_names(items: Iterable[Object], resource: Resource) -> set[str]:
    """The names of those owners of the items that are of this kind."""
    owners = (only_owner(item) for item in items)
    return {owner.name for owner in owners if owner is not None and owner.kind == resource.kind}


def _raise_unless(passing: type[Exception], applied: Applied) -> None:
    for _, failure in applied.failures:
        if not isinstance(failure, passing):
            raise failure
