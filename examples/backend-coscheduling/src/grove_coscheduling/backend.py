"""How the coscheduling plugin says "gang": one PodGroup for each gang, and a label that leads each pod to it.

The plugin counts the pods of a PodGroup and does not tell roles apart. What a gang cannot do without is
therefore released first, and pods beyond the minimum of their role stay behind their gate until the gang is
placed: the first placement has the right mix. Later losses are counted by the plugin alone, which is why
subgroups are not declared. Profile config: `scheduleTimeoutSeconds`.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

from grove.api import names
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import (
    Capability,
    Context,
    Fidelity,
    Precondition,
    Reading,
    Traits,
    Translation,
    Treatment,
    Verdict,
)
from grove.backends.podspec import add_gate, add_metadata, copy_of, inherit_priority
from grove.backends.shape import named, owned_metadata, progress, verdict_of
from grove.backends.treatments import account
from grove.errors import FieldError, Unsupported, Waiting
from grove.meta import Manifest, Resource, resource

PODGROUPS: Final = resource("scheduling.x-k8s.io", "v1alpha1", "PodGroup")
POD_GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
SCHEDULER: Final = "scheduler-plugins-scheduler"
TIMEOUT: Final = "scheduleTimeoutSeconds"


class Backend:
    """Pods for a kube-scheduler with the coscheduling plugin."""

    name: ClassVar[str] = "coscheduling"
    scheduler_name: ClassVar[str] = SCHEDULER
    scheduling_gate: ClassVar[str] = "scheduling.x-k8s.io/gang"

    def matches(self, scheduler_name: str) -> bool:
        return scheduler_name == self.scheduler_name

    def capabilities(self, context: Context) -> frozenset[Capability]:
        # Priority is the pods' own: the plugin sorts its queue by it.
        return frozenset({Capability.GANG, Capability.PRIORITY})

    def resources(self, context: Context) -> Sequence[Resource]:
        return (PODGROUPS,)

    def preconditions(self, context: Context) -> Sequence[Precondition]:
        served = context.cluster.serves(PODGROUPS)
        missing = "" if served else f"the cluster does not serve {PODGROUPS}; install {SCHEDULER}"
        return (Precondition(f"CustomResourceDefinition {PODGROUPS}", missing),)

    def traits(self, context: Context) -> Traits:
        return Traits(config_keys=frozenset({TIMEOUT}))

    def validate(self, cliqueset: PodCliqueSet, context: Context) -> Sequence[FieldError]:
        return ()

    def translate(self, gang: PodGang, context: Context) -> Translation:
        if not context.cluster.serves(PODGROUPS):
            raise Waiting(f"scheduler backend {self.name} waits for {PODGROUPS}; install {SCHEDULER}")
        treatments = account(gang, self.capabilities(context), SCHEDULER, _exceptions(gang))
        podgroup: Manifest = {
            "apiVersion": PODGROUPS.api_version,
            "kind": PODGROUPS.kind,
            "metadata": owned_metadata(gang, _group_name(gang, context)),
            "spec": {"minMember": gang.minimum, **_timeout(context)},
        }
        return Translation((podgroup,), treatments)

    def prepare_pod(self, pod: Manifest, gang: PodGang, context: Context) -> Manifest:
        prepared = copy_of(pod)
        prepared["spec"]["schedulerName"] = self.scheduler_name
        add_gate(prepared, self.scheduling_gate)
        inherit_priority(prepared, gang.spec.priority_class_name)
        add_metadata(prepared, "labels", {POD_GROUP_LABEL: _group_name(gang, context)})
        return prepared

    def read(
        self, gang: PodGang, objects: Sequence[Manifest], pods: Sequence[Pod], context: Context
    ) -> Reading:
        # The pods are the truth: the PodGroup's phase is written by a controller that may be late or absent.
        seen = progress(gang, pods)
        decided = verdict_of(gang, seen)
        if decided is not None:
            return decided
        for pod in seen.pending:
            said = pod.condition("PodScheduled")
            if said is not None and said.status == "False" and said.reason == "Unschedulable":
                return Reading(Verdict.UNSCHEDULABLE, said.reason, f"{seen.sentence}; {said.message}")
        return seen.waiting()


def _group_name(gang: PodGang, context: Context) -> str:
    """Another name for each start of the gang; it becomes the value of a label."""
    return named(gang.name, gang, context, names.LABEL_LIMIT)


def _exceptions(gang: PodGang) -> list[Treatment]:
    if len(gang.spec.podgroups) < 2:
        return []
    reason = f"{SCHEDULER} counts pods and does not tell roles apart once the gang was placed"
    return [Treatment(Capability.SUBGROUPS, Fidelity.APPROXIMATED, reason)]


def _timeout(context: Context) -> Manifest:
    value = context.config.get(TIMEOUT)
    if value is None:
        return {}
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise Unsupported(f"profile config {TIMEOUT}: must be a number of seconds above 0; got {value!r}")
    return {TIMEOUT: value}
