"""Koordinator's verdict on a gang, from its pods; a PodGroup of Koordinator has no conditions.

The pods decide. The sentence on them wraps the true reason into a quotation; it is unwrapped here. While
Koordinator holds a gang back it says nothing at all: then its PodGroups show whether anybody looks at them.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

from grove.api import labels
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Reading, Verdict
from grove.backends.shape import PlacementProgress, progress, verdict_of
from grove.meta import Manifest
from grove.words import counted

UNSCHEDULABLE: Final = "Unschedulable"
#: An ElasticQuota, or one above it, is in the way; no node was asked.
USED_UP: Final = "ShareUsedUp"
_GATED: Final = "SchedulingGated"
#: What a pod says when another member of its gang is in the way; a member that fits nowhere says it itself.
_MEMBER = re.compile(
    r'gets rejected due to member Pod "(?P<pod>[^"]*)" is unschedulable with reason '
    r'(?P<why>"(?:[^"\\]|\\.)*")'
)
_PLACES = re.compile(r"desiredOfferSlot: (?P<wanted>\d+), (?P<places>.*)", re.DOTALL)
_PLACE = re.compile(r"topology topologyNode (?P<name>[^;,:]+): (?P<room>\d+)")
_NODES = re.compile(r"\d+/\d+ nodes are available: .*", re.DOTALL)
#: What it says of a quota, without the nodes that it counts around it: they are not in the way.
_QUOTA = re.compile(r"Insufficient (?:non-preemptible )?quotas, .*?exceedDimensions: \[[^\]]*\]", re.DOTALL)
_NO_PLACES: Final = "no candidate topology nodes can accommodate job"


def read(gang: PodGang, objects: Sequence[Manifest], pods: Sequence[Pod]) -> Reading:
    """What became of the gang."""
    seen = progress(gang, pods)
    decided = verdict_of(gang, seen)
    if decided is not None:
        return decided
    words = next(iter(sorted(_words(seen), key=_rank)), "")
    if words:
        text = f"{seen.sentence}; {_plain(words, seen.pending)}".rstrip(". ")
        reason = USED_UP if _QUOTA.search(words) else UNSCHEDULABLE
        return Reading(Verdict.UNSCHEDULABLE, reason, f"{text}.")
    return _silent(objects, seen)


def _words(seen: PlacementProgress) -> Iterator[str]:
    for pod in seen.pending:
        condition = pod.condition("PodScheduled")
        if condition is None or condition.status != "False" or condition.reason == _GATED:
            # The word about gates stays on a pod until the scheduler says something else.
            continue
        if condition.message:
            yield condition.message


def _rank(words: str) -> int:
    """The pods of a gang repeat one another; what explains most comes first."""
    if _NO_PLACES in words:
        return 0
    return 1 if _MEMBER.search(words) else 2


def _plain(words: str, pods: Sequence[Pod]) -> str:
    """The scheduler's own words without what they are wrapped into.

    Koordinator tries a gang every two seconds and names another pod each time. Equal pods lack the same, so
    the role is named; how many of the others found room changes with each try and is left out.
    """
    found = _MEMBER.search(words)
    if found is None:
        return _places(words)
    try:
        why = str(json.loads(found["why"]))
    except ValueError:
        why = found["why"].strip('"')
    role = {str(pod.key): pod.labels.get(labels.POD_CLIQUE) for pod in pods}.get(found["pod"])
    who = f"a pod of {role}" if role else f"pod {found['pod']}"
    return f"{who}: {_places(why).rstrip('. ')}"


def _places(words: str) -> str:
    if quota := _QUOTA.search(words):
        return quota[0]
    found = _PLACES.search(words)
    if _NO_PLACES not in words or found is None:
        return words.strip()
    room = [f"{each['name'].strip()} has room for {each['room']}" for each in _PLACE.finditer(words)]
    nodes = _NODES.search(found["places"])
    told = [f"no single topology domain has room for {counted(int(found['wanted']), 'pod')}", *room]
    return "; ".join(told) + (f"; {nodes[0]}" if nodes else "")


def _silent(objects: Sequence[Manifest], seen: PlacementProgress) -> Reading:
    """Nobody has said anything; Koordinator never explains why it does not even try a gang."""
    waiting = seen.waiting()
    phases = {_phase(each) for each in objects}
    if phases == {""}:
        why = "its PodGroups have no status: does koord-scheduler run?"
    elif "Pending" in phases or "" in phases:
        # For a moment this is so with every gang; it stays where somebody else put a PodGroup in our place.
        why = (
            "koord-scheduler does not count all of its pods; if that stays, a PodGroup was replaced by "
            "hand: delete it, Grove creates it again"
        )
    else:
        return waiting
    return Reading(Verdict.WAITING, waiting.reason, f"{seen.sentence}; {why}")


def _phase(manifest: Manifest) -> str:
    status = manifest.get("status")
    value = status.get("phase") if isinstance(status, dict) else None
    return value if isinstance(value, str) else ""
