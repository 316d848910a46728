"""Reconciles one clique: creates, deletes and labels its pods and writes its status. The gang opens gates."""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from grove.api import conditions, kinds, labels, names
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.api.revision import effective_revision, revision_of
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.backends.base import Backend, Context, GangSnapshot, lifecycle_of
from grove.backends.shape import was_placed
from grove.controllers import events
from grove.controllers.apply import (
    NO_BARRIER,
    Applied,
    NameTaken,
    WriteBarrier,
    distinct_errors,
    failures_text,
)
from grove.controllers.dependencies import Dependencies
from grove.controllers.members import (
    CLIQUES_BY_OWNER,
    PODS_BY_CLIQUE,
    PODS_BY_OWNER,
    of_one_set,
    pods_of,
    predecessors_of,
)
from grove.controllers.memory.pod_limit import PodLimit
from grove.controllers.pacing import POD_LIMIT_SECONDS, REMOVING_SECONDS
from grove.errors import BackendFailed, ClaimTemplateNotFound, GroveError
from grove.meta import Key, Manifest, find_condition
from grove.plan.changes import Change, Create, Delete, Patch
from grove.plan.clique_status import desired_clique_status, known_as_whole, replaces_another, working_pods
from grove.plan.failures import failures_in_a_row, how_it_failed, resting
from grove.plan.gang.restart import bound_by_podgroup, kept, ungrouped
from grove.plan.last_errors import CodedError
from grove.plan.moves import backend_of, leaves, stranded
from grove.plan.places import leaving, until_stuck
from grove.plan.pods import NewPod, PodPlan, desired_pod, mislabelled, outdated, plan_pods
from grove.plan.sharing import claims_of, missing_templates
from grove.plan.startup import CONTAINER, Wait, wait_of, waiting_in_vain
from grove.plan.update.groups import clique_turn
from grove.plan.update.pods import CliqueUpdate, Turn, plan_clique_update
from grove.plan.urgency import Urgency
from grove.plan.wholeness import is_placed_together, lost_since_placed, said_by_go
from grove.runtime.outcome import DONE, After, Outcome, soonest

log = logging.getLogger(__name__)

#: How many pods of a clique are created in one go: what is planned is held in memory until it is written.
MOST_AT_ONCE = 500
#: After so many planned pods everybody else gets a turn.
_GIVE_WAY_AFTER = 50


@dataclass(frozen=True, slots=True)
class Seen:
    """A clique, its pods and its gang, as the cache has them."""

    clique: PodClique
    pods: Sequence[Pod]
    gang: PodGang | None
    backend: Backend | None
    context: Context
    #: The pods of the whole gang.
    members: Sequence[Pod] = ()
    cliqueset: PodCliqueSet | None = None
    #: The pods that are on their way out and still have a hostname of the clique, by its index.
    leaving: Mapping[int, Pod] = field(default_factory=dict)


