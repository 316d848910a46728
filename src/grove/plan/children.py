"""The children of a set: every service, gang and clique that should exist, against those that do. Pure.

A set of thousands of replicas is looked at often and changes rarely: what was found in order under the same
fingerprint of the set is not built or compared again until it changes itself (`settled`). What a child is for
is read from its name, so that nothing is built or remembered for children that do not exist yet.
"""

from collections.abc import Callable, Iterator, Mapping
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
from grove.plan.edits import MINIMUM, differing_fields, has_shape, held_edits, is_as_placed, shape_of
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
    #: The gangs that have pods on nodes, and what their schedulers can be told of an edit: see `plan.edits`.
    placed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    #: Names that children of an earlier set still have; ours come when those are gone.
    taken: Mapping[Resource, frozenset[str]] = field(default_factory=dict)
    #: By role whose template has no minimum, the one that was decided when its first clique was made.
    decided: Mapping[str, int] = field(default_factory=dict)
    #: The revision of the pods of a placed gang; asked for only where an edit may have to wait.
    revision: Callable[[str], str] = lambda name: ""
    #: The hash of all pod templates of the set.
    templates: str = ""

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
                if name in self._seen.taken.get(place.resource, ()):
                    # It is free once that child of an earlier set is gone, whose going wakes the set.
                    continue
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
            version = child.metadata.resource_version
            planned.append(Patch(resource, child.key, patch, resource_version=version))
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
        tuple(sorted(seen.placed.items())),
        frozenset(name for name, clique in seen.cliques.items() if clique.spec.replicas == 0),
        (topology.uid, topology.metadata.generation) if topology is not None else None,
    )


def _desired(seen: Observed, place: Place) -> Manifest:
    """The child that belongs in this place."""
    cliqueset, replica = seen.cliqueset, place.replica
    if place.template is not None:
        minimum = _minimum(seen, replica, place.template)
        decided = seen.decided.get(place.template.name)
        return desired_clique(cliqueset, replica, place.template, minimum=minimum, decided=decided)
    if place.resource == kinds.GANGS:
        return _desired_gang(seen, replica)
    return desired_service(cliqueset, replica)


def _desired_gang(seen: Observed, replica: int) -> Manifest:
    """The gang of one replica; of one that is placed, what its scheduler cannot be told stays as it is."""
    name = names.base_gang(seen.cliqueset.name, replica)
    desired, gang = _edited_gang(seen, replica), seen.gangs.get(name)
    desired["metadata"]["annotations"][labels.EDIT_PENDING] = None
    if gang is not None and _waits(seen, desired, gang):
        fields = differing_fields(desired, gang, seen.placed[name])
        desired["metadata"]["annotations"][labels.EDIT_PENDING] = ", ".join(fields)
        held_edits(desired, gang, seen.placed[name])
    if gang is not None and name in seen.placed:
        # It says from which templates the pods on nodes were made.
        templates = gang.annotations.get(labels.GENERATION_HASH)
        desired["metadata"]["annotations"][labels.GENERATION_HASH] = templates
    return desired


def _edited_gang(seen: Observed, replica: int) -> Manifest:
    """The gang as the set asks for it now."""
    cliqueset, name = seen.cliqueset, names.base_gang(seen.cliqueset.name, replica)
    backend = seen.held.get(name, seen.backend)
    minima = dict(seen.decided)
    for template in cliqueset.standalone_cliques:
        clique = seen.cliques.get(names.clique(cliqueset.name, replica, template.name))
        if clique is not None and clique.spec.replicas == 0:
            minima[template.name] = 0
    return desired_gang(
        cliqueset,
        replica,
        backend=backend,
        external=backend in seen.external,
        topology=seen.topology,
        minima=minima,
        templates=seen.templates,
    )


def _waits(seen: Observed, desired: Manifest, gang: PodGang) -> bool:
    """Whether the set was edited since the gang was placed, and the scheduler cannot be told."""
    editable = seen.placed.get(gang.name)
    if editable is None or not differing_fields(desired, gang, editable):
        return False
    # What only the gang has otherwise, somebody wrote into it: that is mended.
    return not is_as_placed(desired, gang, seen.revision(gang.name))


def waiting_edits(seen: Observed) -> dict[str, list[str]]:
    """The edited fields that wait, by gang, because pods of the gang are on nodes."""
    found: dict[str, list[str]] = {}
    shape = shape_of(_edited_gang(seen, 0)) if seen.placed else ()
    for name, editable in seen.placed.items():
        replica = names.set_replica(seen.cliqueset.name, name)
        gone = replica is None or replica >= seen.cliqueset.spec.replicas
        if replica is None or gone or has_shape(seen.gangs[name], shape):
            continue
        gang, desired = seen.gangs[name], _edited_gang(seen, replica)
        if _waits(seen, desired, gang):
            found[name] = differing_fields(desired, gang, editable)
    return found


def _minimum(seen: Observed, replica: int, template: PodCliqueTemplate) -> int:
    """How many pods of a role a gang cannot do without; of a role that sleeps, once it is awake."""
    name = names.base_gang(seen.cliqueset.name, replica)
    clique = names.clique(seen.cliqueset.name, replica, template.name)
    wanted = seen.decided.get(template.name, template.spec.minimum)
    gang = seen.gangs.get(name)
    if gang is None or name not in seen.placed or MINIMUM in seen.placed[name]:
        return wanted
    known = {group.name: group.min_replicas for group in gang.spec.podgroups}.get(clique, wanted)
    if known in (0, wanted) or not _waits(seen, _edited_gang(seen, replica), gang):
        return wanted
    return known


def _mend(desired: Manifest, observed: Object) -> Manifest:
    """The patch of owned fields that differ; what others decide about a living child is kept."""
    chosen = desired["metadata"]["labels"].get(labels.SCHEDULER_BACKEND)
    # Attempts are counted for one scheduler; another one begins with the first.
    moved = isinstance(observed, PodGang) and observed.labels.get(labels.SCHEDULER_BACKEND) != chosen
    if isinstance(observed, PodClique):
        if not _scaled_by_template(desired, observed):
            desired["spec"].pop("replicas")
        desired["spec"]["podSpec"] = replacing(desired["spec"]["podSpec"], observed.spec.pod_spec)
    if isinstance(observed, PodGang):
        referenced = {group.name: group.pod_references for group in observed.spec.podgroups}
        for group in desired["spec"]["podgroups"]:
            group["podReferences"] = [msgspec.to_builtins(ref) for ref in referenced.get(group["name"], ())]
    for field_name, gone in outdated(desired, observed, moved=moved).items():
        desired["metadata"].setdefault(field_name, {}).update(gone)
    owned = {"metadata": _metadata(desired), "spec": desired["spec"]}
    if not observed.metadata.owner_references:
        # Without its owner it would outlive the set; owners that somebody else gave it are left alone.
        owned["metadata"]["ownerReferences"] = desired["metadata"]["ownerReferences"]
    return difference(owned, msgspec.to_builtins(observed))


def _scaled_by_template(desired: Manifest, clique: PodClique) -> bool:
    """Whether the replicas of the template were edited since they were last applied to the clique."""
    before = clique.annotations.get(labels.TEMPLATE_REPLICAS)
    now = desired["metadata"]["annotations"][labels.TEMPLATE_REPLICAS]
    return before is not None and before != now and clique.spec.auto_scaling_config is None


def _metadata(desired: Manifest) -> Manifest:
    return {key: desired["metadata"][key] for key in ("labels", "annotations") if key in desired["metadata"]}
