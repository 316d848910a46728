"""The input of the read model: objects as they were read, grouped by what they belong to. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from grove.api import labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.pod import Pod
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


@dataclass(frozen=True, slots=True)
class Index:
    """What belongs to each object; looked up, because a big cluster has thousands of each."""

    now: datetime
    gangs_of_set: Mapping[Key, Sequence[PodGang]]
    cliques_of_set: Mapping[Key, Sequence[PodClique]]
    cliques_of_gang: Mapping[Key, Sequence[PodClique]]
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
        return cls(
            now,
            _by_label([gang for gang in world.gangs if not is_standalone(gang)], labels.PART_OF),
            _by_label(world.cliques, labels.PART_OF),
            _by_label(world.cliques, labels.POD_GANG),
            _by_label(pods, labels.POD_GANG),
            _by_label(pods, labels.POD_CLIQUE),
            _by_owner(world.objects),
            {node.name: node for node in map(node_view, world.nodes)},
            _events(world.events),
        )

    def age(self, created: str) -> timedelta | None:
        """How long ago an object was created."""
        return self.now - datetime.fromisoformat(created) if created else None


def set_of(gang: PodGang) -> Key | None:
    """The set that a gang belongs to; a standalone gang may carry such a label by chance."""
    name = gang.labels.get(labels.PART_OF, "")
    return Key(gang.namespace, name) if name and not is_standalone(gang) else None


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


def _by_label(items: Iterable[T], label: str) -> dict[Key, list[T]]:
    found: dict[Key, list[T]] = {}
    for item in items:
        found.setdefault(Key(item.namespace, item.labels.get(label, "")), []).append(item)
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
