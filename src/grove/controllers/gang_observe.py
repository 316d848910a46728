"""Fills the state of one gang: from the cache, and from what is remembered of the gang over time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from grove.api import labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.api.revision import effective_revision
from grove.backends.base import Backend, Context, GangSnapshot
from grove.backends.shape import progress
from grove.controllers.dependencies import Dependencies
from grove.controllers.members import cliques_of, kept_members, pods_of, predecessors_of, stray_pods_of
from grove.controllers.standalone import StandalonePods
from grove.meta import Key, Manifest
from grove.plan.gang.gates import is_released
from grove.plan.gang.restart import bound_by_podgroup, ungrouped
from grove.plan.gang.standalone import (
    Adoption,
    asked_backend,
    is_standalone,
    may_be_adopted,
    unusable_choice,
)
from grove.plan.gang.state import (
    BaseGang,
    Duties,
    GangState,
    OtherGang,
    OwnedObject,
    PartialMemory,
    StepBackTime,
    Translated,
    WantedObject,
    is_waiting,
)
from grove.plan.gang.translation import not_enabled, translate
from grove.runtime.cache import Cache

_NOTHING: Final = PartialMemory()


class GangObserver:
    """Reads everything that the decisions about a gang depend on; writes nothing."""

    def __init__(self, deps: Dependencies, standalone: StandalonePods) -> None:
        self.deps = deps
        self.standalone = standalone
        #: What is remembered of gangs that hold a part of their nodes.
        self.partial: dict[Key, PartialMemory] = {}

    async def observe(self, gang: PodGang) -> GangState | None:
        """The state of a gang; None for one that is yet to get its backend."""
        scheduling = self.deps.scheduling
        cliques, now = cliques_of(self.deps.cache, gang), self.deps.clock.now()
        pods = pods_of(self.deps.cache, gang, cliques)
        if may_be_adopted(gang) and not scheduling.only:
            adoption = self._adoption(gang, pods)
            return GangState(gang, None, scheduling.context(None), now, pods=pods, adoption=adoption)
        backend = scheduling.backend_of(gang)
        if backend is None and labels.SCHEDULER_BACKEND not in gang.labels and not unusable_choice(gang):
            # The label is on its way; until it is there nobody acts.
            return None
        duties = Duties(objects=scheduling.acts_on(gang), pods=not scheduling.only)
        context, owned = self._context(gang, pods, backend), self._owned(gang)
        snapshot = GangSnapshot(gang, pods, context, now, _standing(owned))
        translated = self._translated(snapshot, backend, duties)
        # What only gangs of a set have, for whoever writes their status.
        of_a_set = duties.objects and not is_standalone(gang)
        seen = GangState(
            gang,
            backend,
            context,
            now,
            duties,
            cliques=cliques,
            pods=pods,
            owned=owned,
            translated=translated,
            wanted_objects=self._wanted(translated),
            stray_pods=stray_pods_of(self.deps.cache, gang, pods) if of_a_set else (),
            predecessors=self._predecessors(cliques) if of_a_set else (),
            kept=kept_members(self.deps.cache, gang, cliques) if of_a_set else (),
            asked_backend=self._asked_backend(context.cliqueset) if of_a_set else "",
            others=_OtherGangs(self.deps.cache, gang),
            base=self._base(gang, cliques, pods),
            step_back=self._step_back(gang),
            partial=self.partial.get(gang.key, _NOTHING),
            monotonic=self.deps.clock.monotonic(),
        )
        return await self._prepared(seen) if is_standalone(gang) else seen

    async def _prepared(self, state: GangState) -> GangState:
        """With what the pods of a gang of somebody else lack."""
        backend = state.backend
        if backend is None or not state.duties.objects or state.translated.failure is not None:
            return state
        found = await self.standalone.preparations(state.gang, list(state.pods), backend, state.context)
        return replace(state, preparations=found)

    def remember(self, gang: Key, memory: PartialMemory) -> None:
        """Keep what the plan says about a gang that holds a part of its nodes."""
        if memory == _NOTHING:
            self.partial.pop(gang, None)
        else:
            self.partial[gang] = memory

    def forget(self, gang: Key) -> None:
        """The gang is gone, or somebody else's business."""
        self.partial.pop(gang, None)
        self.deps.preemptions.forget(gang)
        self.deps.disruptions.forget(gang)

    def _adoption(self, gang: PodGang, pods: Sequence[Pod]) -> Adoption:
        scheduling = self.deps.scheduling
        asked = asked_backend(gang, pods)
        backend = scheduling.registry.find(asked) if asked else scheduling.registry.default
        chosen = backend.name if backend is not None else asked
        return Adoption(chosen, external=chosen in scheduling.external)

    def _context(self, gang: PodGang, pods: Sequence[Pod], backend: Backend | None) -> Context:
        # What somebody else made may carry the names of our sets and cliques by chance.
        part_of = "" if is_standalone(gang) else gang.labels.get(labels.PART_OF, "")
        scheduling = self.deps.scheduling
        return scheduling.context(
            backend,
            self.deps.cache.store(PodCliqueSet).get(Key(gang.namespace, part_of)),
            released=backend is not None and is_released(gang, pods, backend.scheduling_gate),
            revision="" if is_standalone(gang) else effective_revision(gang, pods),
            bound=bound_by_podgroup(pods),
            remarks=scheduling.remarks.of(backend.name, pods) if backend is not None else None,
            ungrouped=ungrouped(gang, pods) if not is_standalone(gang) else None,
        )

    def _owned(self, gang: PodGang) -> list[OwnedObject]:
        scheduling = self.deps.scheduling
        return [
            OwnedObject(item, scheduling.resource_of(item.manifest)) for item in scheduling.objects_of(gang)
        ]

    def _predecessors(self, cliques: Sequence[PodClique]) -> list[Pod]:
        return [pod for each in cliques for pod in predecessors_of(self.deps.cache, each)]

    def _asked_backend(self, cliqueset: PodCliqueSet | None) -> str:
        """The backend that the set of a gang asks for; empty for none."""
        asked = self.deps.scheduling.select(cliqueset).backend if cliqueset is not None else None
        return asked.name if asked is not None else ""

    def _base(self, gang: PodGang, cliques: Sequence[PodClique], pods: Sequence[Pod]) -> BaseGang | None:
        """The gang that must be placed first, where gates are closed; its pods tell whether it is."""
        marked = (each.labels.get(labels.BASE_POD_GANG) for each in (gang, *cliques))
        # Somebody may have taken the label from the gang; it is given back in a moment.
        name = next(filter(None, marked), "")
        if not name or is_standalone(gang) or not any(pod.spec.scheduling_gates for pod in pods):
            return None
        base = self.deps.cache.store(PodGang).get(Key(gang.namespace, name))
        there = base is not None and not base.terminating and _of_one_owner(base, gang)
        placed = there and base is not None and progress(base, pods_of(self.deps.cache, base)).complete
        return BaseGang(name, placed)

    def _translated(self, snapshot: GangSnapshot, backend: Backend | None, duties: Duties) -> Translated:
        """The gang's translation, made here once for the whole look."""
        if backend is None:
            enabled = [each.name for each in self.deps.scheduling.registry.enabled]
            return not_enabled(snapshot.gang, enabled)
        return translate(snapshot, backend, preconditions=duties.objects)

    def _wanted(self, translated: Translated) -> list[WantedObject]:
        """What the gang is translated to, with what exists of it."""
        scheduling = self.deps.scheduling
        return [
            WantedObject(manifest, scheduling.resource_of(manifest), scheduling.object(manifest))
            for manifest in translated.translation.manifests
        ]

    def _step_back(self, gang: PodGang) -> StepBackTime:
        key, preemptions = gang.key, self.deps.preemptions
        return StepBackTime(preemptions.left(key, awaited=False), preemptions.left(key, awaited=True))


def _standing(owned: Sequence[OwnedObject]) -> list[Manifest]:
    """The objects that are not being deleted."""
    return [each.item.manifest for each in owned if not each.item.terminating]


def _of_one_owner(one: PodGang, other: PodGang) -> bool:
    return one.owner is None or other.owner is None or one.owner.uid == other.owner.uid


@dataclass(frozen=True, slots=True)
class _OtherGangs:
    """The other gangs of a backend that wait to be placed; read when asked for, which is seldom."""

    cache: Cache
    gang: PodGang

    def __iter__(self) -> Iterator[OtherGang]:
        backend = self.gang.labels.get(labels.SCHEDULER_BACKEND, "")
        for gang in self.cache.store(PodGang):
            if gang.key != self.gang.key and is_waiting(gang, backend):
                yield OtherGang(gang, pods_of(self.cache, gang))
