"""Keeps one set: decides whether it can be carried out, writes its children, tells how it stands."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from grove.admission import Here, Judgement, Understood, judge, understand
from grove.api import conditions, kinds, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.config import Limits
from grove.api.constraints import topology_name
from grove.api.gang import PodGang
from grove.api.revision import effective_revision
from grove.api.service import Service
from grove.api.topology import ClusterTopologyBinding
from grove.backends.base import Editing, offers
from grove.controllers import events
from grove.controllers.apply import NO_BARRIER, Applied, NameTaken, Remembers, failures_text, told_once
from grove.controllers.contests import FORGET_SECONDS, Contests
from grove.controllers.members import pods_of
from grove.controllers.pacing import CREATING_SECONDS, MOVING_SECONDS, Urgency
from grove.controllers.restarts import bound_by_podgroup
from grove.controllers.shell import Shell
from grove.controllers.trials import AGAIN_SECONDS, Trials
from grove.meta import Condition, Key, Object, Resource, find_condition
from grove.plan.changes import Change, Create, Delete, Patch
from grove.plan.children import ChildrenPlan, Observed, Settled, planning_children, waiting_edits
from grove.plan.cliqueset_status import SetFacts, cliqueset_status, outdated, unattended
from grove.plan.edits import decided_minima, impossible_edits, pending_sentence
from grove.plan.hashing import generation_hash
from grove.plan.moves import backend_of, leaves
from grove.runtime.outcome import DONE, After, Outcome, soonest
from grove.runtime.yielding import giving_way
from grove.words import counted

BY_SET = "set"


class CliqueSetReconciler:
    """Brings the children of one set to what the set wants."""

    def __init__(
        self,
        shell: Shell,
        contests: Contests,
        trials: Trials,
        *,
        topology_aware: bool = True,
        pods_per_set: int = Limits().pods_per_set,
    ) -> None:
        self.shell = shell
        self.contests = contests
        self.trials = trials
        #: Replaced by the controller's own once it is wired.
        self.barrier: Remembers = NO_BARRIER
        self._topology_aware = topology_aware
        self._pods_per_set = pods_per_set
        self._settled: dict[Key, Settled] = {}
        #: When each set's status was last computed.
        self._said: dict[Key, float] = {}
        self._understood: dict[Key, tuple[object, Understood]] = {}

    async def reconcile(self, key: Key) -> Outcome:
        seen = self.observe(key)
        if seen is None:
            return DONE
        if seen.cliqueset.terminating:
            return await self.release(seen.cliqueset)
        judgement, again = await self.tried(seen, self.judge(seen))
        plan = await self.plan(seen, judgement)
        if any(isinstance(change, Create) for change in plan.changes) and not (
            await self.shell.liveness.confirmed(kinds.CLIQUESETS, seen.cliqueset)
        ):
            return DONE
        changes = [change for change in plan.changes if not self._is_opening(change)]
        doomed = {each.key for each in changes if isinstance(each, Delete) and each.resource == kinds.GANGS}
        self.shell.deleting.update(doomed)
        try:
            sifted = await self.contests.sift(key, changes)
            applied = await self.shell.applier.apply(sifted.changes, barrier=self.barrier, key=key)
        finally:
            self.shell.deleting.difference_update(doomed)
        self.contests.put_back(key, applied.done)
        lately = plan.more and not applied.failures and self._said_lately(key)
        outcome = DONE if lately else await self.report(seen, judgement, applied)
        self.tell(seen, judgement, applied)
        applied.raise_failure()
        return soonest(
            outcome,
            After(0.0, "more children are to be created") if plan.more else DONE,
            After(AGAIN_SECONDS, "a template names what does not exist yet") if again else DONE,
            After(MOVING_SECONDS, "gangs move") if self.leaving(seen, judgement) else DONE,
            After(MOVING_SECONDS, "gates are being opened") if len(changes) < len(plan.changes) else DONE,
            After(sifted.wait, "somebody else insists on a field") if sifted.wait is not None else DONE,
            After(FORGET_SECONDS, "a field was contested") if self.contests.notices(key) else DONE,
        )

    def _is_opening(self, change: Change) -> bool:
        """Whether a gang would be deleted while its gates are being opened: a pod would start without it."""
        if not isinstance(change, Delete) or change.resource != kinds.GANGS:
            return False
        return change.key in self.shell.opening

    def observe(self, key: Key) -> Observed | None:
        cache = self.shell.cache
        cliqueset = cache.store(PodCliqueSet).get(key)
        if cliqueset is None:
            self._settled.pop(key, None)
            self._understood.pop(key, None)
            self._said.pop(key, None)
            self.contests.forget(key)
            self.trials.forget(key)
            self.shell.reporter.forget(kinds.CLIQUESETS, key)
            self.shell.liveness.forget(kinds.CLIQUESETS, key)
            return None
        owned, name = str(key), topology_name(cliqueset)
        services, old_services = _ours(cliqueset, cache.store(Service).index(BY_SET, owned))
        gangs, old_gangs = _ours(cliqueset, cache.store(PodGang).index(BY_SET, owned))
        cliques, old_cliques = _ours(cliqueset, cache.store(PodClique).index(BY_SET, owned))
        return Observed(
            cliqueset,
            services,
            gangs,
            cliques,
            cache.store(ClusterTopologyBinding).get(Key("", name)) if name else None,
            taken={kinds.SERVICES: old_services, kinds.GANGS: old_gangs, kinds.CLIQUES: old_cliques},
            decided=decided_minima(cliqueset, cliques),
            placed=self.placed(cliqueset, gangs),
            revision=lambda gang: effective_revision(gangs[gang], pods_of(cache, gangs[gang])),
            templates=generation_hash(
                cliqueset.template.cliques, priority_class=cliqueset.template.priority_class_name
            ),
        )

    def judge(self, seen: Observed) -> Judgement:
        """Whether the set can be carried out; what depends on its spec alone is remembered."""
        cliqueset = seen.cliqueset
        version = (cliqueset.uid, cliqueset.metadata.generation, cliqueset.labels, cliqueset.annotations)
        known = self._understood.get(cliqueset.key)
        if known is None or known[0] != version:
            known = self._understood[cliqueset.key] = (version, understand(cliqueset))
        here = Here(self.shell.scheduling, seen.topology, self._topology_aware, self._pods_per_set)
        judgement = judge(known[1], here)
        if judgement.refused:
            return judgement
        errors = impossible_edits(cliqueset, seen.cliques, seen.gangs, seen.placed)
        return replace(judgement, refused=tuple(errors), reason=conditions.INVALID) if errors else judgement

    async def tried(self, seen: Observed, judgement: Judgement) -> tuple[Judgement, bool]:
        """The judgement with what the API server says to the pod templates; and whether to ask again soon."""
        backend = judgement.backend
        if backend is None or judgement.refused:
            return judgement, False
        context = self.shell.scheduling.context(backend, seen.cliqueset)
        topology = seen.topology if self._topology_aware else None
        tried = await self.trials.tried(seen.cliqueset, backend, context, topology)
        if not tried.errors:
            return judgement, False
        refused = replace(judgement, refused=tried.errors, reason=conditions.INVALID)
        return refused, tried.again is not None

    async def plan(self, seen: Observed, judgement: Judgement) -> ChildrenPlan:
        """The changes to the set's children; none while it is refused: what runs goes on running."""
        if judgement.refused or judgement.backend is None:
            return ChildrenPlan((), Settled())
        key = seen.cliqueset.key
        observed = replace(
            seen,
            topology=seen.topology if self._topology_aware else None,
            backend=judgement.backend.name,
            held=self.held(seen, judgement.backend.name),
            external=self.shell.scheduling.external,
        )
        before = self._settled.get(key, Settled())
        plan = await giving_way(planning_children(observed, before))
        if plan.settled.fingerprint != before.fingerprint:
            # The set itself asks for something else now: what is written for that is no repair.
            self.contests.forget(key)
        self._settled[key] = plan.settled
        return plan

    def placed(self, cliqueset: PodCliqueSet, gangs: Mapping[str, PodGang]) -> dict[str, frozenset[str]]:
        """The gangs that have pods on nodes, and which edits their schedulers can be told of."""
        found: dict[str, frozenset[str]] = {}
        editable: dict[str, frozenset[str]] = {}
        for name, gang in gangs.items():
            if not self.is_placed(gang):
                continue
            chosen = backend_of(gang)
            if chosen not in editable:
                backend = self.shell.scheduling.backend_of(gang)
                context = self.shell.scheduling.context(backend, cliqueset)
                able = backend.editable(context) if offers(backend, Editing) else ()
                editable[chosen] = frozenset(map(str, able))
            found[name] = editable[chosen]
        return found

    def is_placed(self, gang: PodGang) -> bool:
        """Whether pods of a gang are on nodes; of one that says so the pods are not counted again."""
        told = {each.type for each in gang.status.conditions if each.is_true}
        if conditions.SCHEDULED in told or conditions.INITIALIZED not in told:
            return conditions.SCHEDULED in told
        return any(bound_by_podgroup(pods_of(self.shell.cache, gang)).values())

    def pending_edits(self, seen: Observed) -> Condition | None:
        """What was edited and waits until gangs are placed anew."""
        topology = seen.topology if self._topology_aware else None
        waiting = waiting_edits(replace(seen, topology=topology))
        if not waiting:
            return None
        message = pending_sentence(waiting, seen.cliqueset.namespace)
        return Condition(
            type=conditions.EDIT_PENDING, status="True", reason=conditions.PODS_STILL_PLACED, message=message
        )

    def held(self, seen: Observed, wanted: str) -> dict[str, str]:
        """The gangs that cannot move to the wanted backend yet, and the backend that they stay with."""
        return {
            name: backend_of(gang)
            for name, gang in seen.gangs.items()
            if backend_of(gang) not in ("", wanted)
            and any(pod.active for pod in pods_of(self.shell.cache, gang))
        }

    def leaving(self, seen: Observed, judgement: Judgement) -> bool:
        """Whether a gang waits only for its unplaced pods to go; nobody need tell us of the last one."""
        if judgement.backend is None or judgement.refused:
            return False
        wanted = judgement.backend.name
        return any(
            backend_of(gang) != wanted and leaves(gang, pods_of(self.shell.cache, gang), wanted)
            for gang in seen.gangs.values()
        )

    def moved(self, seen: Observed, applied: Applied) -> list[PodGang]:
        """The gangs that this look gave to another backend, as they were before."""
        label = {labels.SCHEDULER_BACKEND}
        return [
            seen.gangs[change.key.name]
            for change in applied.done
            if isinstance(change, Patch)
            and change.resource == kinds.GANGS
            and label <= (change.patch.get("metadata") or {}).get("labels", {}).keys()
        ]

    async def report(self, seen: Observed, judgement: Judgement, applied: Applied) -> Outcome:
        """The set's status, and an event if it is refused."""
        cliqueset = seen.cliqueset
        facts = SetFacts(
            seen.cliques,
            seen.gangs,
            refused=judgement.refused,
            refusal=judgement.reason,
            notices=[
                *judgement.notices,
                *outdated(cliqueset, seen.cliques.values()),
                *unattended(seen.gangs.values()),
                *self.contests.notices(cliqueset.key),
            ],
            topology=judgement.levels,
            pending=self.pending_edits(seen) if not judgement.refused else None,
            failures=[text for _, text in told_once(applied.refusals)],
            name_taken=any(isinstance(failure, NameTaken) for _, failure in applied.refusals),
        )
        status = await giving_way(cliqueset_status(cliqueset, facts, now=self.shell.clock.now()))
        news = cliqueset.metadata.generation != cliqueset.status.observed_generation
        reported = await self.shell.reporter.report(
            kinds.CLIQUESETS,
            cliqueset,
            status,
            barrier=self.barrier,
            urgency=Urgency.IMMEDIATE
            if applied.refusals or (news and judgement.refused)
            else Urgency.SETTLED,
        )
        self._said[cliqueset.key] = self.shell.clock.monotonic()
        if judgement.refused and reported.written:
            why = "; ".join(str(error) for error in judgement.refused)
            self.shell.recorder.send(events.cliqueset_refused(cliqueset, why))
        if reported.written and facts.pending is not None and not _says(cliqueset, facts.pending):
            self.shell.recorder.send(events.edit_pending(cliqueset, facts.pending.message))
        return reported.outcome

    def _said_lately(self, key: Key) -> bool:
        """Whether the status may wait: to compute it takes time for every replica that exists."""
        return self.shell.clock.monotonic() - self._said.get(key, -math.inf) < CREATING_SECONDS

    async def release(self, cliqueset: PodCliqueSet) -> Outcome:
        """Take our finalizer off a set that goes: its children go with it, by their owner reference."""
        kept = [name for name in cliqueset.metadata.finalizers if name != labels.CLIQUESET_FINALIZER]
        if len(kept) < len(cliqueset.metadata.finalizers):
            version = cliqueset.metadata.resource_version
            patch = Patch(
                kinds.CLIQUESETS,
                cliqueset.key,
                {"metadata": {"finalizers": kept}},
                resource_version=version,
            )
            applied = await self.shell.applier.apply([patch], barrier=self.barrier, key=cliqueset.key)
            applied.raise_failure()
        return DONE

    def tell(self, seen: Observed, judgement: Judgement, applied: Applied) -> None:
        """What happened to the children, as events."""
        cliqueset, recorder = seen.cliqueset, self.shell.recorder
        if created := _counted(applied, Create):
            recorder.send(events.children_written(cliqueset, f"created {created}"))
        if removed := _counted(applied, Delete):
            recorder.send(events.children_removed(cliqueset, f"removed {removed}"))
        repaired = any(isinstance(change, Patch) for change in applied.done)
        for notice in self.contests.notices(cliqueset.key) if repaired else ():
            recorder.send(events.field_contested(cliqueset, str(notice)))
        if applied.refusals:
            recorder.send(events.children_failed(cliqueset, failures_text(applied.refusals)))
        for gang in self.moved(seen, applied):
            name = judgement.backend.name if judgement.backend is not None else ""
            recorder.send(events.backend_changed(gang, backend_of(gang), name))


def _says(cliqueset: PodCliqueSet, condition: Condition) -> bool:
    known = find_condition(cliqueset.status.conditions, condition.type)
    return known is not None and known.message == condition.message


T = TypeVar("T", bound=Object)


def _ours(cliqueset: PodCliqueSet, items: Iterable[T]) -> tuple[dict[str, T], frozenset[str]]:
    """The children of a set by name, and the names that children of an earlier set of its name still have."""
    ours, earlier = {}, set()
    for item in items:
        owner = item.owner
        if owner is None or owner.uid == cliqueset.uid:
            ours[item.name] = item
        elif owner.kind == kinds.CLIQUESETS.kind and owner.name == cliqueset.name:
            earlier.add(item.name)
    return ours, frozenset(earlier)


def _counted(applied: Applied, kind: type[Change]) -> str:
    """For example "3 PodGangs, 6 PodCliques and 3 Services"; empty when there were none."""
    counts: list[tuple[int, Resource]] = [
        (applied.count(kind, resource), resource) for resource in (kinds.GANGS, kinds.CLIQUES, kinds.SERVICES)
    ]
    words = [counted(number, resource.kind) for number, resource in counts if number]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
