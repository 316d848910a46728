"""The backend contract: what Grove asks of the translator for one scheduler.

A backend translates; it does not synchronise. `translate` returns manifests, `prepare_pod` returns a pod,
`read` returns a verdict; one applier and one reporter do all the I/O. Everything here is pure: what a backend
must know about the cluster reaches it as a `Context`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Protocol, TypeGuard, TypeVar, runtime_checkable

from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.api.topology import ClusterTopologyBinding
from grove.errors import FieldError
from grove.meta import Manifest, Resource


class Capability(StrEnum):
    """What a scheduler can honour; the support matrix and admission are made from these."""

    GANG = "gang"
    SUBGROUPS = "subgroups"
    HIERARCHY = "hierarchy"
    TOPOLOGY_REQUIRED = "topology-required"
    TOPOLOGY_PREFERRED = "topology-preferred"
    #: That a scaled gang stays in the domain of its replica, which its set requires or prefers.
    REPLICA_TOPOLOGY = "replica-topology"
    PRIORITY = "priority"
    QUEUE = "queue"
    REUSE = "reuse-reservation"
    PLACEMENT_SCORE = "placement-score"


class Fidelity(StrEnum):
    """How faithfully a scheduler honours one property of a gang."""

    ENFORCED = "enforced"
    APPROXIMATED = "approximated"
    NOT_EXPRESSIBLE = "not expressible"


class Edit(StrEnum):
    """What a user may change of a gang that is placed."""

    MINIMUM = "minimum"
    PRIORITY = "priority"
    TOPOLOGY = "topology"


@dataclass(frozen=True, slots=True)
class Treatment:
    """One property of a gang and what becomes of it in translation; see `treatments.account`."""

    property: str
    fidelity: Fidelity
    reason: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class Cluster:
    """What discovery said about the cluster: which resources are served, in which version.

    `served` maps `group/version` to plurals; `fields` holds dotted field paths that a dry-run probe or the
    CRD's schema showed to be kept, e.g. `podgroups.scheduling.k8s.io:spec.schedulingConstraints`.
    """

    served: Mapping[str, frozenset[str]] = field(default_factory=dict)
    fields: frozenset[str] = frozenset()
    version: str = ""

    def serves(self, resource: Resource) -> bool:
        return resource.plural in self.served.get(resource.api_version, frozenset())


@dataclass(frozen=True, slots=True)
class Remark:
    """What a scheduler last wrote about a pod in an event."""

    text: str
    #: Whether more was written since: an event that is repeated keeps the text of the first time.
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Context:
    """What a backend may know besides the gang itself."""

    cluster: Cluster = Cluster()
    #: The profile's `config` from the operator's configuration, verbatim.
    config: Mapping[str, Any] = field(default_factory=dict)
    #: The set that the gang belongs to, when it belongs to one.
    cliqueset: PodCliqueSet | None = None
    #: What the backend asked to see (`Traits.observes`). A kind that is not here is not known (yet): no
    #: reason to complain. An empty tuple says that there is none.
    observed: Mapping[Resource, tuple[Manifest, ...]] = field(default_factory=dict)
    #: Whether the gates of all pods of the gang's minimum are open, so that nothing of ours keeps it from
    #: being placed.
    released: bool = False
    #: The revision of the gang (`api.revision`), a part of the names of its objects; empty for that of a gang
    #: without pods.
    revision: str = ""
    #: How many pods of each podgroup are on a node now.
    bound: Mapping[str, int] = field(default_factory=dict)
    #: What the scheduler wrote in events (`Traits.events`) about pods of the gang that have no node, by the
    #: UIDs of the pods. None as long as events are not known: they were not listed yet, or may not be.
    remarks: Mapping[str, Remark] | None = None
    #: How many living pods of each podgroup's minimum belong to no native gang; only those that have some.
    ungrouped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Translation:
    """The scheduler's objects for one gang, in the order in which they must exist.

    `treatments` accounts for every property of the gang, also for those that are enforced.
    """

    manifests: tuple[Manifest, ...] = ()
    treatments: tuple[Treatment, ...] = ()


class Verdict(StrEnum):
    """What the scheduler has decided about a gang so far."""

    WAITING = "Waiting"
    SCHEDULED = "Scheduled"
    UNSCHEDULABLE = "Unschedulable"


@dataclass(frozen=True, slots=True)
class Reading:
    """The scheduler's word on a gang: a verdict, a short CamelCase reason and its own sentence."""

    verdict: Verdict
    reason: str = ""
    message: str = ""
    placement_score: float | None = None


