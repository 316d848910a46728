"""Keeps one gang: its scheduler objects in place, its pods listed, its gates, and what it says of itself.

Observe, plan, apply, report. What happens to a gang is decided by `plan.gang` from its state; here the
stages of the plan are carried out in order. Works on any PodGang that has the label of an enabled backend.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass

from grove.api import kinds
from grove.api.gang import PodGang
from grove.api.revision import restarts
from grove.controllers import events
from grove.controllers.apply import NO_BARRIER, Applied, WriteBarrier, failures_text
from grove.controllers.dependencies import Dependencies
from grove.controllers.gang_observe import GangObserver
from grove.controllers.gang_report import GangReporter, GangReportResult
from grove.controllers.members import lists_pods_of_cliques
from grove.controllers.pacing import REMOVING_SECONDS, STEPPED_BACK_SECONDS
from grove.controllers.standalone import StandalonePods
from grove.errors import GroveError, Terminal, Waiting
from grove.meta import Key
from grove.plan.changes import Change, Patch
from grove.plan.gang.plan import GangPlan, plan_gang
from grove.plan.gang.reading import Problems
from grove.plan.gang.references import as_written
from grove.plan.gang.standalone import is_standalone
from grove.plan.gang.state import GangState
from grove.plan.gang.words import being_deleted
from grove.runtime.outcome import DONE, After, Outcome, soonest

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StageResult:
    """What came of the stages before the status."""

    #: The gang as it is since its pods were listed or unlisted.
    gang: PodGang
    failure: GroveError | None = None


class GangReconciler:
    """Brings one gang's scheduler objects, references, gates and status to what they should be."""

    def __init__(self, deps: Dependencies, standalone: StandalonePods) -> None:
        self.deps = deps
        self.observer = GangObserver(deps, standalone)
        self.reporter = GangReporter(deps)
        #: Replaced by the controller's own once it is wired.
        self.barrier: WriteBarrier = NO_BARRIER

    async def reconcile(self, key: Key) -> Outcome:
        known = self.deps.cache.store(PodGang).get(key)
        if known is not None and self.deps.removal.is_removing(known):
            return After(REMOVING_SECONDS, "its set removes it")
        state = await self.observe(key)
        if state is None:
            return DONE
        if state.gang.terminating:
            return await self.report_leaving(state)
        plan = plan_gang(state)
        if plan.adopt is not None:
            await self.write(state, [plan.adopt])
            return DONE
        if not state.duties.objects:
            return await self.serve_pods_only(state, plan)
        if plan.objects.creates and not await self.deps.liveness.confirmed(kinds.GANGS, state.gang):
            return DONE
        result = await self.apply(state, plan)
        reported = await self.report(state, plan, result)
        if result.failure is not None:
            raise result.failure
        await self.serve_pods(state, plan, reported)
        return soonest(reported.outcome, *_outcomes(plan))

    async def observe(self, key: Key) -> GangState | None:
        """The gang with everything that decides about it; None where there is nothing to do."""
        gang, scheduling = self.deps.cache.store(PodGang).get(key), self.deps.scheduling
        if gang is None or (scheduling.only and not scheduling.acts_on(gang)):
            self.forget(key, gang)
            return None
        if self.deps.removal.is_doomed(gang):
            # It goes with its set: no gate is opened for it any more.
            self.forget(key, gang)
            return None
        if gang.terminating and (is_standalone(gang) or not scheduling.acts_on(gang)):
            self.forget(key, gang)
            return None
        if is_standalone(gang) and lists_pods_of_cliques(self.deps.cache, gang):
            # Somebody took its owner and its labels, which its set gives back. Until then it would get the
            # objects of a gang of somebody else, in place of those that its pods belong to.
            return None
        return await self.observer.observe(gang)

    def forget(self, key: Key, gang: PodGang | None) -> None:
        """The gang is gone, or somebody else's business."""
        self.deps.reporter.forget(kinds.GANGS, key)
        self.deps.liveness.forget(kinds.GANGS, key)
        self.observer.forget(key)
        if gang is not None:
            self.deps.milestones.forget(gang.uid)

    # Stages ---------------------------------------------------------------------------------------

    async def apply(self, state: GangState, plan: GangPlan) -> StageResult:
        """Carry out the stages before the status. A failure stops them, but for a restart."""
        failure = plan.objects.failure or await self.put_objects(state, plan)
        if failure is None:
            await self.write(state, plan.prepare)
        if plan.unlist is not None:
            return StageResult(await self.restart(state, plan, plan.unlist), failure)
        if failure is None and plan.listing is not None and plan.listing.change is not None:
            return StageResult(await self.write_gang(state, plan.listing.change))
        return StageResult(state.gang, failure)

    async def put_objects(self, state: GangState, plan: GangPlan) -> GroveError | None:
        """Put the objects in place; what failed. Pods are replaced before their object is whole again."""
        key = state.gang.key
        touched = await self.deps.applier.apply(plan.objects.pods, barrier=self.barrier, key=key)
        if touched.failures and not touched.refusals:
            # Another writer changed a pod, which is no failure of the gang: look again.
            touched.raise_failure()
        if touched.failures:
            return touched.failures[0][1]
        written = await self.deps.applier.apply(plan.objects.changes, barrier=self.barrier, key=key)
        return next((error for _, error in written.failures), None)

    async def restart(self, state: GangState, plan: GangPlan, change: Patch) -> PodGang:
        """Give the gang another revision and unlist its pods; cliques make new ones."""
        gang = await self.write_gang(state, change)
        why = plan.restart.why if plan.restart is not None else ""
        log.info(
            "gang restarted",
            extra={"gang": str(state.gang.key), "restarts": restarts(state.gang) + 1, "why": why},
        )
        self.deps.milestones.restarted(state.gang)
        self.deps.recorder.send(events.restarted(state.gang, why))
        return gang

    async def write_gang(self, state: GangState, change: Patch) -> PodGang:
        """List or unlist pods; the gang as it is since."""
        applied, about = await self.write(state, [change]), (kinds.GANGS, state.gang.key)
        if about not in applied.versions:
            return state.gang
        return as_written(
            state.gang, change, version=applied.versions[about], generation=applied.generations[about]
        )

    async def report(self, state: GangState, plan: GangPlan, result: StageResult) -> GangReportResult:
        """Say how the gang stands now."""
        failure = result.failure
        problems = Problems(
            failure,
            plan.unready if failure is None else (),
            restarted=plan.restart.why if plan.restart is not None and plan.unlist is not None else "",
            stepped_back=plan.steps_back.why if plan.steps_back is not None else "",
        )
        listed = failure is None and plan.listing is not None
        return await self.reporter.report(
            state,
            problems,
            gang=result.gang,
            listed=listed,
            repairs=plan.objects.repairs,
            barrier=self.barrier,
        )

    async def report_leaving(self, state: GangState) -> Outcome:
        """Say how a gang stands that is being deleted and somebody keeps; nothing else is done for it."""
        cliqueset = state.context.cliqueset
        if cliqueset is None or cliqueset.terminating:
            # It goes with its set, and nobody waits for a successor.
            self.forget(state.gang.key, state.gang)
            return DONE
        reported = await self.reporter.report(
            state,
            Problems(being_deleted(state.gang)),
            gang=state.gang,
            listed=False,
            repairs=(),
            barrier=self.barrier,
        )
        return reported.outcome

    async def serve_pods_only(self, state: GangState, plan: GangPlan) -> Outcome:
        """The gates and pods of a gang whose objects and status another process writes."""
        failure = plan.objects.failure
        if isinstance(failure, Terminal | Waiting):
            return DONE
        if failure is not None:
            raise failure
        await self.serve_pods(state, plan, GangReportResult(DONE, state.gang))
        return soonest(*_outcomes(plan))

    async def serve_pods(self, state: GangState, plan: GangPlan, reported: GangReportResult) -> None:
        """Give up the pods of a gang that cannot be completed, and open gates."""
        if plan.pods_failure is not None:
            raise plan.pods_failure
        if not state.duties.pods:
            return
        self.observer.remember(state.gang.key, plan.partial.memory)
        if plan.give_up:
            await self.give_up(state, plan)
        if plan.listing is not None and plan.listing.initializes and not reported.written:
            # Gates open only on a gang that says that it is Initialized.
            return
        await self.open_gates(state, plan, reported)

    async def give_up(self, state: GangState, plan: GangPlan) -> None:
        """Delete the pods of a gang that holds a part of its nodes; it is then restarted."""
        applied = await self.deps.applier.apply(plan.give_up, barrier=self.barrier, key=state.gang.key)
        why = plan.partial.why
        if applied.done:
            about = {"gang": str(state.gang.key), "pods": len(applied.done), "why": why}
            log.info("nodes given back", extra=about)
            self.deps.milestones.gave_back(state.gang)
        self.deps.recorder.send(events.gave_back(state.gang, why))
        applied.raise_failure()

    async def open_gates(self, state: GangState, plan: GangPlan, reported: GangReportResult) -> None:
        """Open the gates that may open now, never of a gang that is being deleted."""
        gang = reported.gang
        if not plan.gates or self.deps.removal.is_removing(gang):
            return
        self.deps.opening.add(gang.key)
        try:
            # A write of this look shows that the gang exists; without one the cache may show what is gone.
            if gang is state.gang and not await self.deps.liveness.exists(kinds.GANGS, gang):
                return
            applied = await self.deps.applier.apply(plan.gates, barrier=self.barrier, key=gang.key)
        finally:
            self.deps.opening.discard(gang.key)
        if applied.done:
            log.info("gates opened", extra={"gang": str(gang.key), "pods": len(applied.done)})
            self.deps.milestones.gates_opened(gang, self.deps.clock.now())
        if applied.refusals:
            self.deps.recorder.send(events.gates_stay_closed(gang, failures_text(applied.refusals)))
        applied.raise_failure()

    async def write(self, state: GangState, changes: Sequence[Change]) -> Applied:
        """Carry out one stage; what fails is raised."""
        applied = await self.deps.applier.apply(changes, barrier=self.barrier, key=state.gang.key)
        applied.raise_failure()
        return applied


def _outcomes(plan: GangPlan) -> list[Outcome]:
    """When to look again. No watch tells when the gang is placed for which this one steps back."""
    often = STEPPED_BACK_SECONDS if plan.steps_back is not None else math.inf
    return [After(min(wait.seconds, often), wait.why) for wait in plan.waits]
