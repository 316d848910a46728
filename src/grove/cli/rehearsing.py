"""Rehearse what this version would do to the sets of a cluster: observe and plan as the operator does.

The operator is assembled as it is to be run, with a client that cannot write. Its caches are filled, and its
reconcilers are asked for their plans; pod templates are tried by dry runs, as webhooks try them. What the
plan of a set writes is put into the caches before the next plan is asked for, until nothing new follows: the
cliques of a scaling group come after the group, and a gang's scheduler objects after the gang.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

import msgspec

from grove.admission import Judgement
from grove.api import kinds, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.config import OperatorConfiguration
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.assembly import Operator, assemble
from grove.backends.base import Backend
from grove.cli.talk import Failed
from grove.controllers import wakeups
from grove.controllers.clique import CliqueReconciler
from grove.controllers.cliqueset import BY_SET, CliqueSetReconciler
from grove.controllers.gang import GangReconciler
from grove.controllers.members import PODS_BY_OWNER
from grove.controllers.memory.trials import already_accepted
from grove.kube.client import Client
from grove.kube.fence import Fence
from grove.meta import Key, Object
from grove.plan.changes import Change, Create, Delete, Patch
from grove.plan.children import CliqueSetState, Settled, plan_children, registry
from grove.plan.children.engine import Plan as ChildrenPlan
from grove.plan.gang.plan import plan_gang
from grove.plan.rehearsal import (
    Ends,
    ObjectChange,
    SetRehearsal,
    is_owner,
    left_behind,
    object_change,
    patched,
    removed_reason,
    runs,
    surplus_reason,
)
from grove.plan.update.pods import NO_UPDATE
from grove.runtime.clock import Clock
from grove.webhook.dry_runs import DryRuns, Tried, candidates

R = TypeVar("R")

#: How long the first look at the cluster may take.
_SYNC_SECONDS: Final = 120.0
#: What the UIDs of children begin with that do not exist yet.
_WOULD_BE: Final = "would-be/"


async def rehearse(
    client: Client,
    configuration: OperatorConfiguration,
    namespace: str = "",
    name: str = "",
    *,
    clock: Clock | None = None,
) -> list[SetRehearsal]:
    """What would happen to the sets of a namespace (of all, when it is blank), or to one of them."""
    async with _observed(client, configuration, clock) as operator:
        keys = sorted(
            each.key
            for each in operator.cache.store(PodCliqueSet)
            if namespace in ("", each.namespace) and name in ("", each.name) and not each.terminating
        )
        # Dry runs pass no fence of one who leads; this client is used for nothing else.
        dry_runs = DryRuns(client)
        return [await _Rehearsal(operator, key, dry_runs).play() for key in keys]


@contextlib.asynccontextmanager
async def _observed(
    client: Client, configuration: OperatorConfiguration, clock: Clock | None
) -> AsyncIterator[Operator]:
    """An operator whose caches are filled; it does not run, and what it would write passes no fence."""
    election = msgspec.structs.replace(configuration.leader_election, enabled=False)
    alone = msgspec.structs.replace(configuration, leader_election=election)
    # Never extended, so it is shut.
    fenced = client.fenced(Fence(asyncio.get_running_loop().time))
    operator = await assemble(fenced, alone, clock=clock, health=False)
    caches = asyncio.create_task(operator.cache.run())
    try:
        try:
            await asyncio.wait_for(operator.cache.wait_synced(), _SYNC_SECONDS)
        except TimeoutError:
            raise Failed(f"cannot read the cluster: {'; '.join(operator.cache.missing())}") from None
    finally:
        # What comes later must not change what is compared.
        caches.cancel()
        await asyncio.gather(caches, return_exceptions=True)
    yield operator


class _Rehearsal:
    """One set, from the plan of its children to those of its gangs and cliques."""

    def __init__(self, operator: Operator, key: Key, dry_runs: DryRuns) -> None:
        self._cache = operator.cache
        self._dry_runs = dry_runs
        self._sets = _of_type(operator, wakeups.CLIQUESET, CliqueSetReconciler)
        self._cliques = _of_type(operator, wakeups.CLIQUE, CliqueReconciler)
        self._gangs = _of_type(operator, wakeups.GANG, GangReconciler)
        self._key = key
        self._changes: list[ObjectChange] = []
        self._ends = Ends()

    async def play(self) -> SetRehearsal:
        seen = self._sets.observe(self._key)
        assert seen is not None
        judgement = self._sets.judge(seen)
        pods = sum(map(runs, self._cache.store(Pod).index(BY_SET, str(self._key))))
        if judgement.refused or judgement.backend is None:
            return SetRehearsal(self._key, pods, tuple(map(str, judgement.refused)))
        seen = self._observed(judgement)
        tried = await self._tried(seen, judgement.backend)
        errors = tuple(map(str, tried.errors))
        if errors and not already_accepted(seen.cliqueset):
            return SetRehearsal(self._key, pods, errors, notices=tried.notices)
        await self._play(seen, judgement)
        return SetRehearsal(
            self._key, pods, (), tuple(self._changes), self._ends.sorted(), errors, tried.notices
        )

    async def _tried(self, seen: CliqueSetState, backend: Backend) -> Tried:
        """What the API server says to new pods of every role, whatever it said before."""
        cliqueset = seen.cliqueset
        context = self._sets.deps.scheduling.context(backend, cliqueset)
        roles = range(len(cliqueset.template.cliques))
        return await self._dry_runs.tried(candidates(cliqueset, backend, context, seen.topology, roles))

    async def _play(self, seen: CliqueSetState, judgement: Judgement) -> None:
        """Ask for the plans of an accepted set, and note what they would do."""
        self._of_set(seen.cliqueset)
        before = {clique.name: clique for clique in seen.cliques.values()}
        plan = self._plan(seen)
        for change in _taken(plan.creations(), plan.repairs(), plan.removals()):
            self._write(change, seen.children.get(change.resource, {}))
        gangs = self._play_creations(judgement, seen)
        await self._play_gangs(list(gangs))
        await self._play_cliques(seen.cliqueset, before)

    def _plan(self, seen: CliqueSetState) -> ChildrenPlan:
        served = [kind for kind in registry.KINDS if self._cache.informer(kind.resource) is not None]
        return plan_children(seen, Settled(), served)

    def _play_creations(self, judgement: Judgement, seen: CliqueSetState) -> Collection[str]:
        """Note what follows from what is created, until nothing does; the gangs that there are then."""
        while True:
            found = self._observed(judgement)
            if found.children == seen.children:
                return found.gangs
            seen = found
            for change in _taken(self._plan(seen).creations()):
                self._write(change, {})

    def _observed(self, judgement: Judgement) -> CliqueSetState:
        """The set and its children, those that would be created too.

        Of an update everything is told that it will write, and not what has its turn now.
        """
        seen = self._sets.observe(self._key)
        assert seen is not None
        return replace(self._sets.with_backend(seen, judgement), update=None)

    def _of_set(self, cliqueset: PodCliqueSet) -> None:
        if labels.CLIQUESET_FINALIZER in cliqueset.metadata.finalizers:
            kept = [each for each in cliqueset.metadata.finalizers if each != labels.CLIQUESET_FINALIZER]
            patch = Patch(kinds.CLIQUESETS, cliqueset.key, {"metadata": {"finalizers": kept or None}})
            self._changes.append(object_change(patch, cliqueset))

    def _write(self, change: Change, children: Mapping[str, Object]) -> None:
        """Note a change of a child, and put it into the cache."""
        found = children.get(change.key.name) if isinstance(change, Patch) else None
        self._changes.append(object_change(change, found))
        if isinstance(change, Create):
            self._create(change)
        if isinstance(change, Patch) and found is not None:
            informer = self._cache.informer(change.resource)
            assert informer is not None
            informer.store.put(patched(found, change.patch))
        if isinstance(change, Delete) and is_owner(change):
            self._ends.add(self._pods_below(change), removed_reason(change))

    def _create(self, change: Create) -> None:
        """Put a child that would be created into the cache, with a UID by which others can belong to it."""
        kind = next(each for each in registry.KINDS if each.resource == change.resource)
        metadata = change.manifest["metadata"]
        uid = f"{_WOULD_BE}{change.resource.kind}/{metadata['name']}"
        created = {**change.manifest, "metadata": {**metadata, "uid": uid, "generation": 1}}
        informer = self._cache.informer(change.resource)
        assert informer is not None
        informer.store.put(msgspec.convert(created, kind.view, strict=False))

    def _pods_below(self, change: Delete) -> Iterator[Pod]:
        """The pods that go with a clique, or with the cliques of a scaling group."""
        cliques = [
            clique
            for clique in self._cache.store(PodClique).index(BY_SET, str(self._key))
            if change.uid in (clique.uid, clique.owner.uid if clique.owner is not None else "")
        ]
        for clique in cliques:
            yield from self._cache.store(Pod).index(PODS_BY_OWNER, clique.uid)

    async def _play_gangs(self, names: Sequence[str]) -> None:
        for name in names:
            gang = self._cache.store(PodGang).get(self._key._replace(name=name))
            if gang is None or gang.terminating:
                continue
            state = await self._gangs.observe(gang.key)
            if state is None:
                continue
            plan = plan_gang(state)
            for change in plan.objects.changes:
                told = object_change(change)
                if gang.uid.startswith(_WOULD_BE):
                    # It depends on the UID that the gang will get.
                    told = told._replace(name=told.name.replace(state.context.revision, "<revision>"))
                self._changes.append(told)
            if plan.give_up:
                self._ends.add(plan.partial.give_up, f"PodGang {name}: {plan.partial.why}")

    async def _play_cliques(self, cliqueset: PodCliqueSet, before: Mapping[str, PodClique]) -> None:
        for name, old in before.items():
            seen = self._cliques.observe(self._key._replace(name=name))
            if seen is None or seen.clique.terminating:
                continue
            behind, why = left_behind(old, seen.clique, seen.pods, others=self._gang_reasons(old))
            if not cliqueset.on_delete:
                self._ends.add(behind, why)
            doomed = {
                change.uid
                for change in await self._cliques.plan(seen, NO_UPDATE)
                if isinstance(change, Delete)
            }
            for pod in seen.pods:
                if pod.uid in doomed:
                    waits = pod in behind and not pod.bound
                    self._ends.add([pod], why if waits else surplus_reason(seen.clique, pod))

    def _gang_reasons(self, clique: PodClique) -> list[str]:
        """What of a gang is a part of the template of its pods, where it would be written."""
        gang = clique.labels.get(labels.POD_GANG, "")
        found = [each for each in self._changes if each.kind == kinds.GANGS.kind and each.name == gang]
        return [name for each in found for name in each.fields if name == "spec.priorityClassName"]


def _taken(*streams: Iterable[Change | None]) -> list[Change]:
    """All changes of these streams, without their pauses."""
    return [change for stream in streams for change in stream if change is not None]


def _of_type(operator: Operator, name: str, type_: type[R]) -> R:
    found = operator.reconcilers[name]
    assert isinstance(found, type_)
    return found
