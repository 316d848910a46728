"""The pods of one clique: which to create, which to delete, and what a new one looks like. Pure.

A pod's hostname is its identity and is kept by its replacement, which is created once the hostname is free
(`places`); its name changes with each replacement and is
derived from what the API already remembers: a create repeated after a crash meets itself, never a twin.
"""

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from grove.api import kinds, labels, names
from grove.api.clique import PodClique
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.api.revision import revision_of
from grove.meta import Manifest, owner_reference
from grove.plan.environment import pod_environment, with_environment
from grove.plan.mirroring import inherited
from grove.plan.places import free_places
from grove.plan.sharing import with_claims
from grove.plan.startup import Wait, with_wait


@dataclass(frozen=True, slots=True)
class NewPod:
    """A pod to create: where it stands in the clique and what it is called."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class PodPlan:
    """What to do so that the clique has as many pods as it wants."""

    create: tuple[NewPod, ...] = ()
    delete: tuple[Pod, ...] = ()


def plan_pods(
    clique: PodClique,
    pods: Sequence[Pod],
    *,
    gang: PodGang,
    revision: str,
    kept: Collection[str] = (),
    outlived: Collection[str] = (),
    leaving: Collection[int] = (),
    taken: Collection[str] = (),
    granted: int = sys.maxsize,
    most: int = sys.maxsize,
) -> PodPlan:
    """Fill the free places from the lowest up; give up what is too much, the least useful pod first.

    A failed pod is deleted and its place filled, unless it is to be `kept`; one that has `outlived` its
    purpose is deleted, and its place filled once it is gone: it may be placed in this moment. A place that
    somebody is `leaving` is waited for as well. One that succeeded keeps its place: running it again is not
    ours to decide. No pod is created beyond those that are `granted`, and at most `most` in one go.
    """
    living = [pod for pod in pods if not pod.terminating]
    going = [pod for pod in living if pod.name in outlived]
    failed = [
        pod
        for pod in living
        if pod.status.phase == "Failed" and pod.name not in kept and pod.name not in outlived
    ]
    gone = {pod.name for pod in (*going, *failed)}
    holding = [pod for pod in living if pod.name not in gone]
    surplus = len(holding) - clique.spec.replicas
    if surplus > 0:
        excess = sorted(holding, key=lambda pod: _usefulness(clique, pod))[:surplus]
        return PodPlan(delete=(*going, *failed, *excess))
    taken_places = {names.hostname_index(clique.name, pod.spec.hostname) for pod in going} | set(leaving)
    places = free_places(clique, holding, min(-surplus, granted - len(holding)))
    used_names = {pod.name for pod in pods} | referenced(clique, gang) | set(taken)
    vacant = [index for index in places if index not in taken_places][:most]
    create = tuple(_new_pod(clique, revision, index, used_names) for index in vacant)
    return PodPlan(create=create, delete=(*going, *failed))


def outdated(clique: PodClique, pods: Iterable[Pod], revision: str) -> set[str]:
    """The waiting pods that were made for an earlier start of their gang or from an earlier template."""
    template = clique.labels.get(labels.POD_TEMPLATE_HASH)
    return {
        pod.name
        for pod in pods
        if pod.active
        and not pod.bound
        and (revision_of(pod) != revision or pod.labels.get(labels.POD_TEMPLATE_HASH) != template)
    }


def referenced(clique: PodClique, gang: PodGang) -> set[str]:
    """The names of the clique's pods that the gang lists, also those that are gone by now."""
    for group in gang.spec.podgroups:
        if group.name == clique.name:
            return {reference.name for reference in group.pod_references}
    return set()


def mislabelled(clique: PodClique, pods: Iterable[Pod]) -> Iterator[tuple[Pod, dict[str, str]]]:
    """The living pods of the clique that lost labels by which they are found, and those labels."""
    kept: dict[str, str] = {key: clique.labels[key] for key in _IDENTITY if key in clique.labels}
    kept[labels.POD_CLIQUE] = clique.name
    for pod in pods:
        lost = {key: value for key, value in kept.items() if pod.labels.get(key) != value}
        if pod.spec.hostname != names.hostname(clique.name, pod.labels.get(labels.POD_INDEX, "")):
            index = names.hostname_index(clique.name, pod.spec.hostname)
            lost |= {labels.POD_INDEX: str(index)} if index is not None else {}
        if lost and not pod.terminating:
            yield pod, lost


#: Annotations of cliques that mean nothing on pods.
_OF_CLIQUES: Final = (labels.TEMPLATE_REPLICAS, labels.DECIDED_MINIMUM)
_IDENTITY: Final = (
    labels.MANAGED_BY,
    labels.PART_OF,
    labels.POD_GANG,
    labels.BASE_POD_GANG,
    labels.SET_REPLICA_INDEX,
    labels.SCALING_GROUP,
    labels.SCALING_GROUP_REPLICA_INDEX,
)


def desired_pod(
    clique: PodClique, new: NewPod, revision: str, wait: Wait | None = None, *, claims: Sequence[str] = ()
) -> Manifest:
    """The pod before a backend prepares it: the clique's podSpec verbatim, plus what Grove adds.

    `claims` are the device claims that its containers share with those of other pods.
    """
    kept = {key: value for key, value in inherited(clique, "annotations").items() if key not in _OF_CLIQUES}
    cliqueset = clique.labels.get(labels.PART_OF, "")
    replica = int(clique.labels.get(labels.SET_REPLICA_INDEX, "0"))
    spec = {
        **clique.spec.pod_spec,
        "hostname": names.hostname(clique.name, new.index),
        "subdomain": names.service(cliqueset, replica),
    }
    spec = with_environment(spec, pod_environment(clique, cliqueset, replica))
    spec = with_claims(spec, claims)
    if wait is not None:
        spec = with_wait(spec, wait)
    return {
        "apiVersion": kinds.PODS.api_version,
        "kind": kinds.PODS.kind,
        "metadata": {
            "name": new.name,
            "namespace": clique.namespace,
            "labels": {
                **inherited(clique, "labels"),
                labels.POD_CLIQUE: clique.name,
                labels.POD_INDEX: str(new.index),
            },
            "annotations": {**kept, labels.GANG_REVISION: revision},
            "ownerReferences": [owner_reference(clique, kinds.CLIQUES.gvk)],
        },
        "spec": spec,
    }


def _new_pod(clique: PodClique, revision: str, index: int, used_names: Collection[str]) -> NewPod:
    identity = f"{clique.uid}/{revision}"
    attempts = (names.pod(clique.name, identity, index, attempt=attempt) for attempt in count())
    return NewPod(index, next(name for name in attempts if name not in used_names))


def _usefulness(clique: PodClique, pod: Pod) -> tuple[bool, int, bool, bool, int]:
    """Sorts the pods that a scale-in should take first to the front."""
    phase = {"Pending": 0, "Unknown": 1, "Running": 2}.get(pod.status.phase, 0)
    current = pod.labels.get(labels.POD_TEMPLATE_HASH) == clique.labels.get(labels.POD_TEMPLATE_HASH)
    index = names.hostname_index(clique.name, pod.spec.hostname)
    return (pod.bound, phase, pod.ready, current, -(index if index is not None else 1 << 31))
