"""Which Volcano queue a gang goes to, and whether a set says so without contradiction.

The gang (which mirrors its set) wins over the roles, the roles over the profile; a label over an annotation.
Volcano's own key comes first, then the one that Grove in Go reads.
"""

from collections.abc import Iterator
from typing import Final

from grove.api.cliqueset import PodCliqueSet, PodCliqueTemplate
from grove.api.gang import PodGang
from grove.backends.base import Context
from grove.backends.volcano.sight import is_subdomain
from grove.errors import FieldError
from grove.meta import Object

QUEUE: Final = "scheduling.volcano.sh/queue-name"
GROVE_QUEUE: Final = "scheduling.grove.io/volcano-queue"
DEFAULT_QUEUE: Final = "default"
_KEYS: Final = (QUEUE, GROVE_QUEUE)


def queue_of(gang: PodGang, context: Context) -> str:
    """The queue of a gang; there always is one."""
    cliqueset = context.cliqueset
    return (
        _named(gang)
        or (_named(cliqueset) or _agreed(cliqueset) if cliqueset else "")
        or str(context.config.get("queue") or "")
        or DEFAULT_QUEUE
    )


def queue_errors(cliqueset: PodCliqueSet) -> Iterator[FieldError]:
    """Names that are no queue's, and roles whose queue is not that of the set or of the roles before them."""
    wanted, said_by = _named(cliqueset), "the PodCliqueSet"
    for place, queue in _places(cliqueset):
        yield from _no_queue(f"metadata.{place}", queue)
    for index, clique in enumerate(cliqueset.template.cliques):
        for place, queue in _places(clique):
            field = f"spec.template.cliques[{index}].{place}"
            yield from _no_queue(field, queue)
            if not wanted:
                wanted, said_by = queue, f"clique {clique.name!r}"
            elif queue != wanted:
                yield FieldError(
                    field, f"is {queue!r} but {said_by} says {wanted!r}; all pods of a gang go to one queue"
                )


def _no_queue(field: str, queue: str) -> Iterator[FieldError]:
    if not is_subdomain(queue):
        yield FieldError(field, f"is {queue!r}, which cannot be the name of a Volcano queue")


def _named(owner: Object) -> str:
    return next((queue for _, queue in _places(owner)), "")


def _places(owner: Object | PodCliqueTemplate) -> Iterator[tuple[str, str]]:
    """Where an object names a queue, the place that counts first."""
    for kind, values in (("labels", owner.labels), ("annotations", owner.annotations)):
        for key in _KEYS:
            if queue := values.get(key):
                yield f"{kind}[{key}]", queue


def _agreed(cliqueset: PodCliqueSet) -> str:
    """The queue that the roles name, if they name exactly one."""
    queues = {queue for clique in cliqueset.template.cliques for _, queue in _places(clique)}
    return queues.pop() if len(queues) == 1 else ""
