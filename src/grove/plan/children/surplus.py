"""What of a refused set goes all the same: the replicas that are too many. Pure.

Whatever is wrong with a set, its number of replicas is understood, and fewer of them free nodes. Nothing else
of its spec is looked at, which may make no sense.
"""

from collections.abc import Sequence

from grove.api import kinds, names
from grove.plan.changes import Delete
from grove.plan.children.registry import Kind
from grove.plan.children.state import CliqueSetState


def surplus(seen: CliqueSetState, kinds_of_children: Sequence[Kind]) -> tuple[Delete, ...]:
    """The deletions of the children of replicas that the set has no more; those without an owner stay."""
    if seen.cliqueset.spec.replicas < 0:
        # Definitions of others may allow it. It is a mistake, and must cost no pod.
        return ()
    return tuple(
        Delete(kind.resource, child.key, child.uid)
        for kind in sorted(kinds_of_children, key=lambda kind: kind.removal)
        # Records of templates end in a hash, which could look like the number of a replica.
        if kind.resource != kinds.CONTROLLER_REVISIONS
        for name, child in seen.children.get(kind.resource, {}).items()
        if child.owner is not None and not child.terminating
        if (replica := names.set_replica(seen.cliqueset.name, name)) is not None and replica >= seen.replicas
    )
