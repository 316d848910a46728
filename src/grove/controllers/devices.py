"""What the controllers know of device claims: the templates in the cluster, and which clique awaits which.

Templates are watched one by one, and only those that sets refer to: a cluster may have thousands. A clique
creates a pod when all claims of the pod exist, and is woken when one of them appears.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from grove.api import kinds, labels
from grove.api.claim import ResourceClaim, ResourceClaimTemplate
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.pod import Pod
from grove.controllers.schedulers.watches import Watches
from grove.meta import Key, Manifest, Object, Resource
from grove.plan.sharing import external_templates
from grove.plan.startup import uses_account_of_set
from grove.runtime.cache import Cache
from grove.runtime.clock import Clock
from grove.runtime.informer import Informer
from grove.runtime.ports import Reader

PODS_BY_CLAIM: Final = "claim"


def claims_used(pod: Pod) -> Iterable[str]:
    """The index of pods by what they use of their set: claims, templates of claims, its service account."""
    for claim in pod.spec.resource_claims:
        if claim.resource_claim_name:
            yield _used(kinds.RESOURCE_CLAIMS, pod.namespace, claim.resource_claim_name)
        if claim.resource_claim_template_name:
            yield _used(kinds.RESOURCE_CLAIM_TEMPLATES, pod.namespace, claim.resource_claim_template_name)
    if uses_account_of_set(pod):
        yield _used(kinds.SERVICE_ACCOUNTS, pod.namespace, pod.labels.get(labels.PART_OF, ""))


def _used(resource: Resource, namespace: str, name: str) -> str:
    return f"{resource.plural} {namespace}/{name}"


class Devices:
    """The claims and templates of all sets."""

    def __init__(self, client: Reader, cache: Cache, clock: Clock, rng: random.Random) -> None:
        #: Called with the key of a set when a template that it refers to comes, goes or was looked for.
        self.templates_changed: list[Callable[[Key], None]] = []
        self._client = client
        self._cache = cache
        self._clock = clock
        self._rng = rng
        self._watches: Watches[Key, ResourceClaimTemplate] = Watches("claim templates", self._informer)
        #: By set, the templates in the cluster that it refers to.
        self._referred: dict[Key, tuple[Key, ...]] = {}
        #: By clique, the claims that its pods wait for; and the other way round.
        self._awaited: dict[Key, frozenset[Key]] = {}
        self._waiting: dict[Key, set[Key]] = {}

    async def run(self) -> None:
        """Keep watching until cancelled."""
        await self._watches.run()

    # Templates ------------------------------------------------------------------------------------

    def saw(self, old: Object | None, new: Object | None) -> None:
        """A set came, changed or went."""
        item = new or old
        assert isinstance(item, PodCliqueSet)
        wanted = tuple(external_templates(new)) if isinstance(new, PodCliqueSet) else ()
        if wanted == self._referred.get(item.key, ()):
            return
        self._referred[item.key] = wanted
        if not wanted:
            del self._referred[item.key]
        self._watches.want({key for keys in self._referred.values() for key in keys})

    def templates_of(self, cliqueset: PodCliqueSet) -> dict[Key, Manifest | None]:
        """What the templates say that a set refers to; None for one that does not exist.

        One of which that is not known yet is left out: it was never listed, or may not be.
        """
        found: dict[Key, Manifest | None] = {}
        for key in self._referred.get(cliqueset.key, ()):
            informer = self._watches[key]
            if informer.synced.is_set():
                template = informer.store.get(key)
                found[key] = template.spec.spec if template is not None and not template.terminating else None
        return found

    def unread(self, cliqueset: PodCliqueSet) -> Mapping[Key, str]:
        """The templates of which it is not known whether they exist, and why not if that is known."""
        informers = {key: self._watches[key] for key in self._referred.get(cliqueset.key, ())}
        return {
            key: informer.problem or "" for key, informer in informers.items() if not informer.synced.is_set()
        }

    def _informer(self, template: Key) -> Informer[ResourceClaimTemplate]:
        informer: Informer[ResourceClaimTemplate] = Informer(
            self._client,
            kinds.RESOURCE_CLAIM_TEMPLATES,
            ResourceClaimTemplate,
            namespace=template.namespace,
            fields=f"metadata.name={template.name}",
            clock=self._clock,
            rng=random.Random(self._rng.getrandbits(64)),
        )
        # Also told when the first list is empty: that there is none is news.
        known: list[object] = []

        def progressed(_: Key | None) -> None:
            there = informer.store.get(template)
            meaning = there is not None and not there.terminating and there.uid
            if known != [meaning]:
                known[:] = [meaning]
                self._tell(template)

        informer.on_progress(progressed)
        return informer

    def _tell(self, template: Key) -> None:
        for cliqueset in [key for key, referred in self._referred.items() if template in referred]:
            for tell in self.templates_changed:
                tell(cliqueset)

    # Claims ---------------------------------------------------------------------------------------

    def in_use(self, namespace: str) -> Callable[[Resource, str], bool]:
        """Whether pods of a namespace use a claim, a template or an account; those that stop count too."""
        pods = self._cache.store(Pod)
        return lambda resource, name: pods.count(PODS_BY_CLAIM, _used(resource, namespace, name)) > 0

    def lacking(self, clique: PodClique, cliqueset: PodCliqueSet, claims: Sequence[str]) -> list[str]:
        """Those of the claims that do not exist, are not the set's, or are about to go."""
        owners = {cliqueset.uid, clique.uid, clique.owner.uid if clique.owner is not None else ""}
        informer = self._cache.informer(kinds.RESOURCE_CLAIMS)
        if informer is None:
            return list(claims)
        found = {name: informer.store.get(Key(clique.namespace, name)) for name in claims}
        return [
            name
            for name, claim in found.items()
            if claim is None or claim.terminating or claim.owner is None or claim.owner.uid not in owners
        ]

    def await_claims(self, clique: Key, claims: Iterable[str]) -> None:
        """From now on a clique waits for these claims, and for no others."""
        for claim in self._awaited.pop(clique, ()):
            waiting = self._waiting[claim]
            waiting.discard(clique)
            if not waiting:
                del self._waiting[claim]
        if awaited := frozenset(Key(clique.namespace, name) for name in claims):
            self._awaited[clique] = awaited
            for claim in awaited:
                self._waiting.setdefault(claim, set()).add(clique)

    def awaits(self, clique: Key) -> bool:
        """Whether pods of a clique wait for claims."""
        return clique in self._awaited

    def cliques_awaiting(self, claim: ResourceClaim) -> list[Key]:
        """The cliques whose pods wait for a claim."""
        return sorted(self._waiting.get(claim.key, ()))
