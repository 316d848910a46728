"""What goes with its owner, decided as the garbage collector decides it: pods need not wait for it. Pure.

An object is doomed if its only owner is gone, or is deleted in the foreground. Orphans are not: the collector
takes the reference to an owner off its dependents before that owner goes, so that a reference which leads
nowhere is no orphan's. Whoever acts on this must know the owner from the API server and not from a cache, and
delete a dependent only as it was observed: its reference may have been taken off since.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from grove.api import kinds
from grove.api.pod import Pod
from grove.meta import Key, Object, OwnerReference
from grove.plan.changes import Delete

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
_SET: Final = kinds.CLIQUESETS.kind
_GROUP: Final = kinds.SCALING_GROUPS.kind


class Fate(Enum):
    """What becomes of an object because of what became of its owner."""

    STAYS = "stays"
    #: Its owner waits until it is gone: it goes from the leaves up, its pods first.
    AWAITED = "awaited"
    #: Nobody waits for it any more.
    GOES = "goes"


def only_owner(item: Object) -> OwnerReference | None:
    """The owner that controls an object; none if it has others too, any of which may keep it."""
    return item.owner if len(item.metadata.owner_references) == 1 else None


def fate_with(owner: Object | None, uid: str) -> Fate:
    """What becomes of the dependents of the owner of this UID; `owner` is who has its name now."""
    if owner is None or owner.uid != uid:
        return Fate.GOES
    finalizers = owner.metadata.finalizers
    if owner.terminating and FOREGROUND in finalizers and ORPHAN not in finalizers:
        return Fate.AWAITED
    return Fate.STAYS


@dataclass(frozen=True, slots=True)
class Owners:
    """The owners that children of sets have, by namespace and name; None where nobody has that name."""

    cliqueset: Callable[[Key], Object | None]
    group: Callable[[Key], Object | None]

    def fate(self, item: Object) -> Fate:
        """What becomes of a child of a set: by its set, by its scaling group, or by the group's set."""
        owner = only_owner(item)
        if owner is None or ORPHAN in item.metadata.finalizers:
            # What is deleted without its dependents goes by itself, and they stay.
            return Fate.STAYS
        key = Key(item.namespace, owner.name)
        if owner.kind == _SET:
            return fate_with(self.cliqueset(key), owner.uid)
        if owner.kind != _GROUP:
            return Fate.STAYS
        group = self.group(key)
        fate = fate_with(group, owner.uid)
        return self.fate(group) if fate is Fate.STAYS and group is not None else fate


def doomed_pods(pods: Iterable[Pod], clique: Key, holder: Object | None) -> list[Pod]:
    """Those of the pods that go because the clique of this name that owns them did, or is awaited."""
    if holder is not None and not holder.terminating:
        # What it owns itself stays, which is nearly every pod.
        pods = [pod for pod in pods if (owner := pod.owner) is None or owner.uid != holder.uid]
    return [
        pod
        for pod in pods
        if not pod.terminating
        and (owner := only_owner(pod)) is not None
        and (owner.kind, owner.name) == (kinds.CLIQUES.kind, clique.name)
        and fate_with(holder, owner.uid) is not Fate.STAYS
    ]


def deletions(pods: Iterable[Pod]) -> list[Delete]:
    """Deletes pods as they were observed, with their own grace period.

    First those that a scheduler could still place on what the others leave, then those behind their gates.
    """
    order = sorted(pods, key=lambda pod: (pod.bound, bool(pod.spec.scheduling_gates)))
    return [Delete(kinds.PODS, pod.key, pod.uid, pod.metadata.resource_version) for pod in order]
