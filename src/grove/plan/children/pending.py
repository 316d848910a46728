"""Edits of a set that wait, because pods of its gangs are on nodes. Pure."""

from typing import Final

from grove.api import conditions, kinds, labels
from grove.api.gang import PodGang
from grove.meta import Condition
from grove.plan.children.engine import InOrder, Settled
from grove.plan.children.gangs import edited_gang, find_gang, waits
from grove.plan.children.state import CliqueSetState
from grove.plan.edits import differing_fields, has_shape, pending_sentence, shape_of

NOTHING: Final = Settled()


def waiting_edits(seen: CliqueSetState, settled: Settled = NOTHING) -> dict[str, list[str]]:
    """The edited fields that wait, by gang, because pods of the gang are on nodes.

    `settled` is what the plan of the same look found in order: nothing waits for most of those gangs.
    """
    found: dict[str, list[str]] = {}
    in_order = settled.children.get(kinds.GANGS, {})
    #: By scaling group, or none for base gangs: the gangs of one form are told the same, but for few of them.
    shapes: dict[str, tuple[object, ...]] = {}
    for name, editable in seen.placed.items():
        gang = seen.gangs[name]
        if _is_as_asked(gang, in_order.get(name)):
            continue
        planned = find_gang(seen, name)
        if planned is None:
            continue
        form = planned.group.config.name if planned.group is not None else ""
        if form not in shapes:
            shapes[form] = shape_of(edited_gang(seen, planned).manifest)
        if has_shape(gang, shapes[form]):
            continue
        edited = edited_gang(seen, planned)
        if waits(seen, edited, gang):
            found[name] = differing_fields(edited, gang, editable)
    return found


def _is_as_asked(gang: PodGang, known: InOrder | None) -> bool:
    """Whether a gang is just as the set asks for it. One of which an edit waits says so, in order or not."""
    return known is not None and known.child is gang and labels.EDIT_PENDING not in gang.metadata.annotations


def edit_pending(seen: CliqueSetState, settled: Settled = NOTHING) -> Condition | None:
    """What was edited and waits until gangs are placed again, as a condition of the set."""
    waiting = waiting_edits(seen, settled)
    if not waiting:
        return None
    return Condition(
        type=conditions.EDIT_PENDING,
        status="True",
        reason=conditions.PODS_STILL_PLACED,
        message=pending_sentence(waiting, seen.cliqueset.namespace),
    )
