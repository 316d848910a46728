"""Reconciles one set: decides whether it is accepted, writes its children and its status."""

import logging
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Any

import msgspec

from grove.admission import Here, Judgement, Understood, judge, understand, validate_topology_binding
from grove.api import conditions, kinds, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.config import Limits
from grove.api.constraints import topology_name
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.api.revision import effective_revision
from grove.api.topology import ClusterTopologyBinding
from grove.backends.base import Backend
from grove.controllers import events
from grove.controllers.apply import (
    NO_BARRIER,
    Applied,
    Batch,
    NameTaken,
    WriteBarrier,
    distinct_errors,
    failures_text,
    first_batch,
    first_removals,
)
from grove.controllers.dependencies import Dependencies
from grove.controllers.members import PODS_BY_OWNER, pods_of, pods_on_nodes
from grove.controllers.memory.contests import FORGET_SECONDS, Contests
from grove.controllers.memory.trials import AGAIN_SECONDS, Trials
from grove.controllers.pacing import CREATING_SECONDS, MOVING_SECONDS
from grove.controllers.recycling import Recycling
from grove.errors import PodLimitReached, in_one_sentence
from grove.meta import Condition, Key, Object, Resource, find_condition
from grove.plan.changes import Change, Create, Delete, Patch
from grove.plan.children import CliqueSetState, Settled, edit_pending, plan_children, registry, sort_children
from grove.plan.children.cliques import has_present_template, has_template, with_own_label
from grove.plan.children.kept import kept_children
from grove.plan.children.surplus import plan_surplus
from grove.plan.cliqueset_status import SetFacts, cliqueset_status, outdated, unattended
from grove.plan.deleted_set import deleted_set_status
from grove.plan.domains import moved_domains
from grove.plan.edits import decided_minima, impossible_edits, placed_gangs
from grove.plan.group_limit import grant_replicas
from grove.plan.last_errors import CodedError
from grove.plan.moves import any_leaves, backend_of, moved, placed_by, staying_gangs
from grove.plan.sharing import missing_templates
from grove.plan.termination import Termination
from grove.plan.update.progress import update_progress
from grove.plan.update.replicas import SetUpdate, plan_update
from grove.plan.update.state import UpdateState
from grove.plan.update.words import disbelieved, update_condition, update_news
from grove.plan.urgency import Urgency
from grove.runtime.outcome import DONE, After, Outcome, soonest
from grove.runtime.yielding import giving_way
from grove.words import counted

BY_SET = "set"

log = logging.getLogger(__name__)


