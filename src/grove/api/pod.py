"""The part of a pod that Grove reads."""

from typing import ClassVar, Final

from grove.meta import Object, View

_FINISHED: Final = ("Succeeded", "Failed")


class SchedulingGate(View):
    name: str


class PodResourceClaim(View):
    """A claim that a pod uses: one that exists, or one that is made for it from a template."""

    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class InitContainer(View):
    name: str = ""
    args: tuple[str, ...] = ()


class SchedulingGroup(View):
    """The native PodGroup that a pod belongs to."""

    pod_group_name: str = ""


class WorkloadReference(View):
    """The entry of a native Workload that a pod belongs to, where there are no PodGroups."""

    name: str = ""
    pod_group: str = ""


class PodSpec(View):
    node_name: str = ""
    hostname: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    workload_ref: WorkloadReference | None = None
    init_containers: tuple[InitContainer, ...] = ()


class Terminated(View):
    exit_code: int = 0


class LastState(View):
    terminated: Terminated | None = None


class ContainerStatus(View):
    ready: bool = False
    started: bool | None = None
    last_state: LastState | None = None


class PodCondition(View):
    """A condition of a pod without its times: there are many pods, and nobody reads them."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""

    @property
    def is_true(self) -> bool:
        return self.status == "True"


class PodStatus(View):
    phase: str = ""
    reason: str = ""
    message: str = ""
    #: The node that is kept for the pod before it is bound to it.
    nominated_node_name: str = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Object):
    """A pod as the controllers see it: where it is, whether it may be scheduled, whether it serves."""

    #: Thousands of pods run alike, and their statuses without times are equal.
    SHARED: ClassVar[tuple[str, ...]] = (
        "status",
        "spec.node_name",
        "spec.scheduler_name",
        "spec.scheduling_gates",
        "spec.scheduling_group",
        "spec.resource_claims",
        "spec.init_containers",
    )

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def condition(self, type: str) -> PodCondition | None:
        for condition in self.status.conditions:
            if condition.type == type:
                return condition
        return None

    @property
    def bound(self) -> bool:
        return bool(self.spec.node_name)

    @property
    def ready(self) -> bool:
        condition = self.condition("Ready")
        return condition is not None and condition.is_true

    @property
    def finished(self) -> bool:
        return self.status.phase in _FINISHED

    @property
    def succeeded(self) -> bool:
        """Whether the pod has done its work and is still there."""
        return self.status.phase == "Succeeded" and self.metadata.deletion_timestamp is None

    @property
    def keeps_place(self) -> bool:
        """Whether the pod keeps its place: one that succeeded does, one that failed is replaced."""
        return self.metadata.deletion_timestamp is None and self.status.phase != "Failed"

    @property
    def active(self) -> bool:
        """Whether the pod still fills its place in the clique."""
        return self.metadata.deletion_timestamp is None and self.status.phase not in _FINISHED

    @property
    def may_run(self) -> bool:
        """Whether containers of the pod may run under its hostname: it is on a node and has not ended."""
        return self.bound and not self.finished

    @property
    def in_native_gang(self) -> bool:
        """Whether kube-scheduler counts the pod as a member of a native gang."""
        return self.spec.scheduling_group is not None or self.spec.workload_ref is not None

    def gated_by(self, gate: str) -> bool:
        return any(each.name == gate for each in self.spec.scheduling_gates)
