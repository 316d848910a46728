"""PodCliqueSet: what a user writes; one description of a multi-role workload."""

from grove.api.clique import AutoScalingConfig, LastError, PodCliqueSpec
from grove.api.topology import TopologyConstraint
from grove.meta import Condition, Manifest, Object, View

ANY_ORDER = "CliqueStartupTypeAnyOrder"
IN_ORDER = "CliqueStartupTypeInOrder"
EXPLICIT = "CliqueStartupTypeExplicit"


class ResourceSharingFilter(View):
    child_clique_names: tuple[str, ...] = ()
    child_scaling_group_names: tuple[str, ...] = ()


class ResourceSharing(View):
    """A device claim that several pods share."""

    name: str = ""
    namespace: str = ""
    scope: str = ""
    filter: ResourceSharingFilter | None = None


class ResourceClaimTemplate(View):
    name: str = ""
    template_spec: Manifest = {}


class HeadlessServiceConfig(View):
    publish_not_ready_addresses: bool = True


class PodCliqueTemplate(View):
    """One role: its name, the metadata of its pods and its spec."""

    name: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    topology_constraint: TopologyConstraint | None = None
    resource_sharing: tuple[ResourceSharing, ...] = ()
    spec: PodCliqueSpec = PodCliqueSpec()


class ScalingGroupConfig(View):
    """Roles that are scaled together."""

    name: str = ""
    clique_names: tuple[str, ...] = ()
    annotations: dict[str, str] = {}
    replicas: int | None = None
    min_available: int | None = None
    scale_config: AutoScalingConfig | None = None
    resource_sharing: tuple[ResourceSharing, ...] = ()
    topology_constraint: TopologyConstraint | None = None


class PodCliqueSetTemplate(View):
    cliques: tuple[PodCliqueTemplate, ...] = ()
    clique_startup_type: str = ANY_ORDER
    priority_class_name: str = ""
    headless_service_config: HeadlessServiceConfig | None = None
    topology_constraint: TopologyConstraint | None = None
    termination_delay: str | None = None
    resource_claim_templates: tuple[ResourceClaimTemplate, ...] = ()
    resource_sharing: tuple[ResourceSharing, ...] = ()
    pod_clique_scaling_groups: tuple[ScalingGroupConfig, ...] = ()


class UpdateStrategy(View):
    type: str = "RollingRecreate"


class PodCliqueSetSpec(View):
    replicas: int = 0
    update_strategy: UpdateStrategy | None = None
    template: PodCliqueSetTemplate = PodCliqueSetTemplate()


class CurrentlyUpdating(View):
    replica_index: int = 0
    update_started_at: str | None = None
    update_ended_at: str | None = None


class PodCliqueSetUpdateProgress(View):
    update_started_at: str | None = None
    update_ended_at: str | None = None
    updated_pod_cliques_count: int = 0
    total_pod_cliques_count: int = 0
    updated_pod_clique_scaling_groups_count: int = 0
    total_pod_clique_scaling_groups_count: int = 0
    currently_updating: tuple[CurrentlyUpdating, ...] = ()


class PodGangSummary(View):
    name: str = ""
    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class PodCliqueSetStatus(View):
    observed_generation: int | None = None
    conditions: tuple[Condition, ...] = ()
    last_errors: tuple[LastError, ...] = ()
    replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    hpa_pod_selector: str | None = None
    pod_gang_statuses: tuple[PodGangSummary, ...] = ()
    current_generation_hash: str | None = None
    update_progress: PodCliqueSetUpdateProgress | None = None


class PodCliqueSet(Object):
    """One description of a multi-role workload; each replica is scheduled as a whole."""

    spec: PodCliqueSetSpec = PodCliqueSetSpec()
    status: PodCliqueSetStatus = PodCliqueSetStatus()

    @property
    def template(self) -> PodCliqueSetTemplate:
        return self.spec.template

    @property
    def standalone_cliques(self) -> tuple[PodCliqueTemplate, ...]:
        """The roles that no scaling group contains, in template order."""
        grouped = {name for group in self.template.pod_clique_scaling_groups for name in group.clique_names}
        return tuple(clique for clique in self.template.cliques if clique.name not in grouped)
