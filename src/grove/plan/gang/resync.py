"""How recreated objects get their pods back where the scheduler lost the pods with the deleted object. Pure.

Decides what an object must look like meanwhile, and which pods to touch or to replace. What is left to do is
read from the objects and the pods alone, so that an operator may stop at any moment.
"""

from grove.api import kinds, labels
from grove.backends.base import Lifecycle, object_name
from grove.meta import Manifest, UntypedObject
from grove.plan.changes import Change, Delete, Patch


def present_form(
    manifest: Manifest, there: UntypedObject | None, lifecycle: Lifecycle, *, initialized: bool
) -> Manifest:
    """A translated object as it must be now.

    Before the gang is initialised all gates are closed: its pods have yet to change when they open.
    """
    recreated = lifecycle.recreated.get(object_name(manifest), manifest)
    if there is None:
        return recreated if initialized else manifest
    held_back = lifecycle.hold_back and labels.RECREATED in there.annotations
    return recreated if held_back else manifest


def changes(lifecycle: Lifecycle) -> list[Change]:
    """Each on condition that the pod is as it was seen: one that was placed by now is not replaced."""
    return [
        *(
            Patch(
                kinds.PODS,
                pod.key,
                {"metadata": {"labels": dict(marks.labels), "annotations": dict(marks.annotations)}},
                resource_version=pod.metadata.resource_version,
            )
            for pod, marks in lifecycle.touch
        ),
        *(
            Delete(kinds.PODS, pod.key, pod.uid, resource_version=pod.metadata.resource_version)
            for pod in lifecycle.replace
        ),
    ]