@dataclass(frozen=True, slots=True)
class Precondition:
    """Something a scheduler needs in the cluster; `missing` says what is absent and how to get it."""

    name: str
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """An object to POST with `dryRun=All&fieldValidation=Strict`, to see which gated fields the server keeps.

    Each path of `fields` (dotted, e.g. `spec.disruptionMode`) that comes back as it was sent belongs into
    `Cluster.fields` as `<resource>:<path>`. A server may drop what was sent and put its default there.
    """

    resource: Resource
    manifest: Manifest
    fields: tuple[str, ...] = ()

    def facts(self, answer: Manifest | None) -> frozenset[str]:
        """What the server's answer adds to `Cluster.fields`; None stands for a refusal."""
        if answer is None:
            return frozenset()
        return frozenset(f"{self.resource}:{path}" for path in self.fields if self._kept(answer, path))

    def _kept(self, answer: Manifest, path: str) -> bool:
        sent = [value for value in _values(self.manifest, path) if not isinstance(value, dict | list)]
        found = list(_values(answer, path))
        return any(value in found for value in sent) if sent else bool(found)


def _values(value: object, path: str) -> Iterator[object]:
    """What stands at a dotted path; a list has what its items have."""
    if path and isinstance(value, list):
        for item in value:
            yield from _values(item, path)
    elif path and isinstance(value, dict):
        step, _, rest = path.partition(".")
        yield from _values(value.get(step), rest)
    elif not path and value is not None:
        yield value


class Backend(Protocol):
    """What a scheduler must be able to say. See `testing.BackendConformance` for the rules as tests."""

    #: The backend's name: the value of the label and annotation `grove.io/scheduler-backend`.
    name: ClassVar[str]
    #: What pods get as `spec.schedulerName`.
    scheduler_name: ClassVar[str]
    #: The gate that every pod of this backend is born with.
    scheduling_gate: ClassVar[str]

    def matches(self, scheduler_name: str) -> bool:
        """Whether pods that ask for this schedulerName are this backend's."""
        ...

    def capabilities(self, context: Context) -> frozenset[Capability]:
        """What the scheduler can honour on this cluster."""
        ...

    def resources(self, context: Context) -> Sequence[Resource]:
        """The kinds of object that this backend writes here; they are watched and wake their gang."""
        ...

    def preconditions(self, context: Context) -> Sequence[Precondition]:
        """What must be in the cluster for this backend to work, and what of it is missing."""
        ...

    def validate(self, cliqueset: PodCliqueSet, context: Context) -> Sequence[FieldError]:
        """What this scheduler cannot honour of a set, field by field."""
        ...

    def translate(self, gang: PodGang, context: Context) -> Translation:
        """The scheduler's objects for a gang; raises Unsupported, or Waiting for a precondition."""
        ...

    def prepare_pod(self, pod: Manifest, gang: PodGang, context: Context) -> Manifest:
        """The pod with schedulerName, gate, labels, annotations and link fields of this scheduler."""
        ...

    def read(
        self, gang: PodGang, objects: Sequence[Manifest], pods: Sequence[Pod], context: Context
    ) -> Reading:
        """The scheduler's verdict from its objects and the gang's pods."""
        ...


@dataclass(frozen=True, slots=True)
class ObservedResource:
    """A kind of which a backend must see what others made: all of it, or one object."""

    resource: Resource
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class EventSource:
    """The events about pods that one component writes, of one reason or of all."""

    component: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Traits:
    """What is particular about a backend on one cluster, whatever the gang. The default: nothing."""

    #: What to ask the API server because discovery cannot tell: which gated fields it keeps. The answers go
    #: into `Cluster.fields`.
    probes: tuple[Probe, ...] = ()
    #: Objects of others on which the backend depends: queues, topologies, its scheduler's configuration. They
    #: arrive in `Context.observed`; when one changes, every gang of the backend is looked at again. A kind
    #: that the cluster does not serve is left out by the caller.
    observes: tuple[ObservedResource, ...] = ()
    #: The events in which alone the scheduler says why a pod waits; the narrowest selection that has the
    #: reasons. They are watched where the backend is enabled, arrive in `Context.remarks`, and wake the gang.
    events: EventSource | None = None
    #: The edits of which the scheduler can be told while pods of the gang are on nodes, so that a pod that is
    #: lost can still be replaced and placed. Any other waits until the gang is placed again; a gang without
    #: pods on nodes takes every edit at once.
    editable: frozenset[Edit] = frozenset()
    #: The keys that the backend reads of its profile's `config`, on every cluster the same; another key gets
    #: a warning. None: not known, and nothing is compared.
    config_keys: frozenset[str] | None = None
    #: What the installed release of the scheduler lacks, and what becomes of gangs because of it: a sentence
    #: each, without its full stop. `grove doctor` says them; gangs that are concerned have a `Treatment`.
    shortcomings: tuple[str, ...] = ()


