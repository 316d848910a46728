"""The reading of a gang's placement: the scheduler's, or ours where it could not be asked. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from grove.api import conditions
from grove.backends.base import Reading, Verdict
from grove.backends.shape import progress
from grove.errors import BackendFailed, GroveError
from grove.plan.gang.gates import as_opened
from grove.plan.gang.state import GangState
from grove.plan.gang.words import awaited_pods, reason_of, scaled_below_minimum, troubles
from grove.words import counted


@dataclass(frozen=True, slots=True)
class Problems:
    """What went wrong with a gang in this look, or keeps it from going on."""

    failure: GroveError | None = None
    #: What the pods of a gang of somebody else lack that only their creator can give them.
    unready: tuple[str, ...] = ()
    #: Why the gang has just been restarted; empty when it was not.
    restarted: str = ""
    #: Why its gates stay closed although it is complete; empty when they do not.
    stepped_back: str = ""


@dataclass(frozen=True, slots=True)
class Read:
    """A reading, and the defect of a backend that could not give one."""

    reading: Reading
    defect: Exception | None = None


def read(state: GangState, problems: Problems, *, opens: bool) -> Read:
    """The verdict on a gang with its reason.

    What is told as the gates open must not say that they are closed: it may stand for a while.
    """
    if state.backend is None:
        # Nobody acts on the gang; where it runs it goes on running.
        return Read(_by_pods(state, conditions.BACKEND_NOT_ENABLED, str(problems.failure)))
    manifests = [owned.item.manifest for owned in state.owned]
    opens = opens and not state.waits_for_base
    pods = as_opened(state.pods, state.gang, state.backend.scheduling_gate) if opens else state.pods
    try:
        said = Read(state.backend.read(state.gang, manifests, pods, state.context))
    except Exception as defect:
        # The pods are the truth in any case; only the reason is missing.
        why = str(BackendFailed(state.backend.name, defect))
        said = Read(_by_pods(state, conditions.SYNC_FAILED, why), defect)
    if said.reading.verdict is Verdict.SCHEDULED:
        return said
    return Read(_why_not(state, said.reading, problems), said.defect)


def _by_pods(state: GangState, reason: str, why: str) -> Reading:
    placed = progress(state.gang, state.pods)
    verdict = Verdict.SCHEDULED if placed.complete else Verdict.WAITING
    return Reading(verdict, reason, f"{placed.sentence}; {why}")


def _why_not(state: GangState, reading: Reading, problems: Problems) -> Reading:
    """Why a gang is not placed: what we know ourselves comes before what its scheduler says."""
    if short := scaled_below_minimum(state.gang, state.cliques):
        return Reading(Verdict.WAITING, conditions.SCALED_BELOW_MINIMUM, short)
    if problems.failure is not None:
        return Reading(Verdict.WAITING, reason_of(problems.failure), str(problems.failure))
    if problems.stepped_back:
        sentence = progress(state.gang, state.pods).sentence
        return Reading(Verdict.WAITING, conditions.STEPPED_BACK, f"{sentence}; {problems.stepped_back}.")
    if state.base is not None and not state.base.placed and reading.reason == conditions.SCHEDULING_GATED:
        sentence = progress(state.gang, state.pods).sentence
        waits = f"its base gang {state.base.name} must be placed first"
        return Reading(Verdict.WAITING, conditions.WAITING_FOR_BASE, f"{sentence}; {waits}.")
    if problems.unready:
        return _unprepared(state, reading, problems.unready)
    if reading.reason == conditions.WAITING_FOR_PODS and (said := troubles(state.cliques)):
        message = f"{reading.message.rstrip('.')}; {'; '.join(dict.fromkeys(said))}"
        return Reading(Verdict.WAITING, conditions.POD_CREATE_FAILED, message)
    if reading.reason == conditions.WAITING_FOR_PODS and (awaited := awaited_pods(state)):
        return replace(reading, message=f"{reading.message.rstrip('.')}; {awaited}.")
    return reading


def _unprepared(state: GangState, reading: Reading, problems: Sequence[str]) -> Reading:
    """That pods of somebody else's gang are not as they must be, which is why it waits behind its gates."""
    missing = reading.reason == conditions.WAITING_FOR_PODS
    told = reading.message.rstrip(".") if missing else progress(state.gang, state.pods).sentence
    more = f"; and {counted(len(problems) - 1, 'problem')} more" if len(problems) > 1 else ""
    return replace(reading, message=f"{told}; {problems[0]}{more}")
