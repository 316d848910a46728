"""Which KAI queue a gang goes to, and whether a set says so without contradiction.

A label wins over an annotation; the gang (which mirrors its set) over the roles; the roles over the profile.
"""

from collections.abc import Iterator
from typing import Final

from grove.api.cliqueset import PodCliqueSet, PodCliqueTemplate
from grove.api.gang import PodGang
from grove.backends.base import Context
from grove.errors import FieldError
from grove.meta import Object, resource

QUEUE: Final = "kai.scheduler/queue"
DEFAULT_QUEUE: Final = "default-queue"
QUEUES: Final = resource("scheduling.run.ai", "v2", "Queue", namespaced=False)


def queue_of(gang: PodGang, context: Context) -> str:
    """The queue of a gang; there always is one."""
    cliqueset = context.cliqueset
    return (
        _named(gang)
        or (_named(cliqueset) if cliqueset else "")
        or (_agreed(cliqueset) if cliqueset else "")
        or str(context.config.get("queue") or "")
        or DEFAULT_QUEUE
    )


def missing_queue(gang: PodGang, context: Context) -> str:
    """The queue of a gang if it is known not to exist; KAI leaves such a gang without a word."""
    known, queue = context.observed.get(QUEUES), queue_of(gang, context)
    if known is None or any((each.get("metadata") or {}).get("name") == queue for each in known):
        return ""
    return queue


def queue_conflicts(cliqueset: PodCliqueSet) -> Iterator[FieldError]:
    """Roles whose queue is not that of the set or, if the set names none, of the first role that does."""
    wanted, said_by = _named(cliqueset), "the PodCliqueSet"
    for index, clique in enumerate(cliqueset.template.cliques):
        place, queue = _of_clique(clique)
        if queue and not wanted:
            wanted, said_by = queue, f"clique {clique.name!r}"
        elif queue and queue != wanted:
            yield FieldError(
                f"spec.template.cliques[{index}].{place}[{QUEUE}]",
                f"is {queue!r} but {said_by} says {wanted!r}; all pods of a gang go to one queue",
            )


def _named(owner: Object) -> str:
    return owner.labels.get(QUEUE) or owner.annotations.get(QUEUE) or ""


def _of_clique(clique: PodCliqueTemplate) -> tuple[str, str]:
    if queue := clique.labels.get(QUEUE):
        return "labels", queue
    return "annotations", clique.annotations.get(QUEUE) or ""


def _agreed(cliqueset: PodCliqueSet) -> str:
    """The queue that the roles name, if they name exactly one."""
    queues = {queue for _, queue in map(_of_clique, cliqueset.template.cliques) if queue}
    return queues.pop() if len(queues) == 1 else ""
