"""The children of a set: every service, gang and clique that should exist, against those that do. Pure.

A set of thousands of replicas is looked at often and changes rarely: what was found in order under the same
fingerprint of the set is not built or compared again until it changes itself (`settled`). What a child is for
is read from its name, so that nothing is built or remembered for children that do not exist yet.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from grove.api import kinds, labels, names
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet, PodCliqueTemplate
from grove.api.gang import PodGang
from grove.api.service import Service
from grove.api.topology import ClusterTopologyBinding
from grove.meta import Manifest, Object, Resource
from grove.plan.changes import Change, Create, Delete, Patch, difference, replacing, without_absent
from grove.plan.cliques import desired_clique
from grove.plan.gangs import desired_gang
from grove.plan.mirroring import outdated
from grove.plan.satellites import desired_service
from grove.plan.slices import LOOKUP, OBJECT, Pace, Work, at_once


@dataclass(frozen=True, slots=True)
class Observed:
    """A set and the children of it that exist, by name."""

    cliqueset: PodCliqueSet
    services: Mapping[str, Service]
    gangs: Mapping[str, PodGang]
    cliques: Mapping[str, PodClique]
    topology: ClusterTopologyBinding | None = None
    backend: str = ""
    #: The gangs that stay with another backend for now, and with which: see `plan.moves`.
    held: Mapping[str, str] = field(default_factory=dict)
    #: The backends that a process of their own acts for.
    external: frozenset[str] = frozenset()

    def existing(self, resource: Resource) -> Mapping[str, Object]:
        """The children of one kind."""
        if resource == kinds.GANGS:
            return self.gangs
        return self.cliques if resource == kinds.CLIQUES else self.services


class Place(NamedTuple):
    """What the child of some name is for."""

    resource: Resource
    replica: int
    #: The role of a clique; None for what a replica has only once.
    template: PodCliqueTemplate | None = None


Children = Mapping[Resource, Mapping[str, Object]]


@dataclass(frozen=True, slots=True)
class Settled:
    """Which children were found in order, as they were, while the set looked like `fingerprint`."""

    fingerprint: object = None
    children: Children = field(default_factory=dict)
    #: Every child of the replicas below this one was there and in order.
    whole: int = 0


#: How many children are created in one go, and as many mended and removed: what is planned is held in memory
#: until it is written.
MOST_AT_ONCE = 300


@dataclass(frozen=True, slots=True)
class ChildrenPlan:
    changes: tuple[Change, ...]
    settled: Settled
    #: Whether there is more to create, mend or remove than was planned; the next look will.
    more: bool = False


def plan_children(seen: Observed, settled: Settled, *, most: int = MOST_AT_ONCE) -> ChildrenPlan:
    """What to create, mend and remove so that the set has exactly its children; at most so many of each."""
    return at_once(planning_children(seen, settled, most=most))


def planning_children(seen: Observed, settled: Settled, *, most: int = MOST_AT_ONCE) -> Work[ChildrenPlan]:
    """The same as work that pauses. Neither its time nor its memory grows with what does not exist yet."""
    fingerprint = _fingerprint(seen)
    if settled.fingerprint != fingerprint:
        settled = Settled(fingerprint)
    look = _Look(seen, settled, most)
    # Gangs come first among what is removed, so that nothing places what goes.
    for resource in (kinds.GANGS, kinds.CLIQUES, kinds.SERVICES):
        yield from look.compare(resource)
    created = yield from look.create()
    return ChildrenPlan(
        (*created, *look.mended, *look.removed),
        Settled(fingerprint, look.children, look.whole),
        more=look.more,
    )


class _Look:
    """One comparison of a set with its children."""

    def __init__(self, seen: Observed, settled: Settled, most: int) -> None:
        self.mended: list[Change] = []
        self.removed: list[Change] = []
        self.children: dict[Resource, Mapping[str, Object]] = {}
        self.more = False
        replicas = seen.cliqueset.spec.replicas
        #: The lowest replica of which a child is missing or not in order.
        self.whole = replicas
        self._seen = seen
        self._settled = settled
        self._most = most
        self._pace = Pace()
        self._roles = {template.name: template for template in seen.cliqueset.standalone_cliques}
        self._missing = replicas * (len(self._roles) + 2)

    def compare(self, resource: Resource) -> Work[None]:
        """Sort out the existing children of one kind; one that was in order before costs a lookup."""
        existing = self._seen.existing(resource)
        known, orderly = self._settled.children.get(resource, {}), dict(existing)
        for name in known.keys() - existing.keys():
            self._broken(self._place(resource, name))
        for name, child in existing.items():
            if self._pace.spent(LOOKUP):
                yield
            old = known.get(name)
            if old is child or (old is not None and _unchanged(old, child)):
                self._missing -= 1
                continue
            place = self._place(resource, name)
            if place is not None:
                self._missing -= 1
            if not self._in_order(resource, child, place):
                self._broken(place)
                del orderly[name]
            if self._pace.spent(OBJECT):
                yield
        self.children[resource] = orderly

    def create(self) -> Work[list[Change]]:
        """The first children that are missing, replica by replica, so that the first ones can start."""
        created: list[Change] = []
        cliqueset = self._seen.cliqueset
        for replica in range(min(self.whole, self._settled.whole), cliqueset.spec.replicas):
            if not self._missing:
                break
            if self._pace.spent(LOOKUP):
                yield
            for name, place in _children(cliqueset, replica, self._roles):
                if name in self._seen.existing(place.resource):
                    continue
                self._broken(place)
                if len(created) == self._most:
                    self.more = True
                    return created
                self._missing -= 1
                created.append(Create(place.resource, without_absent(_desired(self._seen, place))))
                if self._pace.spent(OBJECT):
                    yield
        return created

    def _in_order(self, resource: Resource, child: Object, place: Place | None) -> bool:
        """Whether a child is as it should be; if not, what it needs is planned, unless that is too much."""
        if child.terminating:
            # The name is free again once it is gone, and its going wakes the set.
            return False
        planned = self.removed if place is None else self.mended
        if len(planned) >= self._most:
            self.more = True
            return False
        if place is None:
            owner = child.owner
            if owner is not None and owner.uid == self._seen.cliqueset.uid:
                planned.append(Delete(resource, child.key, child.uid))
            return False
        patch = _mend(_desired(self._seen, place), child)
        if patch:
            planned.append(Patch(resource, child.key, patch))
        return not patch

    def _broken(self, place: Place | None) -> None:
        if place is not None:
            self.whole = min(self.whole, place.replica)

    def _place(self, resource: Resource, name: str) -> Place | None:
        """What a child of this name is for; None when the set has no such child."""
        cliqueset = self._seen.cliqueset
        replica = names.set_replica(cliqueset.name, name)
        if replica is None or replica >= cliqueset.spec.replicas:
            return None
        if resource != kinds.CLIQUES:
            # Gangs and services have the same name.
            return Place(resource, replica) if name == names.base_gang(cliqueset.name, replica) else None
        role = name[len(names.base_gang(cliqueset.name, replica)) + 1 :]
        template = self._roles.get(role)
        if template is None or name != names.clique(cliqueset.name, replica, role):
            return None
        return Place(resource, replica, template)


def _children(
    cliqueset: PodCliqueSet, replica: int, roles: Mapping[str, PodCliqueTemplate]
) -> Iterator[tuple[str, Place]]:
    """The children of one replica, in the order in which they are written."""
    yield names.service(cliqueset.name, replica), Place(kinds.SERVICES, replica)
    yield names.base_gang(cliqueset.name, replica), Place(kinds.GANGS, replica)
    for role, template in roles.items():
        yield names.clique(cliqueset.name, replica, role), Place(kinds.CLIQUES, replica, template)


def _unchanged(old: Object, new: Object) -> bool:
    """Whether nothing changed that we own: the same version, or a status write at most."""
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


def _fingerprint(seen: Observed) -> object:
    """Everything that the desired children depend on besides themselves."""
    cliqueset, topology = seen.cliqueset, seen.topology
    return (
        cliqueset.uid,
        cliqueset.metadata.generation,
        tuple(sorted(cliqueset.labels.items())),
        tuple(sorted(cliqueset.annotations.items())),
        seen.backend,
        tuple(sorted(seen.held.items())),
        seen.external,
        (topology.uid, topology.metadata.generation) if topology is not None else None,
    )


def _desired(seen: Observed, place: Place) -> Manifest:
    """The child that belongs in this place."""
    cliqueset, replica = seen.cliqueset, place.replica
    if place.template is not None:
        return desired_clique(cliqueset, replica, place.template)
    if place.resource == kinds.GANGS:
        backend = seen.held.get(names.base_gang(cliqueset.name, replica), seen.backend)
        outside = backend in seen.external
        return desired_gang(cliqueset, replica, backend=backend, external=outside, topology=seen.topology)
    return desired_service(cliqueset, replica)


def _mend(desired: Manifest, observed: Object) -> Manifest:
    """The patch of owned fields that differ; what others decide about a living child is kept."""
    chosen = desired["metadata"]["labels"].get(labels.SCHEDULER_BACKEND)
    # Attempts are counted for one scheduler; another one begins with the first.
    moved = isinstance(observed, PodGang) and observed.labels.get(labels.SCHEDULER_BACKEND) != chosen
    if isinstance(observed, PodClique):
        desired["spec"].pop("replicas")
        desired["spec"]["podSpec"] = replacing(desired["spec"]["podSpec"], observed.spec.pod_spec)
    if isinstance(observed, PodGang):
        referenced = {group.name: group.pod_references for group in observed.spec.podgroups}
        for group in desired["spec"]["podgroups"]:
            group["podReferences"] = [
                {"namespace": ref.namespace, "name": ref.name} for ref in referenced.get(group["name"], ())
            ]
    for field_name, gone in outdated(desired, observed, moved=moved).items():
        desired["metadata"].setdefault(field_name, {}).update(gone)
    owned = {"metadata": _metadata(desired), "spec": desired["spec"]}
    if not observed.metadata.owner_references:
        # Without its owner it would outlive the set; owners that somebody else gave it are left alone.
        owned["metadata"]["ownerReferences"] = desired["metadata"]["ownerReferences"]
    return difference(owned, msgspec.to_builtins(observed))


def _metadata(desired: Manifest) -> Manifest:
    return {key: desired["metadata"][key] for key in ("labels", "annotations") if key in desired["metadata"]}
