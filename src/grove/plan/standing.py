"""What tools read from any object of ours: `Ready`, `Available`, `Progressing` and `Stalled`. Pure.

`kubectl wait` reads `Ready` and `Available`; kstatus, and with it Flux and kpt, takes `Stalled=True` for a
failure and `Ready=False` for work in progress, once `observedGeneration` is the generation. All of them
follow from what else the status says, so that none costs a write of its own. `Stalled` is only there while it
is true.
"""

from dataclasses import dataclass

from grove.api import conditions
from grove.meta import Condition


@dataclass(frozen=True, slots=True)
class Standing:
    """How far an object is."""

    ready: bool
    reason: str
    #: How far it is and, where it is not ready, what it waits for.
    message: str
    #: What only a change by somebody can help against, with a reason; empty when there is no such thing.
    stalled: str = ""
    stalled_reason: str = conditions.SYNC_FAILED
    #: Whether nothing more will happen although it is not ready: its pods have done their work.
    finished: bool = False


def standing_conditions(standing: Standing) -> list[Condition]:
    """`Ready` and `Progressing`, and `Stalled` where there is a reason."""
    found = [
        Condition(
            type=conditions.READY,
            status=_word(standing.ready),
            reason=standing.reason,
            message=standing.message,
        ),
        _progressing(standing),
    ]
    if standing.stalled:
        found.append(
            Condition(
                type=conditions.STALLED,
                status="True",
                reason=standing.stalled_reason,
                message=standing.stalled,
            )
        )
    return found


def availability(available: bool, reason: str, message: str) -> Condition:
    """Whether what is needed at least is there."""
    return Condition(type=conditions.AVAILABLE, status=_word(available), reason=reason, message=message)


def _progressing(standing: Standing) -> Condition:
    """Whether the operator, a scheduler or a kubelet is still at work; `Ready` says what at."""
    if standing.stalled:
        reason = conditions.STALLED
    elif standing.ready or standing.finished:
        reason = conditions.COMPLETE
    else:
        reason = conditions.IN_PROGRESS
    return Condition(
        type=conditions.PROGRESSING, status=_word(reason == conditions.IN_PROGRESS), reason=reason
    )


def _word(value: bool) -> str:
    return "True" if value else "False"
