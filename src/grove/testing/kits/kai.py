"""The rules for the backend `kai`, on an old and a new release of KAI."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

from grove.backends.base import Backend, Cluster, Context
from grove.backends.kai.backend import MIN_SUBGROUP_FIELD, POD_GROUP_ANNOTATION, KaiBackend
from grove.backends.kai.queue import QUEUE
from grove.backends.kai.staleness import STALENESS_FIELD
from grove.meta import Manifest
from grove.testing.clusters import on
from grove.testing.conformance import BackendConformance

_SERVED: Final = {
    "scheduling.run.ai/v2alpha2": frozenset({"podgroups"}),
    "scheduling.run.ai/v2": frozenset({"queues"}),
    "scheduling.run.ai/v1alpha2": frozenset({"bindrequests"}),
    "kai.scheduler/v1alpha1": frozenset({"topologies"}),
}
KAI_012: Final = Cluster(served=_SERVED)
KAI_017: Final = Cluster(served=_SERVED, fields=frozenset({MIN_SUBGROUP_FIELD, STALENESS_FIELD}))


class Conformance(BackendConformance):
    """KAI with its PodGroups, one subGroup for each podgroup."""

    backend: ClassVar[Backend] = KaiBackend()
    queue_annotation: ClassVar[str] = QUEUE

    def contexts(self) -> Sequence[Context]:
        return [on(KAI_012), on(KAI_017, queue="research")]

    def minimum_of(self, manifests: Sequence[Manifest]) -> int | None:
        return sum(self.minima_of(manifests).values())

    def minima_of(self, manifests: Sequence[Manifest]) -> Mapping[str, int]:
        leaves = [leaf for each in manifests for leaf in each["spec"]["subGroups"]]
        return {leaf["name"]: int(leaf["minMember"]) for leaf in leaves if "minMember" in leaf}

    def links_of(self, pod: Manifest) -> Iterable[str]:
        return [pod["metadata"]["annotations"][POD_GROUP_ANNOTATION]]
