"""How many pods a clique may have: no set has more pods in all than the configuration allows.

A set that asks for too much is refused before it has pods; this is about cliques that are scaled by
themselves afterwards. What a clique's template gives it is always granted, because the set was accepted with
it; pods beyond that are granted while there is room, to whoever asks first. Nothing is ever taken away.
"""

from grove.api import labels, names
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.pod import Pod
from grove.errors import PodLimitReached
from grove.meta import Key
from grove.plan.layout import Layout
from grove.runtime.cache import Cache

BY_SET = "set"


class PodLimit:
    """Grants pods to cliques; remembers what was granted until the cache shows it."""

    def __init__(self, cache: Cache, pods_per_set: int) -> None:
        self._cache = cache
        self._most = pods_per_set
        #: By set and clique: pods that were granted and that the cache may not show yet.
        self._granted: dict[Key, dict[Key, int]] = {}
        self._shortages: dict[Key, PodLimitReached] = {}

    def grant(self, clique: PodClique, cliqueset: PodCliqueSet | None, *, have: int) -> int:
        """How many pods a clique that has some may have now; asked again, the last grant is void."""
        self.forget(clique.key)
        wanted = clique.spec.replicas
        if have >= wanted:
            # What most cliques are: nothing is taken away, and no more is asked for.
            return wanted
        sure = min(wanted, max(have, _by_template(clique, cliqueset)))
        if wanted <= sure:
            return wanted
        owner = _set_of(clique)
        outstanding = self._granted.get(owner, {})
        taken = self._cache.store(Pod).count(BY_SET, str(owner)) + sum(outstanding.values())
        granted = max(sure, min(wanted, have + self._most - taken))
        if granted > have:
            self._granted.setdefault(owner, {})[clique.key] = granted - have
        if granted < wanted:
            self._shortages[clique.key] = PodLimitReached(
                f"spec.replicas: {wanted} pods are asked for and {granted} may exist, because this operator "
                f"allows {self._most} pods in one set; scale the PodClique down, or raise limits.podsPerSet "
                "in the operator's configuration"
            )
        return granted

    def shortage(self, key: Key) -> PodLimitReached | None:
        """What to say about a clique that wants more than it was granted last."""
        return self._shortages.get(key)

    def forget(self, key: Key) -> None:
        """The clique is gone, or asks again."""
        self._shortages.pop(key, None)
        for owner in [owner for owner, cliques in self._granted.items() if key in cliques]:
            del self._granted[owner][key]
            if not self._granted[owner]:
                del self._granted[owner]


def _set_of(clique: PodClique) -> Key:
    return Key(clique.namespace, clique.labels.get(labels.PART_OF, ""))


def _by_template(clique: PodClique, cliqueset: PodCliqueSet | None) -> int:
    """How many pods the set's template gives the clique."""
    if cliqueset is not None and (replica := names.set_replica(cliqueset.name, clique.name)) is not None:
        planned = Layout(cliqueset.name, cliqueset.template).find_clique(replica, clique.name)
        if planned is not None:
            return planned.role.spec.replicas
    return clique.spec.minimum
