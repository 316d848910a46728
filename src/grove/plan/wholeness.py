"""What is left of a gang tells that it was whole, although nobody saw it. Pure.

A breach counts for a clique that had its minimum since it was started. Usually somebody saw that. If not, the
gang still lists the pods that it was started with; and of a clique that was taken over the Go operator's last
status tells it.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from grove.api import conditions
from grove.api.clique import PodClique
from grove.api.gang import PodGang
from grove.api.minimum import above_minimum
from grove.api.pod import Pod
from grove.api.revision import ADOPTED, next_revision, revision_of
from grove.backends.base import Capability, Fidelity, Treatment
from grove.meta import find_condition, is_true

#: What a scheduler must enforce so that a pod of the minimum on a node proves that all were chosen with it.
_TOGETHER: Final = (Capability.GANG, Capability.SUBGROUPS, Capability.HIERARCHY)


def is_placed_together(treatments: Iterable[Treatment]) -> bool:
    """Whether the scheduler places the minimum of a gang as a whole or not at all."""
    found = {each.property: each.fidelity for each in treatments if each.property in _TOGETHER}
    return Capability.GANG in found and all(each is Fidelity.ENFORCED for each in found.values())


def lost_since_placed(gang: PodGang, podgroup: str, members: Sequence[Pod], revision: str) -> bool:
    """Whether a podgroup had its minimum: pods of it that are listed are gone, others of the gang on nodes.

    Holds only where the minimum is placed together. One that is not bound yet is not lost, and for pods of an
    earlier minimum nothing can be said.
    """
    group = next((each for each in gang.spec.podgroups if each.name == podgroup), None)
    there = {pod.uid: pod for pod in members}
    if group is None or all(each.uid in there for each in group.pod_references):
        return False
    once = [each for each in group.pod_references if each.uid not in there or there[each.uid].bound]
    if len(once) < group.min_replicas or revision != next_revision(gang):
        return False
    above = above_minimum(gang)
    return any(pod.bound and not above(pod) and revision_of(pod) == revision for pod in members)


def said_by_go(clique: PodClique, revision: str) -> bool:
    """Whether the Go operator said last that a clique had the minimum that it has now, placed and working.

    A status of ours that says so has `MinAvailableReached` beside it, which is asked first.
    """
    status = clique.status
    breach = find_condition(status.conditions, conditions.MIN_AVAILABLE_BREACHED)
    return (
        revision == ADOPTED
        and status.observed_generation == clique.metadata.generation
        and status.scheduled_replicas >= clique.spec.needed
        and is_true(status.conditions, conditions.CLIQUE_SCHEDULED)
        and breach is not None
        and breach.status == "False"
    )
