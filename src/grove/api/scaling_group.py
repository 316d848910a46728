"""PodCliqueScalingGroup: cliques that are scaled together."""

from typing import Annotated

from grove.api.clique import LastError
from grove.api.schema import MAX_REPLICAS, Int32, Int64, Time, says
from grove.meta import Condition, Object, View


class PodCliqueScalingGroupSpec(View):
    """How many copies of the group there are and what it is made of."""

    replicas: Annotated[
        Int32,
        says("How many copies of the group; 0 for none.", default=1, minimum=0, maximum=MAX_REPLICAS),
    ] = 1
    min_available: Annotated[
        Int32 | None,
        says("Replicas that belong to the base gang; the others are gangs of their own.", default=1),
    ] = None
    clique_names: Annotated[tuple[str, ...], says("The cliques of the group.", required=True)] = ()

    @property
    def minimum(self) -> int:
        """How many replicas belong to the base gang."""
        return 1 if self.min_available is None else self.min_available


class ReplicaIndicesSelectedToUpdate(View):
    """Which ready replicas an update has replaced and which one it replaces now."""

    current: Annotated[Int32, says("The replica being replaced.", required=True)] = 0
    completed: Annotated[tuple[Int32, ...], says("Replicas already replaced.")] = ()


class PodCliqueScalingGroupUpdateProgress(View):
    """How far the update of a scaling group has come."""

    update_started_at: Annotated[Time | None, says("When the update began.", required=True)] = None
    update_ended_at: Annotated[Time | None, says("When nothing was left to do.")] = None
    pod_clique_set_generation_hash: Annotated[
        str, says("Hash of the set's templates this update leads to.", required=True)
    ] = ""
    updated_pod_cliques_count: Annotated[Int32, says("Cliques that are up to date.", default=0)] = 0
    total_pod_cliques_count: Annotated[Int32, says("Cliques in all.", default=0)] = 0
    ready_replica_indices_selected_to_update: Annotated[
        ReplicaIndicesSelectedToUpdate | None, says("Ready replicas, replaced one at a time.")
    ] = None


class PodCliqueScalingGroupStatus(View):
    """What was last seen of a scaling group."""

    observed_generation: Annotated[Int64 | None, says("Generation this status belongs to.")] = None
    last_errors: Annotated[tuple[LastError, ...], says("Errors of the last reconcile that failed.")] = ()
    replicas: Annotated[Int32, says("Replicas that should exist.")] = 0
    available_replicas: Annotated[
        Int32, says("Replicas whose every clique has enough ready pods.", default=0)
    ] = 0
    scheduled_replicas: Annotated[
        Int32, says("Replicas whose every clique has enough bound pods.", default=0)
    ] = 0
    updated_replicas: Annotated[
        Int32, says("Replicas that follow the current templates and are available.", default=0)
    ] = 0
    selector: Annotated[str | None, says("Label selector of the pods, for the scale subresource.")] = None
    conditions: Annotated[
        tuple[Condition, ...], says("State of the group; see the table of conditions.")
    ] = ()
    current_pod_clique_set_generation_hash: Annotated[
        str | None, says("Hash of the set's templates that is fully rolled out here.")
    ] = None
    update_progress: Annotated[
        PodCliqueScalingGroupUpdateProgress | None, says("The update under way or last finished.")
    ] = None


class PodCliqueScalingGroup(Object):
    """Cliques that are scaled together, as one unit."""

    spec: Annotated[PodCliqueScalingGroupSpec, says("Desired state.", required=True)] = (
        PodCliqueScalingGroupSpec()
    )
    status: Annotated[PodCliqueScalingGroupStatus, says("Last observed state.")] = (
        PodCliqueScalingGroupStatus()
    )
