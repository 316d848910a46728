"""What the pods of a set that wait for others may do: a role in the set's namespace, and its binding. Pure.

A set whose pods start in any order has neither. The Go operator gives both to every set, under the same names
and for an account of its own: what is left of that goes when no pod that it made waits by it.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from grove.api import kinds, labels, names
from grove.api.access import Role, RoleBinding
from grove.api.cliqueset import PodCliqueSet
from grove.meta import Manifest, Object, Resource
from grove.plan.children.accounts import account_in_use
from grove.plan.children.rows import ChildRow, all_ours
from grove.plan.children.state import CliqueSetState
from grove.plan.startup import service_accounts, waiting_roles

#: No more than the operator may do itself: otherwise an API server would not let it grant this.
RULES: Final = ({"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},)


class _OncePerSet:
    """A kind of which a set has one object while pods of it wait for others; everything of it is ours."""

    resource: Resource
    #: After the cliques: pods that still wait need it.
    removal: Final = 3
    selector: Final = labels.OURS

    def __init__(self, seen: CliqueSetState) -> None:
        self._seen = seen
        self._name = names.pod_role(seen.cliqueset.name)

    def depends_on(self) -> object:
        return None

    def child_depends_on(self, child: Object) -> object:
        return self._adopted

    @property
    def _adopted(self) -> bool:
        """Whether pods that the Go operator made wait by it."""
        return account_in_use(self._seen)

    def rows(self, replica: int) -> Iterator[ChildRow]:
        if replica == 0 and (waiting_roles(self._seen.built_from(0).template) or self._adopted):
            yield self._seen.row(self.resource, self._name, 0, self._build, all_ours)

    def find(self, name: str) -> ChildRow | None:
        there = name == self._name and self._seen.cliqueset.spec.replicas > 0
        return next(self.rows(0), None) if there else None

    def _build(self, row: ChildRow) -> Manifest:
        raise NotImplementedError


class PodRoles(_OncePerSet):
    """The role: to see the pods that are waited for."""

    resource = kinds.ROLES
    view: Final = Role

    def _build(self, row: ChildRow) -> Manifest:
        return desired_role(self._seen.cliqueset)


class PodRoleBindings(_OncePerSet):
    """The binding of the role to the service accounts of the pods that wait."""

    resource = kinds.ROLE_BINDINGS
    view: Final = RoleBinding

    def _build(self, row: ChildRow) -> Manifest:
        return desired_role_binding(self._seen.cliqueset, self._accounts(), adopted=self._adopted)

    def child_depends_on(self, child: Object) -> object:
        return self._adopted, self._accounts()

    def _accounts(self) -> tuple[str, ...]:
        """The accounts of the pods that wait, by every template that a replica follows now."""
        seen = self._seen
        behind = seen.update.behind if seen.update is not None else ()
        followed = {template.hash: template for template in map(seen.built_from, behind)}
        templates = [seen.present.template, *(each.template for each in followed.values())]
        found = (service_accounts(waiting_roles(each)) for each in templates)
        return tuple(sorted(set(chain.from_iterable(found))))


def desired_role(cliqueset: PodCliqueSet) -> Manifest:
    """What the waiting pods of a set may do in its namespace."""
    return {
        "apiVersion": kinds.ROLES.api_version,
        "kind": kinds.ROLES.kind,
        "metadata": _metadata(cliqueset, labels.COMPONENT_POD_ROLE),
        "rules": list(RULES),
    }


def desired_role_binding(
    cliqueset: PodCliqueSet, waiting: Sequence[str], *, adopted: bool = False
) -> Manifest:
    """Grants the role to the service accounts of the pods that wait, and to no others.

    With `adopted` there are pods of the Go operator among them, which wait as an account named like the set.
    """
    accounts = list(waiting)
    if adopted and cliqueset.name not in accounts:
        accounts.append(cliqueset.name)
    role = {
        "apiGroup": kinds.ROLES.gvk.group,
        "kind": kinds.ROLES.kind,
        "name": names.pod_role(cliqueset.name),
    }
    return {
        "apiVersion": kinds.ROLE_BINDINGS.api_version,
        "kind": kinds.ROLE_BINDINGS.kind,
        "metadata": _metadata(cliqueset, labels.COMPONENT_POD_ROLE_BINDING),
        "roleRef": role,
        "subjects": [
            {"kind": "ServiceAccount", "name": account, "namespace": cliqueset.namespace}
            for account in accounts
        ],
    }


def _metadata(cliqueset: PodCliqueSet, component: str) -> Manifest:
    name = names.pod_role(cliqueset.name)
    return {
        "name": name,
        "namespace": cliqueset.namespace,
        "labels": {
            **labels.owned_by(cliqueset.name),
            # The value of a label cannot have the colons of the name.
            labels.NAME: name.replace(":", "-"),
            labels.COMPONENT: component,
        },
    }
