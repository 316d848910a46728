"""How recreated objects get their pods back where the scheduler lost the pods with the deleted object. Pure.

Decides what an object must look like meanwhile, and which pods to touch or to replace. What is left to do is
read from the objects and the pods alone, so that an operator may stop at any moment.
"""

from collections.abc import Sequence

from grove.api import kinds, labels
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Backend, Recall, Recalling, offers
from grove.meta import Manifest, UntypedObject
from grove.plan.changes import Change, Delete, Patch


def recall_of(
    backend: Backend | None, gang: PodGang, objects: Sequence[UntypedObject], pods: Sequence[Pod]
) -> Recall | None:
    """What is left to do; None when no object of the gang came back."""
    if not offers(backend, Recalling):
        return None
    there = [item.manifest for item in objects if not item.terminating]
    return backend.recall(gang, there, pods)


def present_form(
    backend: Backend,
    manifest: Manifest,
    there: UntypedObject | None,
    recall: Recall | None,
    *,
    initialized: bool,
) -> Manifest:
    """A translated object as it must be now.

    Before the gang is initialised all gates are closed: its pods have yet to change when they open.
    """
    if not offers(backend, Recalling):
        return manifest
    if there is None:
        return backend.made_anew(manifest) if initialized else manifest
    waiting = recall is not None and recall.waits and labels.MADE_ANEW in there.annotations
    return backend.made_anew(manifest) if waiting else manifest


def changes(recall: Recall | None) -> list[Change]:
    """Each on condition that the pod is as it was seen: one that was placed by now is not replaced."""
    if recall is None:
        return []
    return [
        *(
            Patch(
                kinds.PODS,
                pod.key,
                {"metadata": {"labels": dict(marks.labels), "annotations": dict(marks.annotations)}},
                resource_version=pod.metadata.resource_version,
            )
            for pod, marks in recall.touched
        ),
        *(
            Delete(kinds.PODS, pod.key, pod.uid, resource_version=pod.metadata.resource_version)
            for pod in recall.replaced
        ),
    ]
