"""Which children of a set cannot be made, because what has their name is being deleted and kept. Pure."""

from collections.abc import Callable, Iterator
from typing import Final

from grove.api import kinds
from grove.errors import BeingDeleted
from grove.meta import Object, Resource
from grove.plan.children.registry import KINDS
from grove.plan.children.state import CliqueSetState
from grove.plan.kept import KeptChild, is_kept
from grove.plan.last_errors import CodedError

#: Those without which pods are missing or do not find one another. A gang of the set itself says it.
_TOLD: Final = (kinds.SERVICES, kinds.SCALING_GROUPS, kinds.GANGS, kinds.CLIQUES)


def kept_children(
    seen: CliqueSetState, there: Callable[[Resource, str], Object | None]
) -> Iterator[CodedError]:
    """Why children that the set should have cannot be made; `there` finds those of an earlier set."""
    for kind in KINDS:
        if kind.resource not in _TOLD:
            continue
        names = [name for name in seen.taken.get(kind.resource, ()) if is_kept(there(kind.resource, name))]
        if kind.resource != kinds.GANGS:
            own = seen.children.get(kind.resource, {})
            names += [name for name, item in own.items() if is_kept(item)]
        source = kind(seen) if names else None
        for name in sorted(names):
            item = there(kind.resource, name)
            if source is not None and item is not None and source.find(name) is not None:
                yield CodedError(BeingDeleted.code, KeptChild(kind.resource, item).sentence)
