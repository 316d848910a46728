"""The children of a set: every service, gang and clique that should exist, against those that do. Pure.

A set of thousands of replicas is looked at often and changes rarely: what was found in order under the same
fingerprint of the set is not built or compared again until it changes itself (`settled`).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from operator import attrgetter
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
from grove.plan.edits import MINIMUM, differing_fields, held_edits, is_as_placed
from grove.plan.gangs import desired_gang
from grove.plan.satellites import desired_service


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
    """What the child of some name is for; `order` is the order in which children are written."""

    order: int
    resource: Resource
    replica: int
    #: The role of a clique; None for what a replica has only once.
    template: PodCliqueTemplate | None = None


Places = Mapping[Resource, Mapping[str, Place]]
Children = Mapping[Resource, Mapping[str, Object]]


@dataclass(frozen=True, slots=True)
class Settled:
    """Which children were found in order, as they were, while the set looked like `fingerprint`.

    `places` are the children that such a set has: with thousands of them, worth remembering.
    """

    fingerprint: object = None
    places: Places = field(default_factory=dict)
    children: Children = field(default_factory=dict)


#: How many children are created in one go: what is planned is held in memory until it is written.
MOST_AT_ONCE = 300


@dataclass(frozen=True, slots=True)
class ChildrenPlan:
    changes: tuple[Change, ...]
    settled: Settled
    #: Whether children are still missing that the next look will create.
    more: bool = False


def plan_children(seen: Observed, settled: Settled) -> ChildrenPlan:
    """What to create, mend and remove so that the set has exactly its children."""
    fingerprint = _fingerprint(seen)
    if settled.fingerprint != fingerprint:
        settled = Settled(fingerprint, _places(seen.cliqueset))
    missing: list[Place] = []
    mended: list[Change] = []
    removed: list[Change] = []
    children: dict[Resource, Mapping[str, Object]] = {}
    for resource, places in settled.places.items():
        existing = seen.existing(resource)
        absent = places.keys() - existing.keys() - seen.taken.get(resource, frozenset())
        missing += [places[name] for name in absent]
        known, orderly = settled.children.get(resource, {}), dict(existing)
        for name, child in existing.items():
            old = known.get(name)
            if old is child or (old is not None and _unchanged(old, child)):
                continue
            change = _change(seen, resource, child, places.get(name))
            if change is not None:
                (removed if isinstance(change, Delete) else mended).append(change)
            if change is not None or child.terminating:
                del orderly[name]
        children[resource] = orderly
    first = sorted(missing, key=attrgetter("order"))[:MOST_AT_ONCE]
    created = [_create(seen, place) for place in first]
    return ChildrenPlan(
        (*created, *mended, *removed),
        Settled(fingerprint, settled.places, children),
        more=len(first) < len(missing),
    )


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


def _create(seen: Observed, place: Place) -> Create:
    return Create(place.resource, without_absent(_desired(seen, place)))


def _change(seen: Observed, resource: Resource, child: Object, place: Place | None) -> Patch | Delete | None:
    """What an existing child needs that was not in order when it was last looked at."""
    if child.terminating:
        # The name is free again once it is gone, and its going wakes the set.
        return None
    if place is None:
        owner = child.owner
        ours = owner is not None and owner.uid == seen.cliqueset.uid
        return Delete(resource, child.key, child.uid) if ours else None
    patch = _mend(_desired(seen, place), child)
    if not patch:
        return None
    return Patch(resource, child.key, patch, resource_version=child.metadata.resource_version)


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


def _places(cliqueset: PodCliqueSet) -> Places:
    """Every child by name: gangs come first among what is removed, so that nothing places what goes."""
    places: dict[Resource, dict[str, Place]] = {kinds.GANGS: {}, kinds.CLIQUES: {}, kinds.SERVICES: {}}
    order = count()
    for name, resource, replica, template in _children(cliqueset):
        places[resource][name] = Place(next(order), resource, replica, template)
    return places


def _children(
    cliqueset: PodCliqueSet,
) -> Iterator[tuple[str, Resource, int, PodCliqueTemplate | None]]:
    """Replica by replica, so that the first ones can start while the last are still being written."""
    templates = cliqueset.standalone_cliques
    for replica in range(cliqueset.spec.replicas):
        yield names.service(cliqueset.name, replica), kinds.SERVICES, replica, None
        yield names.base_gang(cliqueset.name, replica), kinds.GANGS, replica, None
        for template in templates:
            yield names.clique(cliqueset.name, replica, template.name), kinds.CLIQUES, replica, template


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
    if gang is not None and _waits(seen, desired, gang):
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
    wanted = _edited_gang(seen, 0) if seen.placed else {}
    for name, editable in seen.placed.items():
        replica = names.set_replica(seen.cliqueset.name, name)
        if replica is None or replica >= seen.cliqueset.spec.replicas:
            continue
        gang = seen.gangs[name]
        if differing_fields(wanted, gang, editable) and _waits(seen, _edited_gang(seen, replica), gang):
            found[name] = differing_fields(_edited_gang(seen, replica), gang, editable)
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
    for field_name in ("labels", "annotations"):
        kept = getattr(observed, field_name)
        gone = {key: None for key in kept if key not in desired["metadata"].get(field_name, {})}
        gone = {key: None for key in gone if not _foreign(key) or (key == labels.INCARNATION and moved)}
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


def _foreign(key: str) -> bool:
    """Keys that Kubernetes, kubectl or another controller keeps on our objects for itself."""
    domain = key.partition("/")[0] if "/" in key else ""
    return key == labels.INCARNATION or (domain.endswith("kubernetes.io") and domain != "app.kubernetes.io")
