"""Keeps the pods of one clique: creates, deletes, opens gates, reports. Decides nothing itself."""

from collections.abc import Sequence
from dataclasses import dataclass

from grove.api import conditions, kinds, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Backend, Context
from grove.controllers import events
from grove.controllers.apply import NO_BARRIER, Applied, Remembers, failures_text, told_once
from grove.controllers.attempts import leftovers
from grove.controllers.members import pods_of
from grove.controllers.opening import openings
from grove.controllers.report import Haste
from grove.controllers.shell import Shell
from grove.errors import BackendFailed, GroveError
from grove.meta import Key, Manifest, find_condition
from grove.plan.changes import Change, Create, Delete, JsonPatch, Patch
from grove.plan.clique_status import desired_clique_status
from grove.plan.conditions import timestamp
from grove.plan.moves import backend_of, leaves, stranded
from grove.plan.pods import desired_pod, plan_pods
from grove.runtime.outcome import DONE, Outcome

PODS_BY_OWNER = "owner"
#: A thousand pods fail for the same reason in as many words; some of them are enough to understand it.
_MOST_ERRORS = 5


@dataclass(frozen=True, slots=True)
class Seen:
    """A clique, its pods and its gang, as the cache has them."""

    clique: PodClique
    pods: Sequence[Pod]
    gang: PodGang | None
    backend: Backend | None
    context: Context
    cliqueset: PodCliqueSet | None = None


