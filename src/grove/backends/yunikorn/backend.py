"""YuniKorn: no objects, only labels and annotations on the pods; placeholders hold a gang's places.

One application per start of a gang, one task group per podgroup, always of the style Hard. YuniKorn knows
neither topology nor groups of podgroups. Profile config: `queue`, `placeholderTimeoutSeconds`, `namespace`.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import (
    Capability,
    Context,
    Edit,
    EventSource,
    GangSnapshot,
    Lifecycle,
    Marks,
    ObservedResource,
    Precondition,
    Reading,
    Traits,
    Translation,
)
from grove.backends.podspec import add_metadata, made_for
from grove.backends.shape import constraints_of, podgroup_of
from grove.backends.treatments import account
from grove.backends.yunikorn import reading
from grove.backends.yunikorn.marks import marks_of, renewed_marks, timeout_of
from grove.backends.yunikorn.queue import (
    CONFIG_MAP,
    CONFIG_MAPS,
    NAMESPACE,
    name_problem,
    queue_errors,
    queue_treatments,
)
from grove.backends.yunikorn.requests import effective_requests
from grove.errors import FieldError, InvalidConfiguration
from grove.meta import Manifest, Resource

_ABLE: Final = frozenset({Capability.GANG, Capability.SUBGROUPS, Capability.PRIORITY, Capability.QUEUE})


class YuniKornBackend:
    """The backend `yunikorn`: pods for YuniKorn."""

    name: ClassVar[str] = "yunikorn"
    scheduler_name: ClassVar[str] = "yunikorn"
    scheduling_gate: ClassVar[str] = "yunikorn.apache.org/gang"

    def matches(self, scheduler_name: str) -> bool:
        return scheduler_name == self.scheduler_name

    def capabilities(self, context: Context) -> frozenset[Capability]:
        return _ABLE

    def resources(self, context: Context) -> Sequence[Resource]:
        return ()

    def traits(self, context: Context) -> Traits:
        namespace = str(context.config.get("namespace") or NAMESPACE)
        return Traits(
            observes=(ObservedResource(CONFIG_MAPS, namespace, CONFIG_MAP),),
            # What YuniKorn's core says about a request; its other events tell what the pods show anyway.
            events=EventSource("yunikorn", "Informational"),
            # Nothing of it is told, so nothing of a placed gang could be told otherwise.
            editable=frozenset({Edit.TOPOLOGY}),
            config_keys=frozenset({"queue", "placeholderTimeoutSeconds", "namespace"}),
        )

    def preconditions(self, context: Context) -> Sequence[Precondition]:
        # YuniKorn leaves no trace in the API by which its presence could be told; only our own
        # configuration can be wrong. A queue that is missing concerns single gangs: see `translate`.
        timeout_of(context)
        if problem := name_problem(str(context.config.get("queue") or "default")):
            raise InvalidConfiguration(f"scheduler profile yunikorn: config.queue {problem}")
        return ()

    def validate(self, cliqueset: PodCliqueSet, context: Context) -> Sequence[FieldError]:
        return [*queue_errors(cliqueset), *_topology_errors(cliqueset), *_request_errors(cliqueset)]

    def translate(self, gang: PodGang, context: Context) -> Translation:
        return Translation((), account(gang, _ABLE, "YuniKorn", queue_treatments(gang, context)))

    def prepare_pod(self, pod: Manifest, gang: PodGang, context: Context) -> Manifest:
        podgroup = podgroup_of(pod, gang)
        prepared = made_for(self, pod, gang)
        marks = marks_of(pod, podgroup, gang, context)
        add_metadata(prepared, "labels", marks.labels)
        add_metadata(prepared, "annotations", marks.annotations)
        return prepared

    def read(
        self, gang: PodGang, objects: Sequence[Manifest], pods: Sequence[Pod], context: Context
    ) -> Reading:
        return reading.read(gang, pods, context)

    def lifecycle(self, snapshot: GangSnapshot) -> Lifecycle:
        gang, context = snapshot.gang, snapshot.context
        gated = [pod for pod in snapshot.pods if pod.spec.scheduling_gates]
        marks = {pod.name: renewed_marks(pod, gang, context, snapshot.now) for pod in gated}
        reserved, sought = reading.places(gang, snapshot.pods, context)
        return Lifecycle(
            starts_once=True,
            keep=frozenset(pod.name for pod in snapshot.pods if reading.given_up(pod, gang, context)),
            reserved=reserved,
            sought=sought,
            on_opening={name: each for name, each in marks.items() if each != Marks()},
        )


def _request_errors(cliqueset: PodCliqueSet) -> Iterator[FieldError]:
    for index, clique in enumerate(cliqueset.template.cliques):
        try:
            effective_requests(clique.spec.pod_spec)
        except ValueError as problem:
            yield FieldError(
                f"spec.template.cliques[{index}].spec.podSpec", f"resources of a container: {problem}"
            )


def _topology_errors(cliqueset: PodCliqueSet) -> Iterator[FieldError]:
    for field, constraint in constraints_of(cliqueset):
        if constraint.required:
            yield FieldError(
                f"{field}.pack.required",
                "YuniKorn cannot enforce a required topology constraint; use pack.preferred, remove the "
                "constraint or choose another scheduler backend",
            )
