"""Whether a set may ask for disruption budgets as it does, and what deserves a word about them. Pure."""

from collections.abc import Iterator
from typing import Final

from grove.api import kinds, labels
from grove.api.cliqueset import PodCliqueSet
from grove.backends.base import Cluster
from grove.errors import FieldError
from grove.plan.children.disruption_budgets import asks_for_budgets

_FIELD: Final = f"metadata.annotations[{labels.DISRUPTION_BUDGET}]"


def budget_errors(cliqueset: PodCliqueSet) -> Iterator[FieldError]:
    """A value that means nothing."""
    asked = cliqueset.annotations.get(labels.DISRUPTION_BUDGET)
    if asked is not None and asked != labels.BUDGET_OF_MINIMA:
        why = f"must be {labels.BUDGET_OF_MINIMA!r}, or the annotation absent; got {asked!r}"
        yield FieldError(_FIELD, why)


def unsupported_budgets(cliqueset: PodCliqueSet, cluster: Cluster | None) -> Iterator[FieldError]:
    """Budgets in a cluster that has none."""
    if cluster is None or cluster.serves(kinds.DISRUPTION_BUDGETS):
        return
    if asks_for_budgets(cliqueset):
        yield FieldError(_FIELD, f"the cluster does not serve {kinds.DISRUPTION_BUDGETS} in version v1")


def budget_notices(cliqueset: PodCliqueSet) -> Iterator[FieldError]:
    """Roles of which no pod can ever be evicted, because the gang needs all of them."""
    whole = [role.name for role in cliqueset.template.cliques if role.spec.replicas == role.spec.minimum > 0]
    if whole and asks_for_budgets(cliqueset):
        roles = f"{'role' if len(whole) == 1 else 'roles'} {', '.join(whole)}"
        yield FieldError(
            _FIELD,
            f"the gangs need all pods of {roles} (minAvailable equals replicas), so that none of them can be "
            "evicted: a drain waits until the clique is scaled up, or until this annotation is removed",
        )
