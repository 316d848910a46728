"""Whether what is not ready has nothing left to do, because its pods have run to their end. Pure.

Read from the statuses of the cliques, as availability is, so that both change with the same write.
"""

from collections.abc import Iterable

from grove.api import conditions
from grove.api.clique import PodClique
from grove.meta import find_condition


def has_ended(clique: PodClique) -> bool:
    """Whether pods of a clique have succeeded, so that fewer than its minimum are ready, and no more come."""
    told = find_condition(clique.status.conditions, conditions.READY)
    if told is None or clique.terminating or clique.status.ready_replicas >= clique.spec.needed:
        return False
    if clique.status.observed_generation != clique.metadata.generation:
        return False
    # A clique that is ready with too few ready pods counts those that succeeded.
    return told.is_true or told.reason == conditions.PODS_SUCCEEDED


def is_over(cliques: Iterable[PodClique | None]) -> bool:
    """Whether each of these cliques has its minimum ready or has ended."""
    return all(
        clique is not None
        and not clique.terminating
        and (clique.status.ready_replicas >= clique.spec.needed or has_ended(clique))
        for clique in cliques
    )
