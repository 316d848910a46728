"""What of a refused set goes all the same: the replicas that are too many. Pure.

Whatever is wrong with a set, its number of replicas is understood, and fewer of them free nodes.
"""

from collections.abc import Sequence
from dataclasses import replace

from grove.api import kinds, names
from grove.plan.children.engine import Plan, Settled
from grove.plan.children.registry import Kind, plan_children
from grove.plan.children.state import CliqueSetState


def plan_surplus(seen: CliqueSetState, kinds_of_children: Sequence[Kind]) -> Plan:
    """A plan whose removals are the children of replicas that the set has no more.

    It knows nothing of the other children, so that nobody may ask it for what is missing.
    """
    update = seen.update
    # Replicas that an update added stay while it goes on; one that is refused never began.
    seen = replace(seen, update=update if update is not None and update.is_recorded else None)
    beyond = {
        resource: {
            name: child
            for name, child in children.items()
            if (replica := names.set_replica(seen.cliqueset.name, name)) is not None
            and replica >= seen.replicas
        }
        # Records of templates end in a hash, which could look like the number of a replica. A negative
        # number, which definitions of others may allow, is a mistake and must cost no pod.
        if resource != kinds.CONTROLLER_REVISIONS and seen.cliqueset.spec.replicas >= 0
        else {}
        for resource, children in seen.children.items()
    }
    return plan_children(replace(seen, children=beyond), Settled(), kinds_of_children)
