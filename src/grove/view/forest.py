"""Sets, standalone gangs, and everything below them as trees of values. Pure; time comes in as `now`."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TypedDict, TypeVar

from grove.api import conditions, kinds, labels, names
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PENDING, PodGang
from grove.api.pod import Pod
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.meta import Key, Manifest, Object, Resource, is_true
from grove.view.model import (
    CliqueSetView,
    CliqueView,
    EventView,
    Forest,
    GangView,
    NodeView,
    ObjectView,
    PodView,
    ScalingGroupView,
)
from grove.view.pods import CONTAINER, phase_of, reasons_of_pod
from grove.view.reasons import (
    reasons_of_clique,
    reasons_of_cliqueset,
    reasons_of_gang,
    reasons_of_scaling_group,
)
from grove.view.world import Index, World, base_of, base_of_group, gang_of, group_of, number_in, set_of

T = TypeVar("T", bound=Object)


def forest(world: World, *, now: datetime) -> Forest:
    """One tree for each set and one for each gang that belongs to no set that was found.

    A scaled gang stands below its base gang where that exists.
    """
    index = Index.of(world, now)
    sets = sorted(world.cliquesets, key=lambda item: item.key)
    known = {each.key for each in sets}
    alone = [gang for gang in world.gangs if set_of(gang) not in known]
    return Forest(
        tuple(_cliqueset(each, index) for each in sets),
        tuple(_gang(each, index) for each in sorted(_on_top(alone), key=lambda item: item.key)),
    )


def _cliqueset(cliqueset: PodCliqueSet, index: Index) -> CliqueSetView:
    gangs = index.gangs_of_set.get(cliqueset.key, ())
    known = {gang.key for gang in gangs}
    cliques = index.cliques_of_set.get(cliqueset.key, ())
    groups = index.groups_of_set.get(cliqueset.key, ())
    return CliqueSetView(
        **_identity(cliqueset, kinds.CLIQUESETS, index),
        why=reasons_of_cliqueset(cliqueset, index.now),
        replicas=cliqueset.spec.replicas,
        available=cliqueset.status.available_replicas,
        gang_count=len(gangs),
        placed=sum(is_true(gang.status.conditions, conditions.SCHEDULED) for gang in gangs),
        gangs=tuple(_gang(gang, index) for gang in _natural(_on_top(gangs))),
        scaling_groups=tuple(
            _scaling_group(group, (), index)
            for group in _natural(group for group in groups if base_of_group(group) not in known)
        ),
        cliques=tuple(
            _clique(clique, index)
            for clique in _natural(clique for clique in cliques if gang_of(clique) not in known)
        ),
        conditions=cliqueset.status.conditions,
    )


def _on_top(gangs: Sequence[PodGang]) -> list[PodGang]:
    """The gangs that stand below no other: all but scaled gangs whose base is there."""
    bases = {gang.key for gang in gangs if base_of(gang) is None}
    return [gang for gang in gangs if base_of(gang) not in bases]


def _gang(gang: PodGang, index: Index) -> GangView:
    pods = index.pods_of_gang.get(gang.key, ())
    of_set = set_of(gang)
    cliques = index.cliques_of_gang.get((gang.key, of_set), ()) if of_set is not None else ()
    roles = {clique.name for clique in cliques}
    others = [pod for pod in pods if pod.labels.get(labels.POD_CLIQUE, "") not in roles]
    objects = sorted(index.objects.get(gang.uid, ()), key=_manifest_order)
    is_base = base_of(gang) is None
    groups = index.groups_of_base.get(gang.key, ()) if of_set is not None and is_base else ()
    scaled = index.scaled_gangs.get(gang.key, ()) if of_set is not None and is_base else ()
    grouped = {group.name: [each for each in cliques if group_of(each) == group.name] for group in groups}
    return GangView(
        **_identity(gang, kinds.GANGS, index),
        why=reasons_of_gang(gang),
        phase=gang.status.phase or PENDING,
        replica=number_in(gang, labels.SET_REPLICA_INDEX) if of_set is not None else None,
        scaling_group="" if is_base else group_of(gang),
        group_replica=None if is_base else number_in(gang, labels.SCALING_GROUP_REPLICA_INDEX),
        backend=gang.labels.get(labels.SCHEDULER_BACKEND, ""),
        placement_score=gang.status.placement_score,
        minimum=gang.minimum,
        pod_count=max(sum(pod.keeps_place for pod in pods), _wanted(gang, cliques)),
        placed=sum(pod.bound and pod.keeps_place for pod in pods),
        ready=sum(pod.ready and pod.active for pod in pods),
        objects=tuple(_object(each, index) for each in objects),
        cliques=tuple(_clique(each, index) for each in _natural(cliques) if group_of(each) not in grouped),
        scaling_groups=tuple(_scaling_group(each, grouped[each.name], index) for each in _natural(groups)),
        scaled_gangs=tuple(_gang(each, index) for each in sorted(scaled, key=_scaled_order)),
        pods=tuple(_pod(pod, index) for pod in _natural(others)),
        conditions=gang.status.conditions,
    )


def _wanted(gang: PodGang, cliques: Collection[PodClique]) -> int:
    """How many pods the gang shall have; of one without cliques only its minimum is known."""
    return sum(clique.spec.replicas for clique in cliques) if cliques else gang.minimum


def _scaling_group(
    group: PodCliqueScalingGroup, cliques: Iterable[PodClique], index: Index
) -> ScalingGroupView:
    return ScalingGroupView(
        **_identity(group, kinds.SCALING_GROUPS, index),
        why=reasons_of_scaling_group(group),
        replicas=group.spec.replicas,
        minimum=group.spec.minimum,
        available=_available_replicas(group, index),
        cliques=tuple(_clique(clique, index) for clique in _natural(cliques)),
        conditions=group.status.conditions,
    )


def _clique(clique: PodClique, index: Index) -> CliqueView:
    pods = index.pods_of_clique.get(clique.key, ())
    return CliqueView(
        **_identity(clique, kinds.CLIQUES, index),
        why=reasons_of_clique(clique),
        replicas=clique.spec.replicas,
        minimum=clique.spec.minimum,
        ready=_ready_pods(clique, index),
        pods=tuple(_pod(pod, index) for pod in _natural(pods)),
        conditions=clique.status.conditions,
    )


def _available_replicas(group: PodCliqueScalingGroup, index: Index) -> int:
    """How many replicas have enough ready pods in every clique; counted, as its status may be older."""
    there = index.cliques_of_group.get(group.key, ())
    ready = {each.name for each in there if _ready_pods(each, index) >= each.spec.needed}
    numbers = {number_in(each, labels.SCALING_GROUP_REPLICA_INDEX) for each in there}
    return sum(
        all(names.group_clique(group.name, number, role) in ready for role in group.spec.clique_names)
        for number in numbers
        if number is not None and number < group.spec.replicas
    )


def _ready_pods(clique: PodClique, index: Index) -> int:
    return sum(pod.ready and pod.active for pod in index.pods_of_clique.get(clique.key, ()))


def _pod(pod: Pod, index: Index) -> PodView:
    why = reasons_of_pod(pod)
    stuck = next((reason.reason for reason in why if reason.source == CONTAINER), "")
    node = pod.spec.node_name
    return PodView(
        **_identity(pod, kinds.PODS, index),
        why=why,
        phase=stuck or phase_of(pod),
        ready=pod.ready,
        active=pod.active,
        hostname=pod.spec.hostname,
        node=index.nodes.get(node, NodeView(node)) if node else None,
        gates=tuple(gate.name for gate in pod.spec.scheduling_gates),
        conditions=pod.status.conditions,
    )


def _object(manifest: Manifest, index: Index) -> ObjectView:
    metadata = manifest["metadata"]
    return ObjectView(
        kind=str(manifest.get("kind", "")),
        api_version=str(manifest.get("apiVersion", "")),
        key=Key(metadata.get("namespace", ""), metadata["name"]),
        age=index.age(metadata.get("creationTimestamp", "")),
        terminating=metadata.get("deletionTimestamp") is not None,
        events=tuple(index.events.get(metadata.get("uid", ""), ())),
    )


class _Identity(TypedDict):
    """What every object's view has."""

    kind: str
    api_version: str
    key: Key
    age: timedelta | None
    terminating: bool
    events: tuple[EventView, ...]


def _identity(item: Object, resource: Resource, index: Index) -> _Identity:
    """What the metadata says; objects of a list come without their kind."""
    return {
        "kind": resource.kind,
        "api_version": resource.api_version,
        "key": item.key,
        "age": index.age(item.metadata.creation_timestamp),
        "terminating": item.terminating,
        "events": tuple(index.events.get(item.uid, ())),
    }


def _natural(items: Iterable[T]) -> list[T]:
    """`train-2` before `train-10`."""
    return sorted(items, key=lambda item: (len(item.name), item.name))


def _scaled_order(gang: PodGang) -> tuple[str, int, str]:
    """By group, then as `_natural` does."""
    return (group_of(gang), len(gang.name), gang.name)


def _manifest_order(manifest: Manifest) -> tuple[str, str]:
    return (str(manifest.get("kind", "")), str(manifest["metadata"]["name"]))
