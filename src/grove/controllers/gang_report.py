"""Writes what a gang says, one status at most in a look, and sends the events that it justifies."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
from msgspec.structs import replace

from grove.api import conditions, kinds
from grove.api.gang import PodGang, PodGangStatus
from grove.backends.base import Reading, Verdict
from grove.controllers import events
from grove.controllers.apply import WriteBarrier
from grove.controllers.dependencies import Dependencies
from grove.errors import GroveError
from grove.meta import Manifest
from grove.plan.gang.disruption import disruption_sentence
from grove.plan.gang.reading import Problems
from grove.plan.gang.report import report_gang
from grove.plan.gang.state import GangState
from grove.plan.gang.urgency import is_news
from grove.plan.gang.words import reason_of, score_sentence
from grove.runtime.outcome import Outcome

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GangReportResult:
    """What a report led to: when to look again, the gang as it is since, and whether it was written."""

    outcome: Outcome
    gang: PodGang
    written: bool = False


class GangReporter:
    """Writes the status of gangs and tells of its turns."""

    def __init__(self, deps: Dependencies) -> None:
        self.deps = deps

    async def report(
        self,
        state: GangState,
        problems: Problems,
        *,
        gang: PodGang,
        listed: bool,
        repairs: Sequence[str],
        barrier: WriteBarrier,
    ) -> GangReportResult:
        """Write the status of `gang`, which is the gang as it is since this look wrote it."""
        report = report_gang(state, problems, gang=gang, listed=listed)
        if report.defect is not None and state.backend is not None:
            backend = state.backend.name
            log.error("scheduler backend failed", extra={"backend": backend}, exc_info=report.defect)
        reported = await self.deps.reporter.report(
            kinds.GANGS, gang, report.status, barrier=barrier, urgency=report.urgency
        )
        if repairs and problems.failure is None:
            self.deps.recorder.send(events.objects_repaired(gang, f"put back {', '.join(repairs)}"))
        if problems.failure is not None:
            self._tell_failure(state, problems.failure)
        if problems.unready:
            self.deps.recorder.send(events.pods_not_prepared(gang, "; ".join(problems.unready)))
        if taken := self.deps.disruptions.take(gang.key):
            self.deps.recorder.send(events.gang_disrupted(gang, disruption_sentence(taken)))
        if not reported.written:
            return GangReportResult(reported.outcome, gang)
        self._tell(gang, reported.conditions, report.reading)
        gang = replace(gang, status=msgspec.convert(report.status, PodGangStatus))
        return GangReportResult(reported.outcome, gang, written=True)

    def _tell_failure(self, state: GangState, failure: GroveError) -> None:
        name = state.backend.name if state.backend is not None else "none"
        self.deps.milestones.sync_failed(name, failure.code)
        self.deps.recorder.send(events.translation_failed(state.gang, reason_of(failure), str(failure)))

    def _tell(self, gang: PodGang, written: Sequence[Manifest], reading: Reading) -> None:
        """Events and milestones for the transitions that this status write made, perhaps some time ago."""
        milestones, recorder = self.deps.milestones, self.deps.recorder
        before = {condition.type: condition.status for condition in gang.status.conditions}
        after = {condition["type"]: condition for condition in written}
        turned = {name for name, told in after.items() if told["status"] != before.get(name)}
        true = {name for name in turned if after[name]["status"] == "True"}
        if conditions.INITIALIZED in true:
            milestones.initialized(gang, _turned(after[conditions.INITIALIZED]))
        if conditions.SCHEDULED in true:
            milestones.scheduled(gang, _turned(after[conditions.SCHEDULED]))
            placed = after[conditions.SCHEDULED]["message"]
            log.info("gang placed", extra={"gang": str(gang.key), "placed": placed})
            without = _without_guarantee(after)
            recorder.send(events.gang_scheduled(gang, f"{placed}{score_sentence(reading)}{without}"))
        if conditions.READY in true:
            milestones.ready(gang, _turned(after[conditions.READY]))
        if conditions.UNHEALTHY in true:
            recorder.send(events.gang_lost(gang, after[conditions.UNHEALTHY]["message"]))
        if conditions.STUCK_PODS in true:
            recorder.send(events.pods_stuck(gang, after[conditions.STUCK_PODS]["message"]))
        if conditions.GANG_GUARANTEE in turned and before.get(conditions.SCHEDULED) == "True":
            recorder.send(events.no_guarantee(gang, after[conditions.GANG_GUARANTEE]["message"]))
        if conditions.BACKEND_CHANGE_PENDING in true:
            said = after[conditions.BACKEND_CHANGE_PENDING]["message"]
            recorder.send(events.backend_change_pending(gang, said))
        if reading.verdict is Verdict.UNSCHEDULABLE and is_news(gang, reading):
            recorder.send(events.gang_unschedulable(gang, reading.reason, reading.message))


def _without_guarantee(after: Mapping[str, Manifest]) -> str:
    """What the event of a placement adds where nothing guaranteed it: one event for a gang, not two."""
    said = after.get(conditions.GANG_GUARANTEE)
    return f" Not guaranteed: {said['message']}" if said is not None and said["status"] == "False" else ""


def _turned(condition: Manifest) -> datetime:
    """When a condition turned, which was observed before it was written."""
    return datetime.fromisoformat(condition["lastTransitionTime"]).astimezone(UTC)
