"""What is assumed of a built-in scheduler where there is none to look at: previews, demos and local clusters.

Each backend's folder declares it in its module `sample`, as `SAMPLE`; it is found by the folder's name.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from grove.api.topology import ClusterTopologyBinding
from grove.backends.base import Cluster
from grove.meta import Manifest, Resource


def _nothing(_: ClusterTopologyBinding) -> Mapping[Resource, tuple[Manifest, ...]]:
    return {}


@dataclass(frozen=True, slots=True)
class Sample:
    """A cluster with this scheduler, as `grove render`, `grove demo` and `grove up` take it to be."""

    #: What the scheduler is called in sentences.
    title: str
    #: What a cluster of this Kubernetes minor (or `none`) serves because the scheduler is installed.
    cluster: Callable[[str], Cluster]
    #: The profile's configuration in a preview.
    preview_config: Mapping[str, Any] = field(default_factory=dict)
    #: The profile's configuration on a local cluster: what the operator cannot see of the scheduler there.
    local_config: Mapping[str, Any] = field(default_factory=dict)
    #: The scheduler's own objects in a preview of a cluster with this topology.
    observed: Callable[[ClusterTopologyBinding], Mapping[Resource, tuple[Manifest, ...]]] = _nothing
    #: Whether gangs of this scheduler have objects beside their pods.
    has_objects: bool = True
    #: What the demo shows of it, by the example `leader-workers-<name>.yaml`.
    scene: str = "the same with another scheduler"


def sample_of(name: str) -> Sample:
    """The sample of a built-in backend."""
    found: Sample = importlib.import_module(f"grove.backends.{name}.sample").SAMPLE
    return found


def serving(*kinds: Resource, fields: frozenset[str] = frozenset(), version: str = "") -> Cluster:
    """A cluster that serves these kinds and no others."""
    served: dict[str, frozenset[str]] = {}
    for each in kinds:
        served[each.api_version] = served.get(each.api_version, frozenset()) | {each.plural}
    return Cluster(served, fields, version)


def merged(*clusters: Cluster) -> Cluster:
    """One cluster that serves what each of them serves."""
    served: dict[str, frozenset[str]] = {}
    for cluster in clusters:
        for version, plurals in cluster.served.items():
            served[version] = served.get(version, frozenset()) | plurals
    fields = frozenset[str]().union(*(cluster.fields for cluster in clusters))
    return Cluster(served, fields, next((each.version for each in clusters if each.version), ""))