class CliqueReconciler:
    """Brings the pods of one clique to what the clique wants."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        #: Replaced by the controller's own once it is wired.
        self.barrier: Remembers = NO_BARRIER

    async def reconcile(self, key: Key) -> Outcome:
        seen = self.observe(key)
        if seen is None:
            return DONE
        try:
            changes = self.plan(seen)
        except BackendFailed as failure:
            await self.report(seen, Applied(failures=[(Create(kinds.PODS, {}), failure)]))
            raise
        if any(isinstance(change, Create) for change in changes) and not await self.shell.liveness.confirmed(
            kinds.CLIQUES, seen.clique
        ):
            # The cache will hear of its end; until then nothing is created for it.
            return DONE
        applied = await self.shell.applier.apply(changes, barrier=self.barrier, key=key)
        outcome = await self.report(seen, applied)
        applied.raise_failure()
        return outcome

    def observe(self, key: Key) -> Seen | None:
        """The clique with everything that its pods depend on; None when it is gone or not ours."""
        cache = self.shell.cache
        clique = cache.store(PodClique).get(key)
        if clique is None or labels.PART_OF not in clique.labels:
            self.shell.reporter.forget(kinds.CLIQUES, key)
            self.shell.liveness.forget(kinds.CLIQUES, key)
            return None
        pods = cache.store(Pod).index(PODS_BY_OWNER, clique.uid)
        gang = cache.store(PodGang).get(Key(key.namespace, clique.labels.get(labels.POD_GANG, "")))
        cliqueset = cache.store(PodCliqueSet).get(Key(key.namespace, clique.labels[labels.PART_OF]))
        backend = self.shell.scheduling.backend_of(gang) if gang is not None else None
        context = self.shell.scheduling.context(backend, cliqueset)
        return Seen(clique, pods, gang, backend, context, cliqueset)

    def plan(self, seen: Seen) -> list[Change]:
        """Deletions, creations and openings. Without a gang nothing is created: the gang comes first."""
        clique, gang, backend = seen.clique, seen.gang, seen.backend
        if clique.terminating:
            return _release(clique)
        if gang is None or gang.terminating:
            return []
        if (leaving := self.leaving(seen, gang)) is not None:
            return leaving
        if backend is None:
            return []
        left = leftovers(seen.pods, gang, backend, lambda: self.of_gang(gang))
        lost = {*left.outlived, *self.stranded(seen.pods, backend)}
        plan = plan_pods(clique, seen.pods, gang=gang, kept=left.kept, outlived=lost)
        changes: list[Change] = [Delete(kinds.PODS, pod.key, pod.uid) for pod in plan.delete]
        for new in plan.create:
            pod = _prepared(backend, desired_pod(clique, new), gang, seen.context)
            changes.append(Create(kinds.PODS, pod, strict=True))
        changes += openings(
            self.shell, seen.pods, gang=gang, clique=clique.name, backend=backend, context=seen.context
        )
        return changes

    def leaving(self, seen: Seen, gang: PodGang) -> list[Change] | None:
        """What to delete because the gang gets another backend; None if it does not.

        Nothing is created meanwhile. A pod that is placed in this moment stays, and so does its gang.
        """
        if seen.cliqueset is None:
            return None
        wanted = self.shell.scheduling.select(seen.cliqueset).backend
        if wanted is None or backend_of(gang) == wanted.name:
            return None
        if leaves(gang, self.of_gang(gang), wanted.name) is None:
            return None
        return [
            Delete(kinds.PODS, pod.key, pod.uid, pod.metadata.resource_version)
            for pod in seen.pods
            if pod.active and not pod.bound
        ]

    def stranded(self, pods: Sequence[Pod], backend: Backend) -> set[str]:
        """Waiting pods of a gang that has got another backend."""
        gates = {each.scheduling_gate for each in self.shell.scheduling.registry.enabled}
        return stranded(pods, backend.matches, gates - {backend.scheduling_gate})

    def of_gang(self, gang: PodGang) -> Sequence[Pod]:
        """All pods of the gang, also of its other cliques."""
        return pods_of(self.shell.cache, gang)

    async def report(self, seen: Seen, applied: Applied) -> Outcome:
        """The status from the pods as observed, then what happened as events."""
        clique = seen.clique
        if clique.terminating:
            return DONE
        now = self.shell.clock.now()
        status = desired_clique_status(clique, seen.pods, now=now)
        status["lastErrors"] = _last_errors(clique, applied, timestamp(now)) or None
        reported = await self.shell.reporter.report(
            kinds.CLIQUES,
            clique,
            status,
            barrier=self.barrier,
            haste=_haste(clique, status, applied),
        )
        if seen.gang is not None and applied.count(JsonPatch, kinds.PODS):
            self.shell.story.gates_opened(seen.gang, now)
        if applied.refusals:
            self.shell.recorder.send(events.pods_failed(clique, failures_text(applied.refusals)))
        return reported.outcome


def _haste(clique: PodClique, status: Manifest, applied: Applied) -> Haste:
    """Soon if pods cannot be made; late while they wait to be placed for the first time."""
    if applied.refusals:
        return Haste.AT_ONCE
    scheduled: int = status["scheduledReplicas"]
    before = find_condition(clique.status.conditions, conditions.CLIQUE_SCHEDULED)
    if scheduled < clique.spec.minimum and not (before is not None and before.is_true):
        return Haste.WHEN_STILL
    return Haste.WHEN_QUIET


def _prepared(backend: Backend, pod: Manifest, gang: PodGang, context: Context) -> Manifest:
    try:
        return backend.prepare_pod(pod, gang, context)
    except GroveError:
        raise
    except Exception as defect:
        raise BackendFailed(backend.name, defect) from defect


def _release(clique: PodClique) -> list[Change]:
    """Take our finalizer off a clique that goes: its pods go with it, by their owner reference."""
    kept = [name for name in clique.metadata.finalizers if name != labels.CLIQUE_FINALIZER]
    if len(kept) == len(clique.metadata.finalizers):
        return []
    patch: Manifest = {"metadata": {"finalizers": kept}}
    return [Patch(kinds.CLIQUES, clique.key, patch, resource_version=clique.metadata.resource_version)]


def _last_errors(clique: PodClique, applied: Applied, now: str) -> list[Manifest]:
    """Failures as clients of the incumbent read them; the time stays while the failure does."""
    known = {(error.code, error.description): error.observed_at for error in clique.status.last_errors}
    errors: dict[tuple[str, str], Manifest] = {}
    for failure, text in told_once(applied.refusals):
        identity = (failure.code, text)
        errors[identity] = {
            "code": identity[0],
            "description": identity[1],
            "observedAt": known.get(identity, now),
        }
    return [errors[identity] for identity in sorted(errors)[:_MOST_ERRORS]]
