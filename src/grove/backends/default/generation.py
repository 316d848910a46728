"""Which generation of the native gang API a cluster offers, and which of its gated fields it keeps.

Decided by the resources that are served, never by a version string alone: `scheduling.k8s.io` is always there
for priority classes. A resource is served only when its feature gate is on, so a served resource also proves
that the pods' link field is kept; fields behind gates of their own must be probed (`probes`).
"""

from dataclasses import dataclass
from functools import cache
from typing import Final

from grove.backends.base import Cluster, Probe
from grove.backends.probing import probe_fields
from grove.meta import Manifest, Resource, resource

GROUP: Final = "scheduling.k8s.io"

#: Field facts, in the form of `Cluster.fields`.
TOPOLOGY_PATH: Final = "spec.schedulingConstraints"
DISRUPTION_PATH: Final = "spec.disruptionMode"
TOPOLOGY_FIELD: Final = f"podgroups.{GROUP}:{TOPOLOGY_PATH}"
#: On 1.36 one gate guards `disruptionMode` and `priorityClassName`: the first is probed, the second follows.
DISRUPTION_FIELD: Final = f"podgroups.{GROUP}:{DISRUPTION_PATH}"

#: What cannot be changed of a PodGroup from 1.37 on.
FIXED_FIELDS: Final = (
    "schedulingConstraints",
    "disruptionMode",
    "priorityClassName",
    "parentCompositePodGroupName",
    "workloadRef",
)

COMPOSITES: Final = resource(GROUP, "v1alpha3", "CompositePodGroup")

#: What people call each generation.
_RELEASES = {"v1alpha1": "Kubernetes 1.35", "v1alpha2": "Kubernetes 1.36", "v1beta1": "Kubernetes 1.37"}

MISCONFIGURED: Final = (
    "the API server serves podgroups of scheduling.k8s.io/v1alpha3 but not of v1beta1, which kube-scheduler "
    "reads; add scheduling.k8s.io/v1beta1=true to the API server's --runtime-config"
)
ABSENT: Final = (
    "the cluster serves neither podgroups nor workloads of scheduling.k8s.io; enable the feature gate "
    "GenericWorkload (before 1.37 also GangScheduling) and the group's version in the API server's "
    "--runtime-config, or use another scheduler backend"
)


@dataclass(frozen=True, slots=True)
class Generation:
    """What the native API of this cluster can say."""

    version: str
    #: CompositePodGroups are served; their gate implies the one for topology.
    composite: bool = False
    #: PodGroups keep `schedulingConstraints`.
    topology: bool = False
    #: PodGroups keep `disruptionMode` and `priorityClassName`.
    preemption: bool = False

    @property
    def release(self) -> str:
        return _RELEASES[self.version]

    @property
    def has_podgroups(self) -> bool:
        return self.version != "v1alpha1"

    @property
    def workloads(self) -> Resource:
        return _served_as(self.version, "Workload")

    @property
    def podgroups(self) -> Resource:
        return _served_as(self.version, "PodGroup")


@cache
def _served_as(version: str, kind: str) -> Resource:
    return resource(GROUP, version, kind)


class _Detected:
    """What was found for the cluster that was asked about last: it is asked about for every pod and gang."""

    cluster: Cluster | None = None
    generation: Generation | None = None
    misconfigured: bool = False


def detect(cluster: Cluster) -> Generation | None:
    """The newest generation that works here; None when there is none."""
    if _Detected.cluster is not cluster:
        _look_at(cluster)
    return _Detected.generation


def misconfigured(cluster: Cluster) -> bool:
    """Whether the API server offers PodGroups only in a version that kube-scheduler does not read."""
    if _Detected.cluster is not cluster:
        _look_at(cluster)
    return _Detected.misconfigured


def _look_at(cluster: Cluster) -> None:
    _Detected.misconfigured = _misconfigured(cluster)
    _Detected.generation = _detect(cluster)
    _Detected.cluster = cluster


def _detect(cluster: Cluster) -> Generation | None:
    if _serves(cluster, "v1beta1", "podgroups"):
        composite = _serves(cluster, "v1alpha3", COMPOSITES.plural)
        topology = composite or TOPOLOGY_FIELD in cluster.fields
        return Generation("v1beta1", composite=composite, topology=topology, preemption=True)
    if _serves(cluster, "v1alpha2", "podgroups"):
        return Generation(
            "v1alpha2",
            topology=TOPOLOGY_FIELD in cluster.fields,
            preemption=DISRUPTION_FIELD in cluster.fields,
        )
    if _misconfigured(cluster):
        return None
    return Generation("v1alpha1") if _serves(cluster, "v1alpha1", "workloads") else None


def _misconfigured(cluster: Cluster) -> bool:
    others = any(_serves(cluster, version, "podgroups") for version in ("v1beta1", "v1alpha2"))
    return _serves(cluster, "v1alpha3", "podgroups") and not others


def _serves(cluster: Cluster, version: str, plural: str) -> bool:
    return plural in cluster.served.get(f"{GROUP}/{version}", frozenset())


def probes(cluster: Cluster) -> tuple[Probe, ...]:
    """The dry runs that show which gated fields this API server keeps."""
    generation = detect(cluster)
    if generation is None or not generation.has_podgroups or generation.composite:
        return ()
    spec: Manifest = {
        "schedulingPolicy": {"gang": {"minCount": 1}},
        "schedulingConstraints": {"topology": [{"key": "kubernetes.io/hostname"}]},
    }
    paths: tuple[str, ...] = (TOPOLOGY_PATH,)
    if generation.version == "v1alpha2":
        spec["disruptionMode"] = "PodGroup"
        paths = (TOPOLOGY_PATH, DISRUPTION_PATH)
    return (probe_fields(generation.podgroups, spec, *paths),)
