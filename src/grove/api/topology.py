"""ClusterTopologyBinding: which node labels are the levels of the cluster's topology; and pack constraints."""

from grove.meta import Condition, Object, View


class PackConstraint(View):
    """Where pods must (`required`) or should (`preferred`) sit together, as topology domains."""

    required: str | None = None
    preferred: str | None = None


class TopologyConstraint(View):
    """A pack constraint of a set, a scaling group or a clique, in domains of one ClusterTopologyBinding."""

    topology_name: str = ""
    pack: PackConstraint | None = None
    #: Deprecated alias of `pack.required`.
    pack_domain: str | None = None

    @property
    def required(self) -> str | None:
        return (self.pack.required if self.pack else None) or self.pack_domain

    @property
    def preferred(self) -> str | None:
        return self.pack.preferred if self.pack else None


class TopologyLevel(View):
    """One level: its domain name and the node label that carries it."""

    domain: str
    key: str


class SchedulerTopologyBinding(View):
    """A topology object of one scheduler that somebody else manages."""

    scheduler_name: str
    topology_reference: str


class ClusterTopologyBindingSpec(View):
    levels: tuple[TopologyLevel, ...] = ()
    scheduler_topology_bindings: tuple[SchedulerTopologyBinding, ...] = ()


class SchedulerTopologyStatus(View):
    """Whether one scheduler's topology object agrees with the levels."""

    scheduler_name: str = ""
    topology_reference: str = ""
    in_sync: bool = False
    scheduler_backend_topology_observed_generation: int = 0
    message: str = ""


class ClusterTopologyBindingStatus(View):
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()
    scheduler_topology_statuses: tuple[SchedulerTopologyStatus, ...] = ()


class ClusterTopologyBinding(Object):
    """The levels of the cluster's topology, broadest first."""

    spec: ClusterTopologyBindingSpec = ClusterTopologyBindingSpec()
    status: ClusterTopologyBindingStatus = ClusterTopologyBindingStatus()

    def level_key(self, domain: str) -> str | None:
        """The node label of a domain, or None when no level has that name."""
        return next((level.key for level in self.spec.levels if level.domain == domain), None)
