"""The device claims of a set, of its scaling groups and of its cliques; each is owned by whose pods share it.

The spec of a claim never changes. A claim that is wanted no more stays until no pod uses it: a pod that still
stops would lose its devices. Pure.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from grove.api import kinds, labels
from grove.api.claim import ResourceClaim
from grove.meta import Manifest, Object
from grove.plan.children.rows import ChildRow, Owner, as_it_is, nothing, without_spec
from grove.plan.children.state import CliqueSetState
from grove.plan.layout import PlannedClique
from grove.plan.sharing import PlannedClaim, claim_spec, planned_claims, shares


class Claims:
    """The claims of all levels."""

    resource: Final = kinds.RESOURCE_CLAIMS
    view: Final = ResourceClaim
    #: Last: pods that go with their cliques still use them.
    removal: Final = 3
    #: A cluster may have many claims.
    selector: Final = labels.OURS

    def __init__(self, seen: CliqueSetState) -> None:
        self._seen = seen
        self._found: dict[int, Mapping[str, PlannedClaim]] = {}

    def depends_on(self) -> object:
        seen, template = self._seen, self._seen.cliqueset.template
        known = frozenset(key for key, spec in seen.claim_templates.items() if spec is not None)
        if not any(role.resource_sharing for role in template.cliques):
            return known
        return known, tuple(sorted((name, clique.spec.replicas) for name, clique in seen.cliques.items()))

    def child_depends_on(self, child: Object) -> object:
        return self._in_use(child.name)

    def rows(self, replica: int) -> Iterator[ChildRow]:
        for claim in self._plan(replica):
            if (row := self._row(claim)) is not None:
                yield row

    def find(self, name: str) -> ChildRow | None:
        claim = self._planned(name)
        if claim is not None and (row := self._row(claim)) is not None:
            return row
        return self._kept(name) if claim is not None or self._in_use(name) else None

    def _in_use(self, name: str) -> bool:
        return self._seen.in_use(self.resource, name)

    def _plan(self, replica: int) -> Iterator[PlannedClaim]:
        if not shares(self._seen.built_from(replica).template):
            return iter(())
        return planned_claims(self._seen.layout(replica), replica, self._pods)

    def _planned(self, name: str) -> PlannedClaim | None:
        replica = self._seen.replica_in(name)
        found = self._of_replica(replica).get(name) if replica is not None else None
        if found is None and self._seen.cliqueset.spec.replicas:
            found = self._of_replica(0).get(name)
        return found

    def _of_replica(self, replica: int) -> Mapping[str, PlannedClaim]:
        found = self._found.get(replica)
        if found is None:
            found = self._found[replica] = {claim.name: claim for claim in self._plan(replica)}
        return found

    def _row(self, claim: PlannedClaim) -> ChildRow | None:
        """The row of a claim; None while its owner or the template that it is made from does not exist."""
        seen = self._seen
        owner, revision = self._owner(claim), seen.built_from(claim.replica)
        template = revision.template
        spec = claim_spec(claim.sharing, template, seen.cliqueset.namespace, seen.claim_templates)
        if owner is None or spec is None:
            return None
        build = partial(self._build, claim, spec)
        return ChildRow(self.resource, claim.name, claim.replica, owner, revision, build, without_spec)

    def _owner(self, claim: PlannedClaim) -> Owner | None:
        if not claim.group and not claim.clique:
            return Owner(kinds.CLIQUESETS, self._seen.cliqueset)
        resource = kinds.CLIQUES if claim.clique else kinds.SCALING_GROUPS
        item = self._seen.children.get(resource, {}).get(claim.clique or claim.group)
        return Owner(resource, item) if item is not None and not item.terminating else None

    def _kept(self, name: str) -> ChildRow:
        """The row of a claim about which nothing is decided now: it stays as it is."""
        return self._seen.row(self.resource, name, 0, nothing, as_it_is)

    def _build(self, claim: PlannedClaim, spec: Manifest, row: ChildRow) -> Manifest:
        cliqueset = self._seen.cliqueset
        return {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "metadata": {
                "name": claim.name,
                "namespace": cliqueset.namespace,
                "labels": {
                    **labels.owned_by(cliqueset.name),
                    labels.COMPONENT: labels.COMPONENT_CLAIM,
                    **claim.labels,
                },
            },
            "spec": spec,
        }

    def _pods(self, clique: PlannedClique) -> int:
        living = self._seen.cliques.get(clique.name)
        return living.spec.replicas if living is not None else clique.role.spec.replicas
