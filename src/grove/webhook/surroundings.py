"""What webhooks know of the cluster: the caches, the schedulers and the configuration of the operator."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from grove.admission import Here
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.config import OperatorConfiguration
from grove.api.constraints import topology_name
from grove.api.topology import ClusterTopologyBinding
from grove.backends.base import Backend, Cluster, Context
from grove.backends.registry import Registry, Selection
from grove.meta import Key
from grove.runtime.cache import Cache

#: The index by set of everything that belongs to one.
BY_SET: Final = "set"


class Schedulers(Protocol):
    """The enabled backends and what the cluster offers them, as they are at the moment."""

    @property
    def registry(self) -> Registry: ...

    @property
    def cluster(self) -> Cluster: ...

    def context(self, backend: Backend | None, cliqueset: PodCliqueSet | None = None) -> Context: ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Everything outside an object that decides about it. Reads only what is cached."""

    cache: Cache
    schedulers: Schedulers
    configuration: OperatorConfiguration

    def here(self, cliqueset: PodCliqueSet) -> Here:
        """What decides about a set besides itself."""
        configuration = self.configuration
        return Here(
            _Selecting(self.schedulers),
            self.binding(cliqueset),
            configuration.topology_aware_scheduling.enabled,
            configuration.limits.pods_per_set,
            self.schedulers.cluster,
            configuration.network.auto_mnnvl_enabled,
        )

    def binding(self, cliqueset: PodCliqueSet) -> ClusterTopologyBinding | None:
        """The topology that a set names, if there is one."""
        name = topology_name(cliqueset)
        return self.cache.store(ClusterTopologyBinding).get(Key("", name)) if name else None

    def usable_binding(self, cliqueset: PodCliqueSet) -> ClusterTopologyBinding | None:
        """The topology that a set names, unless topology is switched off."""
        enabled = self.configuration.topology_aware_scheduling.enabled
        return self.binding(cliqueset) if enabled else None

    def cliqueset(self, key: Key) -> PodCliqueSet | None:
        return self.cache.store(PodCliqueSet).get(key)

    def cliquesets(self) -> Iterable[PodCliqueSet]:
        return self.cache.store(PodCliqueSet)

    def cliques_of(self, cliqueset: PodCliqueSet) -> dict[str, PodClique]:
        """The cliques that belong to a set, by name."""
        found = self.cache.store(PodClique).index(BY_SET, str(cliqueset.key))
        return {clique.name: clique for clique in found}


@dataclass(frozen=True, slots=True)
class _Selecting:
    """Selects without remembering: what is proposed has the UID and generation of what is stored."""

    schedulers: Schedulers

    def select(self, cliqueset: PodCliqueSet, /) -> Selection:
        return self.schedulers.registry.select(cliqueset)

    def context(self, backend: Backend, cliqueset: PodCliqueSet, /) -> Context:
        return self.schedulers.context(backend, cliqueset)
