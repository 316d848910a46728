"""From one PodCliqueSet to every object that would exist, for one scheduler backend. Pure: asks no cluster.

Runs the operator's own judgement, plans and backends, so a preview cannot differ from what the operator does.
UIDs, which only an API server can give, are derived from names. Names that contain a UID (of pods, of KAI's
PodGroups) are therefore stable from one rendering to the next, but are others in a cluster.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec

from grove.admission import Topology, default, validate, validate_topology_binding, warnings
from grove.api import kinds, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.decode import decode
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.api.revision import next_revision
from grove.api.topology import ClusterTopologyBinding
from grove.backends.base import Backend, Cluster, Context, Fidelity, Loss, TopologyAware
from grove.backends.default import DefaultBackend
from grove.backends.kai import BIND_REQUESTS, MIN_SUBGROUP_FIELD, PODGROUPS, QUEUES, STALENESS_FIELD
from grove.backends.kai_topology import TOPOLOGIES
from grove.backends.native.generation import DISRUPTION_FIELD, GROUP, TOPOLOGY_FIELD
from grove.backends.registry import BUILT_INS, Registry
from grove.backends.volcano_objects import SUBGROUPS_FIELD, TIER_NAME_FIELD
from grove.backends.volcano_sight import HYPERNODES
from grove.backends.volcano_topology import discovered
from grove.errors import FieldError, InvalidInput, Unsupported, Waiting
from grove.extensions import installed
from grove.meta import Manifest, Object
from grove.plan.changes import Create
from grove.plan.children import Observed, Settled, plan_children
from grove.plan.gangs import references, referencing_podgroups, topology_name
from grove.plan.pods import desired_pod, plan_pods
from grove.plan.support import notices, unsupported
from grove.plan.topology import levels_condition, unmet_requirements

V = TypeVar("V", bound=Object)

_PAIR: Final = frozenset({"workloads", "podgroups"})

#: What each Kubernetes minor serves for gangs when its feature gates are on; `none` has none of it.
NATIVE: Final[Mapping[str, Cluster]] = {
    "1.35": Cluster({f"{GROUP}/v1alpha1": frozenset({"workloads"})}, version="1.35"),
    "1.36": Cluster(
        {f"{GROUP}/v1alpha2": _PAIR}, frozenset({TOPOLOGY_FIELD, DISRUPTION_FIELD}), version="1.36"
    ),
    "1.37": Cluster(
        {f"{GROUP}/v1beta1": _PAIR, f"{GROUP}/v1alpha3": _PAIR | {"compositepodgroups"}},
        frozenset({TOPOLOGY_FIELD}),
        version="1.37",
    ),
    "none": Cluster(),
}
#: KAI brings its own kinds and does not depend on the Kubernetes minor.
_KAI_FIELDS: Final = frozenset({MIN_SUBGROUP_FIELD, STALENESS_FIELD})
_VOLCANO_FIELDS: Final = frozenset({SUBGROUPS_FIELD, TIER_NAME_FIELD})
#: What is taken for granted where there is no cluster to look at: the plugin and HyperNodes for Volcano.
_GRANTED: Final[Mapping[str, Mapping[str, str]]] = {"volcano": {"networkTopology": "Enabled"}}


@dataclass(frozen=True, slots=True)
class Judged:
    """A set that may be stored, with its defaults filled in."""

    cliqueset: PodCliqueSet
    topology: ClusterTopologyBinding | None = None
    #: What is allowed but deserves a word.
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lost:
    """What one gang loses in translation."""

    gang: str
    loss: Loss

    def __str__(self) -> str:
        return f"PodGang {self.gang}: {self.loss.property} {self.loss.fidelity}: {self.loss.reason}"


@dataclass(frozen=True, slots=True)
class Rendering:
    """Everything that one backend makes of one set, in the order in which it must exist."""

    backend: str
    objects: tuple[Manifest, ...]
    losses: tuple[Lost, ...] = field(default=())


def cluster(minor: str) -> Cluster:
    """A cluster of this Kubernetes minor (or `none`) in which the other schedulers are installed too."""
    native = NATIVE[minor]
    served = dict(native.served)
    for each in (PODGROUPS, QUEUES, BIND_REQUESTS, TOPOLOGIES, HYPERNODES):
        served[each.api_version] = served.get(each.api_version, frozenset()) | {each.plural}
    brought = [make() for name, make in BUILT_INS.items() if name != DefaultBackend.name]
    for each in [kind for other in [*brought, *third_parties()] for kind in other.resources(Context(native))]:
        served[each.api_version] = served.get(each.api_version, frozenset()) | {each.plural}
    return Cluster(served, native.fields | _KAI_FIELDS | _VOLCANO_FIELDS, native.version)


def registry() -> Registry:
    """Every backend that ships with Grove or is installed beside it, enabled."""
    others = third_parties()
    names = [*BUILT_INS, *(each.name for each in others)]
    return Registry.of(names, "default", third_parties=others)


def third_parties() -> list[Backend]:
    """The backends of other packages that can be used."""
    return [each.backend for each in installed() if each.backend is not None]


def judge(manifest: Manifest, bindings: Mapping[str, Manifest]) -> Judged:
    """The set as the operator would understand it; raises InvalidInput with everything wrong with it."""
    decode(manifest, PodCliqueSet, strict=True)
    filled = default(_named(manifest))
    cliqueset = _view(filled, PodCliqueSet)
    binding = bindings.get(topology_name(cliqueset))
    topology = topology_of(binding) if binding is not None else None
    known = Topology(enabled=True, binding=topology)
    if not cliqueset.name:
        raise InvalidInput([FieldError("metadata.name", "is required")])
    levels = levels_condition(cliqueset, topology, enabled=True)
    for errors in (
        validate(cliqueset, topology=known),
        unsupported(cliqueset),
        unmet_requirements(cliqueset, levels),
    ):
        if errors:
            raise InvalidInput(errors)
    said = [*warnings(cliqueset, topology=known), *(str(notice) for notice in notices(cliqueset))]
    return Judged(cliqueset, topology, tuple(said))


def topology_of(manifest: Manifest) -> ClusterTopologyBinding:
    """A topology binding as the operator would understand it; raises InvalidInput."""
    decode(manifest, ClusterTopologyBinding, strict=True)
    binding = _view(_named(manifest), ClusterTopologyBinding)
    if errors := validate_topology_binding(binding):
        raise InvalidInput(errors)
    return binding


def select(judged: Judged, name: str) -> Backend:
    """The named backend, or the one that the set asks for; raises InvalidInput."""
    named = registry().find(name) if name else None
    if named is not None:
        return named
    selection = registry().select(judged.cliqueset)
    if selection.backend is None:
        raise InvalidInput(selection.errors)
    return selection.backend


def render_set(judged: Judged, backend: Backend, on: Cluster) -> Rendering:
    """Every object that would exist; raises InvalidInput when the backend refuses the set."""
    cliqueset = judged.cliqueset
    # As things are when they have settled: some schedulers' objects say less while gates are closed.
    seen = {HYPERNODES: discovered(judged.topology)} if judged.topology is not None else {}
    context = Context(on, _GRANTED.get(backend.name, {}), cliqueset, seen, released=True)
    if errors := backend.validate(cliqueset, context):
        raise InvalidInput(errors)
    plan = plan_children(Observed(cliqueset, {}, {}, {}, judged.topology, backend.name), Settled())
    children = [_named(change.manifest) for change in plan.changes if isinstance(change, Create)]
    gangs = {
        each["metadata"]["name"]: _view(each, PodGang)
        for each in children
        if each["kind"] == kinds.GANGS.kind
    }
    objects: list[Manifest] = []
    losses: list[Lost] = []
    if judged.topology is not None and isinstance(backend, TopologyAware):
        objects.append(_named(backend.desired_topology(judged.topology)))
    pods = _pods(children, gangs, backend, context)
    for child in children:
        if child["kind"] == kinds.GANGS.kind:
            gang = gangs[child["metadata"]["name"]]
            child["spec"]["podgroups"] = _referenced(gang, pods.get(gang.name, ()))
            objects.append(child)
            made, lost = _translated(_view(child, PodGang), backend, context)
            objects += made
            losses += lost
        else:
            objects.append(child)
    objects += [pod for group in pods.values() for pod in group]
    return Rendering(backend.name, tuple(map(_presentable, objects)), tuple(losses))


def _pods(
    children: Sequence[Manifest], gangs: Mapping[str, PodGang], backend: Backend, context: Context
) -> dict[str, list[Manifest]]:
    """The pods of every clique as they are created, by gang."""
    found: dict[str, list[Manifest]] = {}
    for child in children:
        if child["kind"] != kinds.CLIQUES.kind:
            continue
        clique = _view(child, PodClique)
        gang = gangs[clique.labels[labels.POD_GANG]]
        revision = next_revision(gang)
        for new in plan_pods(clique, (), gang=gang, revision=revision).create:
            pod = backend.prepare_pod(desired_pod(clique, new, revision), gang, context)
            found.setdefault(gang.name, []).append(_named(pod))
    return found


def _referenced(gang: PodGang, pods: Sequence[Manifest]) -> list[Manifest]:
    """The gang's podgroups once all of its pods exist."""
    found = references(gang, [_view(pod, Pod) for pod in pods])
    groups = referencing_podgroups(gang, found)
    return groups if groups is not None else [msgspec.to_builtins(each) for each in gang.spec.podgroups]


