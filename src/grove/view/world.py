"""The input of the read model: objects as they were read, grouped by what they belong to. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from grove.api import kinds, labels, names
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.meta import Key, Manifest, Object
from grove.plan.gang.standalone import is_standalone
from grove.view.model import EventView, NodeView

GPU: Final = "nvidia.com/gpu"
ZONE: Final = "topology.kubernetes.io/zone"
RACK: Final = "topology.kubernetes.io/rack"

T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class World:
    """What was found in the cluster."""

    cliquesets: Sequence[PodCliqueSet]
    gangs: Sequence[PodGang] = ()
    cliques: Sequence[PodClique] = ()
    #: With the states of their containers where they are `ShownPod`s.
    pods: Sequence[Pod] = ()
    #: The schedulers' objects, of whatever kind.
    objects: Sequence[Manifest] = ()
    nodes: Sequence[Manifest] = ()
    #: Events of core/v1 about any of these.
    events: Sequence[Manifest] = ()
    scaling_groups: Sequence[PodCliqueScalingGroup] = ()


@dataclass(frozen=True, slots=True)
class Index:
    """What belongs to each object; looked up, because a big cluster has thousands of each."""

    now: datetime
    gangs_of_set: Mapping[Key, Sequence[PodGang]]
    #: By the base gang that they wait for.
    scaled_gangs: Mapping[Key, Sequence[PodGang]]
    groups_of_set: Mapping[Key, Sequence[PodCliqueScalingGroup]]
    groups_of_base: Mapping[Key, Sequence[PodCliqueScalingGroup]]
    cliques_of_set: Mapping[Key, Sequence[PodClique]]
    #: By gang and set: a gang of the same name that is not the set's own has none of its cliques.
    cliques_of_gang: Mapping[tuple[Key, Key], Sequence[PodClique]]
    #: Of all its replicas.
    cliques_of_group: Mapping[Key, Sequence[PodClique]]
    pods_of_gang: Mapping[Key, Sequence[Pod]]
    pods_of_clique: Mapping[Key, Sequence[Pod]]
    #: By the UID of the owner.
    objects: Mapping[str, Sequence[Manifest]]
    #: By name.
    nodes: Mapping[str, NodeView]
    #: By the UID of the object that they are about; the latest first.
    events: Mapping[str, Sequence[EventView]]

    @classmethod
    def of(cls, world: World, now: datetime) -> "Index":
        pods = _members(world)
        gangs = [gang for gang in world.gangs if not is_standalone(gang)]
        return cls(
            now,
            gangs_of_set=_by_label(gangs, labels.PART_OF),
            scaled_gangs=_by_label(gangs, labels.BASE_POD_GANG),
            groups_of_set=_by_label(world.scaling_groups, labels.PART_OF),
            groups_of_base=_by_base_gang(world.scaling_groups),
            cliques_of_set=_by_label(world.cliques, labels.PART_OF),
            cliques_of_gang=_by_gang(world.cliques),
            cliques_of_group=_by_label(world.cliques, labels.SCALING_GROUP),
            pods_of_gang=_pods_by_gang(world, pods),
            pods_of_clique=_by_label(filter(_has_clique, pods), labels.POD_CLIQUE),
            objects=_by_owner(world.objects),
            nodes={node.name: node for node in map(node_view, world.nodes)},
            events=_events(world.events),
        )

    def age(self, created: str) -> timedelta | None:
        """How long ago an object was created."""
        return self.now - datetime.fromisoformat(created) if created else None


def set_of(gang: PodGang) -> Key | None:
    """The set that a gang belongs to; a standalone gang may carry such a label by chance."""
    name = gang.labels.get(labels.PART_OF, "")
    return Key(gang.namespace, name) if name and not is_standalone(gang) else None


def base_of(gang: PodGang) -> Key | None:
    """The gang that must be placed before a scaled gang; None for any other gang."""
    base = gang.labels.get(labels.BASE_POD_GANG, "")
    return Key(gang.namespace, base) if base and not is_standalone(gang) else None


def base_of_group(group: PodCliqueScalingGroup) -> Key | None:
    """The base gang of the replica that a scaling group belongs to; None where it does not say which."""
    replica = number_in(group, labels.SET_REPLICA_INDEX)
    if replica is None:
        return None
    return Key(group.namespace, names.base_gang(group.labels.get(labels.PART_OF, ""), replica))


def gang_of(clique: PodClique) -> Key:
    """The gang that a clique belongs to."""
    return Key(clique.namespace, clique.labels.get(labels.POD_GANG, ""))


def group_of(item: Object) -> str:
    """The name of the scaling group that a clique or a scaled gang belongs to; blank for any other."""
    return item.labels.get(labels.SCALING_GROUP, "")


def number_in(item: Object, label: str) -> int | None:
    """The number that an object has as a label; None where it has none."""
    return labels.number(item.labels, label)


def node_view(manifest: Manifest) -> NodeView:
    """What is to be known about a node."""
    metadata = manifest["metadata"]
    marks = metadata.get("labels") or {}
    capacity = (manifest.get("status") or {}).get("capacity") or {}
    return NodeView(metadata["name"], marks.get(ZONE, ""), marks.get(RACK, ""), int(capacity.get(GPU, 0)))


def _members(world: World) -> list[Pod]:
    """The pods without the stray ones, which carry the labels of a clique and which no clique owns."""
    standalone = {gang.key for gang in world.gangs if is_standalone(gang)}
    return [
        pod
        for pod in world.pods
        if pod.owner is not None
        or labels.POD_CLIQUE not in pod.labels
        or Key(pod.namespace, pod.labels.get(labels.POD_GANG, "")) in standalone
    ]


def _pods_by_gang(world: World, pods: Iterable[Pod]) -> dict[Key, list[Pod]]:
    """The pods of each gang, without those of a clique that belongs to another gang of the same name."""
    sets = {gang.key: set_of(gang) for gang in world.gangs}
    cliques = {clique.key: clique for clique in world.cliques}
    found: dict[Key, list[Pod]] = {}
    for pod in pods:
        gang = Key(pod.namespace, pod.labels.get(labels.POD_GANG, ""))
        clique = cliques.get(Key(pod.namespace, pod.labels.get(labels.POD_CLIQUE, "")))
        if clique is None or not _has_clique(pod) or sets.get(gang) == _set_of_clique(clique):
            found.setdefault(gang, []).append(pod)
    return found


def _has_clique(pod: Pod) -> bool:
    return pod.owner is not None and pod.owner.kind == kinds.CLIQUES.kind


def _set_of_clique(clique: PodClique) -> Key:
    return Key(clique.namespace, clique.labels.get(labels.PART_OF, ""))


def _by_gang(cliques: Iterable[PodClique]) -> dict[tuple[Key, Key], list[PodClique]]:
    found: dict[tuple[Key, Key], list[PodClique]] = {}
    for each in cliques:
        found.setdefault((gang_of(each), _set_of_clique(each)), []).append(each)
    return found


def _by_label(items: Iterable[T], label: str) -> dict[Key, list[T]]:
    found: dict[Key, list[T]] = {}
    for item in items:
        found.setdefault(Key(item.namespace, item.labels.get(label, "")), []).append(item)
    return found


def _by_base_gang(groups: Iterable[PodCliqueScalingGroup]) -> dict[Key, list[PodCliqueScalingGroup]]:
    found: dict[Key, list[PodCliqueScalingGroup]] = {}
    for group in groups:
        if (base := base_of_group(group)) is not None:
            found.setdefault(base, []).append(group)
    return found


def _by_owner(manifests: Iterable[Manifest]) -> dict[str, list[Manifest]]:
    found: dict[str, list[Manifest]] = {}
    for each in manifests:
        for owner in each["metadata"].get("ownerReferences") or ():
            found.setdefault(str(owner.get("uid")), []).append(each)
    return found


def _events(manifests: Iterable[Manifest]) -> dict[str, list[EventView]]:
    found: dict[str, list[EventView]] = {}
    for each in manifests:
        uid = (each.get("involvedObject") or {}).get("uid", "")
        found.setdefault(str(uid), []).append(_event(each))
    return {uid: sorted(events, key=_moment, reverse=True) for uid, events in found.items()}


def _event(manifest: Manifest) -> EventView:
    # Events of the newer API have only the time at which they happened.
    last = manifest.get("lastTimestamp") or manifest.get("eventTime")
    return EventView(
        str(manifest.get("type", "")),
        str(manifest.get("reason", "")),
        str(manifest.get("message", "")),
        int(manifest.get("count") or 1),
        datetime.fromisoformat(last) if last else None,
    )


def _moment(event: EventView) -> datetime:
    return event.last_seen or datetime.min.replace(tzinfo=UTC)
