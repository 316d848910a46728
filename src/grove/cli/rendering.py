"""From one PodCliqueSet to every object that would exist, for one scheduler backend. Pure: asks no cluster.

Runs the operator's own judgement, plans and backends, so a preview cannot differ from what the operator does.
UIDs, which only an API server can give, are derived from names. Names that contain a UID (of pods, of some
schedulers' objects) are therefore stable from one rendering to the next, but are others in a cluster.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import msgspec

from grove import __version__
from grove.admission import Here, Judgement, judge, understand
from grove.admission.templates import Trying
from grove.api import kinds, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.constraints import topology_name
from grove.api.crd import schema_of
from grove.api.decode import decode
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.api.revision import next_revision
from grove.api.topology import ClusterTopologyBinding
from grove.backends.base import Backend, Cluster, Context, Fidelity, TopologyAware, Treatment
from grove.backends.registry import BUILT_INS, Selection
from grove.backends.sample import merged, sample_of, serving
from grove.cli.given import Given, third_parties, with_uid
from grove.errors import FieldError, InvalidInput, Unsupported, Waiting
from grove.meta import Manifest, Object, Resource
from grove.plan.children import KINDS, CliqueSetState, Settled, plan_children
from grove.plan.edits import decided_minima
from grove.plan.gang.references import references, referencing_podgroups
from grove.plan.pods import desired_pod, plan_pods
from grove.plan.sharing import claims_of
from grove.plan.startup import image_with_tag, wait_of

V = TypeVar("V", bound=Object)

#: Whose pods are meant where no minor is named.
NEWEST: Final = "1.36"


@dataclass(frozen=True, slots=True)
class Preview:
    """A cluster that is not there: what the operator would know of it, for the judgement to ask."""

    on: Cluster
    given: Given
    #: The topology that the set names, if it is given.
    topology: ClusterTopologyBinding | None = None
    #: The backend to use whatever the set says; blank for the set's own choice.
    backend: str = ""

    def select(self, cliqueset: PodCliqueSet, /) -> Selection:
        registry = self.given.registry()
        named = registry.find(self.backend) if self.backend else None
        return Selection(named) if named is not None else registry.select(cliqueset)

    def context(self, backend: Backend, cliqueset: PodCliqueSet, /) -> Context:
        # As things are when they have settled: some schedulers' objects say less while gates are closed.
        sample = sample_of(backend.name) if backend.name in BUILT_INS else None
        seen = sample.observed(self.topology) if sample is not None and self.topology is not None else {}
        return Context(self.on, self.given.config_of(backend), cliqueset, seen, released=True)

    def here(self) -> Here:
        """What decides about a set in this cluster."""
        configuration = self.given.configuration
        if configuration is None:
            return Here(self, self.topology)
        return Here(
            self,
            self.topology,
            configuration.topology_aware_scheduling.enabled,
            configuration.limits.pods_per_set,
            nvlink_domains=configuration.network.auto_mnnvl_enabled,
        )

    def wait_image(self) -> str:
        """The image of the init container that waits."""
        configuration = self.given.configuration
        return image_with_tag(configuration.startup_order.image if configuration else "", __version__)


@dataclass(frozen=True, slots=True)
class Judged:
    """A set that one backend of one cluster would carry out, with its defaults filled in."""

    cliqueset: PodCliqueSet
    backend: Backend
    preview: Preview
    #: What is accepted but deserves a word.
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lost:
    """What one gang loses in translation."""

    gang: str
    loss: Treatment

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
    built_in = merged(*(sample_of(name).cluster(minor) for name in BUILT_INS))
    others = [kind for each in third_parties() for kind in each.resources(Context(built_in))]
    return merged(built_in, serving(*others))


def judge_manifest(manifest: Manifest, given: Given, on: Cluster, backend: str = "") -> Judged:
    """The set as the operator would carry it out; raises InvalidInput with everything wrong with it."""
    decode(manifest, PodCliqueSet, strict=True)
    named = with_uid({**manifest, "metadata": {"namespace": "default", **(manifest.get("metadata") or {})}})
    cliqueset = _view(named, PodCliqueSet)
    preview = Preview(on, given, given.bindings.get(topology_name(cliqueset)), backend)
    here = preview.here()
    judgement = judge(understand(cliqueset, new=True), here)
    preview = preview if here.topology_aware else replace(preview, topology=None)
    if judgement.refused or judgement.backend is None:
        raise InvalidInput(judgement.refused)
    if errors := [*_schema_errors(manifest), *_template_errors(judgement, preview)]:
        raise InvalidInput(errors)
    return Judged(judgement.cliqueset, judgement.backend, preview, tuple(_remarks(judgement, given)))


def _remarks(judgement: Judgement, given: Given) -> list[str]:
    """What is to be said of a set that is accepted; a constraint without its topology has no effect."""
    said = [*(str(notice) for notice in judgement.notices), *given.notices(judgement.cliqueset)]
    if judgement.levels is not None and judgement.levels.status != "False":
        said.append(judgement.levels.message)
    return said


def _schema_errors(manifest: Manifest) -> list[FieldError]:
    """What the API server would refuse by the definition of the kind, beyond what the judgement says."""
    from grove.embedded.machinery.schema import custom_schema

    schema = custom_schema(schema_of(PodCliqueSet))
    stored = copy.deepcopy(manifest)
    schema.default(stored)
    try:
        return [FieldError(cause.field, cause.message) for cause in schema.validate(stored)]
    except ImportError:
        # A production image has no interpreter for the rules of the definition; the API server checks them.
        return []


def _template_errors(judgement: Judgement, preview: Preview) -> list[FieldError]:
    """What the API server would refuse of the pods of each role, so far as no cluster is needed to know."""
    from grove.cli.pod_checks import template_errors

    cliqueset, backend = judgement.cliqueset, judgement.backend
    assert backend is not None, "only a set that is accepted has its templates tried"
    context = preview.context(backend, cliqueset)
    minor = preview.on.version or NEWEST
    found: list[FieldError] = []
    trying = Trying(cliqueset, backend, context, preview.topology)
    for index in range(len(cliqueset.template.cliques)):
        found += template_errors(trying.trial(index), minor)
    return found


def _state(judged: Judged, references: Mapping[str, str]) -> CliqueSetState:
    """What the operator would know of the set before any of its children exists."""
    cliqueset = judged.cliqueset
    return CliqueSetState(
        cliqueset,
        {},
        judged.preview.topology,
        judged.backend.name,
        references=references,
        decided=decided_minima(cliqueset, {}, {}),
        claim_templates=judged.preview.given.claim_templates,
    )


def render_set(judged: Judged) -> Rendering:
    """Every object that would exist; raises InvalidInput for what turns out only in translation."""
    cliqueset, backend, topology = judged.cliqueset, judged.backend, judged.preview.topology
    context = judged.preview.context(backend, cliqueset)
    referenced = topology.reference_for(backend.name, backend.scheduler_name) if topology else ""
    children = _children(_state(judged, {backend.name: referenced} if referenced else {}))
    gangs = {
        each["metadata"]["name"]: _view(each, PodGang)
        for each in children
        if each["kind"] == kinds.GANGS.kind
    }
    objects: list[Manifest] = []
    losses: list[Lost] = []
    if topology is not None and not referenced and isinstance(backend, TopologyAware):
        objects.append(with_uid(backend.desired_topology(topology)))
    pods = _pods(children, gangs, judged, context)
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


def _children(seen: CliqueSetState) -> list[Manifest]:
    """All children of a set, however many they are; those that a child owns come once that is there."""
    found: list[Manifest] = []
    while True:
        creations = plan_children(seen, Settled()).creations()
        new = [with_uid(change.manifest) for change in creations if change is not None]
        if not new:
            return found
        found += new
        seen = replace(seen, children=_by_resource(found))


def _by_resource(manifests: Sequence[Manifest]) -> dict[Resource, dict[str, Object]]:
    found: dict[Resource, dict[str, Object]] = {}
    for kind in KINDS:
        for manifest in manifests:
            if manifest["kind"] == kind.resource.kind:
                view = _view(manifest, kind.view)
                found.setdefault(kind.resource, {})[view.name] = view
    return found


def _pods(
    children: Sequence[Manifest], gangs: Mapping[str, PodGang], judged: Judged, context: Context
) -> dict[str, list[Manifest]]:
    """The pods of every clique as they are created, by gang."""
    found: dict[str, list[Manifest]] = {}
    for child in children:
        if child["kind"] != kinds.CLIQUES.kind:
            continue
        clique = _view(child, PodClique)
        gang = gangs[clique.labels[labels.POD_GANG]]
        revision, wait = next_revision(gang), wait_of(clique, gang, judged.preview.wait_image())
        planned = plan_pods(clique, (), gang=gang, revision=revision).create
        claims = claims_of(judged.cliqueset, clique, [new.index for new in planned])
        for new in planned:
            made = desired_pod(clique, new, revision, wait, claims=claims[new.index])
            pod = judged.backend.prepare_pod(made, gang, context)
            found.setdefault(gang.name, []).append(with_uid(pod))
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
    lost = [
        Lost(gang.name, each) for each in translation.treatments if each.fidelity is not Fidelity.ENFORCED
    ]
    return [with_uid(each) for each in translation.manifests], lost


def _presentable(manifest: Manifest) -> Manifest:
    """Without the UID that we gave it: only references to it are shown."""
    metadata = {name: value for name, value in manifest["metadata"].items() if name != "uid"}
    return {**manifest, "metadata": metadata}


def _view(manifest: Manifest, type_: type[V]) -> V:
    return decode(manifest, type_)
