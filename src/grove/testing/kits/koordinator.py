"""The rules for the backend `koordinator`, without and with its network topology."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from grove.backends.base import Backend, Cluster, Context
from grove.backends.koordinator.backend import POD_GROUP_LABEL, KoordinatorBackend
from grove.backends.koordinator.quota import QUOTA
from grove.backends.koordinator.topology import TOPOLOGIES
from grove.meta import Manifest
from grove.testing.clusters import on
from grove.testing.conformance import RACK, ZONE, BackendConformance

#: Koordinator with the kinds that its gangs, topology and quotas need.
KOORDINATOR: Final = Cluster(
    served={
        "scheduling.sigs.k8s.io/v1alpha1": frozenset({"podgroups", "elasticquotas"}),
        "scheduling.koordinator.sh/v1alpha1": frozenset({"clusternetworktopologies"}),
    }
)
_LAYERS: Final[Manifest] = {
    "metadata": {"name": "default"},
    "spec": {
        "networkTopologySpec": [
            {"topologyLayer": "ZoneLayer", "labelKey": [ZONE]},
            {"topologyLayer": "RackLayer", "labelKey": [RACK], "parentTopologyLayer": "ZoneLayer"},
        ]
    },
}


class Conformance(BackendConformance):
    """Koordinator with one PodGroup for each podgroup; all gates open, because until then none can start."""

    backend: ClassVar[Backend] = KoordinatorBackend()
    queue_annotation: ClassVar[str] = QUOTA

    def contexts(self) -> Sequence[Context]:
        plain = on(KOORDINATOR, quota="research")
        packing = on(KOORDINATOR, networkTopologyEnabled=True)
        return [
            replace(plain, released=True),
            replace(packing, released=True, observed={TOPOLOGIES: (_LAYERS,)}),
        ]

    def minimum_of(self, manifests: Sequence[Manifest]) -> int | None:
        return sum(self.minima_of(manifests).values())

    def minima_of(self, manifests: Sequence[Manifest]) -> Mapping[str, int]:
        # A PodGroup has the name of its podgroup and the revision of the gang.
        return {
            each["metadata"]["name"].rpartition("-")[0]: int(each["spec"]["minMember"]) for each in manifests
        }

    def links_of(self, pod: Manifest) -> Iterable[str]:
        name = pod["metadata"]["labels"].get(POD_GROUP_LABEL)
        return [name] if name else []
