"""The NVLink domains of a set: a ComputeDomain for each replica and group of roles. Pure.

NVIDIA's driver does the rest: it makes the template of the claims by which pods join, and takes it back. It
never waits for pods, so a domain holds no gang back and no gang holds back a domain. A domain that is wanted
no more stays until no pod names it.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final

from grove.api import kinds, labels, names
from grove.api.claim import ComputeDomain
from grove.meta import Manifest, Object
from grove.plan.children.rows import ChildRow, as_it_is, nothing, without_spec
from grove.plan.children.state import CliqueSetState
from grove.plan.domains import domain_groups


class ComputeDomains:
    """A domain for each group that roles with GPUs belong to."""

    resource: Final = kinds.COMPUTE_DOMAINS
    view: Final = ComputeDomain
    #: Last: pods that go with their cliques are still in them.
    removal: Final = 3
    selector: Final = labels.OURS

    def __init__(self, seen: CliqueSetState) -> None:
        self._seen = seen

    def depends_on(self) -> object:
        return None

    def child_depends_on(self, child: Object) -> object:
        return self._in_use(child.name)

    def rows(self, replica: int) -> Iterator[ChildRow]:
        for group in domain_groups(self._seen.cliqueset):
            yield self._row(replica, group)

    def find(self, name: str) -> ChildRow | None:
        replica = self._seen.replica_in(name)
        wanted = self.rows(replica) if replica is not None else ()
        found = next((row for row in wanted if row.name == name), None)
        if found is None and self._in_use(name):
            return self._seen.row(self.resource, name, 0, nothing, as_it_is)
        return found

    def _in_use(self, name: str) -> bool:
        return self._seen.in_use(kinds.RESOURCE_CLAIM_TEMPLATES, name)

    def _row(self, replica: int, group: str) -> ChildRow:
        name = names.compute_domain(self._seen.cliqueset.name, replica, group)
        return self._seen.row(self.resource, name, replica, partial(self._build, group), without_spec)

    def _build(self, group: str, row: ChildRow) -> Manifest:
        cliqueset = self._seen.cliqueset
        return {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "metadata": {
                "name": row.name,
                "namespace": cliqueset.namespace,
                "labels": {
                    **labels.owned_by(cliqueset.name),
                    labels.NAME: names.shortened(row.name),
                    labels.COMPONENT: labels.COMPONENT_COMPUTE_DOMAIN,
                    labels.SET_REPLICA_INDEX: str(row.replica),
                    labels.MNNVL_GROUP: group,
                },
            },
            # No fixed number of nodes: the domain grows with the pods that join it.
            "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": row.name}}},
        }