class CliqueReconciler:
    """Brings the pods of one clique to what the clique wants."""

    def __init__(self, deps: Dependencies, limit: PodLimit, *, wait_image: str = CONTAINER) -> None:
        self.deps = deps
        self.limit = limit
        #: The image of the init container that waits for other cliques.
        self.wait_image = wait_image
        #: Replaced by the controller's own once it is wired.
        self.barrier: WriteBarrier = NO_BARRIER
        #: Names of pods that turned out to be taken, by clique.
        self._met: dict[Key, set[str]] = {}
        #: The most pods of a clique that were seen working at once, until its status says that they suffice.
        #: With the UID of the clique and the revision of its gang.
        self._working: dict[Key, tuple[tuple[str, str], int]] = {}

    async def reconcile(self, key: Key) -> Outcome:
        seen = self.observe(key)
        await self.deps.removal.pods_left(key, self.barrier)
        if seen is None or (not seen.clique.terminating and self.deps.removal.is_doomed(seen.clique)):
            return DONE
        if self.deps.removal.is_removing(seen.clique):
            return After(REMOVING_SECONDS, "its set removes it")
        if lost := await self.deps.vanished.found(seen.clique, seen.pods):
            seen = replace(seen, pods=[*seen.pods, *lost])
        update = plan_clique_update(seen.clique, seen.pods, self.turn(seen), now=self.deps.clock.now())
        try:
            if relabelled := _relabelled(seen, lost):
                # Nothing is decided before the cache shows them, to the gang too; that wakes the clique.
                (await self.deps.applier.apply(relabelled, barrier=self.barrier, key=key)).raise_failure()
                return DONE
            changes = await self.plan(seen, update)
        except BackendFailed as failure:
            await self.report(seen, Applied(failures=[(Create(kinds.PODS, {}), failure)]), update)
            raise
        if any(isinstance(change, Create) for change in changes) and not await self.deps.liveness.confirmed(
            kinds.CLIQUES, seen.clique
        ):
            # The cache will hear of its end; until then nothing is created for it.
            return DONE
        applied = await self.deps.applier.apply(changes, barrier=self.barrier, key=key)
        _log_written(key, applied)
        for change, refusal in applied.failures:
            if isinstance(change, Create) and isinstance(refusal, NameTaken):
                self._met.setdefault(key, set()).add(str(change.manifest["metadata"]["name"]))
        outcome = await self.report(seen, applied, update)
        applied.raise_failure()
        if applied.count(Create, kinds.PODS) >= MOST_AT_ONCE:
            return After(0.0, "more pods must be created")
        shortage = self.limit.shortage(key)
        return soonest(
            outcome,
            After(0.0, "the next pod is replaced") if update.chosen and outcome == DONE else DONE,
            After(POD_LIMIT_SECONDS, "the set may not have more pods") if shortage is not None else DONE,
            *self.waits(seen),
        )

    def waits(self, seen: Seen) -> Iterator[After]:
        """When to look again although no pod has changed: one is stuck then, or a failed one is replaced."""
        now = self.deps.clock.now()
        if (left := until_stuck(seen.leaving.values(), now)) is not None:
            yield After(left, "a pod is terminating")
        if pauses := resting(seen.clique, seen.pods, now):
            yield After(min(pauses.values()), "a pod failed repeatedly")

    def observe(self, key: Key) -> Seen | None:
        """The clique with everything that its pods depend on; None when it is gone or not ours."""
        cache = self.deps.cache
        clique = cache.store(PodClique).get(key)
        if clique is None or labels.PART_OF not in clique.labels:
            self.deps.reporter.forget(kinds.CLIQUES, key)
            self.deps.liveness.forget(kinds.CLIQUES, key)
            self.deps.devices.await_claims(key, ())
            self.limit.forget(key)
            self._met.pop(key, None)
            self._working.pop(key, None)
            return None
        pods = cache.store(Pod).index(PODS_BY_OWNER, clique.uid)
        gang = cache.store(PodGang).get(Key(key.namespace, clique.labels.get(labels.POD_GANG, "")))
        if gang is not None and not of_one_set(cache, clique, gang):
            # Of an earlier set of the same name; its successor comes when it is gone.
            gang = None
        cliqueset = cache.store(PodCliqueSet).get(Key(key.namespace, clique.labels[labels.PART_OF]))
        backend = self.deps.scheduling.backend_of(gang) if gang is not None else None
        members = pods_of(cache, gang) if gang is not None else ()
        revision = effective_revision(gang, members) if gang is not None else ""
        context = self.deps.scheduling.context(
            backend,
            cliqueset,
            revision=revision,
            bound=bound_by_podgroup(members),
            ungrouped=ungrouped(gang, members) if gang is not None else None,
        )
        going = leaving(clique, pods, predecessors_of(cache, clique), self.deps.clock.now())
        return Seen(clique, pods, gang, backend, context, members, cliqueset, going)

    def turn(self, seen: Seen) -> Turn:
        """What the update of its set allows the clique now."""
        clique, cache = seen.clique, self.deps.cache
        name = clique.labels.get(labels.SCALING_GROUP, "")
        group = cache.store(PodCliqueScalingGroup).get(Key(clique.namespace, name)) if name else None
        siblings = cache.store(PodClique).index(CLIQUES_BY_OWNER, group.uid) if group is not None else ()
        return clique_turn(clique, seen.cliqueset, group, siblings, self._pods_of)

    def _pods_of(self, clique: PodClique) -> list[Pod]:
        return list(self.deps.cache.store(Pod).index(PODS_BY_OWNER, clique.uid))

    async def plan(self, seen: Seen, update: CliqueUpdate) -> list[Change]:
        """Deletions and creations. Without a gang nothing is created: the gang comes first."""
        clique, gang, backend = seen.clique, seen.gang, seen.backend
        if clique.terminating:
            return _release(clique)
        changes: list[Change] = [
            Patch(kinds.PODS, pod.key, {"metadata": {"labels": lost, "uid": pod.uid}})
            for pod, lost in mislabelled(clique, seen.pods)
        ]
        if gang is None or gang.terminating:
            return changes
        if (leaving := self.leaving(seen, gang)) is not None:
            return leaving
        if backend is None or not _is_expected(clique, gang):
            return changes
        plan = self.plan_pods(seen, gang, backend, update)
        changes += [_deletion(pod) for pod in plan.delete]
        wait, claims = wait_of(clique, gang, self.wait_image), self.claims(seen, plan.create)
        return changes + await _creations(seen, plan.create, gang, backend, wait, claims)

    def claims(self, seen: Seen, new: Sequence[NewPod]) -> dict[int, list[str]]:
        """By index, the device claims of the pods that can be created; the other pods wait for theirs."""
        clique, cliqueset, devices = seen.clique, seen.cliqueset, self.deps.devices
        if cliqueset is None:
            return {each.index: [] for each in new}
        if not new:
            devices.await_claims(clique.key, ())
            return {}
        used = claims_of(cliqueset, clique, [each.index for each in new])
        lacking = {index: devices.lacking(clique, cliqueset, claims) for index, claims in used.items()}
        # Known in the same moment in which they are found missing: none can appear unnoticed in between.
        devices.await_claims(clique.key, {claim for each in lacking.values() for claim in each})
        return {index: claims for index, claims in used.items() if not lacking[index]}

    def plan_pods(self, seen: Seen, gang: PodGang, backend: Backend, update: CliqueUpdate) -> PodPlan:
        """Which pods to create and to delete."""
        clique, pods, revision, now = seen.clique, seen.pods, seen.context.revision, self.deps.clock.now()
        lost = {
            *outdated(clique, pods, revision),
            *self.stranded(pods, backend),
            *waiting_in_vain(gang, pods),
            *(pod.name for pod in update.replace),
        }
        snapshot = GangSnapshot(gang, pods, seen.context, now)
        ended = kept(pods, seen.members, lifecycle_of(backend, snapshot))
        have = sum(not pod.terminating for pod in pods)
        return plan_pods(
            clique,
            pods,
            gang=gang,
            revision=revision,
            kept={*ended, *resting(clique, pods, now)},
            outlived=lost,
            leaving=seen.leaving,
            failures=failures_in_a_row(clique, pods, now),
            taken=self._taken_names(seen),
            granted=self.limit.grant(clique, seen.cliqueset, have=have),
            most=MOST_AT_ONCE,
        )

    def _taken_names(self, seen: Seen) -> set[str]:
        """Names that pods of somebody else have: labelled like ours, or met when one was to be created."""
        labelled = self.deps.cache.store(Pod).index(PODS_BY_CLIQUE, str(seen.clique.key))
        return {pod.name for pod in labelled} | self._met.get(seen.clique.key, set())

    def leaving(self, seen: Seen, gang: PodGang) -> list[Change] | None:
        """What to delete because the gang gets another backend; None if it does not.

        Nothing is created meanwhile. A pod that is placed in this moment stays, and so does its gang.
        """
        if seen.cliqueset is None:
            return None
        wanted = self.deps.scheduling.select(seen.cliqueset).backend
        if wanted is None or backend_of(gang) == wanted.name:
            return None
        if leaves(gang, seen.members, wanted.name) is None:
            return None
        return [
            Delete(kinds.PODS, pod.key, pod.uid, pod.metadata.resource_version)
            for pod in seen.pods
            if pod.active and not pod.bound
        ]

    def stranded(self, pods: Sequence[Pod], backend: Backend) -> set[str]:
        """Waiting pods of a gang that has got another backend."""
        gates = {each.scheduling_gate for each in self.deps.scheduling.registry.enabled}
        return stranded(pods, backend.matches, gates - {backend.scheduling_gate})

    async def report(self, seen: Seen, applied: Applied, update: CliqueUpdate) -> Outcome:
        """The status from the pods as observed, then what happened as events."""
        clique = seen.clique
        if clique.terminating:
            return DONE
        now = self.deps.clock.now()
        if (shortage := self.limit.shortage(clique.key)) is not None:
            applied = replace(applied, failures=[*applied.failures, (Create(kinds.PODS, {}), shortage)])
        told = [*distinct_errors(applied.refusals), *self._missing_templates(seen)]
        status = desired_clique_status(
            clique,
            seen.pods,
            told,
            reached=self._most(seen),
            revision=seen.context.revision,
            update=update,
            now=now,
        )
        reported = await self.deps.reporter.report(
            kinds.CLIQUES,
            clique,
            status,
            barrier=self.barrier,
            urgency=Urgency.IMMEDIATE if update.chosen else _urgency(seen, status, applied),
        )
        if applied.refusals:
            self.deps.recorder.send(events.pods_failed(clique, failures_text(applied.refusals)))
        deleted = {change.uid for change in applied.done if isinstance(change, Delete)}
        for pod in seen.pods:
            if pod.uid in deleted and pod.status.phase == "Failed":
                self.deps.recorder.send(events.failed_pod_replaced(clique, how_it_failed(pod)))
        return reported.outcome

    def _most(self, seen: Seen) -> int:
        """The most pods of a clique that were seen working at once: its status may be written later."""
        clique = seen.clique
        working = working_pods(seen.pods)
        if known_as_whole(clique, seen.context.revision) or not clique.spec.needed:
            self._working.pop(clique.key, None)
            return working
        number = clique.spec.needed if self._was_whole(seen, working) else working
        start = (clique.uid, seen.context.revision)
        known, before = self._working.get(clique.key, (start, 0))
        most = max(number, before) if known == start else number
        self._working[clique.key] = start, most
        return most

    def _was_whole(self, seen: Seen, working: int) -> bool:
        """Whether its gang tells that a clique had its minimum, which nobody saw or remembers.

        One that somebody deleted took its status along. Pods may be lost before anybody looks. Of cliques
        that are taken over the Go operator told it.
        """
        clique, gang, backend = seen.clique, seen.gang, seen.backend
        if gang is None or working >= clique.spec.needed:
            return False
        if said_by_go(clique, seen.context.revision):
            return True
        if was_placed(gang, seen.context) and replaces_another(clique, gang):
            return True
        if backend is None or not _is_expected(clique, gang):
            return False
        if not lost_since_placed(gang, clique.name, seen.members, seen.context.revision):
            return False
        try:
            return is_placed_together(backend.translate(gang, seen.context).treatments)
        except Exception:
            # The gang says what is wrong; what cannot be translated now proves nothing.
            return False

    def _missing_templates(self, seen: Seen) -> list[CodedError]:
        """What keeps the claims from being made that pods wait for; the set tells it by an event."""
        if seen.cliqueset is None or not self.deps.devices.awaits(seen.clique.key):
            return []
        missing = missing_templates(self.deps.devices.templates_of(seen.cliqueset))
        return [CodedError(ClaimTemplateNotFound.code, text) for text in missing]


