"""Keeps one gang: its scheduler objects in place, its pods listed, its gates, and what it says of itself.

Forward: the gang's spec becomes the scheduler's objects (`gang_objects`); once all pods exist they are listed
and the gates open (`gang_gates`). Backward: the scheduler's verdict and the pods become the gang's status
(`gang_report`). A gang whose start is used up is started anew (`restarts`). Works on any PodGang that carries
the label of an enabled backend.
"""

import logging

from grove.api import kinds, labels
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.revision import effective_revision, restarts
from grove.controllers import events, recall
from grove.controllers.apply import NO_BARRIER, Applied, Remembers
from grove.controllers.foreign import ForeignGangs
from grove.controllers.gang_gates import GangGates
from grove.controllers.gang_objects import forward
from grove.controllers.gang_report import GangReport
from grove.controllers.gang_view import Forward, Seen, Told
from grove.controllers.members import cliques_of, pods_of, strangers_of
from grove.controllers.partial import PartialGangs
from grove.controllers.restarts import Restart, bound_by_podgroup, restart_of, started_anew
from grove.controllers.shell import Shell
from grove.errors import GroveError
from grove.meta import Key
from grove.plan.changes import Apply, Patch
from grove.plan.foreign import is_foreign, unusable_choice
from grove.plan.gangs import complete, references, referencing_podgroups
from grove.plan.gates import is_released
from grove.runtime.outcome import DONE, After, Outcome, soonest

log = logging.getLogger(__name__)


class GangReconciler:
    """Brings one gang's scheduler objects, references, gates and status to what they should be."""

    def __init__(self, shell: Shell, foreign: ForeignGangs) -> None:
        self.shell = shell
        self.foreign = foreign
        self.report = GangReport(shell)
        self.gates = GangGates(shell)
        self.partial = PartialGangs(shell)
        #: Replaced by the controller's own once it is wired.
        self.barrier: Remembers = NO_BARRIER

    async def reconcile(self, key: Key) -> Outcome:
        if await self.adopted(key):
            return DONE
        seen = self.observe(key)
        if seen is None:
            return DONE
        if not self.shell.scheduling.acts_on(seen.gang):
            return await self.gates.of_another_process(seen, self.partial, self.barrier)
        found = forward(self.shell.scheduling, seen)
        if any(isinstance(change, Apply) for change in found.changes) and not (
            await self.shell.liveness.confirmed(kinds.GANGS, seen.gang)
        ):
            return DONE
        failure = found.failure or await self.write(found, key)
        return await self.carry_on(seen, found, failure)

    async def carry_on(self, seen: Seen, found: Forward, failure: GroveError | None) -> Outcome:
        """List the pods or start the gang anew, tell how it stands, and open its gates."""
        gang, now = seen.gang, self.shell.clock.now()
        restart = restart_of(gang, seen.pods, seen.backend, seen.context, leaving=found.leaving, now=now)
        unready = await self.unready_guests(seen) if failure is None else ()
        begins = restart is not None and restart.seconds <= 0
        written = None
        if restart is not None and begins:
            written = await self.start_anew(seen, restart)
        elif restart is None and failure is None and not unready:
            written = await self.reference(seen)
        held = self.gates.held(seen)
        strangers = () if is_foreign(gang) else strangers_of(self.shell.cache, gang, seen.pods)
        told = Told(
            failure,
            unready,
            anew=restart.why if restart is not None and begins else "",
            held=held.why if isinstance(held, After) else "",
            strangers=tuple(pod.name for pod in strangers),
        )
        report = await self.report.tell(seen, found, told, written=written, barrier=self.barrier)
        if failure is not None:
            raise failure
        wait: Outcome = DONE
        if not self.shell.scheduling.only:
            # The process of one backend writes no pods: the operator does it for that one's gangs, too.
            wait = await self.partial.give_back(seen, found, self.barrier)
            if restart is None and not held:
                await self.gates.open(report.gang, seen, found.translation.manifests, self.barrier)
        again = After(restart.seconds, "the gang is started anew") if restart and not begins else DONE
        return soonest(report.outcome, wait, again, held or DONE)

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
        cache, scheduling = self.shell.cache, self.shell.scheduling
        gang = cache.store(PodGang).get(key)
        if gang is None or gang.terminating or (scheduling.only and not scheduling.acts_on(gang)):
            self.forget(key, gang)
            return None
        backend = scheduling.backend_of(gang)
        if backend is None and labels.SCHEDULER_BACKEND not in gang.labels and not unusable_choice(gang):
            # The label is on its way; until it is there nobody acts.
            return None
        # What somebody else made may carry the names of our sets and cliques by chance.
        part_of = "" if is_foreign(gang) else gang.labels.get(labels.PART_OF, "")
        pods = pods_of(cache, gang)
        context = scheduling.context(
            backend,
            cache.store(PodCliqueSet).get(Key(key.namespace, part_of)),
            released=backend is not None and is_released(gang, pods, backend.scheduling_gate),
            revision="" if is_foreign(gang) else effective_revision(gang, pods),
            bound=bound_by_podgroup(pods),
            remarks=scheduling.remarks.of(backend.name, pods) if backend is not None else None,
        )
        return Seen(gang, backend, context, cliques_of(cache, gang), pods, scheduling.objects_of(gang))

    def forget(self, key: Key, gang: PodGang | None) -> None:
        """The gang is gone, or somebody else's business."""
        self.shell.reporter.forget(kinds.GANGS, key)
        self.shell.liveness.forget(kinds.GANGS, key)
        self.shell.preemptions.forget(key)
        self.partial.forget(key)
        if gang is not None:
            self.shell.story.forget(gang.uid)

    async def write(self, found: Forward, key: Key) -> GroveError | None:
        """Put the objects in place; what failed. Pods are replaced before their object is whole again."""
        pods = recall.changes(found.recall)
        shown = await self.shell.applier.apply(pods, barrier=self.barrier, key=key)
        if shown.failures and not shown.refusals:
            # A pod changed underneath, which is no failure of the gang: look again.
            shown.raise_failure()
        if shown.failures:
            return shown.failures[0][1]
        objects = await self.shell.applier.apply(found.changes, barrier=self.barrier, key=key)
        return next((error for _, error in objects.failures), None)

    async def reference(self, seen: Seen) -> Applied | None:
        """List the gang's pods once all of them exist; None while they do not."""
        if labels.EDIT_PENDING in seen.gang.annotations and not seen.running:
            # The set writes into the gang what was edited, now that nothing of it is placed any more.
            return None
        found = references(seen.gang, seen.members, seen.context.revision)
        if not complete(seen.gang, found, seen.wanted):
            return None
        groups = referencing_podgroups(seen.gang, found)
        if groups is None:
            return Applied()
        change = Patch(
            kinds.GANGS,
            seen.gang.key,
            {"spec": {"podgroups": groups}},
            resource_version=seen.gang.metadata.resource_version,
        )
        applied = await self.shell.applier.apply([change], barrier=self.barrier, key=seen.gang.key)
        applied.raise_failure()
        return applied

    async def start_anew(self, seen: Seen, restart: Restart) -> Applied:
        """Give the gang another revision and unlist its pods; cliques make new ones."""
        change = started_anew(seen.gang)
        applied = await self.shell.applier.apply([change], barrier=self.barrier, key=seen.gang.key)
        applied.raise_failure()
        log.info(
            "gang is started anew",
            extra={"gang": str(seen.gang.key), "start": restarts(seen.gang) + 2, "why": restart.why},
        )
        self.shell.recorder.send(events.started_anew(seen.gang, restart.why))
        return applied
