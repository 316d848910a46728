"""How a gang becomes scheduler objects: what to create, mend and remove, or why it cannot be translated."""

import logging
from collections.abc import Iterator

from grove.api import labels
from grove.api.revision import revision_of
from grove.backends.base import Backend
from grove.controllers import recall, repair
from grove.controllers.gang_view import Forward, Seen
from grove.controllers.scheduling import Scheduling, missing_preconditions
from grove.errors import BackendFailed, NotEnabled, Terminal, Waiting
from grove.meta import Manifest, UntypedObject
from grove.plan.changes import Apply, Change, Delete
from grove.plan.foreign import unusable_choice
from grove.plan.gates import is_initialized

log = logging.getLogger(__name__)


def forward(scheduling: Scheduling, seen: Seen) -> Forward:
    """The changes that put the scheduler's objects in place."""
    if seen.backend is None:
        name = seen.gang.labels.get(labels.SCHEDULER_BACKEND) or unusable_choice(seen.gang)
        enabled = ", ".join(backend.name for backend in scheduling.registry.enabled)
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
    plan = _Objects(scheduling, seen, seen.backend)
    # A gang that the cache shows as it was before has told it by the gates that are open.
    opened = any(pod.active and not pod.spec.scheduling_gates for pod in seen.members)
    initialized = is_initialized(seen.gang) or opened
    for manifest in translation.manifests:
        there = scheduling.object(manifest)
        standing = recall.standing(seen.backend, manifest, there, recalled, initialized=initialized)
        plan.want(standing, there, initialized=initialized)
    plan.remove_others()
    return Forward(tuple(plan.changes), translation, tuple(plan.repairs), recalled, tuple(plan.leaving))


class _Objects:
    """Collects what the objects of one gang need."""

    def __init__(self, scheduling: Scheduling, seen: Seen, backend: Backend) -> None:
        self._scheduling = scheduling
        self._seen = seen
        self._backend = backend
        self._wanted: set[tuple[str, str]] = set()
        self.changes: list[Change] = []
        #: Objects that somebody else edited or deleted.
        self.repairs: list[str] = []
        #: Wanted objects that are being deleted.
        self.leaving: list[str] = []

    def want(self, manifest: Manifest, there: UntypedObject | None, *, initialized: bool) -> None:
        """One translated object, and what exists under its name."""
        resource, name = self._scheduling.resource_of(manifest), str(manifest["metadata"]["name"])
        self._wanted.add((resource.kind, name))
        gang = self._seen.gang
        if there is not None and (there.terminating or repair.of_an_earlier(there, gang)):
            self.leaving.append(f"{resource.kind} {name}")
            return
        if there is not None and not self._seen.running and repair.is_remade(there, gang):
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
        if there is not None and repair.cannot_change(self._backend, manifest, differing):
            if not repair.is_replaceable(self._backend, manifest):
                # Pods of the gang are on nodes and belong to it; the next start gets an object of its own.
                return
            # Its going wakes the gang, which then creates it anew.
            self.changes.append(Delete(resource, there.key, there.uid))
        elif there is not None:
            version = there.metadata.resource_version
            self.changes.append(Apply(resource, manifest, uid=there.uid, resource_version=version))
        else:
            self.changes.append(Apply(resource, manifest))
        if initialized if there is None else repair.taken_over(differing, there):
            self.repairs.append(f"{resource.kind} {name}")

    def remove_others(self) -> None:
        """Objects of earlier starts go when no pod of them is left."""
        if any(_of_another_start(self._seen)):
            return
        for item in self._seen.objects:
            if (item.kind, item.name) not in self._wanted and not item.terminating:
                resource = self._scheduling.resource_of(item.manifest)
                self.changes.append(Delete(resource, item.key, item.uid))


def _of_another_start(seen: Seen) -> Iterator[bool]:
    for pod in seen.pods:
        if labels.POD_CLIQUE in pod.labels:
            yield bool(revision_of(pod)) and revision_of(pod) != seen.context.revision
