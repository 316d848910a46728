"""Which gates of a podgroup may open now, as changes. Decides nothing that `plan.gates` does not."""

from collections.abc import Sequence

from grove.api import kinds
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Backend, Context, HoldingBack, Incarnating, offers
from grove.controllers.shell import Shell
from grove.plan.changes import Change, JsonPatch
from grove.plan.gates import gates_of, opened, opening, releasable


def openings(
    shell: Shell, pods: Sequence[Pod], *, gang: PodGang, clique: str, backend: Backend, context: Context
) -> list[Change]:
    """The gates that may open now among the pods of one podgroup."""
    gate = backend.scheduling_gate
    if not any(gates_of(pod, gate) for pod in pods):
        return []
    in_place = shell.scheduling.in_place(gang, backend, context)
    free = releasable(pods, gang=gang, clique=clique, gate=gate, objects_in_place=in_place)
    if offers(backend, HoldingBack):
        free = [pod for pod in free if not backend.holds_back(pod, gang)]
    if not offers(backend, Incarnating):
        return [JsonPatch(kinds.PODS, pod.key, opening(pod, gate)) for pod in free]
    changes: list[Change] = []
    for pod in free:
        marks = backend.renewed(pod, gang, context, shell.clock.now())
        operations = opening(pod, gate, labels=marks.labels, annotations=marks.annotations)
        changes.append(JsonPatch(kinds.PODS, pod.key, operations))
    return changes


def as_opened(pods: Sequence[Pod], gang: PodGang, backend: Backend) -> list[Pod]:
    """The pods of a gang as they are once its gates are open."""
    held = backend.holds_back if offers(backend, HoldingBack) else None
    return [
        pod if held is not None and held(pod, gang) else opened(pod, backend.scheduling_gate) for pod in pods
    ]
