"""Deletes pods whose clique, scaling group or set goes, directly and many at once, and then other children.

Where many pods go, the other children wait until those have ended (`memory.endings`).

The garbage collector would do the same, at its own pace. What is doomed is decided in `plan.doomed`. The
cache only tells where to look: nothing is deleted before the API server has said that the owner is gone or
awaited, and every deletion names the version that was decided on. The collector does what is left out here.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from grove.api import kinds, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.pod import Pod
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.controllers.apply import Applied, Applier, WriteBarrier
from grove.controllers.members import PODS_BY_CLIQUE, PODS_BY_OWNER
from grove.controllers.memory.endings import GONE, Endings
from grove.errors import Conflict, NotFound
from grove.kube.client import Client
from grove.meta import Key, Object, Resource
from grove.plan.changes import Change, Delete
from grove.plan.children import CliqueSetState, registry
from grove.plan.doomed import Fate, Owners, deletions, doomed_pods, only_owner
from grove.runtime.cache import Cache
from grove.runtime.clock import Clock
from grove.runtime.outcome import DONE, After, Outcome

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

PODS_END = "its pods are ending, and the other children go after them"

log = logging.getLogger(__name__)


class Removal:
    """Removes what goes with its owner, and the pods of cliques that their set removes."""

    def __init__(self, client: Client, cache: Cache, applier: Applier, clock: Clock) -> None:
        self._client = client
        self._cache = cache
        self._applier = applier
        self._endings = Endings(clock)
        self._cached = Owners(
            lambda key: cache.store(PodCliqueSet).get(key),
            lambda key: cache.store(PodCliqueScalingGroup).get(key),
        )
        #: UIDs of pods whose deletion was sent; the cache may not show it yet.
        self._sent: set[str] = set()
        #: By the name of a set, UIDs of the cliques and gangs that it removes at this moment.
        self._removing: dict[Key, frozenset[str]] = {}

    def forget(self, pod: str) -> None:
        """A pod of this UID is gone."""
        self._sent.discard(pod)
        self._endings.gone(pod)

    def is_removing(self, item: Object) -> bool:
        """Whether its set removes a clique or gang at this moment: nothing is made or opened for it."""
        return any(item.uid in uids for uids in self._removing.values())

    def is_doomed(self, item: Object) -> bool:
        """Whether an object goes with its owner, as far as the cache knows: nothing is made for it."""
        return self._cached.fate(item) is not Fate.STAYS

    @contextmanager
    def removing(self, key: Key, changes: Iterable[Change]) -> Iterator[None]:
        """A set removes children within the block, and beyond it if they wait for its pods to end."""
        self._removing[key] = frozenset(change.uid for change in changes if isinstance(change, Delete))
        try:
            yield
        finally:
            if not self._endings.waits(key):
                self._removing.pop(key, None)

    async def pods_first(
        self, cliqueset: PodCliqueSet, changes: Sequence[Change], barrier: WriteBarrier
    ) -> tuple[list[Change], Outcome]:
        """Delete the pods of cliques that a set removes; what may be written now, and when the rest may.

        A pod that cannot be deleted now does not keep its clique: it is found once that is gone.
        """
        key, removals = cliqueset.key, [each for each in changes if isinstance(each, Delete)]
        cliques = [each.uid for each in removals if each.resource == kinds.CLIQUES]
        pods = await self._delete(key, (pod for uid in cliques for pod in self._pods_owned_by(uid)), barrier)
        waits = self._until_ended(key, pods, cliqueset.metadata.generation, barrier, removals)
        return [each for each in changes if waits == DONE or not isinstance(each, Delete)], waits

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

    async def children(self, key: Key, seen: CliqueSetState | None, barrier: WriteBarrier) -> Outcome:
        """Delete what goes with the set of this name, with an earlier one, or with one of its groups.

        And when to look again, where something is left that waits for pods to end.
        """
        waits: Outcome = DONE
        if seen is None:
            # One that is made again under its name is another, whatever its generation.
            self._endings.begin(key, (), GONE, barrier.wake)
            waits = self._waiting(key)
            if waits == DONE:
                self._removing.pop(key, None)
        elif (edited := await self._interrupted(seen.cliqueset, barrier)) != DONE:
            return edited
        if not self._may_have_doomed(key, seen):
            return waits
        suspects = self._suspects(key)
        # Other children wait, pods do not: those of a set that was just scaled in, or whose deletion failed.
        asked = self._has_pods_left if waits != DONE else self._can_do_something
        if not any(asked(*each) for each in suspects):
            return waits
        owners = await self._owners(key, [item for _, item in suspects])
        going = await self._going_cliques(key, suspects, owners)
        pods = await self._delete(key, (pod for uid in going for pod in self._pods_owned_by(uid)), barrier)
        removals = [
            Delete(resource, item.key, item.uid, item.metadata.resource_version)
            for resource, item in suspects
            if not item.terminating
            and (going.get(item.uid) if resource == kinds.CLIQUES else owners.fate(item)) is Fate.GOES
        ]
        # Where the set lives, or one was made again under its name, somebody waits for their names.
        if removals and seen is None and (waits := self._until_ended(key, pods, GONE, barrier)) != DONE:
            pods.raise_failure()
            return waits
        applied = await self._applier.apply(removals, barrier=barrier, key=key, to_the_end=True)
        if removals:
            log.info("children removed", extra={"set": str(key), "children": len(applied.done)})
        for each in (applied, pods):
            each.raise_failure()
        return DONE

    async def _interrupted(self, cliqueset: PodCliqueSet, barrier: WriteBarrier) -> Outcome:
        """Delete what still waited for pods when its set was edited, which may want the same names again."""
        key = cliqueset.key
        removals = self._endings.interrupted(key, cliqueset.metadata.generation)
        if not removals:
            return DONE
        with self.removing(key, removals):
            applied = await self._applier.apply(removals, barrier=barrier, key=key, to_the_end=True)
        log.info("children removed", extra={"set": str(key), "children": len(applied.done)})
        applied.raise_failure()
        return After(0.0, "the set was edited while its pods were ending")

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

    def _suspects(self, key: Key) -> list[tuple[Resource, Object]]:
        """Children of sets of this name that go with their owner, as far as the cache knows."""
        return [
            (kind.resource, item)
            for kind in _DIRECT
            for item in self._cache.store(kind.view).index("set", str(key))
            if self.is_doomed(item)
        ]

    def _can_do_something(self, resource: Resource, item: Object) -> bool:
        """Whether a doomed child is not on its way yet, or has pods that are not."""
        if not item.terminating and self._cached.fate(item) is Fate.GOES:
            return True
        return self._has_pods_left(resource, item)

    def _has_pods_left(self, resource: Resource, item: Object) -> bool:
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

    async def pods_there(self, cliqueset: Key, replica: int) -> Mapping[str, list[Pod]]:
        """The pods of a replica of a set as the API server has them now, by the UID of their owner."""
        selector = f"{labels.PART_OF}={cliqueset.name},{labels.SET_REPLICA_INDEX}={replica}"
        found: dict[str, list[Pod]] = {}
        for pod in await self._client.list_all(
            kinds.PODS, type=Pod, namespace=cliqueset.namespace, labels=selector
        ):
            if pod.owner is not None:
                found.setdefault(pod.owner.uid, []).append(pod)
        return found

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

    def _until_ended(
        self,
        key: Key,
        deleted: Applied,
        generation: int,
        barrier: WriteBarrier,
        later: Sequence[Delete] = (),
    ) -> Outcome:
        """When to look whether the other children may go; done if they need not wait for their pods."""
        pods = {change.uid for change in deleted.done if isinstance(change, Delete)}
        # Of those that are gone already, nobody would hear any more.
        self._endings.begin(key, pods & self._sent, generation, barrier.wake)
        return self._waiting(key, later)

    def _waiting(self, key: Key, later: Sequence[Delete] = ()) -> Outcome:
        wait = self._endings.wait(key, later)
        return After(wait, PODS_END) if wait else DONE


def _owner_names(items: Iterable[Object], resource: Resource) -> set[str]:
    """The names of those owners of the items that are of this kind."""
    owners = (only_owner(item) for item in items)
    return {owner.name for owner in owners if owner is not None and owner.kind == resource.kind}


def _raise_unless(passing: type[Exception], applied: Applied) -> None:
    for _, failure in applied.failures:
        if not isinstance(failure, passing):
            raise failure
