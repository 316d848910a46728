"""PodGang: what must be placed together or not at all; the one intermediate representation."""

from grove.meta import Condition, Object, View

PENDING = "Pending"
STARTING = "Starting"
RUNNING = "Running"


class NamespacedName(View):
    namespace: str = ""
    name: str = ""


class GangPack(View):
    """A pack constraint in node label keys, ready for a scheduler."""

    required: str | None = None
    preferred: str | None = None


class GangTopologyConstraint(View):
    pack_constraint: GangPack | None = None

    @property
    def required(self) -> str | None:
        return self.pack_constraint.required if self.pack_constraint else None

    @property
    def preferred(self) -> str | None:
        return self.pack_constraint.preferred if self.pack_constraint else None


class PodGroup(View):
    """The pods of one role within a gang and how many of them it cannot do without."""

    name: str
    pod_references: tuple[NamespacedName, ...] = ()
    min_replicas: int = 0
    topology_constraint: GangTopologyConstraint | None = None


class TopologyConstraintGroup(View):
    """Podgroups that share a pack constraint."""

    name: str
    pod_group_names: tuple[str, ...] = ()
    topology_constraint: GangTopologyConstraint | None = None


class PodGangSpec(View):
    #: Lower-case on the wire: `podgroups`.
    podgroups: tuple[PodGroup, ...] = ()
    topology_constraint: GangTopologyConstraint | None = None
    topology_constraint_group_configs: tuple[TopologyConstraintGroup, ...] = ()
    priority_class_name: str = ""
    reuse_reservation_ref: NamespacedName | None = None


class PodGangStatus(View):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    placement_score: float | None = None


class PodGang(Object):
    """What must be placed together or not at all."""

    spec: PodGangSpec = PodGangSpec()
    status: PodGangStatus = PodGangStatus()

    @property
    def minimum(self) -> int:
        """How many pods the gang needs in all."""
        return sum(group.min_replicas for group in self.spec.podgroups)