async def _creations(
    seen: Seen,
    new: Sequence[NewPod],
    gang: PodGang,
    backend: Backend,
    wait: Wait | None,
    claims: Mapping[int, Sequence[str]],
) -> list[Create]:
    """The new pods of a clique that are in `claims`, as they are created; others get their turn meanwhile."""
    creations, revision = [], seen.context.revision
    for number, each in enumerate(new, start=1):
        if number % _GIVE_WAY_AFTER == 0:
            await asyncio.sleep(0)
        if each.index in claims:
            made = desired_pod(seen.clique, each, revision, wait, claims=claims[each.index])
            pod = _prepared(backend, made, gang, seen.context)
            creations.append(Create(kinds.PODS, pod, strict=True))
    return creations


def _relabelled(seen: Seen, lost: Sequence[Pod]) -> list[Change]:
    """Gives the labels back that pods lost of which the cache does not know: ours and their scheduler's."""
    if seen.clique.terminating or not lost:
        return []
    return [
        Patch(
            kinds.PODS,
            pod.key,
            {"metadata": {"labels": {**_first_labels(seen, pod), **marks}, "uid": pod.uid}},
        )
        for pod, marks in mislabelled(seen.clique, lost)
    ]


def _first_labels(seen: Seen, pod: Pod) -> dict[str, str]:
    """The labels that a pod was created with and lacks now; which template it is of is not known any more."""
    index = names.hostname_index(seen.clique.name, pod.spec.hostname)
    if seen.gang is None or seen.backend is None or index is None:
        return {}
    revision = revision_of(pod) or seen.context.revision
    made = desired_pod(seen.clique, NewPod(index, pod.name), revision)
    prepared = _prepared(seen.backend, made, seen.gang, replace(seen.context, revision=revision))
    return {
        name: value
        for name, value in prepared["metadata"]["labels"].items()
        if name not in pod.labels and name != labels.POD_TEMPLATE_HASH
    }


