"""Compares the rows of a tree with the children that exist: what to create, to repair and to remove. Pure.

Knows no kinds: those are in the rows. A plan is lazy: nothing is compared before somebody takes changes from
it, and how many are taken at once is for the taker to decide. A set of thousands of replicas is looked at
often and changes rarely: a child that was in order, and did not change since, costs a lookup (`Settled`), and
nothing is built or remembered for children that do not exist yet.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter

import msgspec

from grove.api import labels
from grove.meta import Manifest, Object, Resource
from grove.plan.changes import Create, Delete, Patch, difference, without_absent
from grove.plan.children.rows import ChildRow, Source
from grove.plan.mirroring import outdated
from grove.plan.slices import LOOKUP, OBJECT, Pace, Stream, Work

Children = Mapping[Resource, Mapping[str, Object]]


@dataclass(frozen=True, slots=True)
class Tree:
    """What is compared: the sources of the rows, and the children that exist, by name."""

    root: Object
    replicas: int
    #: What the root asks for besides its number of replicas, as a value that can be compared.
    asked: object
    sources: Sequence[Source]
    children: Children
    #: Names that children of an earlier root of the same name still have: ours come when those are gone.
    taken: Mapping[Resource, Collection[str]] = field(default_factory=dict)

    def fingerprint(self) -> object:
        """Everything that rows depend on; how many replicas there are says only which rows exist.

        The generation is no part of it, so that scaling looks only at the replicas that come or go.
        """
        metadata = self.root.metadata
        return (
            metadata.uid,
            self.asked,
            # Of what a root has only once, some is there as long as it has any replica.
            self.replicas > 0,
            tuple(sorted(metadata.labels.items())),
            tuple(sorted(metadata.annotations.items())),
            *(source.depends_on() for source in self.sources),
        )

    def owns(self, child: Object) -> bool:
        """Whether a child is controlled by the root or by a child that exists."""
        owner = child.owner
        if owner is None or owner.uid == self.root.uid:
            return owner is not None
        holders = (found for resource, found in self.children.items() if resource.kind == owner.kind)
        return any(
            holder.uid == owner.uid and self.owns(holder)
            for found in holders
            if (holder := found.get(owner.name))
        )


@dataclass(frozen=True, slots=True)
class InOrder:
    """A child that was as it should be, and what its row depended on then."""

    child: Object
    depended_on: object = None


@dataclass(frozen=True, slots=True)
class Settled:
    """What an earlier plan found in order while the tree had this fingerprint."""

    fingerprint: object = None
    #: Every child that existed; None for one that was not in order.
    children: Mapping[Resource, Mapping[str, InOrder | None]] = field(default_factory=dict)
    #: How many replicas there were to be.
    replicas: int = 0
    #: The replicas below this one have all of their children, but for those that are `incomplete`.
    reached: int = 0
    incomplete: frozenset[int] = frozenset()


class Plan:
    """Three streams of changes, each lazy; a stream may be left at any point.

    A change that was not taken is found again by the next plan, and so is one that was taken and failed.
    """

    def __init__(self, tree: Tree, settled: Settled) -> None:
        fingerprint = tree.fingerprint()
        self._tree = tree
        self._before = settled if settled.fingerprint == fingerprint else Settled(fingerprint)
        self._pace = Pace()
        self._compared = False
        self._children: dict[Resource, dict[str, InOrder | None]] = {}
        #: The children that are not known to be in order, each with the source that may have a row for it.
        self._unsettled: list[tuple[Source, Object]] = []
        # Of replicas that were scaled in, nothing is known once they are wanted again.
        self._reached = min(self._before.reached, tree.replicas)
        self._incomplete = {replica for replica in self._before.incomplete if replica < tree.replicas}

    @property
    def settled(self) -> Settled:
        """What is known to be in order by now, for the next plan."""
        if not self._compared:
            return self._before
        incomplete = frozenset(self._incomplete)
        return Settled(
            self._before.fingerprint, self._children, self._tree.replicas, self._reached, incomplete
        )

    def creations(self) -> Stream[Create]:
        """The missing children, replica by replica, so that the first replicas can start."""
        yield from self._compare()
        for replica in self._unfinished():
            if self._pace.spent(LOOKUP):
                yield None
            self._incomplete.add(replica)
            self._reached = max(self._reached, replica + 1)
            missing = False
            for row in chain.from_iterable(source.rows(replica) for source in self._tree.sources):
                if row.name in self._tree.children.get(row.resource, ()):
                    continue
                missing = True
                if row.name in self._tree.taken.get(row.resource, ()):
                    # The name is free once that child of an earlier root is gone, whose going wakes the root.
                    continue
                yield Create(row.resource, without_absent(row.manifest()))
                if self._pace.spent(OBJECT):
                    yield None
            if not missing:
                self._incomplete.discard(replica)

    def repairs(self) -> Stream[Patch]:
        """What differs of the children that exist."""
        yield from self._compare()
        for source, child in self._unsettled:
            row = source.find(child.name)
            if row is None or child.terminating:
                # The name of one that terminates is free once it is gone, and its going wakes the root.
                continue
            patch = _difference(row, child)
            if patch:
                version = child.metadata.resource_version
                yield Patch(row.resource, child.key, patch, resource_version=version)
            else:
                self._children[row.resource][child.name] = InOrder(child, source.child_depends_on(child))
            if self._pace.spent(OBJECT):
                yield None

    def removals(self) -> Stream[Delete]:
        """The children that should not exist; those of other owners are left alone."""
        yield from self._compare()
        for source, child in self._unsettled:
            if self._pace.spent(LOOKUP):
                yield None
            in_order = self._children[source.resource][child.name] is not None
            if in_order or child.terminating or source.find(child.name) is not None:
                continue
            if self._tree.owns(child):
                yield Delete(source.resource, child.key, child.uid)

    def _unfinished(self) -> Iterator[int]:
        """The replicas of which children may be missing, the lowest first."""
        reached = min(self._reached, self._tree.replicas)
        again = sorted(replica for replica in self._incomplete if replica < reached)
        return chain(again, range(reached, self._tree.replicas))

    def _compare(self) -> Work[None]:
        """Tell the children that are as they were when they were in order from the others; once."""
        if self._compared:
            return
        shrunk = self._tree.replicas < self._before.replicas
        for source in sorted(self._tree.sources, key=attrgetter("removal")):
            existing = self._tree.children.get(source.resource, {})
            known = self._before.children.get(source.resource, {})
            found = self._children[source.resource] = {}
            for name in known.keys() - existing.keys():
                if (lost := source.find(name)) is not None:
                    self._incomplete.add(lost.replica)
            for name, child in existing.items():
                if self._pace.spent(LOOKUP):
                    yield
                old, depends_on = known.get(name), source.child_depends_on(child)
                as_before = old is not None and old.depended_on == depends_on and _unchanged(old.child, child)
                if old is not None and as_before and not (shrunk and source.find(name) is None):
                    found[name] = old if old.child is child else InOrder(child, depends_on)
                else:
                    found[name] = None
                    self._unsettled.append((source, child))
        self._compared = True


def _unchanged(old: Object, new: Object) -> bool:
    """Whether nothing changed that we own: the same version, or a status write at most."""
    if old is new:
        return True
    before, after = old.metadata, new.metadata
    if before.uid != after.uid or new.terminating:
        return False
    if before.resource_version == after.resource_version:
        return True
    return (
        0 < before.generation == after.generation
        and before.labels == after.labels
        and before.annotations == after.annotations
        and before.owner_references == after.owner_references
    )


def _difference(row: ChildRow, living: Object) -> Manifest:
    """The patch of the owned fields in which a living child differs from its row."""
    desired = row.mend(row.manifest(), living)
    metadata = {key: desired["metadata"].get(key) or {} for key in ("labels", "annotations")}
    for key, gone in outdated(desired, living).items():
        metadata[key] = {**metadata[key], **gone}
    if not living.metadata.owner_references:
        # Without its owner it would outlive the set; owners that somebody else gave it are left alone.
        metadata["ownerReferences"] = [row.owner.reference()]
    finalizers = living.metadata.finalizers
    if not labels.FINALIZERS.isdisjoint(finalizers):
        # The Go operator's: without an operator they would keep the object for ever.
        metadata["finalizers"] = [name for name in finalizers if name not in labels.FINALIZERS]
    fields = {key: value for key, value in desired.items() if key not in ("apiVersion", "kind", "metadata")}
    return difference({"metadata": metadata, **fields}, msgspec.to_builtins(living))
