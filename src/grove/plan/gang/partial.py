"""When a gang that holds a part of its nodes gives them back. Pure: what is remembered is a value.

A scheduler that dies between two bindings, or that reserves places for several gangs at once, can leave gangs
that hold nodes and wait for one another for ever. After a bounded time such a gang gives its nodes back: its
pods are deleted, and it is restarted. Of several the youngest does so first, so that one of them goes on
(`precedence`).
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from grove.api.pod import Pod
from grove.api.revision import ADOPTED
from grove.backends.base import Backend, Capability, Fidelity
from grove.backends.shape import PlacementProgress, progress, was_placed
from grove.plan.gang.precedence import goes_first, waits
from grove.plan.gang.restart import says_placed
from grove.plan.gang.standalone import is_standalone
from grove.plan.gang.state import GangState, PartialMemory, Wait
from grove.words import counted

#: A part of a gang is on nodes, which takes at most moments when a scheduler binds pod after pod.
PARTIAL_SECONDS: Final = 30.0
#: A scheduler holds places for a part of a gang while an older one has a part of what it needs.
RESERVED_SECONDS: Final = 10.0
#: The one that goes first and for which too few places are held for so long lets the others try.
HELD_IN_VAIN_SECONDS: Final = 60.0

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
    if bound and state.context.revision == ADOPTED:
        # They ran before we came, for whatever reason alone: what runs is not ended by a change of operators.
        return PartialPlan(_moving(state))
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
    if not done or state.running or found.complete or not says_placed(state.gang):
        return None
    if not any(pod.active for pod in state.members):
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
    places = f"the scheduler holds {reserved} of {gang.minimum} places for it"
    if (first := goes_first(state, backend)) is not None:
        return _gives_way(state, living, f"{places} {first.sentence}")
    in_vain = memory.since + HELD_IN_VAIN_SECONDS <= state.monotonic
    if in_vain and not state.translated.lifecycle.starts_once and (other := waits(state)) is not None:
        why = f"{places}, in vain for {HELD_IN_VAIN_SECONDS:g} seconds, and gang {other.key} waits"
        return _gives_way(state, living, why, to_any=True)
    return _decided(memory, RESERVED_SECONDS, living)


def _gives_way(state: GangState, pods: Sequence[Pod], why: str, *, to_any: bool = False) -> PartialPlan:
    memory = PartialMemory(gave_back=state.monotonic, to_any=to_any)
    return PartialPlan(memory, give_up=tuple(pods), why=why)


def _decided(memory: PartialMemory, left: float, pods: Sequence[Pod], why: str = "") -> PartialPlan:
    if left > 0:
        return PartialPlan(memory, Wait(left, "only a part of the gang is on nodes"))
    return PartialPlan(give_up=tuple(pods), why=why)


def _moving(state: GangState) -> PartialMemory:
    """A gang that stands still no longer; that places were held for it, or given back, is still known."""
    if state.partial.holding is None and not state.partial.since:
        # What most gangs are.
        return state.partial
    return replace(state.partial, holding=None, since=0.0)


def _unchanged(state: GangState, holding: Hashable, seconds: float) -> tuple[PartialMemory, float]:
    """What to remember, and for how many seconds more the gang may stay as it is."""
    before, now = state.partial, state.monotonic
    since = before.since if before.holding == holding else now
    left = since + seconds - now
    # What the inaccuracy of floats leaves is no wait.
    return replace(before, holding=holding, since=since), left if left > 0.001 else 0.0
