"""Keeps one set: decides whether it can be carried out, writes its children, tells how it stands."""

from dataclasses import replace

from grove.admission import Here, Judgement, Understood, judge, understand
from grove.api import conditions, kinds, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.constraints import topology_name
from grove.api.gang import PodGang
from grove.api.service import Service
from grove.api.topology import ClusterTopologyBinding
from grove.controllers import events
from grove.controllers.apply import NO_BARRIER, Applied, NameTaken, Remembers, failures_text, told_once
from grove.controllers.members import pods_of
from grove.controllers.report import Haste
from grove.controllers.shell import Shell
from grove.controllers.trials import AGAIN_SECONDS, Trials
from grove.meta import Key, Resource
from grove.plan.changes import Change, Create, Delete, Patch
from grove.plan.children import ChildrenPlan, Observed, Settled, plan_children
from grove.plan.cliqueset_status import SetFacts, desired_cliqueset_status, outdated, unattended
from grove.plan.moves import backend_of, leaves
from grove.runtime.outcome import DONE, After, Outcome
from grove.words import counted

BY_SET = "set"
#: How often a set looks whether the waiting pods of its moving gangs are gone.
LEAVE_SECONDS = 0.5


class CliqueSetReconciler:
    """Brings the children of one set to what the set wants."""

    def __init__(self, shell: Shell, trials: Trials, *, topology_aware: bool = True) -> None:
        self.shell = shell
        self.trials = trials
        #: Replaced by the controller's own once it is wired.
        self.barrier: Remembers = NO_BARRIER
        self._topology_aware = topology_aware
        self._settled: dict[Key, Settled] = {}
        self._understood: dict[Key, tuple[object, Understood]] = {}

    async def reconcile(self, key: Key) -> Outcome:
        seen = self.observe(key)
        if seen is None:
            return DONE
        if seen.cliqueset.terminating:
            return await self.release(seen.cliqueset)
        judgement, again = await self.tried(seen, self.judge(seen))
        plan = self.plan(seen, judgement)
        if any(isinstance(change, Create) for change in plan.changes) and not (
            await self.shell.liveness.confirmed(kinds.CLIQUESETS, seen.cliqueset)
        ):
            return DONE
        applied = await self.shell.applier.apply(plan.changes, barrier=self.barrier, key=key)
        outcome = await self.report(seen, judgement, applied)
        applied.raise_failure()
        if plan.more:
            return After(0.0, "more children are to be created")
        if again:
            return After(AGAIN_SECONDS, "a template names what does not exist yet")
        return After(LEAVE_SECONDS, "gangs move") if self.leaving(seen, judgement) else outcome

    def observe(self, key: Key) -> Observed | None:
        cache = self.shell.cache
        cliqueset = cache.store(PodCliqueSet).get(key)
        if cliqueset is None:
            self._settled.pop(key, None)
            self._understood.pop(key, None)
            self.trials.forget(key)
            self.shell.reporter.forget(kinds.CLIQUESETS, key)
            self.shell.liveness.forget(kinds.CLIQUESETS, key)
            return None
        owned = str(key)
        name = topology_name(cliqueset)
        return Observed(
            cliqueset,
            {item.name: item for item in cache.store(Service).index(BY_SET, owned)},
            {item.name: item for item in cache.store(PodGang).index(BY_SET, owned)},
            {item.name: item for item in cache.store(PodClique).index(BY_SET, owned)},
            cache.store(ClusterTopologyBinding).get(Key("", name)) if name else None,
        )

    def judge(self, seen: Observed) -> Judgement:
        """Whether the set can be carried out; what depends on its spec alone is remembered."""
        cliqueset = seen.cliqueset
        version = (cliqueset.uid, cliqueset.metadata.generation, cliqueset.labels, cliqueset.annotations)
        known = self._understood.get(cliqueset.key)
        if known is None or known[0] != version:
            known = self._understood[cliqueset.key] = (version, understand(cliqueset))
        return judge(known[1], Here(self.shell.scheduling, seen.topology, self._topology_aware))

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

    def plan(self, seen: Observed, judgement: Judgement) -> ChildrenPlan:
        """The changes to the set's children; none while it is refused: what runs goes on running."""
        if judgement.refused or judgement.backend is None:
            return ChildrenPlan((), Settled())
        key = seen.cliqueset.key
        observed = Observed(
            seen.cliqueset,
            seen.services,
            seen.gangs,
            seen.cliques,
            seen.topology if self._topology_aware else None,
            judgement.backend.name,
            self.held(seen, judgement.backend.name),
            self.shell.scheduling.external,
        )
        plan = plan_children(observed, self._settled.get(key, Settled()))
        self._settled[key] = plan.settled
        return plan

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
        """The set's status, then what happened as events."""
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
            ],
            topology=judgement.levels,
            failures=[text for _, text in told_once(applied.refusals)],
            name_taken=any(isinstance(failure, NameTaken) for _, failure in applied.refusals),
        )
        status = desired_cliqueset_status(cliqueset, facts, now=self.shell.clock.now())
        news = cliqueset.metadata.generation != cliqueset.status.observed_generation
        reported = await self.shell.reporter.report(
            kinds.CLIQUESETS,
            cliqueset,
            status,
            barrier=self.barrier,
            haste=Haste.AT_ONCE if applied.refusals or (news and judgement.refused) else Haste.WHEN_QUIET,
        )
        self._tell(cliqueset, judgement, applied, written=reported.written)
        for gang in self.moved(seen, applied):
            name = judgement.backend.name if judgement.backend is not None else ""
            self.shell.recorder.send(events.backend_changed(gang, backend_of(gang), name))
        return reported.outcome

    async def release(self, cliqueset: PodCliqueSet) -> Outcome:
        """Take our finalizer off a set that goes: its children go with it, by their owner reference."""
        self.shell.scheduling.forget(cliqueset.uid)
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

    def _tell(
        self, cliqueset: PodCliqueSet, judgement: Judgement, applied: Applied, *, written: bool
    ) -> None:
        recorder = self.shell.recorder
        if judgement.refused and written:
            why = "; ".join(str(error) for error in judgement.refused)
            recorder.send(events.cliqueset_refused(cliqueset, why))
        if created := _counted(applied, Create):
            recorder.send(events.children_written(cliqueset, f"created {created}"))
        if removed := _counted(applied, Delete):
            recorder.send(events.children_removed(cliqueset, f"removed {removed}"))
        if applied.refusals:
            recorder.send(events.children_failed(cliqueset, failures_text(applied.refusals)))


def _counted(applied: Applied, kind: type[Change]) -> str:
    """For example "3 PodGangs, 6 PodCliques and 3 Services"; empty when there were none."""
    counts: list[tuple[int, Resource]] = [
        (applied.count(kind, resource), resource) for resource in (kinds.GANGS, kinds.CLIQUES, kinds.SERVICES)
    ]
    words = [counted(number, resource.kind) for number, resource in counts if number]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
