"""Views of a gang for the tables: a gang of one role, its pods, and a backend that knows no scheduler."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from grove.api import labels
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import (
    Capability,
    Context,
    GangSnapshot,
    Lifecycle,
    Precondition,
    Reading,
    Translation,
    Verdict,
    lifecycle_of,
)
from grove.backends.shape import progress, verdict_of
from grove.errors import FieldError
from grove.meta import Manifest, Resource, UntypedObject, resource
from grove.plan.gang.restart import bound_by_podgroup
from grove.plan.gang.state import GangState, Translated
from grove.testing import make

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROLE = "train-0-worker"
PRESENT, EARLIER = "bcdfghjklm", "nprstvwxyz"
GATE = "example.com/gang"
GROUPS = resource("scheduling.example.com", "v1", "PodGroup")


class PlainBackend:
    """Implements what every backend must, and nothing more."""

    name: ClassVar[str] = "plain"
    scheduler_name: ClassVar[str] = "plain-scheduler"
    scheduling_gate: ClassVar[str] = GATE

    def matches(self, scheduler_name: str) -> bool:
        return scheduler_name == self.scheduler_name

    def capabilities(self, context: Context) -> frozenset[Capability]:
        return frozenset({Capability.GANG})

    def resources(self, context: Context) -> Sequence[Resource]:
        return (GROUPS,)

    def preconditions(self, context: Context) -> Sequence[Precondition]:
        return ()

    def validate(self, cliqueset: PodCliqueSet, context: Context) -> Sequence[FieldError]:
        return ()

    def translate(self, gang: PodGang, context: Context) -> Translation:
        return Translation((group_manifest(context.revision, gang),))

    def prepare_pod(self, pod: Manifest, gang: PodGang, context: Context) -> Manifest:
        marks = {**pod["metadata"].get("labels", {}), "example.com/group": gang.name}
        return {**pod, "metadata": {**pod["metadata"], "labels": marks}}

    def read(
        self, gang: PodGang, objects: Sequence[Manifest], pods: Sequence[Pod], context: Context
    ) -> Reading:
        return verdict_of(gang, progress(gang, pods)) or Reading(Verdict.WAITING, "WaitingForScheduler", "-")


class ReservingBackend(PlainBackend):
    """Holds a place for each pod without a role that is on a node, and looks for one for each other."""

    def lifecycle(self, snapshot: GangSnapshot) -> Lifecycle:
        places = [pod for pod in snapshot.pods if labels.POD_CLIQUE not in pod.labels]
        held = sum(1 for pod in places if pod.bound)
        return Lifecycle(reserved=held, sought=len(places) - held)


PLAIN, RESERVING = PlainBackend(), ReservingBackend()


def gang(
    *listed: str, name: str = "train-0", minimum: int = 2, standalone: bool = False, **conditions: str
) -> PodGang:
    """A gang of one role that lists these pods; `Scheduled="True"` and so on are its conditions."""
    group = make.podgroup(ROLE, minimum)
    group["podReferences"] = [{"namespace": "default", "name": each, "uid": f"uid-{each}"} for each in listed]
    fields: dict[str, Any] = {} if standalone else {"cliqueset": "train"}
    manifest = make.gang_manifest(name, [group], generation=4, **fields)
    manifest["metadata"]["labels"] = {
        **manifest["metadata"].get("labels", {}),
        labels.SCHEDULER_BACKEND: "plain",
    }
    manifest["status"] = {
        "conditions": [
            {"type": kind, "status": status, "observedGeneration": 4} for kind, status in conditions.items()
        ]
    }
    return make.view(PodGang, manifest)


def pod(name: str, revision: str = PRESENT, **fields: Any) -> Pod:
    """A pod of the role, gated unless it is on a node or `gates` says otherwise."""
    marks = {labels.GANG_REVISION: revision} if revision else {}
    if "node" not in fields:
        fields.setdefault("gates", (GATE,))
    return make.pod(ROLE, 0, name=name, gang=gang(), uid=f"uid-{name}", annotations=marks, **fields)


def placeholder(name: str, node: str = "n1") -> Pod:
    """What a scheduler makes to hold a place: a pod of the gang without a role."""
    manifest = make.pod_manifest(ROLE, 0, gang=gang(), name=name, node=node)
    for key in (labels.POD_CLIQUE, labels.POD_INDEX):
        del manifest["metadata"]["labels"][key]
    return make.view(Pod, manifest)


def state(about: PodGang, pods: Sequence[Pod] = (), backend: Any = PLAIN, **fields: Any) -> GangState:
    """The state of a gang with these pods, in its present revision."""
    context = Context(revision=PRESENT, bound=bound_by_podgroup(pods))
    translated = Translated(lifecycle=lifecycle_of(backend, GangSnapshot(about, pods, context, NOW)))
    fields.setdefault("translated", translated)
    return GangState(about, backend, context, NOW, pods=pods, **fields)


def group_manifest(revision: str, about: PodGang, minimum: int = 2) -> Manifest:
    """The object that the plain backend makes of a gang."""
    owner = {"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "name": about.name}
    return {
        "apiVersion": GROUPS.api_version,
        "kind": GROUPS.kind,
        "metadata": {
            "name": f"{about.name}-{revision}",
            "namespace": "default",
            "ownerReferences": [{**owner, "uid": about.uid, "controller": True}],
        },
        "spec": {"minMember": minimum},
    }


def existing(manifest: Manifest, *, applied: Manifest | None = None, **metadata: Any) -> UntypedObject:
    """The object as the API server has it, applied by us unless `applied` says otherwise."""
    fields = {"f:spec": {"f:minMember": {}}} if applied is None else applied
    entry = {"manager": labels.MANAGER, "operation": "Apply", "fieldsV1": fields}
    marks = {
        "uid": "uid-object",
        "resourceVersion": "7",
        "managedFields": [entry] if fields else [],
        **metadata,
    }
    return UntypedObject.of({**manifest, "metadata": {**manifest["metadata"], **marks}}, GROUPS)
