"""Keeps one gang: its scheduler objects in place, its pods referenced, its story told.

Forward: the gang's spec becomes the scheduler's objects, and objects edited or deleted by hand are mended.
Backward: the scheduler's verdict and the pods become the gang's status. Works on any PodGang that carries the
label of an enabled backend.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from grove.api import conditions, kinds, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import (
    Backend,
    Context,
    HoldingBack,
    Reading,
    Recall,
    Translation,
    Verdict,
    offers,
)
from grove.backends.shape import incarnation, progress
from grove.controllers import events, recall, repair
from grove.controllers.apply import NO_BARRIER, Applied, Remembers
from grove.controllers.attempts import due_in, next_attempt, present
from grove.controllers.foreign import ForeignGangs
from grove.controllers.gang_words import (
    NotEnabled,
    extra_conditions,
    reason_of,
    scaled_below_minimum,
    score_sentence,
    troubles,
)
from grove.controllers.members import pods_of
from grove.controllers.opening import as_opened
from grove.controllers.report import Haste
from grove.controllers.scheduling import missing_preconditions
from grove.controllers.shell import Shell
from grove.errors import BackendFailed, GroveError, Terminal, Waiting
from grove.meta import Condition, Key, Manifest, find_condition
from grove.plan.changes import Apply, Change, Delete, Patch
from grove.plan.foreign import is_foreign
from grove.plan.foreign import wanted as foreign_wanted
from grove.plan.gang_status import GangFacts, desired_gang_status
from grove.plan.gangs import complete, references, referencing_podgroups
from grove.plan.moves import pending_sentence, stays
from grove.runtime.outcome import DONE, After, Outcome
from grove.runtime.store import Foreign

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Seen:
    """A gang with everything that its objects and its status depend on."""

    gang: PodGang
    backend: Backend | None
    context: Context
    cliques: Sequence[PodClique]
    pods: Sequence[Pod]
    objects: Sequence[Foreign]

    @property
    def wanted(self) -> dict[str, int]:
        """How many pods each podgroup wants; one whose clique does not exist yet is missing here."""
        if is_foreign(self.gang):
            return foreign_wanted(self.gang)
        return {clique.name: clique.spec.replicas for clique in self.cliques}


NOTHING = Translation()


@dataclass(frozen=True, slots=True)
class Forward:
    """How a gang becomes scheduler objects: what to change, or why it cannot be translated."""

    changes: tuple[Change, ...] = ()
    translation: Translation = NOTHING
    #: Objects that somebody else edited or deleted.
    repairs: tuple[str, ...] = ()
    #: What the scheduler must learn again before objects that came back may be as translated.
    recall: Recall | None = None
    failure: GroveError | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """What went wrong on the way, for the report."""

    failure: GroveError | None
    #: What the pods of a foreign gang lack that only their creator can give them.
    unready: tuple[str, ...] = ()
    #: Whether a new attempt has just begun.
    anew: bool = False


class GangReconciler:
    """Brings one gang's scheduler objects, references and status to what they should be."""

    def __init__(self, shell: Shell, foreign: ForeignGangs) -> None:
        self.shell = shell
        self.foreign = foreign
        #: Replaced by the controller's own once it is wired.
        self.barrier: Remembers = NO_BARRIER

    async def reconcile(self, key: Key) -> Outcome:
        if await self.adopted(key):
            return DONE
        seen = self.observe(key)
        if seen is None:
            return DONE
        forward = self.forward(seen)
        if any(isinstance(change, Apply) for change in forward.changes) and not (
            await self.shell.liveness.confirmed(kinds.GANGS, seen.gang)
        ):
            return DONE
        failure = forward.failure or await self.write(forward, key)
        due = due_in(seen.gang, seen.pods, seen.backend, self.shell.clock.now())
        unready = await self.unready_guests(seen) if failure is None else ()
        referenced = None
        if failure is None and not unready:
            referenced = await (self.reference(seen, key) if due is None else self.try_anew(seen, key, due))
        told = Told(failure, unready, anew=due is not None and due <= 0)
        outcome = await self.report(seen, forward, told, referenced=referenced)
        if failure is not None:
            raise failure
        if seen.backend is not None and is_foreign(seen.gang):
            await self.foreign.open(seen.gang, seen.pods, seen.backend, seen.context, self.barrier)
        if due and (outcome == DONE or (isinstance(outcome, After) and outcome.seconds > due)):
            return After(due, "the gang is tried anew")
        return outcome

    async def adopted(self, key: Key) -> bool:
        """Whether a gang of somebody else has just got its backend; its change wakes us again."""
        gang = self.shell.cache.store(PodGang).get(key)
        if gang is None or gang.terminating or not is_foreign(gang):
            return False
        pods = pods_of(self.shell.cache, gang)
        return await self.foreign.adopt(gang, pods, self.barrier)

    async def unready_guests(self, seen: Seen) -> tuple[str, ...]:
        """What the pods of a foreign gang lack that we cannot give them."""
        if seen.backend is None or not is_foreign(seen.gang):
            return ()
        return await self.foreign.prepare(seen.gang, seen.pods, seen.backend, seen.context, self.barrier)

    def observe(self, key: Key) -> Seen | None:
        cache = self.shell.cache
        gang = cache.store(PodGang).get(key)
        if gang is None or gang.terminating:
            self.shell.reporter.forget(kinds.GANGS, key)
            self.shell.liveness.forget(kinds.GANGS, key)
            if gang is not None:
                self.shell.story.forget(gang.uid)
            return None
        if not self.shell.scheduling.acts_on(gang):
            # Its backend has a process of its own, or this is that process and the gang is not for it.
            self.shell.reporter.forget(kinds.GANGS, key)
            self.shell.liveness.forget(kinds.GANGS, key)
            return None
        backend = self.shell.scheduling.backend_of(gang)
        if backend is None and labels.SCHEDULER_BACKEND not in gang.labels:
            # The label is on its way; until it is there nobody acts.
            return None
        # What somebody else made may carry the names of our sets and cliques by chance.
        ours = not is_foreign(gang)
        part_of = gang.labels.get(labels.PART_OF, "") if ours else ""
        cliqueset = cache.store(PodCliqueSet).get(Key(key.namespace, part_of))
        cliques = [
            cache.store(PodClique).get(Key(key.namespace, group.name))
            for group in (gang.spec.podgroups if ours else ())
        ]
        pods = pods_of(cache, gang)
        return Seen(
            gang,
            backend,
            self.shell.scheduling.context(backend, cliqueset, released=_released(gang, pods, backend)),
            [clique for clique in cliques if clique is not None and not clique.terminating],
            pods,
            self.shell.scheduling.objects_of(gang),
        )

    # Forward --------------------------------------------------------------------------------------

    def forward(self, seen: Seen) -> Forward:
        """The changes that put the scheduler's objects in place."""
        if seen.backend is None:
            name = seen.gang.labels.get(labels.SCHEDULER_BACKEND, "")
            enabled = ", ".join(backend.name for backend in self.shell.scheduling.registry.enabled)
            why = f"{name!r}: scheduler backend is not enabled in Grove; enabled are {enabled}"
            return Forward(failure=NotEnabled(why))
        try:
            missing = missing_preconditions(seen.backend, seen.context)
            if missing:
                return Forward(failure=Waiting("; ".join(missing)))
            translation = seen.backend.translate(seen.gang, seen.context)
            recalled = recall.recall_of(seen.backend, seen.gang, seen.objects, seen.pods)
        except (Terminal, Waiting) as failure:
            return Forward(failure=failure)
        except Exception as defect:
            log.exception("scheduler backend failed", extra={"backend": seen.backend.name})
            return Forward(failure=BackendFailed(seen.backend.name, defect))
        changes: list[Change] = []
        repairs: list[str] = []
        wanted = set()
        initialized = _initialized(seen.gang)
        for translated in translation.manifests:
            resource = self.shell.scheduling.resource_of(translated)
            there = self.shell.scheduling.object(translated)
            manifest = recall.standing(seen.backend, translated, there, recalled, initialized=initialized)
            wanted.add((resource, manifest["metadata"]["name"]))
            if there is not None and there.terminating:
                continue
            differing = manifest if there is None else repair.differing(manifest, there)
            if not differing:
                continue
            if there is not None and repair.must_be_replaced(seen.backend, manifest, differing):
                # Its going wakes the gang, which then creates it anew.
                changes.append(Delete(resource, there.key, there.uid))
            else:
                changes.append(Apply(resource, manifest))
            if initialized if there is None else repair.taken_over(differing, there):
                repairs.append(f"{resource.kind} {manifest['metadata']['name']}")
        for item in seen.objects:
            resource = self.shell.scheduling.resource_of(item.manifest)
            if (resource, item.name) not in wanted and not item.terminating:
                changes.append(Delete(resource, item.key, item.uid))
        return Forward(tuple(changes), translation, tuple(repairs), recalled)

    async def write(self, forward: Forward, key: Key) -> GroveError | None:
        """Put the objects in place; what failed. Pods are replaced before their object is whole again."""
        pods = recall.changes(forward.recall)
        shown = await self.shell.applier.apply(pods, barrier=self.barrier, key=key)
        if shown.failures and not shown.refusals:
            # A pod changed underneath, which is no failure of the gang: look again.
            shown.raise_failure()
        if shown.failures:
            return shown.failures[0][1]
        objects = await self.shell.applier.apply(forward.changes, barrier=self.barrier, key=key)
        return next((error for _, error in objects.failures), None)

    async def reference(self, seen: Seen, key: Key) -> Applied | None:
        """List the gang's pods once all of them exist; None while they do not."""
        found = references(seen.gang, present(seen.pods, seen.gang, seen.backend))
        if not complete(seen.gang, found, seen.wanted):
            return None
        groups = referencing_podgroups(seen.gang, found)
        if groups is None:
            return Applied()
        change = Patch(
            kinds.GANGS,
            key,
            {"spec": {"podgroups": groups}},
            resource_version=seen.gang.metadata.resource_version,
        )
        applied = await self.shell.applier.apply([change], barrier=self.barrier, key=key)
        applied.raise_failure()
        return applied

    async def try_anew(self, seen: Seen, key: Key, due: float) -> Applied | None:
        """Forget the pods of an attempt that was spoilt, once it is time for the next one."""
        if due > 0:
            return None
        change = next_attempt(seen.gang)
        applied = await self.shell.applier.apply([change], barrier=self.barrier, key=key)
        applied.raise_failure()
        log.info("gang is tried anew", extra={"gang": str(key), "attempt": incarnation(seen.gang) + 2})
        return applied

    # Backward -------------------------------------------------------------------------------------

    async def report(
        self, seen: Seen, forward: Forward, told: Told, *, referenced: Applied | None
    ) -> Outcome:
        """One status write, then the events that it justifies."""
        gang, failure, now = _as_referenced(seen.gang, referenced), told.failure, self.shell.clock.now()
        opens = referenced is not None and not _initialized(gang)
        reading = self._read(seen, failure, opens=opens)
        facts = GangFacts(
            # Pods without a clique only hold places; the backend reads them, nobody counts them.
            pods=[pod for pod in seen.pods if labels.POD_CLIQUE in pod.labels],
            wanted=seen.wanted,
            initialized=referenced is not None,
            scheduled=reading.verdict is Verdict.SCHEDULED,
            reason=reading.reason,
            message=reading.message,
            placement_score=reading.placement_score,
            extra=(*extra_conditions(forward.translation.losses, failure), *self._pending_move(seen)),
            troubles=[*troubles(seen.cliques, failure), *told.unready],
        )
        status = desired_gang_status(gang, facts, now=now)
        # The cliques wait for Initialized before they open gates. What no retry can mend is not looked at
        # again, so now is the only time to say it; why an attempt ended, too.
        if told.anew or opens or isinstance(failure, Terminal):
            haste = Haste.AT_ONCE
        else:
            haste = _haste(gang, facts, reading, failure)
        reported = await self.shell.reporter.report(
            kinds.GANGS,
            gang,
            status,
            barrier=self.barrier,
            haste=haste,
            resource_version=gang.metadata.resource_version,
        )
        if forward.repairs and failure is None:
            self.shell.recorder.send(events.objects_repaired(gang, f"put back {', '.join(forward.repairs)}"))
        if failure is not None:
            self._tell_failure(seen, failure)
        if told.unready:
            self.shell.recorder.send(events.pods_not_prepared(gang, "; ".join(told.unready)))
        if reported.written:
            self._tell(gang, status, reading)
        return reported.outcome

    def _read(self, seen: Seen, failure: GroveError | None, *, opens: bool) -> Reading:
        """The scheduler's word, or ours when the scheduler could not be asked yet.

        What is told as the gates open must not say that they are closed: it may stand for a while.
        """
        manifests = [item.manifest for item in seen.objects]
        if seen.backend is None:
            # Nobody acts on the gang; where it runs it goes on running.
            placed = progress(seen.gang, seen.pods)
            verdict = Verdict.SCHEDULED if placed.complete else Verdict.WAITING
            return Reading(verdict, conditions.BACKEND_NOT_ENABLED, f"{placed.sentence}; {failure}")
        try:
            pods = as_opened(seen.pods, seen.gang, seen.backend) if opens else seen.pods
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
            recorder.send(events.gang_scheduled(gang, f"{placed} {score_sentence(reading)}"))
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


