"""What a set says while it is being deleted and still there. Pure.

Written once: how far its pods are changes with each of them, and the garbage collector writes the set too.
"""

from datetime import datetime
from typing import Final

from grove.api import conditions
from grove.api.cliqueset import PodCliqueSet
from grove.meta import Manifest, is_true
from grove.plan.conditions import merged
from grove.plan.doomed import ORPHAN, Fate, fate_with
from grove.plan.standing import Standing, availability, standing_conditions

#: What is told of sets that are carried out.
_NO_LONGER: Final = (
    conditions.EDIT_PENDING,
    conditions.UPDATE_IN_PROGRESS,
    conditions.GANG_TERMINATION_PENDING,
    conditions.DEGRADED,
    conditions.STALLED,
)


def deletion_sentence(cliqueset: PodCliqueSet) -> str:
    """That a set is being deleted, and what it waits for."""
    finalizers = cliqueset.metadata.finalizers
    if _goes_with_its_pods(cliqueset):
        return "the set is being deleted, its pods and everything else of it first"
    if ORPHAN in finalizers:
        return "the set is being deleted, and its pods go on running"
    waits = f" and waits for its finalizer {', '.join(finalizers)}" if finalizers else ""
    return f"the set is being deleted{waits}; what runs goes on running, and nothing else is done for it"


def deleted_set_status(cliqueset: PodCliqueSet, *, now: datetime) -> Manifest:
    """What changes of the status of a set that is being deleted."""
    words, gone = deletion_sentence(cliqueset), _goes_with_its_pods(cliqueset)
    available = not gone and is_true(cliqueset.status.conditions, conditions.AVAILABLE)
    updates = [
        availability(available, conditions.BEING_DELETED, words),
        *standing_conditions(Standing(False, conditions.BEING_DELETED, words)),
    ]
    # A pod that is deleted counts nowhere from that moment on.
    counts = dict.fromkeys(("scheduledReplicas", "availableReplicas", "updatedReplicas"), 0) if gone else {}
    return {
        "observedGeneration": cliqueset.metadata.generation,
        **counts,
        "lastErrors": [],
        "conditions": merged(cliqueset, updates, now=now, drop=_NO_LONGER),
    }


def _goes_with_its_pods(cliqueset: PodCliqueSet) -> bool:
    """Whether the set waits until everything of it is gone."""
    return fate_with(cliqueset, cliqueset.uid) is Fate.AWAITED