def _translated(gang: PodGang, backend: Backend, context: Context) -> tuple[list[Manifest], list[Lost]]:
    try:
        translation = backend.translate(gang, context)
    except (Unsupported, Waiting) as failure:
        raise InvalidInput([FieldError("", str(failure))]) from None
    lost = [Lost(gang.name, each) for each in translation.losses if each.fidelity is not Fidelity.ENFORCED]
    return [_named(each) for each in translation.manifests], lost


def _named(manifest: Manifest) -> Manifest:
    """The manifest with a UID that follows from what it is and where it lives."""
    metadata = manifest.get("metadata") or {}
    place = "/".join(
        str(each or "")
        for each in (
            manifest.get("apiVersion"),
            manifest.get("kind"),
            metadata.get("namespace"),
            metadata.get("name"),
        )
    )
    uid = metadata.get("uid") or str(uuid.uuid5(uuid.NAMESPACE_URL, f"grove:{place}"))
    return {**manifest, "metadata": {**metadata, "uid": uid}}


def _presentable(manifest: Manifest) -> Manifest:
    """Without the UID that we gave it: only references to it are shown."""
    metadata = {name: value for name, value in manifest["metadata"].items() if name != "uid"}
    return {**manifest, "metadata": metadata}


def _view(manifest: Manifest, type_: type[V]) -> V:
    return decode(manifest, type_)
