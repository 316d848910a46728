"""PodClique: the pods of one role."""

from typing import Annotated, ClassVar, Final

import msgspec

from grove.api.schema import MAX_REPLICAS, POD_SPEC, VERBATIM, Int32, Int64, Time, says
from grove.meta import Condition, Manifest, Object, View

#: What Kubernetes assumes where an autoscaler names no metrics; written out, so that it is ours to mend.
DEFAULT_METRICS: Final[tuple[Manifest, ...]] = (
    {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
    },
)


class AutoScalingConfig(View):
    """How a role or group is scaled by load; becomes a HorizontalPodAutoscaler."""

    min_replicas: Annotated[
        Int32 | None, says("Lower bound; the replicas when omitted, at least minAvailable.", minimum=0)
    ] = None
    max_replicas: Annotated[Int32, says("Upper bound.", required=True, minimum=1, maximum=MAX_REPLICAS)] = 0
    metrics: Annotated[
        tuple[Manifest, ...],
        says(
            "Metrics of autoscaling/v2, kept as written; CPU at 80% when omitted.",
            schema={"type": "array", "x-kubernetes-list-type": "atomic", "items": VERBATIM},
        ),
    ] = ()

    def lowest(self, replicas: int, minimum: int | None) -> int:
        """The lower bound, where it is omitted that of a template with these replicas and this minimum."""
        return self.min_replicas if self.min_replicas is not None else replicas or minimum or 1


class PodCliqueSpec(View):
    """What the pods of one role are and how many of them there must be."""

    role_name: Annotated[
        str, says("The role's name, unique within the set; cannot be changed.", max_length=253)
    ] = ""
    #: Verbatim: a field that a newer Kubernetes adds must survive.
    pod_spec: Annotated[
        Manifest,
        says("The pods, as core/v1 PodSpec; every field is kept as written.", required=True, schema=POD_SPEC),
    ] = msgspec.field(default_factory=dict)
    replicas: Annotated[
        Int32,
        says(
            "How many pods; with 0 the gang does not wait for the role.",
            default=1,
            minimum=0,
            maximum=MAX_REPLICAS,
        ),
    ] = 1
    min_available: Annotated[
        Int32 | None,
        says(
            "How many pods the gang needs at least; when omitted, the replicas that the set has at first.",
            minimum=0,
        ),
    ] = None
    starts_after: Annotated[
        tuple[Annotated[str, says(max_length=253)], ...],
        says("Cliques whose pods must be ready first; in a set, names of its cliques."),
    ] = ()
    auto_scaling_config: Annotated[AutoScalingConfig | None, says("Scale this role by load.")] = None

    @property
    def minimum(self) -> int:
        """How many pods the gang cannot do without."""
        return self.replicas if self.min_available is None else self.min_available

    @property
    def needed(self) -> int:
        """How many pods the gang cannot do without now: none of a role that is scaled to zero."""
        return self.minimum if self.replicas > 0 else 0


class LastError(View):
    """An error as clients of the Go operator read it."""

    code: Annotated[str, says("Stable code of the error.", required=True)] = ""
    description: Annotated[str, says("Message for people.", required=True)] = ""
    observed_at: Annotated[Time, says("When the error was observed.", required=True)] = ""


class PodsSelectedToUpdate(View):
    """Which ready pods an update has replaced and which one it replaces now."""

    current: Annotated[str, says("The pod being replaced.", required=True)] = ""
    completed: Annotated[tuple[str, ...], says("Pods already replaced.")] = ()
    hostname: Annotated[
        str, says("Hostname of the pod being replaced, which its replacement has too; ours.")
    ] = ""


class PodCliqueUpdateProgress(View):
    """How far the update of a clique has come."""

    update_started_at: Annotated[Time | None, says("When the update began.")] = None
    update_ended_at: Annotated[Time | None, says("When nothing was left to do.")] = None
    pod_clique_set_generation_hash: Annotated[
        str, says("Hash of the set's templates this update leads to.", required=True)
    ] = ""
    pod_template_hash: Annotated[
        str, says("Hash of the pod template this update leads to.", required=True)
    ] = ""
    ready_pods_selected_to_update: Annotated[
        PodsSelectedToUpdate | None, says("Ready pods, replaced one at a time.")
    ] = None


class PodCliqueStatus(View):
    """What was last seen of a clique's pods."""

    observed_generation: Annotated[Int64 | None, says("Generation this status belongs to.")] = None
    last_errors: Annotated[tuple[LastError, ...], says("Errors of the last reconcile that failed.")] = ()
    replicas: Annotated[Int32, says("Pods that exist and are neither terminating nor failed.")] = 0
    ready_replicas: Annotated[Int32, says("Pods that are ready.", default=0)] = 0
    updated_replicas: Annotated[Int32, says("Pods made from the current template.", default=0)] = 0
    schedule_gated_replicas: Annotated[Int32, says("Pods still behind a scheduling gate.", default=0)] = 0
    scheduled_replicas: Annotated[Int32, says("Pods bound to a node.", default=0)] = 0
    hpa_pod_selector: Annotated[
        str | None, says("Label selector of the pods, for the scale subresource.")
    ] = None
    conditions: Annotated[
        tuple[Condition, ...], says("State of the clique; see the table of conditions.")
    ] = ()
    current_pod_clique_set_generation_hash: Annotated[
        str | None, says("Hash of the set's templates that is fully rolled out here.")
    ] = None
    current_pod_template_hash: Annotated[
        str | None, says("Hash of the pod template that is fully rolled out.")
    ] = None
    update_progress: Annotated[
        PodCliqueUpdateProgress | None, says("The update under way or last finished.")
    ] = None


class PodClique(Object):
    """The pods of one role of one replica of a set."""

    SHARED: ClassVar[tuple[str, ...]] = (
        "spec.role_name",
        "spec.pod_spec",
        "status.conditions",
        "status.current_pod_template_hash",
        "status.current_pod_clique_set_generation_hash",
    )

    spec: Annotated[PodCliqueSpec, says("Desired state.", required=True)] = PodCliqueSpec()
    status: Annotated[PodCliqueStatus, says("Last observed state.")] = PodCliqueStatus()
