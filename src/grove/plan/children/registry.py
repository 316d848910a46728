"""Every kind of children that a set has. Pure."""

from collections.abc import Sequence
from typing import Final, Protocol

from grove.api import kinds
from grove.api.cliqueset import PodCliqueSet
from grove.meta import Object, Resource
from grove.plan.children.accounts import ServiceAccounts
from grove.plan.children.autoscalers import Autoscalers
from grove.plan.children.claims import Claims
from grove.plan.children.cliques import Cliques
from grove.plan.children.disruption_budgets import DisruptionBudgets
from grove.plan.children.domains import ComputeDomains
from grove.plan.children.engine import Plan, Settled, Tree
from grove.plan.children.gangs import Gangs
from grove.plan.children.groups import ScalingGroups
from grove.plan.children.pod_access import PodRoleBindings, PodRoles
from grove.plan.children.revisions import TemplateRevisions
from grove.plan.children.rows import Source
from grove.plan.children.services import Services
from grove.plan.children.state import CliqueSetState


class Kind(Protocol):
    """A kind of children: how it is read, and its source of rows once a set is observed."""

    @property
    def resource(self) -> Resource: ...

    @property
    def view(self) -> type[Object]: ...

    @property
    def removal(self) -> int: ...

    @property
    def selector(self) -> str:
        """The label selector by which it is watched; empty where all objects of the kind are read."""
        ...

    def __call__(self, seen: CliqueSetState, /) -> Source: ...


#: In the order in which the children of a replica are created; owners come before what they own.
KINDS: Final[tuple[Kind, ...]] = (
    *(TemplateRevisions, Services, ServiceAccounts, PodRoles, PodRoleBindings),
    *(ScalingGroups, Gangs, Cliques, Autoscalers, DisruptionBudgets, Claims, ComputeDomains),
)
#: The kinds that tell which pods belong to which gang; the process of a backend reads no others.
MEMBERSHIP: Final = (ScalingGroups.resource, Gangs.resource, Cliques.resource)
#: Not every cluster serves these.
OPTIONAL: Final = frozenset({kinds.DISRUPTION_BUDGETS, kinds.RESOURCE_CLAIMS, kinds.COMPUTE_DOMAINS})


def plan_children(seen: CliqueSetState, settled: Settled, kinds_of_children: Sequence[Kind] = KINDS) -> Plan:
    """What to create, repair and remove so that the set has exactly its children."""
    sources = [kind(seen) for kind in kinds_of_children]
    tree = Tree(seen.cliqueset, seen.replicas, _asked(seen.cliqueset), sources, seen.children, seen.taken)
    return Plan(tree, settled)


def _asked(cliqueset: PodCliqueSet) -> object:
    """What the spec of a set asks for besides its replicas, field by field: those are often the same ones."""
    spec = cliqueset.spec
    return tuple(getattr(spec, name) for name in spec.__struct_fields__ if name != "replicas")
