"""KAI's verdict on a gang, from its PodGroup's schedulingConditions and the pods.

The pods decide: KAI has no condition that says "scheduled", and older releases leave the unschedulable one in
place after scheduling. The condition is read only while the gang lacks pods.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Reading, Verdict
from grove.backends.kai.queue import QUEUE
from grove.backends.shape import PlacementProgress, progress, verdict_of
from grove.backends.untyped import mapping, mappings, text_of
from grove.meta import Manifest

CONDITION: Final = "UnschedulableOnNodePool"
UNSCHEDULABLE: Final = "Unschedulable"
NO_QUEUE: Final = "QueueDoesNotExist"
NO_TOPOLOGY: Final = "TopologyNotFound"
#: What KAI calls the ordinary case; other reasons are passed on, because they need another cure.
_ORDINARY: Final = ("", "PodSchedulingErrors", UNSCHEDULABLE)

_PREFIX = re.compile(
    r"^(?:(?P<reason>[A-Z][A-Za-z]+)|Unable to schedule podgroup|Not enough resources for the workload): "
)
#: Where a reason's name should stand, KAI also puts a sentence; a condition of ours takes names only.
_NAME = re.compile(r"[A-Za-z]+")


def read(
    gang: PodGang,
    objects: Sequence[Manifest],
    pods: Sequence[Pod],
    missing_queue: str = "",
    topology: str = "",
) -> Reading:
    """What became of the gang; of one whose queue or topology is missing KAI says nothing, or not why."""
    seen = progress(gang, pods)
    decided = verdict_of(gang, seen)
    if decided is not None:
        return decided
    if missing_queue:
        why = f"KAI has no queue {missing_queue!r}; create it, or correct {QUEUE}"
        return Reading(Verdict.UNSCHEDULABLE, NO_QUEUE, f"{seen.sentence}; {why}.")
    if topology:
        why = f"{topology}; see the condition SchedulerTopologyDrift of the ClusterTopologyBinding"
        return Reading(Verdict.UNSCHEDULABLE, NO_TOPOLOGY, f"{seen.sentence}; {why}.")
    said = [*_conditions(objects), *_pod_words(seen)]
    if not said:
        return seen.waiting()
    # A queue that is missing or full explains more than the placement errors that follow from it.
    reason, text = next((each for each in said if not _ordinary(each[0])), said[0])
    name = UNSCHEDULABLE if _ordinary(reason) else reason
    text = _PREFIX.sub("", " ".join(text.split())).rstrip(".")
    return Reading(Verdict.UNSCHEDULABLE, name, "; ".join(filter(None, (seen.sentence, text))) + ".")


def _conditions(objects: Sequence[Manifest]) -> Iterator[tuple[str, str]]:
    """Reason and text of what KAI holds against the gang, newest condition last in KAI's list, first here."""
    for manifest in objects:
        found = mappings(mapping(manifest.get("status")).get("schedulingConditions"))
        for condition in reversed(found):
            if condition.get("type") != CONDITION or condition.get("status", "True") != "True":
                continue
            reasons = mappings(condition.get("reasons"))
            for each in reasons:
                if len(reasons) == 1 or not _ordinary(text_of(each.get("reason"))):
                    yield text_of(each.get("reason")), text_of(each.get("message"))
            if len(reasons) != 1:
                # Each domain that was tried has a line in the list, in no order; the text has them sorted.
                yield text_of(condition.get("reason")), text_of(condition.get("message"))


def _ordinary(reason: str) -> bool:
    return reason in _ORDINARY or _NAME.fullmatch(reason) is None


def _pod_words(seen: PlacementProgress) -> Iterator[tuple[str, str]]:
    for pod in seen.pending:
        condition = pod.condition("PodScheduled")
        if condition is not None and condition.status == "False" and condition.reason == UNSCHEDULABLE:
            # The reason on a pod is always this one; KAI's own stands before its words, such as OverLimit.
            named = _PREFIX.match(condition.message)
            yield (named and named["reason"]) or condition.reason, condition.message
