"""The service accounts that the Go operator made for its sets: kept while pods use them, then removed. Pure.

Its pods that start in order wait as an account named like their set, whose token a Secret holds. Nothing of
ours needs either. Kubernetes deletes the Secrets together with the account, so that no Secret need be read.
"""

from collections.abc import Iterator
from typing import Final

from grove.api import kinds, labels
from grove.api.access import ServiceAccount
from grove.meta import Manifest, Object
from grove.plan.children.rows import ChildRow, as_it_is, nothing
from grove.plan.children.state import CliqueSetState


class ServiceAccounts:
    """None should exist; one that pods still use stays as it is."""

    resource: Final = kinds.SERVICE_ACCOUNTS
    view: Final = ServiceAccount
    #: After the cliques: pods that still wait need it.
    removal: Final = 3
    #: A cluster has many accounts.
    selector: Final = labels.OURS

    def __init__(self, seen: CliqueSetState) -> None:
        self._seen = seen

    def depends_on(self) -> object:
        return None

    def child_depends_on(self, child: Object) -> object:
        return self._needed(child.name)

    def rows(self, replica: int) -> Iterator[ChildRow]:
        return iter(())

    def find(self, name: str) -> ChildRow | None:
        child = self._seen.children.get(self.resource, {}).get(name)
        if child is None or child.owner is None or not self._needed(name):
            # One without an owner is somebody else's, whatever its labels say: it is left alone.
            return None
        return self._seen.row(self.resource, name, 0, nothing, as_it_is)

    def _needed(self, name: str) -> bool:
        cliqueset = self._seen.cliqueset
        if name == cliqueset.name and account_in_use(self._seen):
            return True
        # An author may have given it to the pods, because it was there.
        roles = (role.spec.pod_spec for role in cliqueset.template.cliques)
        cliques = (clique.spec.pod_spec for clique in self._seen.cliques.values())
        return any(_account(spec) == name for spec in (*roles, *cliques))


def account_in_use(seen: CliqueSetState) -> bool:
    """Whether pods that the Go operator made wait, or once waited, as the account of the set."""
    return seen.in_use(kinds.SERVICE_ACCOUNTS, seen.cliqueset.name)


def _account(spec: Manifest) -> str:
    return str(spec.get("serviceAccountName") or spec.get("serviceAccount") or "")
