"""The native scheduler's verdict on a gang, in one sentence that a person understands.

The pods decide; conditions only explain. A PodGroup's condition is never taken back once true and is written
before pods are bound, so it is read only for podgroups whose pods are not placed. What the group lacks stands
on the PodGroup, what the nodes lack on a pod: the sentence joins both.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Reading, Verdict
from grove.backends.shape import NODES_LACK, PlacementProgress, progress, verdict_of
from grove.backends.untyped import mapping, mappings, text_of
from grove.meta import Manifest

#: 1.36 and 1.37 call the same condition by different names.
GROUP_CONDITIONS: Final = ("PodGroupScheduled", "PodGroupInitiallyScheduled")
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"

_PLACEMENTS = re.compile(r"0/(\d+) placements are available")
_PREEMPTION = re.compile(r",? ?(pod group )?preemption: .*$|,? No preemption victims found .*$", re.DOTALL)


def read(
    gang: PodGang, objects: Sequence[Manifest], pods: Sequence[Pod], members: Mapping[str, frozenset[str]]
) -> Reading:
    """What became of the gang; `members` says which podgroups each PodGroup object stands for."""
    seen = progress(gang, pods)
    decided = verdict_of(gang, seen)
    if decided is not None:
        return decided
    said = [*_group_words(objects, seen, members), *_pod_words(seen)]
    errors = [text for reason, text in said if reason == SCHEDULER_ERROR]
    if errors:
        return Reading(Verdict.UNSCHEDULABLE, SCHEDULER_ERROR, _sentence(seen, errors[0]))
    texts = [text for reason, text in said if reason == UNSCHEDULABLE]
    if not texts:
        return seen.waiting()
    return Reading(Verdict.UNSCHEDULABLE, UNSCHEDULABLE, _sentence(seen, *_explanations(texts)))


def _group_words(
    objects: Sequence[Manifest], seen: PlacementProgress, members: Mapping[str, frozenset[str]]
) -> Iterator[tuple[str, str]]:
    """Reason and message of the PodGroups whose pods are still without a node."""
    for manifest in objects:
        name = text_of(mapping(manifest.get("metadata")).get("name"))
        if manifest.get("kind") != "PodGroup" or not members.get(name, frozenset()) & seen.lacking:
            continue
        for condition in mappings(mapping(manifest.get("status")).get("conditions")):
            if condition.get("type") in GROUP_CONDITIONS and condition.get("status") == "False":
                yield text_of(condition.get("reason")), text_of(condition.get("message"))


def _pod_words(seen: PlacementProgress) -> Iterator[tuple[str, str]]:
    """Reason and message of the pods that did not fit; one that waits for the others says nothing."""
    for pod in seen.pending:
        condition = pod.condition("PodScheduled")
        if condition is not None and condition.status == "False":
            yield condition.reason, condition.message


def _explanations(texts: Sequence[str]) -> Sequence[str]:
    """What the group lacks and what the nodes lack, as far as anyone said so."""
    nodes = _most_common(
        match.group() for text in texts for match in NODES_LACK.finditer(_PREEMPTION.sub("", text))
    )
    if not nodes:
        return [_PREEMPTION.sub("", next((text for text in texts if text), ""))]
    domains = [int(match.group(1)) for text in texts for match in _PLACEMENTS.finditer(text)]
    # A group without a topology constraint has exactly one placement: the whole cluster.
    if max(domains, default=1) > 1:
        return [f"none of {max(domains)} topology domains has room for the whole group", nodes]
    return [nodes]


def _most_common(texts: Iterable[str]) -> str:
    counted = Counter(texts)
    return min(counted, key=lambda text: (-counted[text], text), default="")


def _sentence(seen: PlacementProgress, *clauses: str) -> str:
    joined = "; ".join([seen.sentence, *(clause.strip() for clause in clauses if clause.strip())])
    return joined.rstrip(".") + "."
