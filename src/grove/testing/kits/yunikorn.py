"""The rules for the backend `yunikorn`: everything is on the pods, so there are no objects to compare."""

from collections.abc import Sequence
from typing import ClassVar

from grove.backends.base import Backend, Cluster, Context
from grove.backends.yunikorn import YuniKornBackend
from grove.backends.yunikorn.queue import QUEUE
from grove.testing.clusters import on
from grove.testing.conformance import BackendConformance


class Conformance(BackendConformance):
    """YuniKorn as it is, and with a queue and a timeout from the profile."""

    backend: ClassVar[Backend] = YuniKornBackend()
    queue_annotation: ClassVar[str] = QUEUE

    def contexts(self) -> Sequence[Context]:
        return [on(Cluster()), on(Cluster(), queue="root.research", placeholderTimeoutSeconds=600)]
