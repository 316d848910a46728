"""What a gang says: the scheduler's verdict and the pods become its status, and its turns become events."""

import logging
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from grove.api import conditions, kinds, labels
from grove.api.gang import PodGang, PodGangStatus, PodGroup
from grove.backends.base import Reading, Verdict
from grove.backends.shape import progress
from grove.controllers import events
from grove.controllers.apply import Applied, Remembers
from grove.controllers.gang_view import Forward, Seen, Told
from grove.controllers.gang_words import (
    beyond_limit,
    extra_conditions,
    reason_of,
    scaled_below_minimum,
    score_sentence,
    stray_pods,
    troubles,
)
from grove.controllers.pacing import Urgency
from grove.controllers.shell import Shell
from grove.errors import BackendFailed, GroveError
from grove.meta import Condition, Manifest, find_condition
from grove.plan.changes import Patch
from grove.plan.gang_status import GangFacts, desired_gang_status
from grove.plan.gates import as_opened, is_initialized
from grove.plan.moves import pending_sentence, stays
from grove.runtime.outcome import Outcome

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Report:
    """What telling led to: when to look again, and the gang as it is since."""

    outcome: Outcome
    gang: PodGang


class GangReport:
    """Tells the story of gangs: one status write at most, then the events that it justifies."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell

    async def tell(
        self, seen: Seen, forward: Forward, told: Told, *, written: Applied | None, barrier: Remembers
    ) -> Report:
        """Say what there is to say about a gang; `written` is how its pods were just listed or unlisted."""
        gang, failure, now = _as_written(seen.gang, written), told.failure, self.shell.clock.now()
        listed = written is not None and not told.anew
        opens = listed and not is_initialized(gang)
        reading = self._read(seen, told, opens=opens)
        facts = GangFacts(
            # Pods without a clique only hold places; the backend reads them, nobody counts them.
            pods=[pod for pod in seen.pods if labels.POD_CLIQUE in pod.labels],
            wanted=seen.wanted,
            initialized=listed,
            scheduled=reading.verdict is Verdict.SCHEDULED,
            reason=reading.reason,
            message=" ".join([reading.message, *beyond_limit(seen.cliques)]),
            placement_score=reading.placement_score,
            extra=(
                *extra_conditions(forward.translation.losses, failure),
                *self._pending_move(seen),
                *stray_pods(told.strangers),
            ),
            troubles=[*troubles(seen.cliques, failure), *told.unready],
            anew=bool(told.anew),
        )
        status = desired_gang_status(gang, facts, now=now)
        # Gates open only once Initialized is written. After a failure the next look may be long in coming.
        urgent = bool(told.anew) or opens or failure is not None
        urgency = Urgency.IMMEDIATE if urgent else _urgency(gang, facts, reading)
        reported = await self.shell.reporter.report(
            kinds.GANGS,
            gang,
            status,
            barrier=barrier,
            urgency=urgency,
        )
        if forward.repairs and failure is None:
            self.shell.recorder.send(events.objects_repaired(gang, f"put back {', '.join(forward.repairs)}"))
        if failure is not None:
            self._tell_failure(seen, failure)
        if told.unready:
            self.shell.recorder.send(events.pods_not_prepared(gang, "; ".join(told.unready)))
        if reported.written:
            self._tell(gang, status, reading)
            gang = replace(gang, status=msgspec.convert(status, PodGangStatus))
        return Report(reported.outcome, gang)

    def _read(self, seen: Seen, told: Told, *, opens: bool) -> Reading:
        """The scheduler's word, or ours when the scheduler could not be asked yet.

        What is told as the gates open must not say that they are closed: it may stand for a while.
        """
        manifests, failure = [item.manifest for item in seen.objects], told.failure
        if seen.backend is None:
            # Nobody acts on the gang; where it runs it goes on running.
            placed = progress(seen.gang, seen.pods)
            verdict = Verdict.SCHEDULED if placed.complete else Verdict.WAITING
            return Reading(verdict, conditions.BACKEND_NOT_ENABLED, f"{placed.sentence}; {failure}")
        try:
            pods = as_opened(seen.pods, seen.gang, seen.backend.scheduling_gate) if opens else seen.pods
            reading = seen.backend.read(seen.gang, manifests, pods, seen.context)
        except Exception as defect:
            # The pods are the truth in any case; only the reason is missing.
            log.exception("scheduler backend failed", extra={"backend": seen.backend.name})
            placed = progress(seen.gang, seen.pods)
            verdict = Verdict.SCHEDULED if placed.complete else Verdict.WAITING
            why = f"{placed.sentence}; {BackendFailed(seen.backend.name, defect)}"
            reading = Reading(verdict, conditions.SYNC_FAILED, why)
        if reading.verdict is not Verdict.SCHEDULED and (
            short := scaled_below_minimum(seen.gang, seen.cliques)
        ):
            return Reading(Verdict.WAITING, conditions.SCALED_BELOW_MINIMUM, short)
        if failure is not None and reading.verdict is not Verdict.SCHEDULED:
            return Reading(Verdict.WAITING, reason_of(failure), str(failure))
        if told.held and reading.verdict is not Verdict.SCHEDULED:
            sentence = progress(seen.gang, seen.pods).sentence
            return Reading(Verdict.WAITING, conditions.STEPPED_BACK, f"{sentence}; {told.held}.")
        if reading.reason == conditions.WAITING_FOR_PODS and (said := troubles(seen.cliques, None)):
            return Reading(
                Verdict.WAITING,
                conditions.POD_CREATE_FAILED,
                f"{reading.message.rstrip('.')}; {'; '.join(dict.fromkeys(said))}",
            )
        return reading

    def _pending_move(self, seen: Seen) -> list[Condition]:
        """That the set asks for another backend while pods of the gang are placed."""
        cliqueset = seen.context.cliqueset
        wanted = self.shell.scheduling.select(cliqueset).backend if cliqueset is not None else None
        if wanted is None or not stays(seen.gang, seen.pods, wanted.name):
            return []
        message = pending_sentence(seen.gang, seen.pods, wanted.name)
        return [
            Condition(
                type=conditions.BACKEND_CHANGE_PENDING,
                status="True",
                reason=conditions.PODS_STILL_PLACED,
                message=message,
            )
        ]

    def _tell_failure(self, seen: Seen, failure: GroveError) -> None:
        name = seen.backend.name if seen.backend is not None else "none"
        self.shell.story.sync_failed(name, failure.code)
        self.shell.recorder.send(events.translation_failed(seen.gang, reason_of(failure), str(failure)))

    def _tell(self, gang: PodGang, status: Manifest, reading: Reading) -> None:
        """Events and milestones for the transitions that this status write made."""
        now = self.shell.clock.now()
        story, recorder = self.shell.story, self.shell.recorder
        before = {condition.type: condition.status for condition in gang.status.conditions}
        after = {condition["type"]: condition for condition in status["conditions"]}
        turned = {name for name, told in after.items() if told["status"] != before.get(name)}
        true = {name for name in turned if after[name]["status"] == "True"}
        if conditions.INITIALIZED in true:
            story.initialized(gang, now)
        if conditions.SCHEDULED in true:
            story.scheduled(gang, now)
            placed = after[conditions.SCHEDULED]["message"]
            recorder.send(events.gang_scheduled(gang, f"{placed}{score_sentence(reading)}"))
        if conditions.READY in true:
            story.ready(gang, now)
        if conditions.UNHEALTHY in true:
            recorder.send(events.gang_lost(gang, after[conditions.UNHEALTHY]["message"]))
        if conditions.GANG_GUARANTEE in turned:
            recorder.send(events.no_guarantee(gang, after[conditions.GANG_GUARANTEE]["message"]))
        if conditions.BACKEND_CHANGE_PENDING in true:
            said = after[conditions.BACKEND_CHANGE_PENDING]["message"]
            recorder.send(events.backend_change_pending(gang, said))
        if reading.verdict is Verdict.UNSCHEDULABLE and _is_news(gang, reading):
            recorder.send(events.gang_unschedulable(gang, reading.reason, reading.message))


def _is_news(gang: PodGang, reading: Reading) -> bool:
    told = find_condition(gang.status.conditions, conditions.SCHEDULED)
    return told is None or told.reason != reading.reason


def _as_written(gang: PodGang, written: Applied | None) -> PodGang:
    """The gang as it is since its pods were listed or unlisted: what we say is about that one."""
    about = (kinds.GANGS, gang.key)
    if written is None or about not in written.versions:
        return gang
    version, generation = written.versions[about], written.generations[about]
    metadata = replace(gang.metadata, resource_version=version, generation=generation)
    listed = [change.patch["spec"]["podgroups"] for change in written.done if isinstance(change, Patch)]
    podgroups = msgspec.convert(listed[0], tuple[PodGroup, ...]) if listed else gang.spec.podgroups
    return replace(gang, metadata=metadata, spec=replace(gang.spec, podgroups=podgroups))


def _urgency(gang: PodGang, facts: GangFacts, reading: Reading) -> Urgency:
    """Why it does not go on is told soon; that it still waits for its turn, when there is time."""
    refused = reading.verdict is Verdict.UNSCHEDULABLE and _is_news(gang, reading)
    if refused or facts.troubles:
        return Urgency.SOON
    before = find_condition(gang.status.conditions, conditions.SCHEDULED)
    if reading.verdict is Verdict.WAITING and not (before is not None and before.is_true):
        return Urgency.DEFERRED
    return Urgency.SETTLED
