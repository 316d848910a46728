"""PodClique: the pods of one role."""

from grove.meta import Condition, Manifest, Object, View


class AutoScalingConfig(View):
    """How a role is scaled by load."""

    min_replicas: int | None = None
    max_replicas: int = 0
    metrics: tuple[Manifest, ...] = ()


class PodCliqueSpec(View):
    role_name: str = ""
    #: Verbatim: a field that a newer Kubernetes adds must survive.
    pod_spec: Manifest = {}
    replicas: int = 1
    min_available: int | None = None
    starts_after: tuple[str, ...] = ()
    auto_scaling_config: AutoScalingConfig | None = None

    @property
    def minimum(self) -> int:
        """How many pods the gang cannot do without."""
        return self.replicas if self.min_available is None else self.min_available


class LastError(View):
    """An error as clients of the incumbent read it."""

    code: str = ""
    description: str = ""
    observed_at: str = ""


class PodsSelectedToUpdate(View):
    current: str = ""
    completed: tuple[str, ...] = ()


class PodCliqueUpdateProgress(View):
    update_started_at: str | None = None
    update_ended_at: str | None = None
    pod_clique_set_generation_hash: str = ""
    pod_template_hash: str = ""
    ready_pods_selected_to_update: PodsSelectedToUpdate | None = None


class PodCliqueStatus(View):
    observed_generation: int | None = None
    last_errors: tuple[LastError, ...] = ()
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0
    schedule_gated_replicas: int = 0
    scheduled_replicas: int = 0
    hpa_pod_selector: str | None = None
    conditions: tuple[Condition, ...] = ()
    current_pod_clique_set_generation_hash: str | None = None
    current_pod_template_hash: str | None = None
    update_progress: PodCliqueUpdateProgress | None = None


class PodClique(Object):
    """The pods of one role of one replica of a set."""

    spec: PodCliqueSpec = PodCliqueSpec()
    status: PodCliqueStatus = PodCliqueStatus()
