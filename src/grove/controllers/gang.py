"""Keeps one gang: its scheduler objects in place, its pods referenced, its story told.

Forward: the gang's spec becomes the scheduler's objects, and objects edited or deleted by hand are mended.
Backward, the scheduler's verdict and the pods become the gang's status: `gang_report`. Works on any PodGang
that carries the label of an enabled backend.
"""

import logging
from collections.abc import Sequence

from grove.api import kinds, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Backend, HoldingBack, offers
from grove.backends.shape import incarnation
from grove.controllers import recall, repair
from grove.controllers.apply import NO_BARRIER, Applied, Remembers
from grove.controllers.attempts import due_in, next_attempt, present
from grove.controllers.foreign import ForeignGangs
from grove.controllers.gang_report import GangReport
from grove.controllers.gang_view import Forward, Seen, Told, is_initialized
from grove.controllers.gang_words import NotEnabled
from grove.controllers.members import pods_of
from grove.controllers.scheduling import missing_preconditions
from grove.controllers.shell import Shell
from grove.errors import BackendFailed, GroveError, Terminal, Waiting
from grove.meta import Key
from grove.plan.changes import Apply, Change, Delete, Patch
from grove.plan.foreign import is_foreign, unusable_choice
from grove.plan.gangs import complete, references, referencing_podgroups
from grove.runtime.outcome import DONE, After, Outcome

log = logging.getLogger(__name__)


class GangReconciler:
    """Brings one gang's scheduler objects, references and status to what they should be."""

    def __init__(self, shell: Shell, foreign: ForeignGangs) -> None:
        self.shell = shell
        self.foreign = foreign
        self.report = GangReport(shell)
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
        outcome = await self.report.tell(seen, forward, told, referenced=referenced, barrier=self.barrier)
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
        if backend is None and labels.SCHEDULER_BACKEND not in gang.labels and not unusable_choice(gang):
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

    def forward(self, seen: Seen) -> Forward:
        """The changes that put the scheduler's objects in place."""
        if seen.backend is None:
            name = seen.gang.labels.get(labels.SCHEDULER_BACKEND) or unusable_choice(seen.gang)
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
        initialized = is_initialized(seen.gang)
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


def _released(gang: PodGang, pods: Sequence[Pod], backend: Backend | None) -> bool:
    """Whether every pod that the gang lists exists without the gate that was ours to open.

    A pod that the backend holds back on purpose counts as open: it is not what the others wait for.
    """
    if backend is None or not is_initialized(gang):
        return False
    gate = backend.scheduling_gate
    open_ = {pod.name for pod in pods if pod.active and not pod.gated_by(gate)}
    if offers(backend, HoldingBack):
        open_ |= {pod.name for pod in pods if pod.active and backend.holds_back(pod, gang)}
    return all(each.name in open_ for group in gang.spec.podgroups for each in group.pod_references)
