"""Which gates of a gang open in this look, as changes. Pure; the rules are in `gates`."""

from collections.abc import Iterator

from grove.api import kinds
from grove.api.gang import PodGang
from grove.backends.base import Marks
from grove.backends.shape import progress
from grove.plan.changes import JsonPatch
from grove.plan.gang.gates import Opening, gates_of, opening, releasable
from grove.plan.gang.objects import ObjectsPlan, in_place
from grove.plan.gang.state import GangState


def plan_gates(state: GangState, gang: PodGang, objects: ObjectsPlan) -> Iterator[JsonPatch]:
    """The changes that open the gates that may open now; `gang` is the gang as this look leaves it."""
    if state.backend is None:
        return
    gate = state.backend.scheduling_gate
    if not any(gates_of(pod, gate) for pod in state.members):
        return
    standing = Opening(
        gate,
        state.context.revision,
        in_place=in_place(state, objects),
        placed=progress(gang, state.members).complete,
        base_placed=not state.waits_for_base,
    )
    for pod in releasable(gang, state.members, standing):
        marks = state.translated.lifecycle.on_opening.get(pod.name, Marks())
        operations = opening(pod, gate, labels=marks.labels, annotations=marks.annotations)
        yield JsonPatch(kinds.PODS, pod.key, operations, uid=pod.uid, may_clear_managers=True)
