"""When a gang that holds a part of its nodes gives them back. Pure: what is remembered is a value.

A scheduler that dies between two bindings, or that reserves places for several gangs at once, can leave gangs
that hold nodes and wait for one another for ever. After a bounded time such a gang gives its nodes back: its
pods are deleted, and it is restarted. Of several the youngest does so first, so that one of them goes on.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from grove.api import labels
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.api.revision import effective_revision
from grove.backends.base import Backend, Capability, Context, Fidelity, GangSnapshot, lifecycle_of
from grove.backends.shape import PlacementProgress, progress, was_placed
from grove.plan.gang.restart import says_placed
from grove.plan.gang.standalone import is_standalone
from grove.plan.gang.state import GangState, OtherGang, PartialMemory, Wait, highest_priority
from grove.words import counted

#: A part of a gang is on nodes, which takes at most moments when a scheduler binds pod after pod.
PARTIAL_SECONDS: Final = 30.0
#: A scheduler holds places for a part of a gang while an older one has a part of what it needs.
RESERVED_SECONDS: Final = 10.0

NOTHING: Final = PartialMemory()


@dataclass(frozen=True, slots=True)
class PartialPlan:
    """What to remember of a gang that holds a part of its nodes, and which pods it gives up."""

    memory: PartialMemory = field(default=NOTHING)
    wait: Wait | None = None
    give_up: tuple[Pod, ...] = ()
    why: str = ""


def plan_partial(state: GangState) -> PartialPlan:
    """Whether the gang may go on holding what it holds; with when to look again."""
    backend = state.backend
    if is_standalone(state.gang) or backend is None or was_placed(state.gang, state.context):
        return PartialPlan()
    found = progress(state.gang, state.members)
    if (completed := _completed(state, found)) is not None:
        return completed
    living = [pod for pod in state.members if pod.active]
    bound = [pod for pod in living if pod.bound]
    guaranteed = not any(
        each.property == Capability.GANG and each.fidelity is not Fidelity.ENFORCED
        for each in state.translated.translation.treatments
    )
    if bound and not found.complete and guaranteed:
        why = f"{found.sentence}, and nothing changed for {PARTIAL_SECONDS:g} seconds"
        memory, left = _unchanged(state, (len(bound), state.context.revision), PARTIAL_SECONDS)
        return _decided(memory, left, bound, why)
    reserved = state.translated.lifecycle.reserved
    if bound or reserved is None:
        return PartialPlan(_moving(state))
    return _reserved(state, backend, reserved, living)


def _completed(state: GangState, found: PlacementProgress) -> PartialPlan | None:
    """What a gang gives up that ran to its end and of which a pod is to run again.

    Schedulers do not count pods that succeeded: the one that takes the place of a deleted one would wait for
    its gang for ever. So the gang runs again as a whole.
    """
    done = [pod for pod in state.members if pod.succeeded]
    again = any(pod.active for pod in state.members)
    if not done or not again or state.running or found.complete or not says_placed(state.gang):
        return None
    pods = counted(len(done), "other pod of the gang has", "other pods of the gang have")
    return PartialPlan(give_up=tuple(done), why=f"a pod is to run again that had completed, and {pods}")


def _reserved(state: GangState, backend: Backend, reserved: int, living: Sequence[Pod]) -> PartialPlan:
    """The same for a gang of which no pod is on a node yet, while places are reserved or looked for."""
    gang, revision = state.gang, state.context.revision
    known = reserved + state.translated.lifecycle.sought
    if reserved:
        state = replace(state, partial=replace(state.partial, reserved_for=revision))
    if not known and state.partial.reserved_for != revision:
        return PartialPlan(_moving(state))
    if reserved >= gang.minimum or (not reserved and known >= gang.minimum):
        return PartialPlan(_moving(state))
    memory, left = _unchanged(state, (reserved, known, revision), RESERVED_SECONDS)
    if known < gang.minimum:
        places = f"of the {gang.minimum} places that the scheduler made for it"
        gone = counted(gang.minimum - known, f"{places} is gone", f"{places} are gone")
        return _decided(memory, left, living, gone)
    if left > 0:
        return _decided(memory, left, living)
    senior = _senior(state, backend)
    if senior is None:
        return _decided(memory, RESERVED_SECONDS, living)
    return _decided(
        memory, left, living, f"the scheduler holds {reserved} of {gang.minimum} places for it {senior}"
    )


def _decided(memory: PartialMemory, left: float, pods: Sequence[Pod], why: str = "") -> PartialPlan:
    if left > 0:
        return PartialPlan(memory, Wait(left, "only a part of the gang is on nodes"))
    return PartialPlan(give_up=tuple(pods), why=why)


def _moving(state: GangState) -> PartialMemory:
    """A gang that stands still no longer; that places were held for it is still known."""
    return PartialMemory(reserved_for=state.partial.reserved_for)


def _unchanged(state: GangState, holding: Hashable, seconds: float) -> tuple[PartialMemory, float]:
    """What to remember, and for how many seconds more the gang may stay as it is."""
    before, now = state.partial, state.monotonic
    since = before.since if before.holding == holding else now
    left = since + seconds - now
    # What the inaccuracy of floats leaves is no wait.
    return PartialMemory(holding, since, before.reserved_for), left if left > 0.001 else 0.0


def _senior(state: GangState, backend: Backend) -> str | None:
    """Which older or more urgent gang goes first, because it has a part of what it needs; None for none."""
    ours = _rank(state.gang, state.members)
    for other in state.others:
        if _rank(other.gang, other.pods) >= ours:
            continue
        if _holds_a_part(other, backend, state):
            return f"and also some for gang {other.gang.key}, which has precedence"
        if (sentence := _lacks_pods(other)) is not None:
            return f"while a pod of gang {other.gang.key}, which has precedence, waits: {sentence}"
    return None


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
    reserved = lifecycle_of(backend, GangSnapshot(other.gang, other.pods, theirs, state.now)).reserved
    return 0 < (reserved or 0) < other.gang.minimum


def _rank(gang: PodGang, pods: Sequence[Pod]) -> tuple[int, str, str]:
    """Sorts the gang that goes first to the front: the more urgent, then the older one."""
    return -highest_priority(pods), gang.metadata.creation_timestamp, str(gang.key)
