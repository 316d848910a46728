"""PodCliqueSet: what a user writes; one description of a multi-role workload."""

from typing import Annotated

import msgspec

from grove.api import labels
from grove.api.clique import AutoScalingConfig, LastError, PodCliqueSpec
from grove.api.schema import (
    DNS_LABEL,
    MAX_CLIQUES,
    MAX_GROUPS,
    MAX_REPLICAS,
    MAX_SHARED,
    VERBATIM,
    Int32,
    Int64,
    Time,
    says,
)
from grove.api.topology import TopologyConstraint
from grove.meta import Condition, Manifest, Object, View

ANY_ORDER = "CliqueStartupTypeAnyOrder"
IN_ORDER = "CliqueStartupTypeInOrder"
EXPLICIT = "CliqueStartupTypeExplicit"
STARTUP_TYPES = (ANY_ORDER, IN_ORDER, EXPLICIT)

ROLLING_RECREATE = "RollingRecreate"
ON_DELETE = "OnDelete"

ALL_REPLICAS = "AllReplicas"
PER_REPLICA = "PerReplica"

#: The name of a clique or group: part of the names of pods, hence a DNS label.
Label = Annotated[str, says(min_length=1, max_length=63, pattern=DNS_LABEL)]


#: No object may have more than 256 KiB of annotations; said here so that rules about one can be bounded.
Annotations = dict[str, Annotated[str, says(max_length=256 * 1024)]]


class ResourceSharingFilter(View):
    """Which children of the level share the claim; without names, all of them."""

    child_clique_names: Annotated[
        tuple[Annotated[str, says(max_length=63)], ...], says("Cliques that share it.", max_items=MAX_CLIQUES)
    ] = ()
    child_scaling_group_names: Annotated[
        tuple[Annotated[str, says(max_length=63)], ...],
        says("Scaling groups that share it.", max_items=MAX_GROUPS),
    ] = ()


class ResourceSharing(View):
    """A device claim that several pods share."""

    name: Annotated[
        str,
        says("A resource claim template of the set, or one in the cluster.", required=True, max_length=253),
    ] = ""
    namespace: Annotated[
        str, says("Namespace of a template in the cluster; the set's when omitted.", max_length=63)
    ] = ""
    scope: Annotated[
        str,
        says("One claim for all replicas or one for each.", required=True, enum=[ALL_REPLICAS, PER_REPLICA]),
    ] = ""
    filter: Annotated[ResourceSharingFilter | None, says("Who shares it; everyone when omitted.")] = None

    def reaches(self, role: str, group: str = "") -> bool:
        """Whether pods of a role, which may belong to a scaling group, use what is shared."""
        chosen = self.filter
        return (
            chosen is None
            or role in chosen.child_clique_names
            or bool(group and group in chosen.child_scaling_group_names)
        )


class ResourceClaimTemplate(View):
    """A device claim that the set's pods can share."""

    name: Annotated[
        str, says("Name by which resourceSharing refers to it.", required=True, max_length=253)
    ] = ""
    template_spec: Annotated[
        Manifest,
        says(
            "As resource.k8s.io/v1 ResourceClaimTemplateSpec, kept as written.",
            required=True,
            schema=VERBATIM,
        ),
    ] = msgspec.field(default_factory=dict)


class HeadlessServiceConfig(View):
    """The service by which the pods of a replica find each other."""

    publish_not_ready_addresses: Annotated[
        bool, says("Whether pods are found before they are ready.", default=True)
    ] = True


class PodCliqueTemplate(View):
    """One role: its name, the metadata of its pods and its spec."""

    name: Annotated[Label, says("The role's clique; part of its pods' names.", required=True)] = ""
    labels: Annotated[dict[str, str], says("Labels of the clique and its pods.")] = msgspec.field(
        default_factory=dict
    )
    annotations: Annotated[Annotations, says("Annotations of the clique and its pods.")] = msgspec.field(
        default_factory=dict
    )
    topology_constraint: Annotated[TopologyConstraint | None, says("Packing of this role.")] = None
    resource_sharing: Annotated[
        tuple[ResourceSharing, ...],
        says("Device claims that its pods share.", omit=("filter",), max_items=MAX_SHARED),
    ] = ()
    spec: Annotated[
        PodCliqueSpec,
        says(
            "The pods.",
            required=True,
            narrow={"minAvailable": {"minimum": 1}, "startsAfter": {"maxItems": MAX_CLIQUES}},
        ),
    ] = PodCliqueSpec()


