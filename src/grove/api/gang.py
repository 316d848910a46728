"""PodGang: what must be placed together or not at all; the one intermediate representation."""

from typing import Annotated, ClassVar, Final

from grove.api import conditions
from grove.api.schema import Int32, Int64, says
from grove.meta import Condition, Manifest, Object, View

PENDING = "Pending"
STARTING = "Starting"
RUNNING = "Running"
SUCCEEDED = "Succeeded"

#: What a gang says of itself before anybody has written its status.
NEWBORN_STATUS: Final[Manifest] = {
    "phase": PENDING,
    "conditions": [
        {
            "type": conditions.INITIALIZED,
            "status": "False",
            "reason": conditions.PODS_CREATION_PENDING,
            "message": "The gang's pods do not all exist yet.",
        }
    ],
}


class NamespacedName(View):
    """Where an object lives."""

    namespace: Annotated[str, says("Its namespace.", required=True)] = ""
    name: Annotated[str, says("Its name.", required=True)] = ""


class PodReference(NamespacedName):
    """One pod of a gang; a later pod of the same name is another one."""

    uid: Annotated[str, says("Its UID; empty in references that another writer made.")] = ""


class GangPack(View):
    """A pack constraint in node label keys, ready for a scheduler."""

    required: Annotated[str | None, says("Node label whose value the pods must share.")] = None
    preferred: Annotated[str | None, says("Node label whose value the pods should share.")] = None


class GangTopologyConstraint(View):
    """Where the pods sit relative to one another."""

    pack_constraint: Annotated[GangPack | None, says("Node labels to pack by.")] = None

    @property
    def required(self) -> str | None:
        return self.pack_constraint.required if self.pack_constraint else None

    @property
    def preferred(self) -> str | None:
        return self.pack_constraint.preferred if self.pack_constraint else None


class PodGroup(View):
    """The pods of one role within a gang and how many of them it cannot do without."""

    name: Annotated[str, says("The clique's name.", required=True)]
    pod_references: Annotated[
        tuple[PodReference, ...],
        says("Its pods; empty until all of them exist.", required=True, list_type="atomic"),
    ] = ()
    min_replicas: Annotated[Int32, says("Pods that must be placed together.", required=True, minimum=0)] = 0
    topology_constraint: Annotated[GangTopologyConstraint | None, says("Packing of this group alone.")] = None


class TopologyConstraintGroup(View):
    """Podgroups that share a pack constraint."""

    name: Annotated[str, says("Name of the group of podgroups.", required=True)]
    pod_group_names: Annotated[
        tuple[str, ...], says("Its podgroups.", required=True, list_type="atomic")
    ] = ()
    topology_constraint: Annotated[GangTopologyConstraint | None, says("Packing of these podgroups.")] = None


class PodGangSpec(View):
    """What belongs together and how it should be placed."""

    #: Lower-case on the wire: `podgroups`.
    podgroups: Annotated[
        tuple[PodGroup, ...],
        says("The roles of the gang.", required=True, list_type="map", map_keys=["name"]),
    ] = ()
    topology_constraint: Annotated[GangTopologyConstraint | None, says("Packing of the whole gang.")] = None
    topology_constraint_group_configs: Annotated[
        tuple[TopologyConstraintGroup, ...],
        says("Packing of some podgroups together.", list_type="map", map_keys=["name"]),
    ] = ()
    priority_class_name: Annotated[str, says("PriorityClass of the gang.")] = ""
    reuse_reservation_ref: Annotated[
        NamespacedName | None, says("A gang whose place this one may take over, as a hint to the scheduler.")
    ] = None


class PodGangStatus(View):
    """What became of the gang, and why."""

    observed_generation: Annotated[Int64 | None, says("Generation this status belongs to.")] = None
    phase: Annotated[
        str, says("Pending, Starting, Running or Succeeded.", required=True, default=PENDING)
    ] = ""
    message: Annotated[
        str, says("What keeps the gang from being placed or ready, or that nothing does, in one sentence.")
    ] = ""
    conditions: Annotated[tuple[Condition, ...], says("State of the gang; see the table of conditions.")] = ()
    placement_score: Annotated[
        float | None, says("How good the placement is, 1.0 being the best, where the scheduler says so.")
    ] = None


class PodGang(Object):
    """What must be placed together or not at all."""

    SHARED: ClassVar[tuple[str, ...]] = ("status.phase", "status.message", "status.conditions")

    spec: Annotated[PodGangSpec, says("Desired state.", required=True)] = PodGangSpec()
    status: Annotated[PodGangStatus, says("Last observed state.", default=NEWBORN_STATUS)] = PodGangStatus()

    @property
    def minimum(self) -> int:
        """How many pods the gang needs in all."""
        return sum([group.min_replicas for group in self.spec.podgroups])
