"""The children of a set: every service, gang and clique that should exist, against those that do. Pure.

A set of thousands of replicas is looked at often and changes rarely: what was found in order under the same
fingerprint of the set is not built or compared again until it changes itself (`settled`).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import msgspec

from grove.api import kinds, names
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.service import Service
from grove.api.topology import ClusterTopologyBinding
from grove.meta import Manifest, Object, Resource
from grove.plan.changes import Change, Create, Delete, Patch, difference, replacing, without_absent
from grove.plan.cliques import desired_clique
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


@dataclass(frozen=True, slots=True)
class Settled:
    """Which children were found in order, at which version, while the set looked like `fingerprint`."""

    fingerprint: object = None
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChildrenPlan:
    changes: tuple[Change, ...]
    settled: Settled


class _Wanted(NamedTuple):
    """One child that should exist; its manifest is built only when it must be looked at.

    A tuple, because a large set makes thousands of them each time that it is looked at.
    """

    resource: Resource
    name: str
    observed: Object | None
    build: Callable[[], Manifest]


def plan_children(seen: Observed, settled: Settled) -> ChildrenPlan:
    """What to create, mend and remove so that the set has exactly its children."""
    fingerprint = _fingerprint(seen)
    known = settled.versions if settled.fingerprint == fingerprint else {}
    changes: list[Change] = []
    versions: dict[str, str] = {}
    wanted_names: dict[Resource, set[str]] = {kinds.SERVICES: set(), kinds.GANGS: set(), kinds.CLIQUES: set()}
    for wanted in _wanted(seen):
        wanted_names[wanted.resource].add(wanted.name)
        entry = f"{wanted.resource.plural}/{wanted.name}"
        observed = wanted.observed
        if observed is None:
            changes.append(Create(wanted.resource, without_absent(wanted.build())))
            continue
        if observed.terminating:
            # The name is free again once it is gone, and its going wakes the set.
            continue
        version = observed.metadata.resource_version
        if known.get(entry) != version:
            patch = _mend(wanted, observed)
            if patch:
                changes.append(Patch(wanted.resource, observed.key, patch))
                continue
        versions[entry] = version
    changes.extend(_excess(seen, wanted_names))
    return ChildrenPlan(tuple(changes), Settled(fingerprint, versions))


def _fingerprint(seen: Observed) -> object:
    """Everything that the desired children depend on besides themselves."""
    cliqueset, topology = seen.cliqueset, seen.topology
    return (
        cliqueset.uid,
        cliqueset.metadata.generation,
        tuple(sorted(cliqueset.labels.items())),
        tuple(sorted(cliqueset.annotations.items())),
        seen.backend,
        (topology.uid, topology.metadata.generation) if topology is not None else None,
    )


def _wanted(seen: Observed) -> Iterator[_Wanted]:
    """Replica by replica, so that the first ones can start while the last are still being written."""
    cliqueset = seen.cliqueset
    templates = cliqueset.standalone_cliques
    for replica in range(cliqueset.spec.replicas):
        name = names.service(cliqueset.name, replica)
        yield _Wanted(
            kinds.SERVICES, name, seen.services.get(name), partial(desired_service, cliqueset, replica)
        )
        name = names.base_gang(cliqueset.name, replica)
        gang = partial(desired_gang, cliqueset, replica, backend=seen.backend, topology=seen.topology)
        yield _Wanted(kinds.GANGS, name, seen.gangs.get(name), gang)
        for template in templates:
            name = names.clique(cliqueset.name, replica, template.name)
            build = partial(desired_clique, cliqueset, replica, template)
            yield _Wanted(kinds.CLIQUES, name, seen.cliques.get(name), build)


def _mend(wanted: _Wanted, observed: Object) -> Manifest:
    """The patch of owned fields that differ; what others decide about a living child is kept."""
    desired = wanted.build()
    if isinstance(observed, PodClique):
        desired["spec"].pop("replicas")
        desired["spec"]["podSpec"] = replacing(desired["spec"]["podSpec"], observed.spec.pod_spec)
    if isinstance(observed, PodGang):
        referenced = {group.name: group.pod_references for group in observed.spec.podgroups}
        for group in desired["spec"]["podgroups"]:
            group["podReferences"] = [
                {"namespace": ref.namespace, "name": ref.name} for ref in referenced.get(group["name"], ())
            ]
    for field_name in ("labels", "annotations"):
        kept = getattr(observed, field_name)
        gone = {key: None for key in kept if key not in desired["metadata"].get(field_name, {})}
        gone = {key: None for key in gone if not _foreign(key)}
        desired["metadata"].setdefault(field_name, {}).update(gone)
    owned = {"metadata": _metadata(desired), "spec": desired["spec"]}
    return difference(owned, msgspec.to_builtins(observed))


def _metadata(desired: Manifest) -> Manifest:
    return {key: desired["metadata"][key] for key in ("labels", "annotations") if key in desired["metadata"]}


def _foreign(key: str) -> bool:
    """Keys that Kubernetes, kubectl or another controller keeps on our objects for itself."""
    domain = key.partition("/")[0] if "/" in key else ""
    return domain.endswith("kubernetes.io") and domain != "app.kubernetes.io"


def _excess(seen: Observed, wanted: Mapping[Resource, set[str]]) -> Iterator[Delete]:
    """Children of ours that no replica asks for any more; gangs first, so that nothing places what goes."""
    children: tuple[tuple[Resource, Mapping[str, Object]], ...] = (
        (kinds.GANGS, seen.gangs),
        (kinds.CLIQUES, seen.cliques),
        (kinds.SERVICES, seen.services),
    )
    for resource, existing in children:
        for name in sorted(existing.keys() - wanted[resource]):
            child = existing[name]
            owner = child.owner
            if owner is not None and owner.uid == seen.cliqueset.uid and not child.terminating:
                yield Delete(resource, child.key, child.uid)
