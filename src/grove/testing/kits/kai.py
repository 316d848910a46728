"""The rules for the backend `kai`, on an old and a new release of KAI."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from grove.backends.base import Backend, Context
from grove.backends.kai.backend import POD_GROUP_ANNOTATION, KaiBackend
from grove.backends.kai.queue import QUEUE
from grove.meta import Manifest
from grove.testing import clusters
from grove.testing.clusters import on
from grove.testing.conformance import BackendConformance


class Conformance(BackendConformance):
    """KAI with its PodGroups, one subGroup for each podgroup."""

    backend: ClassVar[Backend] = KaiBackend()
    queue_annotation: ClassVar[str] = QUEUE

    def contexts(self) -> Sequence[Context]:
        return [on(clusters.KAI_012), on(clusters.KAI_017, queue="research")]

    def minimum_of(self, manifests: Sequence[Manifest]) -> int | None:
        return sum(self.minima_of(manifests).values())

    def minima_of(self, manifests: Sequence[Manifest]) -> Mapping[str, int]:
        leaves = [leaf for each in manifests for leaf in each["spec"]["subGroups"]]
        return {leaf["name"]: int(leaf["minMember"]) for leaf in leaves if "minMember" in leaf}

    def links_of(self, pod: Manifest) -> Iterable[str]:
        return [pod["metadata"]["annotations"][POD_GROUP_ANNOTATION]]
