"""What the conformance kit must know about coscheduling; `grove backend check coscheduling` runs it."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from grove.backends.base import Context
from grove.meta import Manifest
from grove.testing.clusters import serving
from grove.testing.conformance import BackendConformance

from grove_coscheduling.backend import POD_GROUP_LABEL, PODGROUPS, TIMEOUT, Backend


class Conformance(BackendConformance):
    """The rules for `coscheduling`, with and without configuration."""

    backend: ClassVar[Backend] = Backend()

    def contexts(self) -> Sequence[Context]:
        cluster = serving(PODGROUPS)
        return [Context(cluster), Context(cluster, {TIMEOUT: 60})]

    def minimum_of(self, manifests: Sequence[Manifest]) -> int | None:
        return sum(int(each["spec"]["minMember"]) for each in manifests)

    def links_of(self, pod: Manifest) -> Iterable[str]:
        return [pod["metadata"]["labels"][POD_GROUP_LABEL]]
