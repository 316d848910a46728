"""The status of a gang after a reconcile, and how soon it must be written. Pure."""

from dataclasses import dataclass

from grove.api import conditions
from grove.api.gang import PodGang
from grove.backends.base import Reading, Verdict
from grove.meta import Condition, Manifest, find_condition
from grove.plan.gang.gates import is_initialized
from grove.plan.gang.reading import Problems, read
from grove.plan.gang.state import GangState
from grove.plan.gang.status import GangFacts, desired_gang_status
from grove.plan.gang.urgency import urgency
from grove.plan.gang.words import (
    awaited_pods,
    beyond_limit,
    extra_conditions,
    stray_pods,
    stuck_pods,
    troubles,
)
from grove.plan.moves import pending_sentence, stays
from grove.plan.urgency import Urgency


@dataclass(frozen=True, slots=True)
class GangReport:
    """What a gang says now."""

    #: The gang that it is about: as it is since its pods were listed or unlisted.
    gang: PodGang
    status: Manifest
    urgency: Urgency
    reading: Reading
    #: The exception of a backend that could not read its objects.
    defect: Exception | None = None


def report_gang(state: GangState, problems: Problems, *, gang: PodGang, listed: bool) -> GangReport:
    """The status of `gang`, the gang as this look wrote it; `listed` says that it lists all its pods."""
    opens = listed and not is_initialized(gang)
    said = read(state, problems, opens=opens)
    reading, failure = said.reading, problems.failure
    facts = GangFacts(
        # Pods without a clique only hold places; the backend reads them, nobody counts them.
        pods=state.members,
        wanted=state.wanted,
        initialized=listed,
        scheduled=reading.verdict is Verdict.SCHEDULED,
        reason=reading.reason,
        message=" ".join([reading.message, *beyond_limit(state.cliques)]),
        placement_score=reading.placement_score,
        extra=(
            *extra_conditions(state.translated.translation.treatments, failure),
            *_pending_move(state),
            *stray_pods([pod.name for pod in state.stray_pods]),
            *stuck_pods(state),
        ),
        awaited=awaited_pods(state),
        starts_after={clique.name: clique.spec.starts_after for clique in state.cliques},
        troubles=[*troubles(state.cliques), *problems.unready],
        failing="" if failure is None else str(failure),
        restarted=bool(problems.restarted),
    )
    status = desired_gang_status(gang, facts, now=state.now)
    # Gates open only once Initialized is written. After a failure the next look may be long in coming.
    blocks = bool(problems.restarted) or opens or failure is not None
    troubled = bool(facts.troubles or facts.failing) or _is_newly_disrupted(gang, status)
    soon = urgency(gang, reading, blocks=blocks, troubled=troubled)
    return GangReport(gang, status, soon, reading, said.defect)


def _is_newly_disrupted(gang: PodGang, status: Manifest) -> bool:
    """Whether pods are taken away that were not yet; some are gone within seconds."""
    kind = conditions.DISRUPTION_TARGET
    said = any(each["type"] == kind for each in status["conditions"])
    return said and find_condition(gang.status.conditions, kind) is None


def _pending_move(state: GangState) -> list[Condition]:
    """That the set asks for another backend while pods of the gang are placed."""
    if not state.asked_backend or not stays(state.gang, state.pods, state.asked_backend):
        return []
    return [
        Condition(
            type=conditions.BACKEND_CHANGE_PENDING,
            status="True",
            reason=conditions.PODS_STILL_PLACED,
            message=pending_sentence(state.gang, state.pods, state.asked_backend),
        )
    ]
