"""Which scheduler objects of a gang to create, change and delete. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from grove.api.revision import ADOPTED, revision_of
from grove.backends.base import FixedFields, object_name
from grove.errors import GroveError
from grove.meta import Manifest, UntypedObject
from grove.plan.changes import Apply, Change, Delete
from grove.plan.gang import repair, resync
from grove.plan.gang.gates import is_initialized
from grove.plan.gang.state import GangState, WantedObject


@dataclass(frozen=True, slots=True)
class ObjectsPlan:
    """How a gang's scheduler objects become what they should be, or why they cannot."""

    #: Pods that the scheduler must hear of, or of which it never will: they come before the objects.
    pods: tuple[Change, ...] = ()
    changes: tuple[Change, ...] = ()
    #: Objects that somebody else edited or deleted.
    repairs: tuple[str, ...] = ()
    #: Objects of the present start that are being deleted.
    leaving: tuple[str, ...] = ()
    failure: GroveError | None = None

    @property
    def creates(self) -> bool:
        """Whether something is applied, which may create it."""
        return any(isinstance(change, Apply) for change in self.changes)


def plan_objects(state: GangState) -> ObjectsPlan:
    """The changes that put the scheduler's objects in place."""
    if state.backend is None or state.translated.failure is not None:
        return ObjectsPlan(failure=state.translated.failure)
    plan, lifecycle = _Objects(state), state.translated.lifecycle
    # A gang that the cache shows as it was before has told it by the gates that are open.
    opened = any(pod.active and not pod.spec.scheduling_gates for pod in state.members)
    initialized = is_initialized(state.gang) or opened
    for wanted in state.wanted_objects:
        manifest = resync.present_form(wanted.manifest, wanted.existing, lifecycle, initialized=initialized)
        plan.want(wanted, manifest, initialized=initialized)
    plan.remove_others()
    return ObjectsPlan(
        tuple(resync.changes(lifecycle)), tuple(plan.changes), tuple(plan.repairs), tuple(plan.leaving)
    )


def in_place(state: GangState, plan: ObjectsPlan) -> bool:
    """Whether every translated object exists and is the gang's, once the plan is carried out.

    One that is being deleted, or goes with an earlier gang, does as long as pods of the gang are on nodes: it
    lasts as long as they do, and their replacements belong to it too.
    """
    deleted = {(change.resource, change.key) for change in plan.changes if isinstance(change, Delete)}
    for wanted in state.wanted_objects:
        item = wanted.existing
        if item is None and state.duties.objects:
            # Created before any gate opens: a stage that fails stops those after it.
            continue
        if item is None or (wanted.resource, item.key) in deleted:
            return False
        ours = repair.is_ours(item, state.gang)
        stays = ours and not item.terminating
        if not stays and not (state.running and (ours or repair.of_an_earlier(item, state.gang))):
            return False
    return True


_CHANGEABLE: Final = FixedFields(())


class _Objects:
    """Collects what the objects of one gang need."""

    def __init__(self, state: GangState) -> None:
        self._state = state
        #: By group, kind and name: schedulers may have kinds of the same name, and name their objects alike.
        self._wanted: set[tuple[str, str, str]] = set()
        self.changes: list[Change] = []
        self.repairs: list[str] = []
        self.leaving: list[str] = []

    def want(self, wanted: WantedObject, manifest: Manifest, *, initialized: bool) -> None:
        """One translated object as it must be now, and what exists under its name."""
        resource, name, there = wanted.resource, str(manifest["metadata"]["name"]), wanted.existing
        self._wanted.add((resource.gvk.group, resource.kind, name))
        gang = self._state.gang
        if there is not None and (there.terminating or repair.of_an_earlier(there, gang)):
            self.leaving.append(f"{resource.kind} {name}")
            return
        if there is not None and self._is_remade(there):
            # A scheduler may have forgotten with the first one which pods belong to it.
            self.leaving.append(f"{resource.kind} {name}")
            return
        differing = manifest if there is None else repair.differing(manifest, there)
        if not differing:
            return
        if there is not None and not repair.is_ours(there, gang):
            # Refused with a sentence by whoever carries it out, unless it is gone by then.
            self.changes.append(Apply(resource, manifest))
            return
        fixed = self._state.translated.lifecycle.fixed.get(object_name(manifest), _CHANGEABLE)
        if there is not None and repair.cannot_change(fixed, differing):
            if not fixed.replaceable:
                # Pods of the gang are on nodes and belong to it; the next start gets an object of its own.
                return
            # Its going wakes the gang, which then creates it again.
            self.changes.append(Delete(resource, there.key, there.uid))
        elif there is not None:
            version, adopts = there.metadata.resource_version, self._adopts(there)
            self.changes.append(
                Apply(resource, manifest, force=adopts, uid=there.uid, resource_version=version)
            )
        else:
            self.changes.append(Apply(resource, manifest))
        if initialized if there is None else self._is_repair(differing, there):
            self.repairs.append(f"{resource.kind} {name}")

    def _is_remade(self, there: UntypedObject) -> bool:
        """Whether somebody made it again by hand, for pods that wait; the Go operator's is no such object."""
        state = self._state
        adopted = state.context.revision == ADOPTED
        return not adopted and not state.running and repair.is_remade(there, state.gang)

    def _adopts(self, there: UntypedObject) -> bool:
        """Whether it is the Go operator's and we write it for the first time: every field is ours to take."""
        return self._state.context.revision == ADOPTED and repair.is_remade(there, self._state.gang)

    def _is_repair(self, differing: Manifest, there: UntypedObject) -> bool:
        return not self._adopts(there) and repair.taken_over(differing, there)

    def remove_others(self) -> None:
        """Objects of earlier starts go when no pod of them is left."""
        if any(_of_another_start(self._state)):
            return
        for owned in self._state.owned:
            item = owned.item
            known = owned.resource.gvk.group, item.kind, item.name
            if known not in self._wanted and not item.terminating:
                self.changes.append(Delete(owned.resource, item.key, item.uid))


def _of_another_start(state: GangState) -> Iterator[bool]:
    for pod in state.members:
        yield bool(revision_of(pod)) and revision_of(pod) != state.context.revision
