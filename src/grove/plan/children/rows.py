"""The children of a set as data: a row for each child that should exist, and where rows come from. Pure.

A kind of children is one `Source`. It makes rows by replica, so that nothing is computed for replicas that
nobody has asked for yet, and it finds the row that an existing child belongs to by the child's name. To add a
kind, write a source and list it in `children.registry`: engine and controller know none of them.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from grove.meta import Manifest, Object, Resource, owner_reference
from grove.plan.changes import without_absent
from grove.plan.update.revisions import TemplateRevision

V = TypeVar("V", bound=Object)


class Owner(NamedTuple):
    """Who owns a child: the set, or another child of it."""

    resource: Resource
    item: Object

    def reference(self) -> Manifest:
        """The controlling owner reference."""
        return owner_reference(self.item, self.resource.gvk)


class ChildRow(NamedTuple):
    """One child that should exist."""

    resource: Resource
    name: str
    #: Children are created replica by replica; what a set has only once is created with replica 0.
    replica: int
    owner: Owner
    #: What it is built from.
    revision: TemplateRevision
    #: The manifest, without its owner.
    build: "Callable[[ChildRow], Manifest]"
    #: The manifest that a living child is held against: without what others decide about it.
    mend: Callable[[Manifest, Object], Manifest]

    def manifest(self) -> Manifest:
        """The child as it should be created."""
        manifest = self.build(self)
        manifest["metadata"]["ownerReferences"] = [self.owner.reference()]
        return manifest

    def view(self, type: type[V]) -> V:
        """The child as it would be read once it is created; our own manifest need not be checked."""
        return msgspec.convert(without_absent(self.manifest()), type=type)


class Source(Protocol):
    """One kind of children."""

    @property
    def resource(self) -> Resource: ...

    @property
    def removal(self) -> int:
        """Kinds with a lower number are repaired and removed first."""

    def depends_on(self) -> object:
        """Whatever all rows depend on besides the set itself, as a value that can be compared."""

    def child_depends_on(self, child: Object) -> object:
        """What the row of one child depends on besides; when it changes, only this child is compared."""

    def rows(self, replica: int) -> Iterator[ChildRow]:
        """The children of one replica, in the order in which they are created."""

    def find(self, name: str) -> ChildRow | None:
        """The row of the child with this name; None if the set should have no such child."""


def all_ours(desired: Manifest, living: Object) -> Manifest:
    """For kinds of which nobody else decides anything: a living child must be as it is desired."""
    return desired


def without_spec(desired: Manifest, living: Object) -> Manifest:
    """For kinds whose spec can never be changed."""
    return {name: value for name, value in desired.items() if name != "spec"}


def nothing(row: ChildRow) -> Manifest:
    """For a child that nobody wants to make; with `as_it_is` it is neither changed nor removed."""
    return {"metadata": {}}


def as_it_is(desired: Manifest, living: Object) -> Manifest:
    """For a child about which nothing is decided now."""
    return {"metadata": {"labels": dict(living.labels), "annotations": dict(living.annotations)}}
