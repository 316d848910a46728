"""Which of several gangs goes first when a scheduler holds places for a part of each. Pure.

The more urgent one, then the older one. The others give back what is held for them (`partial`) and keep their
gates closed until it is placed: their new pods would take the room again before it is tried.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from grove.api import labels
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.api.revision import effective_revision
from grove.backends.base import Backend, Context, GangSnapshot, lifecycle_of
from grove.backends.shape import progress
from grove.plan.gang.gates import is_initialized
from grove.plan.gang.state import GangState, OtherGang, Wait, highest_priority

#: A gang that gave its places back keeps its gates closed for so long at most.
GIVE_WAY_SECONDS: Final = 60.0
#: One that had precedence and could not be placed does so for longer than a scheduler backs off.
TURN_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class First:
    """A gang that goes first, and what a person is told about it."""

    gang: PodGang
    sentence: str


def goes_first(state: GangState, backend: Backend) -> First | None:
    """An older or more urgent gang that has a part of what it needs; None for none."""
    for other in _preceding(state):
        if _holds_a_part(other, backend, state):
            return First(other.gang, f"and also some for gang {other.gang.key}, which has precedence")
        if (sentence := _lacks_pods(other)) is not None:
            return First(
                other.gang, f"while a pod of gang {other.gang.key}, which has precedence, waits: {sentence}"
            )
    return None


def waits(state: GangState) -> PodGang | None:
    """Any other gang whose gates are open and that is not placed."""
    return next((other.gang for other in state.others if any(map(_is_open, other.pods))), None)


def give_way(state: GangState) -> Wait | None:
    """For how long a gang that gave its places back keeps its gates closed; None for one that need not."""
    backend, memory = state.backend, state.partial
    if backend is None or memory.gave_back is None or state.translated.lifecycle.starts_once:
        # A gang that is restarted as a whole has its own pauses between two starts.
        return None
    left = memory.gave_back + (TURN_SECONDS if memory.to_any else GIVE_WAY_SECONDS) - state.monotonic
    if left <= 0 or not any(pod.spec.scheduling_gates for pod in state.members):
        return None
    if memory.to_any:
        awaited = waits(state)
    else:
        first = goes_first(state, backend)
        awaited = first.gang if first is not None else _to_be_tried(state)
    if awaited is None:
        return None
    return Wait(left, f"the gang gave its places back and waits until gang {awaited.key} is placed")


def _preceding(state: GangState) -> Iterator[OtherGang]:
    ours = _rank(state.gang, state.members)
    return (other for other in state.others if _rank(other.gang, other.pods) < ours)


def _to_be_tried(state: GangState) -> PodGang | None:
    """A gang with precedence that is about to be tried: otherwise all that gave way would try at once."""
    for other in _preceding(state):
        if is_initialized(other.gang) and any(map(_is_untried, other.pods)):
            return other.gang
    return None


def _is_open(pod: Pod) -> bool:
    return pod.active and not pod.bound and not pod.spec.scheduling_gates


def _is_untried(pod: Pod) -> bool:
    """Whether a pod waits and its scheduler said nothing about it."""
    told = pod.condition("PodScheduled")
    refused = told is not None and told.status == "False" and not pod.spec.scheduling_gates
    return pod.active and not pod.bound and not refused


def _lacks_pods(other: OtherGang) -> str | None:
    """How much is placed of a gang that is on nodes, below its minimum, and has a pod to be placed.

    A scheduler that holds places for new gangs places such a pod by itself and holds nothing for it.
    """
    found = progress(other.gang, [pod for pod in other.pods if labels.POD_CLIQUE in pod.labels])
    waits = any(not pod.spec.scheduling_gates for pod in found.pending)
    return found.sentence if found.placed and waits else None


def _holds_a_part(other: OtherGang, backend: Backend, state: GangState) -> bool:
    context = state.context
    theirs = Context(
        context.cluster,
        context.config,
        observed=context.observed,
        revision=effective_revision(other.gang, other.pods),
    )
    held = lifecycle_of(backend, GangSnapshot(other.gang, other.pods, theirs, state.now)).reserved
    return 0 < (held or 0) < other.gang.minimum


def _rank(gang: PodGang, pods: Sequence[Pod]) -> tuple[int, str, str]:
    """Sorts the gang that goes first to the front: the more urgent, then the older one."""
    return -highest_priority(pods), gang.metadata.creation_timestamp, str(gang.key)