class CliqueSetReconciler:
    """Brings the children of one set to what the set wants."""

    def __init__(
        self,
        deps: Dependencies,
        contests: Contests,
        trials: Trials,
        *,
        topology_aware: bool = True,
        pods_per_set: int = Limits().pods_per_set,
        nvlink_domains: bool = False,
    ) -> None:
        self.deps = deps
        self.contests = contests
        self.trials = trials
        #: Replaced by the controller's own once it is wired.
        self.barrier: WriteBarrier = NO_BARRIER
        self._topology_aware = topology_aware
        self._pods_per_set = pods_per_set
        self._nvlink_domains = nvlink_domains
        self.recycling = Recycling(deps)
        self._settled: dict[Key, Settled] = {}
        #: When each set's status was last computed.
        self._said: dict[Key, float] = {}
        self._understood: dict[Key, tuple[object, Understood]] = {}

    async def reconcile(self, key: Key) -> Outcome:
        seen = self.observe(key)
        await self._release_domains(key)
        waits = await self.deps.removal.children(key, seen, self.barrier)
        if seen is None or waits != DONE:
            return waits
        if (released := await self.release(seen.cliqueset)) is not None:
            return released
        judgement, again = await self.tried(seen, self.judge(seen))
        seen = self.with_backend(seen, judgement)
        batch = await self.plan(seen, judgement)
        if not await self._is_there_for(batch.changes, seen.cliqueset):
            return DONE
        living = await self.deps.liveness.without_orphans(batch.changes, seen.children)
        changes = [change for change in living if not self._is_opening(change)]
        applied, contested, waits = await self.apply(seen.cliqueset, changes)
        turns = bool(seen.update and seen.update.new_turns) and not judgement.refused
        lately = batch.more and not applied.failures and not turns and self._said_lately(key)
        waiting = self.recycling.pending(seen) if not judgement.refused else []
        outcome = DONE if lately else await self.report(seen, judgement, applied, waiting, batch.settled)
        self.tell(seen, judgement, applied)
        applied.raise_failure()
        # Where all that was planned waits for pods to end, another plan would be the same.
        more = _until_more(batch, held_back=len(living) < len(batch.changes))
        return soonest(
            outcome,
            await self.recycling.recycle(seen, waiting, self.barrier),
            After(0.0, "the next replica is updated") if turns and outcome == DONE else DONE,
            more if applied.done or waits == DONE else waits,
            After(MOVING_SECONDS, "gates are being opened") if len(changes) < len(living) else DONE,
            contested,
            waits,
            *self._later(seen, judgement, again=again),
        )

    def _later(self, seen: CliqueSetState, judgement: Judgement, *, again: bool) -> Iterator[After]:
        """When to look again for what nobody tells the operator of."""
        if again:
            yield After(AGAIN_SECONDS, "a pod template refers to an object that does not exist yet")
        if self.leaving(seen, judgement):
            yield After(MOVING_SECONDS, "gangs are moving to another backend")
        if self.contests.notices(seen.cliqueset.key):
            yield After(FORGET_SECONDS, "a field was contested")
        if self.deps.devices.unread(seen.cliqueset):
            yield After(AGAIN_SECONDS, "a ResourceClaimTemplate has not been read yet")
        if seen.update is not None and seen.update.again is not None:
            yield After(
                seen.update.again, "a replica that was recycled in its turn has been available for a while"
            )

    async def _is_there_for(self, changes: Sequence[Change], cliqueset: PodCliqueSet) -> bool:
        """Whether a set still exists, where changes would bind other objects to it.

        A child without an owner may have been orphaned: given back to a set that is gone, it would go too.
        """
        liveness = self.deps.liveness
        if any(
            isinstance(each, Patch) and "ownerReferences" in each.patch.get("metadata", ())
            for each in changes
        ):
            return await liveness.exists(kinds.CLIQUESETS, cliqueset)
        if any(isinstance(each, Create) for each in changes):
            return await liveness.confirmed(kinds.CLIQUESETS, cliqueset)
        return True

    async def apply(
        self, cliqueset: PodCliqueSet, changes: Sequence[Change]
    ) -> tuple[Applied, Outcome, Outcome]:
        """Write the changes; and when those are due that are contested, or that wait for pods to end."""
        key, removal = cliqueset.key, self.deps.removal
        # From before the first await on: nobody opens the gates of a gang that is about to be deleted.
        with removal.removing(key, changes):
            sifted = await self.contests.sift(key, changes)
            due, waits = await removal.pods_first(cliqueset, sifted.changes, self.barrier)
            applied = await self.deps.applier.apply(due, barrier=self.barrier, key=key)
        self.contests.put_back(key, applied.done)
        contested = (
            After(sifted.wait, "another writer keeps changing a field") if sifted.wait is not None else DONE
        )
        return applied, contested, waits

    def _is_opening(self, change: Change) -> bool:
        """Whether a gang would be deleted while its gates are being opened: a pod would start without it."""
        if not isinstance(change, Delete) or change.resource != kinds.GANGS:
            return False
        return change.key in self.deps.opening

    def observe(self, key: Key) -> CliqueSetState | None:
        cache = self.deps.cache
        cliqueset = cache.store(PodCliqueSet).get(key)
        if cliqueset is None:
            self._settled.pop(key, None)
            self._understood.pop(key, None)
            self._said.pop(key, None)
            self.contests.forget(key)
            self.trials.forget(key)
            self.recycling.forget(key)
            self.deps.reporter.forget(kinds.CLIQUESETS, key)
            self.deps.liveness.forget(kinds.CLIQUESETS, key)
            return None
        owned, name = str(key), topology_name(cliqueset)
        found = {kind.resource: cache.store(kind.view).index(BY_SET, owned) for kind in self._kinds()}
        children, taken = sort_children(cliqueset, found)
        seen = CliqueSetState(
            cliqueset,
            children,
            cache.store(ClusterTopologyBinding).get(Key("", name)) if name else None,
            taken=taken,
            claim_templates=self.deps.devices.templates_of(cliqueset),
            in_use=self.deps.devices.in_use(key.namespace),
        )
        gangs = seen.gangs
        seen = replace(
            seen,
            decided=decided_minima(cliqueset, seen.cliques, gangs),
            granted=grant_replicas(cliqueset, seen.groups, seen.cliques, self._pods_per_set),
            placed=placed_gangs(gangs, partial(pods_on_nodes, cache), self._editable),
            revision=lambda gang: effective_revision(gangs[gang], self._pods_of(gangs[gang])),
            pods_of=self._pods_of_clique,
        )
        return replace(seen, update=self._update(seen))

    def _update(self, seen: CliqueSetState) -> SetUpdate:
        """Which template each replica follows now."""
        return plan_update(
            UpdateState(
                seen.cliqueset,
                seen.layout(0),
                seen.cliques,
                seen.gangs,
                seen.groups,
                seen.recorded,
                seen.placed,
                pods_of=self._pods_of_clique,
                same=partial(has_present_template, seen),
                has=partial(has_template, seen),
                now=self.deps.clock.now(),
                mended=partial(with_own_label, seen),
            )
        )

    def _pods_of_clique(self, clique: PodClique) -> list[Pod]:
        return list(self.deps.cache.store(Pod).index(PODS_BY_OWNER, clique.uid))

    def _kinds(self) -> list[registry.Kind]:
        """The kinds of children that the cluster serves."""
        return [kind for kind in registry.KINDS if self.deps.cache.informer(kind.resource) is not None]

    def _pods_of(self, gang: PodGang) -> list[Pod]:
        return pods_of(self.deps.cache, gang)

    def _editable(self, gang: PodGang) -> frozenset[str]:
        """Which edits the scheduler of a gang can be told of."""
        scheduling = self.deps.scheduling
        return scheduling.traits(scheduling.backend_of(gang)).editable

    def judge(self, seen: CliqueSetState) -> Judgement:
        """Whether the set can be carried out; what depends on its spec alone is remembered."""
        cliqueset = seen.cliqueset
        version = (cliqueset.uid, cliqueset.metadata.generation, cliqueset.labels, cliqueset.annotations)
        known = self._understood.get(cliqueset.key)
        if known is None or known[0] != version:
            known = self._understood[cliqueset.key] = (version, understand(cliqueset))
        here = Here(
            self.deps.scheduling,
            seen.topology,
            self._topology_aware,
            self._pods_per_set,
            self.deps.scheduling.cluster,
            self._nvlink_domains,
        )
        judgement = judge(known[1], here)
        if judgement.refused:
            return judgement
        errors = [
            *impossible_edits(cliqueset, seen.layout(0), seen.cliques, seen.gangs, seen.placed),
            *moved_domains(cliqueset, seen.cliques.values()),
        ]
        return replace(judgement, refused=tuple(errors), reason=conditions.INVALID) if errors else judgement

    async def tried(self, seen: CliqueSetState, judgement: Judgement) -> tuple[Judgement, bool]:
        """The judgement with what the API server says to the pod templates; and whether to ask again soon."""
        backend = judgement.backend
        if backend is None or judgement.refused:
            return judgement, False
        context = self.deps.scheduling.context(backend, seen.cliqueset)
        topology = seen.topology if self._topology_aware else None
        tried = await self.trials.tried(seen.cliqueset, backend, context, topology)
        if not tried.errors:
            return judgement, False
        refused = replace(judgement, refused=tried.errors, reason=conditions.INVALID)
        return refused, tried.again is not None

    def with_backend(self, seen: CliqueSetState, judgement: Judgement) -> CliqueSetState:
        """What is known of a set, with the backend that it goes to."""
        topology = seen.topology if self._topology_aware else None
        if topology is not None and validate_topology_binding(topology):
            topology = None
        references = self.deps.scheduling.registry.topology_references(topology) if topology else {}
        seen = replace(seen, topology=topology, references=references)
        if judgement.refused or judgement.backend is None:
            return seen
        wanted = judgement.backend.name
        staying = {
            **staying_gangs(seen.gangs, self._pods_of, wanted),
            **self._staying_for_pods(seen, judgement.backend),
        }
        return replace(seen, backend=wanted, staying=staying, external=self.deps.scheduling.external)

    def _staying_for_pods(self, seen: CliqueSetState, wanted: Backend) -> dict[str, str]:
        """Gangs that were deleted or lost their backend's label while pods of another backend run.

        Nothing but those pods tells which backend serves them.
        """
        pods: dict[str, list[Pod]] = {}
        gangs = seen.gangs
        for clique in seen.cliques.values():
            name = clique.metadata.labels.get(labels.POD_GANG, "")
            gang = gangs.get(name)
            if name and (gang is None or not backend_of(gang)):
                pods.setdefault(name, []).extend(self.deps.cache.store(Pod).index(PODS_BY_OWNER, clique.uid))
        enabled = self.deps.scheduling.registry

        def backend_for(scheduler_name: str) -> str:
            found = wanted if wanted.matches(scheduler_name) else enabled.find(scheduler_name)
            return found.name if found is not None else ""

        found = {name: placed_by(members, backend_for) for name, members in pods.items()}
        return {name: backend for name, backend in found.items() if backend not in ("", wanted.name)}

    async def plan(self, seen: CliqueSetState, judgement: Judgement) -> Batch:
        """The next changes to the set's children; while it is refused, what runs goes on running.

        It may still have fewer replicas; and one whose topology is missing asks for nothing wrong, so that
        whatever it does without goes.
        """
        if judgement.reason == conditions.TOPOLOGY_LEVELS_UNAVAILABLE:
            return await giving_way(first_removals(plan_children(seen, Settled(), registry.KINDS)))
        if judgement.refused or judgement.backend is None:
            return await giving_way(first_removals(plan_surplus(seen, self._kinds())))
        key = seen.cliqueset.key
        before = self._settled.get(key, Settled())
        batch = await giving_way(first_batch(plan_children(seen, before, self._kinds())))
        if batch.settled.fingerprint != before.fingerprint:
            # The set itself asks for something else now: what is written for that is no repair.
            self.contests.forget(key)
        self._settled[key] = batch.settled
        return batch

    def leaving(self, seen: CliqueSetState, judgement: Judgement) -> bool:
        """Whether gangs wait only for their unplaced pods to go before they move to another backend."""
        if judgement.backend is None or judgement.refused:
            return False
        return any_leaves(seen.gangs.values(), self._pods_of, judgement.backend.name)

    async def report(
        self,
        seen: CliqueSetState,
        judgement: Judgement,
        applied: Applied,
        waiting: Sequence[Termination],
        settled: Settled,
    ) -> Outcome:
        """The set's status, and an event if it is refused."""
        cliqueset = seen.cliqueset
        now = self.deps.clock.now()
        facts = replace(
            self.facts(seen, judgement, applied, settled),
            termination=self.recycling.condition(waiting),
            **_progress(seen, judgement, now),
        )
        status = await giving_way(cliqueset_status(cliqueset, facts, now=now))
        news = cliqueset.metadata.generation != cliqueset.status.observed_generation
        reported = await self.deps.reporter.report(
            kinds.CLIQUESETS,
            cliqueset,
            status,
            barrier=self.barrier,
            urgency=Urgency.IMMEDIATE
            if applied.refusals or (news and judgement.refused) or (seen.update and seen.update.new_turns)
            else Urgency.SETTLED,
        )
        self._said[cliqueset.key] = self.deps.clock.monotonic()
        if reported.written:
            self._announce(cliqueset, facts)
        return reported.outcome

    def _announce(self, cliqueset: PodCliqueSet, facts: SetFacts) -> None:
        """What a status says for the first time, as events."""
        send = self.deps.recorder.send
        if facts.refused:
            send(events.cliqueset_refused(cliqueset, in_one_sentence(facts.refused)))
        if facts.pending is not None and not _says(cliqueset, facts.pending):
            send(events.edit_pending(cliqueset, facts.pending.message))
        if facts.termination is not None and not _says(cliqueset, facts.termination):
            send(events.termination_pending(cliqueset, facts.termination.message))
        begun, ended = update_news(cliqueset, facts.progress)
        if begun:
            send(events.update_started(cliqueset, facts.generation_hash or ""))
        if ended:
            send(events.update_finished(cliqueset, facts.generation_hash or ""))
        levels = facts.topology
        if levels is not None and levels.status != "False" and not _says(cliqueset, levels):
            send(events.levels_unavailable(cliqueset, levels.message))
        known = find_condition(cliqueset.status.conditions, conditions.DEGRADED)
        for missing in facts.missing_templates:
            if known is None or missing not in known.message:
                send(events.claim_template_missing(cliqueset, missing))

    def _unread(self, seen: CliqueSetState) -> list[CodedError]:
        """Why it is not known whether templates of device claims exist."""
        problems = self.deps.devices.unread(seen.cliqueset).values()
        return [CodedError("ERR_GET_RESOURCECLAIMTEMPLATE", problem) for problem in problems if problem]

    def facts(
        self, seen: CliqueSetState, judgement: Judgement, applied: Applied, settled: Settled
    ) -> SetFacts:
        """What the set's status is made of."""
        cliqueset = seen.cliqueset
        return SetFacts(
            seen.cliques,
            seen.gangs,
            seen.layout(0).scaled_to,
            refused=judgement.refused,
            refusal=judgement.reason,
            notices=[
                *judgement.notices,
                *outdated(cliqueset, seen.cliques.values()),
                *unattended(seen.gangs.values()),
                *self.contests.notices(cliqueset.key),
            ],
            topology=judgement.levels,
            pending=edit_pending(seen, settled) if not judgement.refused else None,
            failures=[
                *(CodedError(PodLimitReached.code, text) for text in seen.granted.sentences),
                *distinct_errors(applied.refusals),
                *self._unread(seen),
                *disbelieved(seen.update),
                *(self._kept(seen) if not judgement.refused else ()),
            ],
            missing_templates=missing_templates(seen.claim_templates) if not judgement.refused else (),
            name_taken=any(isinstance(failure, NameTaken) for _, failure in applied.refusals),
        )

    def _kept(self, seen: CliqueSetState) -> list[CodedError]:
        """Which children cannot be made because what has their name is being deleted and kept."""
        views = {kind.resource: kind.view for kind in registry.KINDS}

        def there(resource: Resource, name: str) -> Object | None:
            return self.deps.cache.store(views[resource]).get(Key(seen.cliqueset.namespace, name))

        return list(kept_children(seen, there))

    def _said_lately(self, key: Key) -> bool:
        """Whether the status may wait: to compute it takes time for every replica that exists."""
        return self.deps.clock.monotonic() - self._said.get(key, -math.inf) < CREATING_SECONDS

    async def release(self, cliqueset: PodCliqueSet) -> Outcome | None:
        """Take the Go operator's finalizer off a set: its children go with it, by their owner reference.

        None for a set that has none and stays: only that is looked at further.
        """
        kept = [name for name in cliqueset.metadata.finalizers if name != labels.CLIQUESET_FINALIZER]
        if len(kept) < len(cliqueset.metadata.finalizers):
            version = cliqueset.metadata.resource_version
            patch = Patch(
                kinds.CLIQUESETS,
                cliqueset.key,
                {"metadata": {"finalizers": kept}},
                resource_version=version,
            )
            applied = await self.deps.applier.apply([patch], barrier=self.barrier, key=cliqueset.key)
            applied.raise_failure()
            return After(0.0, "a finalizer of the Go operator was taken off")
        return await self._report_deletion(cliqueset) if cliqueset.terminating else None

    async def _report_deletion(self, cliqueset: PodCliqueSet) -> Outcome:
        """Let a set that is being deleted say so, and no longer what it was before."""
        status = deleted_set_status(cliqueset, now=self.deps.clock.now())
        reported = await self.deps.reporter.report(
            kinds.CLIQUESETS, cliqueset, status, barrier=self.barrier, urgency=Urgency.IMMEDIATE
        )
        return reported.outcome

    async def _release_domains(self, key: Key) -> None:
        """Take the Go operator's finalizer off NVLink domains that go, also once their set is gone."""
        domains = self.deps.cache.informer(kinds.COMPUTE_DOMAINS)
        finalizer = labels.COMPUTE_DOMAIN_FINALIZER
        found = domains.store.index(BY_SET, str(key)) if domains is not None else ()
        patches = [
            Patch(
                kinds.COMPUTE_DOMAINS,
                each.key,
                {
                    "metadata": {
                        "finalizers": [name for name in each.metadata.finalizers if name != finalizer]
                    }
                },
                resource_version=each.metadata.resource_version,
            )
            for each in found
            if each.terminating and finalizer in each.metadata.finalizers
        ]
        (await self.deps.applier.apply(patches, barrier=self.barrier, key=key)).raise_failure()

    def tell(self, seen: CliqueSetState, judgement: Judgement, applied: Applied) -> None:
        """What happened to the children, as events and in the log."""
        cliqueset, recorder = seen.cliqueset, self.deps.recorder
        if created := _counted(applied, Create):
            log.info("children created", extra={"set": str(cliqueset.key), "children": created})
            recorder.send(events.children_written(cliqueset, f"created {created}"))
        if removed := _counted(applied, Delete):
            log.info("children removed", extra={"set": str(cliqueset.key), "children": removed})
            recorder.send(events.children_removed(cliqueset, f"removed {removed}"))
        repaired = any(isinstance(change, Patch) for change in applied.done)
        for notice in self.contests.notices(cliqueset.key) if repaired else ():
            recorder.send(events.field_contested(cliqueset, str(notice)))
        if applied.refusals:
            recorder.send(events.children_failed(cliqueset, failures_text(applied.refusals)))
        for gang in moved(seen.gangs, applied.done):
            name = judgement.backend.name if judgement.backend is not None else ""
            recorder.send(events.backend_changed(gang, backend_of(gang), name))