class ScalingGroupConfig(View):
    """Roles that are scaled together."""

    name: Annotated[Label, says("The group's name; part of its pods' names.", required=True)] = ""
    clique_names: Annotated[
        tuple[Annotated[str, says(max_length=63)], ...],
        says("Its roles; a role belongs to one group at most.", required=True, max_items=MAX_CLIQUES),
    ] = ()
    annotations: Annotated[Annotations, says("Annotations of the scaling group.")] = msgspec.field(
        default_factory=dict
    )
    replicas: Annotated[
        Int32 | None,
        says("How many copies of the group; 0 for none.", default=1, minimum=0, maximum=MAX_REPLICAS),
    ] = None
    min_available: Annotated[
        Int32 | None,
        says("Replicas that the base gang needs; the others are gangs of their own.", default=1, minimum=1),
    ] = None
    scale_config: Annotated[AutoScalingConfig | None, says("Scale the group by load.")] = None
    resource_sharing: Annotated[
        tuple[ResourceSharing, ...],
        says(
            "Device claims that its pods share.",
            omit=("filter.childScalingGroupNames",),
            max_items=MAX_SHARED,
        ),
    ] = ()
    topology_constraint: Annotated[
        TopologyConstraint | None, says("Packing of one replica of the group.")
    ] = None

    @property
    def minimum(self) -> int:
        """How many replicas belong to the base gang."""
        return 1 if self.min_available is None else self.min_available

    @property
    def initial_replicas(self) -> int:
        """How many replicas the group has until somebody scales it."""
        return 1 if self.replicas is None else self.replicas


class PodCliqueSetTemplate(View):
    """What one replica of the set is made of."""

    cliques: Annotated[
        tuple[PodCliqueTemplate, ...],
        says(
            "The roles.",
            required=True,
            min_items=1,
            max_items=MAX_CLIQUES,
            list_type="map",
            map_keys=["name"],
        ),
    ] = ()
    clique_startup_type: Annotated[
        str,
        says(
            "Whether pods start in any order, in the order of the list, or as startsAfter says.",
            default=ANY_ORDER,
            enum=list(STARTUP_TYPES),
        ),
    ] = ANY_ORDER
    priority_class_name: Annotated[str, says("PriorityClass of the gangs.")] = ""
    headless_service_config: Annotated[HeadlessServiceConfig | None, says("How pods find each other.")] = None
    topology_constraint: Annotated[TopologyConstraint | None, says("Packing of a whole replica.")] = None
    termination_delay: Annotated[
        str | None,
        says("How long a replica may be below its minimum, such as 4h0m0s (the default)."),
    ] = None
    resource_claim_templates: Annotated[
        tuple[ResourceClaimTemplate, ...], says("Device claims to share.", max_items=MAX_SHARED)
    ] = ()
    resource_sharing: Annotated[
        tuple[ResourceSharing, ...],
        says("Device claims that the pods of a replica or of the set share.", max_items=MAX_SHARED),
    ] = ()
    pod_clique_scaling_groups: Annotated[
        tuple[ScalingGroupConfig, ...],
        says("Roles that are scaled together.", max_items=MAX_GROUPS, list_type="map", map_keys=["name"]),
    ] = ()

    @property
    def standalone_cliques(self) -> tuple[PodCliqueTemplate, ...]:
        """The roles that no scaling group contains, in template order."""
        grouped = {name for group in self.pod_clique_scaling_groups for name in group.clique_names}
        return tuple(clique for clique in self.cliques if clique.name not in grouped)


class RollingRecreate(View):
    """How many replicas of the set an update may take down, and how many it may add meanwhile."""

    max_unavailable: Annotated[
        int | str | None,
        says(
            "Replicas that may be down because of the update, as a number or a percentage; 1 when omitted.",
        ),
    ] = None
    max_surge: Annotated[
        int | str | None,
        says(
            "Replicas that are added while the update goes on, as a number or a percentage; 0 when omitted.",
        ),
    ] = None


class UpdateStrategy(View):
    """How a changed template reaches the pods."""

    type: Annotated[
        str,
        says(
            "Replace replica after replica, or leave deleting pods to the user.",
            default=ROLLING_RECREATE,
            enum=[ROLLING_RECREATE, ON_DELETE],
        ),
    ] = ROLLING_RECREATE
    rolling_recreate: Annotated[
        RollingRecreate | None, says("Limits of RollingRecreate; an addition to the Go operator's API.")
    ] = None


