"""A cluster with a current release of KAI; its kinds do not depend on the Kubernetes minor."""

from typing import Final

from grove.backends.kai.backend import BIND_REQUESTS, MIN_SUBGROUP_FIELD, PODGROUPS
from grove.backends.kai.queue import QUEUES
from grove.backends.kai.staleness import STALENESS_FIELD
from grove.backends.kai.topology import TOPOLOGIES
from grove.backends.sample import Sample, serving

_FIELDS: Final = frozenset({MIN_SUBGROUP_FIELD, STALENESS_FIELD})

SAMPLE: Final = Sample(
    "KAI Scheduler",
    lambda _: serving(PODGROUPS, QUEUES, BIND_REQUESTS, TOPOLOGIES, fields=_FIELDS),
    scene="a leader and its workers, in a queue",
)
