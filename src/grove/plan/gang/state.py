"""Everything that the decisions about one gang depend on, as values.

The controller fills a `GangState` from the cache; nothing here reads or writes.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from grove.api import conditions, labels
from grove.api.clique import PodClique
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Backend, Context, Lifecycle, Translation
from grove.errors import GroveError
from grove.meta import Manifest, Resource, UntypedObject, find_condition
from grove.plan.gang.standalone import Adoption, PodPreparation, is_standalone
from grove.plan.gang.standalone import wanted as standalone_wanted
from grove.plan.kept import KeptChild


@dataclass(frozen=True, slots=True)
class Translated:
    """A gang as its scheduler's objects, or why it cannot be translated."""

    translation: Translation = field(default_factory=Translation)
    #: What the scheduler needs of the gang beyond its objects, known also where there are none.
    lifecycle: Lifecycle = field(default_factory=Lifecycle)
    failure: GroveError | None = None


@dataclass(frozen=True, slots=True)
class WantedObject:
    """One object of the translation, the resource that serves it and what exists under its name."""

    manifest: Manifest
    resource: Resource
    existing: UntypedObject | None = None


@dataclass(frozen=True, slots=True)
class OwnedObject:
    """A scheduler object that the gang owns, whichever backend made it."""

    item: UntypedObject
    resource: Resource


@dataclass(frozen=True, slots=True)
class OtherGang:
    """Another gang of the same backend that is not placed, with its pods."""

    gang: PodGang
    pods: Sequence[Pod]


@dataclass(frozen=True, slots=True)
class BaseGang:
    """The gang that must be placed before this one."""

    name: str
    placed: bool


@dataclass(frozen=True, slots=True)
class StepBackTime:
    """For how many seconds more a preempted gang steps back; zero for one that was not preempted."""

    #: In any case.
    least: float = 0.0
    #: While a gang of higher priority waits.
    most: float = 0.0


@dataclass(frozen=True, slots=True)
class PartialMemory:
    """What is remembered of a gang that holds a part of its nodes; empty for one that does not."""

    #: How much it holds, and since when that has not changed.
    holding: Hashable = None
    since: float = 0.0
    #: The revision for which its scheduler has held places.
    reserved_for: str = ""
    #: When it gave back the places that were held for it, and whether to any gang or to one with precedence.
    gave_back: float | None = None
    to_any: bool = False


@dataclass(frozen=True, slots=True)
class Duties:
    """What this process writes of the gang: a backend may have a process of its own (decision 0011)."""

    #: Scheduler objects, references and status.
    objects: bool = True
    #: Pods: the gates of all gangs are opened by the operator.
    pods: bool = True


# Without slots: what is asked for again and again in a look is found out once.
@dataclass(frozen=True)
class GangState:
    """A gang with everything that its objects, references, gates and status depend on."""

    gang: PodGang
    backend: Backend | None
    context: Context
    now: datetime
    duties: Duties = field(default_factory=Duties)
    cliques: Sequence[PodClique] = ()
    #: Its pods, those included that a scheduler made to hold places for them.
    pods: Sequence[Pod] = ()
    owned: Sequence[OwnedObject] = ()
    translated: Translated = field(default_factory=Translated)
    wanted_objects: Sequence[WantedObject] = ()
    #: Living pods that carry the gang's labels and belong to nobody.
    stray_pods: Sequence[Pod] = ()
    #: Pods of earlier cliques of the same names; their hostnames are needed for the gang's own.
    predecessors: Sequence[Pod] = ()
    #: Cliques and scaling groups that are to be made for the gang once what has their names is gone.
    kept: Sequence[KeptChild] = ()
    #: The backend that the gang's set asks for; empty where no set asks for one.
    asked_backend: str = ""
    #: The backend that a gang of somebody else is to get; None for a gang that has one.
    adoption: Adoption | None = None
    #: What the pods of a gang of somebody else lack.
    preparations: Sequence[PodPreparation] = ()
    #: The gangs that this one may have to wait for. May be read from the cache while it is iterated: most
    #: gangs never ask.
    others: Iterable[OtherGang] = ()
    #: What a scaled gang with closed gates waits for; None for a base gang, and where no gate is closed.
    base: BaseGang | None = None
    step_back: StepBackTime = field(default_factory=StepBackTime)
    #: What was remembered of the part of its nodes that the gang holds, and the clock for it.
    partial: PartialMemory = field(default_factory=PartialMemory)
    monotonic: float = 0.0

    @cached_property
    def members(self) -> Sequence[Pod]:
        """Its pods, without those that only hold places."""
        return [pod for pod in self.pods if labels.POD_CLIQUE in pod.labels]

    @property
    def running(self) -> bool:
        """Whether any of its pods is on a node."""
        return any(self.context.bound.values())

    @property
    def wanted(self) -> Mapping[str, int]:
        """How many pods each podgroup wants; one whose clique does not exist yet is missing here."""
        if is_standalone(self.gang):
            return standalone_wanted(self.gang)
        # A scaling group below its minimum has no cliques for some podgroups, which then need no pod.
        nothing = {group.name: 0 for group in self.gang.spec.podgroups if not group.min_replicas}
        return nothing | {clique.name: clique.spec.replicas for clique in self.cliques}

    @property
    def waits_for_base(self) -> bool:
        """Whether its gates stay closed because the base gang is not placed."""
        return self.base is not None and not self.base.placed


@dataclass(frozen=True, slots=True)
class Wait:
    """That something happens later: in how many seconds to look again, and why."""

    seconds: float
    why: str


def is_waiting(gang: PodGang, backend: str) -> bool:
    """Whether a gang of this backend is still to be placed."""
    if gang.terminating or gang.labels.get(labels.SCHEDULER_BACKEND) != backend:
        return False
    scheduled = find_condition(gang.status.conditions, conditions.SCHEDULED)
    return scheduled is None or not scheduled.is_true


def highest_priority(pods: Sequence[Pod]) -> int:
    """The priority of a gang: that of its most urgent pod."""
    return max((pod.spec.priority or 0 for pod in pods), default=0)
