"""The values of the read model: built by `view.forest`, formatted by commands.

The order of `why` is a decision and is made in `view.reasons` and `view.pods`: the first reason is the one to
show where there is room for one only.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from grove.api.pod import PodCondition
from grove.meta import Condition, Key


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that is wrong with an object, or that is worth knowing about it."""

    #: What is wrong, in a few words: `not placed`.
    words: str
    #: What the source says about it, as it says it; may be empty.
    message: str = ""
    #: Who says so: the type of a condition, the code of an error, `container`, or nothing when nobody does.
    source: str = ""
    #: The one word for programs that comes with it: `Unschedulable`.
    reason: str = ""
    #: Whether it keeps the object from working; if not, it is a note.
    blocking: bool = True

    def __str__(self) -> str:
        """One line."""
        return f"{self.words}: {' '.join(self.message.split())}" if self.message else self.words


@dataclass(frozen=True, slots=True)
class EventView:
    """One event about an object."""

    type: str
    reason: str
    message: str
    count: int
    last_seen: datetime | None


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node: where it stands and what it offers."""

    name: str
    zone: str = ""
    rack: str = ""
    gpus: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectView:
    """What every object of the model has; a scheduler's object has nothing else."""

    kind: str
    api_version: str
    key: Key
    #: None where nobody says when the object was made.
    age: timedelta | None
    terminating: bool
    #: Why it is not as it should be, the dominant reason first; empty when it is.
    why: tuple[Reason, ...] = ()
    #: The latest first.
    events: tuple[EventView, ...] = ()

    @property
    def name(self) -> str:
        return self.key.name


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView(ObjectView):
    """One pod."""

    #: One word for where it is on its way; what a container is stuck at, where one is.
    phase: str
    ready: bool
    #: Whether it still fills its place: it is neither being deleted nor finished.
    active: bool
    hostname: str
    #: Known by its name alone where nodes were not looked at; None while the pod is not placed.
    node: NodeView | None
    gates: tuple[str, ...]
    conditions: tuple[PodCondition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CliqueView(ObjectView):
    """The pods of one role."""

    replicas: int
    #: How many of them the gang cannot do without.
    minimum: int
    ready: int
    pods: tuple[PodView, ...]
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingGroupView(ObjectView):
    """Cliques that are scaled together."""

    replicas: int
    #: How many of its replicas belong to the base gang.
    minimum: int
    available: int
    #: Those of the base gang; each further replica is a scaled gang, with its cliques.
    cliques: tuple[CliqueView, ...]
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GangView(ObjectView):
    """What is placed together: the scheduler's objects, the cliques and the pods."""

    phase: str
    #: The replica of the set; None where the gang belongs to no set.
    replica: int | None
    #: The replica of a scaling group that a scaled gang consists of; blank and None for any other gang.
    scaling_group: str
    group_replica: int | None
    backend: str
    placement_score: float | None
    #: Pods that the gang cannot do without, pods that there are, that are on nodes, and that are ready.
    minimum: int
    #: How many pods there are, or shall be if that is more; without those that are deleted or have failed.
    pod_count: int
    placed: int
    ready: int
    objects: tuple[ObjectView, ...]
    #: Those that are in none of its scaling groups.
    cliques: tuple[CliqueView, ...]
    scaling_groups: tuple[ScalingGroupView, ...]
    #: The gangs that wait until this one is placed, by group and replica.
    scaled_gangs: "tuple[GangView, ...]"
    #: Pods that belong to none of its cliques: those of a standalone gang.
    pods: tuple[PodView, ...]
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CliqueSetView(ObjectView):
    """A set and what was made for it."""

    replicas: int
    available: int
    #: How many gangs it has, scaled ones too, and how many of them are placed.
    gang_count: int
    placed: int
    #: The base gang of each replica, and scaled gangs whose base does not exist.
    gangs: tuple[GangView, ...]
    #: Scaling groups of replicas whose base gang does not exist.
    scaling_groups: tuple[ScalingGroupView, ...]
    #: Cliques whose gang does not exist.
    cliques: tuple[CliqueView, ...]
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Forest:
    """Everything that was found, each list by namespace and name."""

    cliquesets: tuple[CliqueSetView, ...] = ()
    #: Gangs that belong to no set that was found, such as standalone gangs.
    gangs: tuple[GangView, ...] = ()
