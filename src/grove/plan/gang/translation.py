"""A gang as its scheduler's objects, or why there are none. Pure: asks the backend, once for each look."""

from collections.abc import Sequence

from grove.api import labels
from grove.api.gang import PodGang
from grove.backends.base import Backend, Context, GangSnapshot, Lifecycle, Translation, lifecycle_of
from grove.errors import BackendFailed, GroveError, NotEnabled, Terminal, Waiting
from grove.plan.gang.standalone import unusable_choice
from grove.plan.gang.state import Translated


def not_enabled(gang: PodGang, enabled: Sequence[str]) -> Translated:
    """The answer for a gang whose backend is not enabled."""
    name = gang.labels.get(labels.SCHEDULER_BACKEND) or unusable_choice(gang)
    why = f"{name!r}: scheduler backend is not enabled in Grove; enabled: {', '.join(enabled)}"
    return Translated(failure=NotEnabled(why))


def translate(snapshot: GangSnapshot, backend: Backend, *, preconditions: bool = True) -> Translated:
    """The gang's objects, and what its scheduler needs beyond them.

    `preconditions` is False where another process writes the objects: that one alone judges them.
    """
    try:
        if preconditions and (missing := missing_preconditions(backend, snapshot.context)):
            raise Waiting("; ".join(missing))
        translation = backend.translate(snapshot.gang, snapshot.context)
        return Translated(translation, lifecycle_of(backend, _with(snapshot, translation)))
    except Exception as failure:
        return Translated(
            lifecycle=_untranslated(snapshot, backend), failure=backend_failure(backend.name, failure)
        )


def _with(snapshot: GangSnapshot, translation: Translation) -> GangSnapshot:
    """The snapshot with what the gang is translated to."""
    return GangSnapshot(
        snapshot.gang,
        snapshot.pods,
        snapshot.context,
        snapshot.now,
        snapshot.objects,
        translation.manifests,
    )


def _untranslated(snapshot: GangSnapshot, backend: Backend) -> Lifecycle:
    """What is known of a gang without objects; of a backend with a defect, nothing."""
    try:
        return lifecycle_of(backend, snapshot)
    except Exception:
        return Lifecycle()


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
