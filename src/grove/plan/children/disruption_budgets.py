"""The PodDisruptionBudgets of a set: one for each clique, if the set asks for them. Pure.

A budget has one number and a pod may have one budget, so that a minimum for each role needs a budget for each
clique (decision 0021). Everything of it is ours.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final

from grove.api import kinds, labels
from grove.api.budget import PodDisruptionBudget
from grove.api.cliqueset import PodCliqueSet
from grove.meta import Manifest, Object
from grove.plan.changes import replacing
from grove.plan.children.rows import ChildRow
from grove.plan.children.state import CliqueSetState
from grove.plan.layout import PlannedClique


class DisruptionBudgets:
    """A budget for each clique; it has the clique's name and follows the clique's minimum."""

    resource: Final = kinds.DISRUPTION_BUDGETS
    view: Final = PodDisruptionBudget
    removal: Final = 0
    #: A cluster has many budgets.
    selector: Final = labels.OURS

    def __init__(self, seen: CliqueSetState) -> None:
        self._seen = seen
        self._asked = asks_for_budgets(seen.cliqueset)

    def depends_on(self) -> object:
        return tuple(sorted(self._seen.layout(0).scaled_to.items())) if self._asked else None

    def child_depends_on(self, child: Object) -> object:
        # The minimum that the clique has now, and whether somebody has scaled it to zero.
        clique = self._seen.cliques.get(child.name)
        return clique.spec.needed if clique is not None else None

    def rows(self, replica: int) -> Iterator[ChildRow]:
        if self._asked:
            for clique in self._seen.layout(replica).cliques(replica):
                yield self._row(replica, clique)

    def find(self, name: str) -> ChildRow | None:
        replica = self._seen.replica_in(name)
        if replica is None or not self._asked:
            return None
        clique = self._seen.layout(replica).find_clique(replica, name)
        return self._row(replica, clique) if clique is not None else None

    def _row(self, replica: int, clique: PlannedClique) -> ChildRow:
        return self._seen.row(self.resource, clique.name, replica, partial(self._build, clique), _mend)

    def _build(self, clique: PlannedClique, row: ChildRow) -> Manifest:
        living = self._seen.cliques.get(clique.name)
        if living is not None:
            # As the gang has it: an edit that waits has not reached the clique either.
            minimum = living.spec.needed
        else:
            spec = clique.role.spec
            minimum = self._seen.decided.get(clique.role.name, spec.minimum) if spec.replicas else 0
        return desired_budget(self._seen.cliqueset, clique, replica=row.replica, minimum=minimum)


def asks_for_budgets(cliqueset: PodCliqueSet) -> bool:
    """Whether the set asks that evictions leave its gangs their minima."""
    return cliqueset.annotations.get(labels.DISRUPTION_BUDGET) == labels.BUDGET_OF_MINIMA


def desired_budget(cliqueset: PodCliqueSet, clique: PlannedClique, *, replica: int, minimum: int) -> Manifest:
    """The budget of one clique: evictions leave it the ready pods that its gang needs."""
    selector = {**labels.owned_by(cliqueset.name), labels.POD_CLIQUE: clique.name}
    return {
        "apiVersion": kinds.DISRUPTION_BUDGETS.api_version,
        "kind": kinds.DISRUPTION_BUDGETS.kind,
        "metadata": {
            "name": clique.name,
            "namespace": cliqueset.namespace,
            "labels": {
                **selector,
                labels.NAME: clique.name,
                labels.COMPONENT: labels.COMPONENT_DISRUPTION_BUDGET,
                labels.SET_REPLICA_INDEX: str(replica),
                labels.POD_GANG: clique.gang,
            },
        },
        "spec": {
            "minAvailable": minimum,
            # The other way to write a budget, which the API server refuses beside this one.
            "maxUnavailable": None,
            "selector": {"matchLabels": selector},
            # A pod that is not ready is no part of the minimum: its eviction costs the gang nothing.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def _mend(desired: Manifest, living: Object) -> Manifest:
    """A selector that has more than it should covers other pods."""
    assert isinstance(living, PodDisruptionBudget)
    spec = desired["spec"]
    spec["selector"] = replacing(spec["selector"], living.spec.get("selector"))
    return desired
