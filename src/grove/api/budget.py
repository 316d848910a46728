"""The part of a PodDisruptionBudget that Grove reads."""

import msgspec

from grove.meta import Manifest, Object


class PodDisruptionBudget(Object):
    """How many pods of a clique evictions must leave."""

    #: Untyped: its numbers may be percentages, if somebody else wrote them.
    spec: Manifest = msgspec.field(default_factory=dict)
