"""Children of sets that are being deleted and kept by somebody's finalizer: none takes their place. Pure."""

from typing import Final, NamedTuple

from grove.api import kinds, labels
from grove.meta import Object, Resource
from grove.plan.doomed import FOREGROUND, ORPHAN

#: Those that the garbage collector and the operator take off themselves.
_NOT_FOR_LONG: Final = frozenset({FOREGROUND, ORPHAN, *labels.FINALIZERS})


class KeptChild(NamedTuple):
    """A child that should be gone."""

    resource: Resource
    item: Object

    @property
    def sentence(self) -> str:
        """What keeps it, and the way out."""
        finalizers = ", ".join(_of_others(self.item))
        pods = "" if self.resource == kinds.SERVICES else ", and lost pods of it are not replaced"
        return (
            f"{self.resource.kind} {self.item.name} is being deleted and kept by the finalizer {finalizers}; "
            f"until it is gone it is not made again{pods}: let whoever set the finalizer remove it"
        )


def is_kept(item: Object | None) -> bool:
    """Whether an object is being deleted and somebody's finalizer keeps it."""
    return item is not None and item.terminating and bool(_of_others(item))


def _of_others(item: Object) -> list[str]:
    return [name for name in item.metadata.finalizers if name not in _NOT_FOR_LONG]
