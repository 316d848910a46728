"""Fills the view of one gang: from the cache, and from what is remembered of the gang over time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grove.api import labels
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.api.revision import effective_revision
from grove.backends.base import Backend, Context
from grove.controllers.foreign import ForeignPods
from grove.controllers.members import cliques_of, pods_of, strangers_of
from grove.controllers.shell import Shell
from grove.meta import Key
from grove.plan.gang.foreign import (
    Adoption,
    PodPreparation,
    asked_backend,
    is_foreign,
    may_be_adopted,
    unusable_choice,
)
from grove.plan.gang.gates import is_released
from grove.plan.gang.restart import bound_by_podgroup
from grove.plan.gang.translation import not_enabled, translate, translate_for_gates
from grove.plan.gang.view import (
    Duties,
    GangView,
    OtherGang,
    OwnedObject,
    PartialMemory,
    StepBackTime,
    Translated,
    WantedObject,
    is_waiting,
)
from grove.runtime.cache import Cache


class GangObserver:
    """Reads everything that the decisions about a gang depend on; writes nothing."""

    def __init__(self, shell: Shell, foreign: ForeignPods) -> None:
        self.shell = shell
        self.foreign = foreign
        #: What is remembered of gangs that hold a part of their nodes.
        self.partial: dict[Key, PartialMemory] = {}

    async def view(self, gang: PodGang) -> GangView | None:
        """The view of a gang; None for one that is yet to get its backend."""
        cache, scheduling = self.shell.cache, self.shell.scheduling
        pods, now = pods_of(cache, gang), self.shell.clock.now()
        if may_be_adopted(gang) and not scheduling.only:
            adoption = self._adoption(gang, pods)
            return GangView(gang, None, scheduling.context(None), now, pods=pods, adoption=adoption)
        backend = scheduling.backend_of(gang)
        if backend is None and labels.SCHEDULER_BACKEND not in gang.labels and not unusable_choice(gang):
            # The label is on its way; until it is there nobody acts.
            return None
        duties = Duties(objects=scheduling.acts_on(gang), pods=not scheduling.only)
        context = self._context(gang, pods, backend)
        owned = [
            OwnedObject(item, scheduling.resource_of(item.manifest)) for item in scheduling.objects_of(gang)
        ]
        translated = self._translated(gang, backend, context, owned, pods, duties)
        preparations: Sequence[PodPreparation] = ()
        if is_foreign(gang) and backend is not None and duties.objects and translated.failure is None:
            preparations = await self.foreign.preparations(gang, pods, backend, context)
        ours = duties.objects and not is_foreign(gang)
        preemptions = self.shell.preemptions
        return GangView(
            gang,
            backend,
            context,
            now,
            duties,
            cliques=cliques_of(cache, gang),
            pods=pods,
            owned=owned,
            translated=translated,
            wanted_objects=self._wanted(translated),
            strangers=strangers_of(cache, gang, pods) if ours else (),
            asked_backend=self._asked(context) if duties.objects else "",
            preparations=preparations,
            others=_OtherGangs(cache, gang),
            step_back=StepBackTime(
                preemptions.left(gang.key, awaited=False), preemptions.left(gang.key, awaited=True)
            ),
            partial=self.partial.get(gang.key, PartialMemory()),
            monotonic=self.shell.clock.monotonic(),
        )

    def remember(self, gang: Key, memory: PartialMemory) -> None:
        """Keep what the plan says about a gang that holds a part of its nodes."""
        if memory == PartialMemory():
            self.partial.pop(gang, None)
        else:
            self.partial[gang] = memory

    def forget(self, gang: Key) -> None:
        """The gang is gone, or somebody else's business."""
        self.partial.pop(gang, None)
        self.shell.preemptions.forget(gang)

    def _adoption(self, gang: PodGang, pods: Sequence[Pod]) -> Adoption:
        scheduling = self.shell.scheduling
        asked = asked_backend(gang, pods)
        backend = scheduling.registry.find(asked) if asked else scheduling.registry.default
        chosen = backend.name if backend is not None else asked
        return Adoption(chosen, external=chosen in scheduling.external)

    def _context(self, gang: PodGang, pods: Sequence[Pod], backend: Backend | None) -> Context:
        # What somebody else made may carry the names of our sets and cliques by chance.
        part_of = "" if is_foreign(gang) else gang.labels.get(labels.PART_OF, "")
        scheduling = self.shell.scheduling
        return scheduling.context(
            backend,
            self.shell.cache.store(PodCliqueSet).get(Key(gang.namespace, part_of)),
            released=backend is not None and is_released(gang, pods, backend.scheduling_gate),
            revision="" if is_foreign(gang) else effective_revision(gang, pods),
            bound=bound_by_podgroup(pods),
            remarks=scheduling.remarks.of(backend.name, pods) if backend is not None else None,
        )

    def _translated(
        self,
        gang: PodGang,
        backend: Backend | None,
        context: Context,
        owned: Sequence[OwnedObject],
        pods: Sequence[Pod],
        duties: Duties,
    ) -> Translated:
        if backend is None:
            return not_enabled(gang, [each.name for each in self.shell.scheduling.registry.enabled])
        if not duties.objects:
            return translate_for_gates(gang, backend, context)
        return translate(gang, backend, context, [each.item for each in owned], pods)

    def _wanted(self, translated: Translated) -> list[WantedObject]:
        scheduling = self.shell.scheduling
        return [
            WantedObject(manifest, scheduling.resource_of(manifest), scheduling.object(manifest))
            for manifest in translated.translation.manifests
        ]

    def _asked(self, context: Context) -> str:
        """The backend that the gang's set asks for now."""
        if context.cliqueset is None:
            return ""
        selected = self.shell.scheduling.select(context.cliqueset).backend
        return selected.name if selected is not None else ""


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
