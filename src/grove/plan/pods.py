"""The pods of one clique: which to create, which to delete, and what a new one looks like. Pure.

A pod's hostname is its identity and is kept by its replacement, which is created once the hostname is free
(`places`); its name changes with each replacement and is derived from what the API already remembers: a
create repeated after a crash meets itself, never a twin.
"""

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from types import MappingProxyType
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
    #: How many pods in its place have failed in a row before it.
    failures: int = 0


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
    failures: Mapping[str, int] = MappingProxyType({}),
    taken: Collection[str] = (),
    granted: int = sys.maxsize,
    most: int = sys.maxsize,
) -> PodPlan:
    """Fill the free places from the lowest up; give up what is too much, the least useful pod first.

    A failed pod is deleted and its place filled, unless it is to be `kept`; one that has `outlived` its
    purpose is deleted, and its place filled once it is gone: it may be placed in this moment. A place that
    somebody is `leaving` is waited for as well. One that succeeded keeps its place: running it again is not
    ours to decide. `failures` tells of failed pods how many there were in a row. No pod is created beyond
    those that are `granted`, and at most `most` in one go.
    """
    going, failed, holding = _sorted_out(pods, kept, outlived)
    surplus = len(holding) - clique.spec.replicas
    if surplus > 0:
        excess = sorted(holding, key=lambda pod: _usefulness(clique, pod))[:surplus]
        return PodPlan(delete=(*going, *failed, *excess))
    if not surplus:
        return PodPlan(delete=(*going, *failed))
    barred = {_index(clique, pod) for pod in going} | set(leaving)
    places = free_places(clique, holding, min(-surplus, granted - len(holding)))
    used_names = {pod.name for pod in pods} | referenced(clique, gang) | set(taken)
    before = {_index(clique, pod): failures.get(pod.name, 0) for pod in failed}
    create = tuple(
        NewPod(index, _free_name(clique, revision, index, used_names), before.get(index, 0))
        for index in [index for index in places if index not in barred][:most]
    )
    return PodPlan(create=create, delete=(*going, *failed))


def _index(clique: PodClique, pod: Pod) -> int | None:
    return names.hostname_index(clique.name, pod.spec.hostname)


def _sorted_out(
    pods: Sequence[Pod], kept: Collection[str], outlived: Collection[str]
) -> tuple[list[Pod], list[Pod], list[Pod]]:
    """The pods that are not terminating: those that outlived their purpose, those that failed, the rest."""
    going: list[Pod] = []
    failed: list[Pod] = []
    holding: list[Pod] = []
    for pod in pods:
        if pod.terminating:
            continue
        if pod.name in outlived:
            going.append(pod)
        elif pod.status.phase == "Failed" and pod.name not in kept:
            failed.append(pod)
        else:
            holding.append(pod)
    return going, failed, holding


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
    marks, name = clique.labels, clique.name
    kept: dict[str, str] = {key: marks[key] for key in _IDENTITY if key in marks}
    kept[labels.POD_CLIQUE] = name
    for pod in pods:
        told = pod.labels
        lost = {key: value for key, value in kept.items() if told.get(key) != value}
        if pod.spec.hostname != names.hostname(name, told.get(labels.POD_INDEX, "")):
            index = names.hostname_index(name, pod.spec.hostname)
            lost |= {labels.POD_INDEX: str(index)} if index is not None else {}
        if lost and not pod.terminating:
            yield pod, lost


#: Annotations of cliques that mean nothing on pods.
_OF_CLIQUES: Final = (
    labels.TEMPLATE_REPLICAS,
    labels.DECIDED_MINIMUM,
    labels.TEMPLATE_REVISION,
    labels.TEMPLATE_LABELS,
)
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
            "annotations": {
                **kept,
                labels.GANG_REVISION: revision,
                **({labels.FAILURES: str(new.failures)} if new.failures else {}),
            },
            "ownerReferences": [owner_reference(clique, kinds.CLIQUES.gvk)],
        },
        "spec": spec,
    }


def _free_name(clique: PodClique, revision: str, index: int, used_names: Collection[str]) -> str:
    identity = f"{clique.uid}/{revision}"
    attempts = (names.pod(clique.name, identity, index, attempt=attempt) for attempt in count())
    return next(name for name in attempts if name not in used_names)


def _usefulness(clique: PodClique, pod: Pod) -> tuple[bool, bool, int, bool, bool, int]:
    """Sorts the pods that a scale-in should take first to the front."""
    phase = {"Pending": 0, "Unknown": 1, "Running": 2}.get(pod.status.phase, 0)
    current = pod.labels.get(labels.POD_TEMPLATE_HASH) == clique.labels.get(labels.POD_TEMPLATE_HASH)
    index = _index(clique, pod)
    return (pod.keeps_place, pod.bound, phase, pod.ready, current, -(index if index is not None else 1 << 31))
