"""PodCliqueScalingGroup: cliques that are scaled together."""

from grove.api.clique import LastError
from grove.meta import Condition, Object, View


class PodCliqueScalingGroupSpec(View):
    replicas: int = 1
    min_available: int | None = None
    clique_names: tuple[str, ...] = ()

    @property
    def minimum(self) -> int:
        """How many replicas belong to the base gang."""
        return 1 if self.min_available is None else self.min_available


class ReplicaIndicesSelectedToUpdate(View):
    current: int = 0
    completed: tuple[int, ...] = ()


class PodCliqueScalingGroupUpdateProgress(View):
    update_started_at: str | None = None
    update_ended_at: str | None = None
    pod_clique_set_generation_hash: str = ""
    updated_pod_cliques_count: int = 0
    total_pod_cliques_count: int = 0
    ready_replica_indices_selected_to_update: ReplicaIndicesSelectedToUpdate | None = None


class PodCliqueScalingGroupStatus(View):
    observed_generation: int | None = None
    last_errors: tuple[LastError, ...] = ()
    replicas: int = 0
    available_replicas: int = 0
    scheduled_replicas: int = 0
    updated_replicas: int = 0
    selector: str | None = None
    conditions: tuple[Condition, ...] = ()
    current_pod_clique_set_generation_hash: str | None = None
    update_progress: PodCliqueScalingGroupUpdateProgress | None = None


class PodCliqueScalingGroup(Object):
    """Cliques that are scaled together, as one unit."""

    spec: PodCliqueScalingGroupSpec = PodCliqueScalingGroupSpec()
    status: PodCliqueScalingGroupStatus = PodCliqueScalingGroupStatus()
