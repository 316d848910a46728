"""A gang as its scheduler's objects, or why there are none. Pure: asks the backend, once for each look."""

from collections.abc import Sequence

from grove.api import labels
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Backend, Context
from grove.errors import BackendFailed, GroveError, NotEnabled, Terminal, Waiting
from grove.meta import UntypedObject
from grove.plan.gang.foreign import unusable_choice
from grove.plan.gang.resync import recall_of
from grove.plan.gang.view import Translated


def not_enabled(gang: PodGang, enabled: Sequence[str]) -> Translated:
    """The answer for a gang whose backend is not enabled."""
    name = gang.labels.get(labels.SCHEDULER_BACKEND) or unusable_choice(gang)
    why = f"{name!r}: scheduler backend is not enabled in Grove; enabled are {', '.join(enabled)}"
    return Translated(failure=NotEnabled(why))


def translate(
    gang: PodGang,
    backend: Backend,
    context: Context,
    objects: Sequence[UntypedObject],
    pods: Sequence[Pod],
) -> Translated:
    """The gang's objects, and what its scheduler must learn again about those that were recreated."""
    try:
        if missing := missing_preconditions(backend, context):
            return Translated(failure=Waiting("; ".join(missing)))
        translation = backend.translate(gang, context)
        return Translated(translation, recall_of(backend, gang, objects, pods))
    except Exception as failure:
        return Translated(failure=backend_failure(backend.name, failure))


def translate_for_gates(gang: PodGang, backend: Backend, context: Context) -> Translated:
    """The same for a gang whose objects another process writes: it alone judges the preconditions."""
    try:
        return Translated(backend.translate(gang, context))
    except Exception as failure:
        return Translated(failure=backend_failure(backend.name, failure))


def missing_preconditions(backend: Backend, context: Context) -> Sequence[str]:
    """What a backend lacks in the cluster, one sentence each."""
    return [each.missing for each in backend.preconditions(context) if each.missing]


def backend_failure(backend: str, failure: Exception) -> GroveError:
    """What a backend raised: a refusal that it may raise, or else a defect of it."""
    if isinstance(failure, Terminal | Waiting):
        return failure
    defect = BackendFailed(backend, failure)
    defect.__cause__ = failure
    return defect