def _log_written(key: Key, applied: Applied) -> None:
    for verb, change in (("created", Create), ("deleted", Delete)):
        if number := applied.count(change, kinds.PODS):
            log.info("pods %s", verb, extra={"clique": str(key), "pods": number})


def _is_expected(clique: PodClique, gang: PodGang) -> bool:
    """Whether the gang knows the clique as it is: a pod is made for the minimum that it is judged by."""
    return any(
        group.name == clique.name and group.min_replicas == clique.spec.needed
        for group in gang.spec.podgroups
    )


def _deletion(pod: Pod) -> Delete:
    """One that waits is deleted only as it was seen: it may be placed in this moment, or start."""
    runs = pod.bound and pod.status.phase != "Pending"
    return Delete(kinds.PODS, pod.key, pod.uid, "" if runs else pod.metadata.resource_version)


def _urgency(seen: Seen, status: Manifest, applied: Applied) -> Urgency:
    """Soon if pods cannot be made; late while they wait to be placed or get ready for the first time."""
    clique = seen.clique
    if applied.refusals:
        return Urgency.IMMEDIATE
    scheduled: int = status["scheduledReplicas"]
    before = find_condition(clique.status.conditions, conditions.CLIQUE_SCHEDULED)
    if scheduled < clique.spec.minimum and not (before is not None and before.is_true):
        return Urgency.DEFERRED
    breached = find_condition(clique.status.conditions, conditions.MIN_AVAILABLE_BREACHED)
    if clique.status.ready_replicas < clique.spec.needed and not (breached is not None and breached.is_true):
        return Urgency.STARTING
    return Urgency.SETTLED


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
