"""Edits of a set that wait, because pods of its gangs are on nodes. Pure."""

from grove.api import conditions
from grove.meta import Condition
from grove.plan.children.gangs import Gangs, edited_gang, waits
from grove.plan.children.state import CliqueSetState
from grove.plan.edits import differing_fields, has_shape, pending_sentence, shape_of


def waiting_edits(seen: CliqueSetState) -> dict[str, list[str]]:
    """The edited fields that wait, by gang, because pods of the gang are on nodes."""
    found: dict[str, list[str]] = {}
    shape = shape_of(edited_gang(seen, 0)) if seen.placed else ()
    gangs = Gangs(seen)
    for name, editable in seen.placed.items():
        gang, row = seen.gangs[name], gangs.find(name)
        if row is None or has_shape(gang, shape):
            continue
        desired = edited_gang(seen, row.replica)
        if waits(seen, desired, gang):
            found[name] = differing_fields(desired, gang, editable)
    return found


def edit_pending(seen: CliqueSetState) -> Condition | None:
    """What was edited and waits until gangs are placed again, as a condition of the set."""
    waiting = waiting_edits(seen)
    if not waiting:
        return None
    return Condition(
        type=conditions.EDIT_PENDING,
        status="True",
        reason=conditions.PODS_STILL_PLACED,
        message=pending_sentence(waiting, seen.cliqueset.namespace),
    )
