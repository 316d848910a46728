"""ClusterTopologyBinding: which node labels are the levels of the topology; and pack constraints."""

from typing import Annotated

from grove.api.schema import DOMAIN, Int64, says
from grove.meta import Condition, Object, View

_KEY = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"

#: The name of a topology level, such as `rack`.
Domain = Annotated[str, says(min_length=1, max_length=63, pattern=DOMAIN)]


class PackConstraint(View):
    """Where pods must (`required`) or should (`preferred`) sit together, as topology domains."""

    required: Annotated[Domain | None, says("Domain that the pods must share.")] = None
    preferred: Annotated[Domain | None, says("Domain that the pods should share.")] = None


class TopologyConstraint(View):
    """A pack constraint of a set, a scaling group or a clique, in domains of one ClusterTopologyBinding."""

    topology_name: Annotated[
        str,
        says("The ClusterTopologyBinding; inherited from the level above when omitted."),
    ] = ""
    pack: Annotated[PackConstraint | None, says("What to pack by.")] = None
    #: Deprecated alias of `pack.required`.
    pack_domain: Annotated[Domain | None, says("Deprecated: use pack.required.")] = None

    @property
    def required(self) -> str | None:
        return (self.pack.required if self.pack else None) or self.pack_domain

    @property
    def preferred(self) -> str | None:
        return self.pack.preferred if self.pack else None


class TopologyLevel(View):
    """One level: its domain name and the node label that carries it."""

    domain: Annotated[Domain, says("Name of the level, such as rack.", required=True)]
    key: Annotated[
        str, says("Node label that carries it.", required=True, min_length=1, max_length=63, pattern=_KEY)
    ]


class SchedulerTopologyBinding(View):
    """A topology object of one scheduler that somebody else manages."""

    scheduler_name: Annotated[str, says("The scheduler.", required=True)]
    topology_reference: Annotated[str, says("Name of its topology object.", required=True)]


class ClusterTopologyBindingSpec(View):
    """The levels, and the schedulers that bring a topology object of their own."""

    levels: Annotated[
        tuple[TopologyLevel, ...], says("The levels, broadest first.", required=True, min_items=1)
    ] = ()
    scheduler_topology_bindings: Annotated[
        tuple[SchedulerTopologyBinding, ...],
        says("Topology objects that Grove compares with but does not write."),
    ] = ()


class SchedulerTopologyStatus(View):
    """Whether one scheduler's topology object agrees with the levels."""

    scheduler_name: Annotated[str, says("The scheduler.", required=True)] = ""
    topology_reference: Annotated[str, says("Name of its topology object.", required=True)] = ""
    in_sync: Annotated[bool, says("Whether it has the same levels.", required=True)] = False
    scheduler_backend_topology_observed_generation: Annotated[
        Int64, says("Generation of the topology object that was compared.")
    ] = 0
    message: Annotated[str, says("What differs.")] = ""


class ClusterTopologyBindingStatus(View):
    """Whether the schedulers see the same topology."""

    observed_generation: Annotated[Int64, says("Generation this status belongs to.")] = 0
    conditions: Annotated[tuple[Condition, ...], says("Accepted and SchedulerTopologyDrift.")] = ()
    scheduler_topology_statuses: Annotated[
        tuple[SchedulerTopologyStatus, ...], says("One entry for each scheduler.")
    ] = ()


class ClusterTopologyBinding(Object):
    """The levels of the cluster's topology, broadest first."""

    spec: Annotated[ClusterTopologyBindingSpec, says("The levels.", required=True)] = (
        ClusterTopologyBindingSpec()
    )
    status: Annotated[ClusterTopologyBindingStatus, says("Last observed state.")] = (
        ClusterTopologyBindingStatus()
    )

    def level_key(self, domain: str) -> str | None:
        """The node label of a domain, or None when no level has that name."""
        return next((level.key for level in self.spec.levels if level.domain == domain), None)

    def reference_for(self, *schedulers: str) -> str:
        """The topology object that it references for a scheduler, by any of its names; empty if none."""
        bindings = self.spec.scheduler_topology_bindings
        return next((each.topology_reference for each in bindings if each.scheduler_name in schedulers), "")