def _progress(seen: CliqueSetState, judgement: Judgement, now: datetime) -> dict[str, Any]:
    """What the status says of an update; a template that is refused starts none."""
    status, update = seen.cliqueset.status, seen.update
    if update is None or judgement.refused:
        before = status.update_progress
        return {
            "generation_hash": status.current_generation_hash,
            "progress": msgspec.to_builtins(before) if before is not None else None,
            "behind": update.behind if update is not None else (),
        }
    return {
        "generation_hash": update.present.hash,
        "progress": update_progress(update, now=now),
        "update": update_condition(update),
        # One that has its turn is not done, though all of its pods may be there.
        "behind": update.behind | set(update.turns),
    }


def _until_more(batch: Batch, *, held_back: bool) -> Outcome:
    """When to go on with a plan of which only the first changes were taken, and perhaps not all of those."""
    if not batch.more:
        return DONE
    if held_back:
        return After(MOVING_SECONDS, "an owner of children is gone, which the cache does not show yet")
    return After(0.0, "more children must be created")


def _says(cliqueset: PodCliqueSet, condition: Condition) -> bool:
    known = find_condition(cliqueset.status.conditions, condition.type)
    return known is not None and known.message == condition.message


def _counted(applied: Applied, kind: type[Change]) -> str:
    """For example "3 PodGangs, 6 PodCliques and 3 Services"; empty when there were none."""
    number_of = Counter(change.resource for change in applied.done if isinstance(change, kind))
    resources = [each.resource for each in sorted(registry.KINDS, key=attrgetter("removal"))]
    counts = [(number_of[resource], resource.kind) for resource in resources]
    words = [counted(number, name) for number, name in counts if number]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