class PodCliqueSetSpec(View):
    """How many replicas, of what, and how they are updated."""

    replicas: Annotated[
        Int32, says("How many copies of the whole workload.", default=0, minimum=0, maximum=MAX_REPLICAS)
    ] = 0
    update_strategy: Annotated[UpdateStrategy | None, says("RollingRecreate when omitted.")] = None
    template: Annotated[PodCliqueSetTemplate, says("One replica.", required=True)] = PodCliqueSetTemplate()


class CurrentlyUpdating(View):
    """A replica that is being replaced."""

    replica_index: Annotated[Int32, says("Index of the replica.", required=True)] = 0
    update_started_at: Annotated[Time | None, says("When its turn began.")] = None
    update_ended_at: Annotated[Time | None, says("Never set: a turn that is over is no longer listed.")] = (
        None
    )


class PodCliqueSetUpdateProgress(View):
    """How far the update of a set has come."""

    update_started_at: Annotated[Time | None, says("When the update began.")] = None
    update_ended_at: Annotated[Time | None, says("When nothing was left to do.")] = None
    updated_pod_cliques_count: Annotated[
        Int32, says("Standalone cliques that are up to date.", default=0)
    ] = 0
    total_pod_cliques_count: Annotated[Int32, says("Standalone cliques in all.", default=0)] = 0
    updated_pod_clique_scaling_groups_count: Annotated[
        Int32, says("Scaling groups that are up to date.", default=0)
    ] = 0
    total_pod_clique_scaling_groups_count: Annotated[Int32, says("Scaling groups in all.", default=0)] = 0
    surplus_replicas: Annotated[
        Int32 | None, says("Added replicas that are left; only where others were given up for want of room.")
    ] = None
    currently_updating: Annotated[tuple[CurrentlyUpdating, ...], says("Replicas being replaced now.")] = ()


class PodGangSummary(View):
    """One gang of the set, in short."""

    name: Annotated[str, says("The PodGang.", required=True)] = ""
    phase: Annotated[
        str,
        says("Its phase.", required=True, enum=["Pending", "Starting", "Running", "Failed", "Succeeded"]),
    ] = ""
    conditions: Annotated[tuple[Condition, ...], says("Its conditions.")] = ()


class PodCliqueSetStatus(View):
    """What was last seen of the whole workload."""

    observed_generation: Annotated[Int64 | None, says("Generation this status belongs to.")] = None
    conditions: Annotated[tuple[Condition, ...], says("State of the set; see the table of conditions.")] = ()
    last_errors: Annotated[tuple[LastError, ...], says("Errors of the last reconcile that failed.")] = ()
    replicas: Annotated[Int32, says("Replicas that should exist.")] = 0
    updated_replicas: Annotated[
        Int32, says("Replicas that follow the current template and are available.", default=0)
    ] = 0
    available_replicas: Annotated[Int32, says("Replicas with enough ready pods everywhere.", default=0)] = 0
    scheduled_replicas: Annotated[Int32, says("Replicas whose base gang has been placed.", default=0)] = 0
    hpa_pod_selector: Annotated[
        str | None, says("Label selector of the pods, for the scale subresource.")
    ] = None
    pod_gang_statuses: Annotated[
        tuple[PodGangSummary, ...], says("Not filled in; what the gangs say is in the PodGangs.")
    ] = ()
    current_generation_hash: Annotated[
        str | None, says("Hash of the templates that should be rolled out.")
    ] = None
    update_progress: Annotated[
        PodCliqueSetUpdateProgress | None, says("The update under way or last finished.")
    ] = None


class PodCliqueSet(Object):
    """One description of a multi-role workload; each replica is scheduled as a whole."""

    spec: Annotated[PodCliqueSetSpec, says("Desired state.", required=True)] = PodCliqueSetSpec()
    status: Annotated[PodCliqueSetStatus, says("Last observed state.")] = PodCliqueSetStatus()

    @property
    def template(self) -> PodCliqueSetTemplate:
        return self.spec.template

    @property
    def on_delete(self) -> bool:
        """Whether a changed template reaches a pod on a node only when somebody deletes it."""
        strategy = self.spec.update_strategy
        return strategy is not None and strategy.type == ON_DELETE

    @property
    def update_paused(self) -> bool:
        """Whether nothing may be taken down for an update now.

        Who writes something else than true or false is told so; until it is corrected nothing goes down.
        """
        return self.annotations.get(labels.UPDATE_PAUSED, "false") != "false"

    @property
    def standalone_cliques(self) -> tuple[PodCliqueTemplate, ...]:
        """The roles that no scaling group contains, in template order."""
        return self.template.standalone_cliques