def _initialized(gang: PodGang) -> bool:
    condition = find_condition(gang.status.conditions, conditions.INITIALIZED)
    return condition is not None and condition.is_true


def _as_referenced(gang: PodGang, referenced: Applied | None) -> PodGang:
    """The gang as it is since its pods were listed: what we say is about that one."""
    about = (kinds.GANGS, gang.key)
    if referenced is None or about not in referenced.versions:
        return gang
    version, generation = referenced.versions[about], referenced.generations[about]
    return replace(gang, metadata=replace(gang.metadata, resource_version=version, generation=generation))


def _haste(gang: PodGang, facts: GangFacts, reading: Reading, failure: GroveError | None) -> Haste:
    """Why it does not go on is told soon; that it still waits for its turn, when there is time."""
    refused = reading.verdict is Verdict.UNSCHEDULABLE and _is_news(gang, reading)
    if refused or failure is not None or facts.troubles:
        return Haste.SOON
    before = find_condition(gang.status.conditions, conditions.SCHEDULED)
    if reading.verdict is Verdict.WAITING and not (before is not None and before.is_true):
        return Haste.WHEN_STILL
    return Haste.WHEN_QUIET


def _released(gang: PodGang, pods: Sequence[Pod], backend: Backend | None) -> bool:
    """Whether every pod that the gang lists exists without the gate that was ours to open.

    A pod that the backend holds back on purpose counts as open: it is not what the others wait for.
    """
    if backend is None or not _initialized(gang):
        return False
    gate = backend.scheduling_gate
    open_ = {pod.name for pod in pods if pod.active and not pod.gated_by(gate)}
    if offers(backend, HoldingBack):
        open_ |= {pod.name for pod in pods if pod.active and backend.holds_back(pod, gang)}
    return all(each.name in open_ for group in gang.spec.podgroups for each in group.pod_references)