@runtime_checkable
class WithTraits(Protocol):
    """A backend of which more must be known than the required methods tell: see `Traits`."""

    def traits(self, context: Context) -> Traits:
        """Decided from the context's `cluster` and `config` alone; asked again when one of them changes."""
        ...


@dataclass(frozen=True, slots=True)
class Marks:
    """Labels and annotations of a pod."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GangSnapshot:
    """One gang as it is now: what a `Lifecycle` is made from."""

    gang: PodGang
    #: Its pods, those included that a scheduler made to hold places for them.
    pods: Sequence[Pod]
    context: Context
    now: datetime
    #: The scheduler's objects that the gang has, without those that are being deleted.
    objects: Sequence[Manifest] = ()
    #: What the gang is translated to now; empty where it cannot be translated.
    translated: Sequence[Manifest] = ()


@dataclass(frozen=True, slots=True)
class FixedFields:
    """What of an object cannot be changed in place.

    Only fields that the translated object mentions are compared: the server fills in others.
    """

    #: The dotted paths that the API server refuses to change.
    paths: tuple[str, ...]
    #: Whether such an object is deleted and created again under its name. Otherwise it stays as it is for as
    #: long as pods of the gang are on nodes; the next start has another name.
    replaceable: bool = False


#: A scheduler's object of one gang: its kind and its name.
ObjectName = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """What a scheduler needs of a gang beyond its objects, at one moment. The default: nothing."""

    #: Whether the scheduler starts a gang only once under one name. When a pod that the gang lists is lost
    #: before any is placed, such a gang is restarted: it gets another revision, and new pods.
    starts_once: bool = False
    #: The names of pods that the scheduler ended with the present start; they are kept until the next one.
    keep: frozenset[str] = frozenset()
    #: How many places the scheduler holds for the gang before it is complete; None where it never holds any.
    #: Gangs that each hold a part of what all of them need would wait for one another for ever.
    reserved: int | None = None
    #: How many more places the scheduler still looks for. With those that it holds they make up the minimum;
    #: when they no longer do, places were lost and the scheduler does not replace them.
    sought: int = 0
    #: By the name of a pod, what it must get when its gate opens, because time has passed.
    on_opening: Mapping[str, Marks] = field(default_factory=dict)
    #: The translated objects of which something cannot be changed in place.
    fixed: Mapping[ObjectName, FixedFields] = field(default_factory=dict)
    #: How an object that was deleted by hand must come back where the scheduler loses the membership of pods
    #: with it: nothing may be placed under it. It stays so while `hold_back` is set.
    recreated: Mapping[ObjectName, Manifest] = field(default_factory=dict)
    hold_back: bool = False
    #: Pods that must change for the scheduler to hear of them, and how.
    touch: tuple[tuple[Pod, Marks], ...] = ()
    #: Pods without a node of which it will not hear in any case: only new ones in their place are tried.
    replace: tuple[Pod, ...] = ()


@runtime_checkable
class WithLifecycle(Protocol):
    """A backend whose scheduler needs more of a gang than its objects: see `Lifecycle`."""

    def lifecycle(self, snapshot: GangSnapshot) -> Lifecycle:
        """What to hold back, keep, replace or touch now."""
        ...


@runtime_checkable
class TopologyAware(Protocol):
    """A backend whose scheduler reads the cluster's topology from an object of its own."""

    topology_resource: ClassVar[Resource]

    def desired_topology(self, binding: ClusterTopologyBinding) -> Manifest:
        """The scheduler's topology object: named like the binding and owned by it."""
        ...

    def levels_of(self, manifest: Manifest) -> tuple[str, ...]:
        """The node label keys of a topology object, broadest first; compare with the binding's."""
        ...


P = TypeVar("P")

_OFFERS: dict[tuple[type, type], bool] = {}


def offers(backend: object, protocol: type[P]) -> TypeGuard[P]:
    """Whether a backend also speaks an optional protocol; remembered, as it is asked for every gang."""
    question = type(backend), protocol
    known = _OFFERS.get(question)
    if known is None:
        known = _OFFERS[question] = isinstance(backend, protocol)
    return known


def traits_of(backend: "Backend | None", context: Context) -> Traits:
    """What is particular about a backend on a cluster; nothing if it does not say."""
    return backend.traits(context) if offers(backend, WithTraits) else Traits()


def lifecycle_of(backend: "Backend | None", snapshot: GangSnapshot) -> Lifecycle:
    """What a backend says about a gang at one moment; nothing if it does not say."""
    return backend.lifecycle(snapshot) if offers(backend, WithLifecycle) else Lifecycle()


def object_name(manifest: Manifest) -> ObjectName:
    """By what `Lifecycle` names a translated object."""
    return str(manifest["kind"]), str(manifest["metadata"]["name"])
