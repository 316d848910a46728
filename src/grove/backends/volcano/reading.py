"""Volcano's verdict on a gang, from its PodGroup's conditions and the pods.

The pods decide. Volcano never takes a condition back: `Unschedulable` stays beside `Scheduled`, and gangs
whose gates are closed are called short of resources. Conditions are read only while the gang lacks pods that
Volcano has looked at, and only if they are newer than the last success.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Reading, Verdict
from grove.backends.shape import PlacementProgress, progress, verdict_of
from grove.backends.volcano.topology import required_keys
from grove.meta import Manifest

UNSCHEDULABLE: Final = "Unschedulable"
QUEUED: Final = "Queued"
#: Of a queue that somebody limited; where only the nodes limit it, there is simply no room.
USED_UP: Final = "ShareUsedUp"
#: What Volcano calls the ordinary case; other reasons are passed on, because they need another cure.
_ORDINARY: Final = ("", "NotEnoughResources", UNSCHEDULABLE)
#: Told with a warning when a gang has just been placed.
_NO_REASON: Final = "pod group is ready"
#: By these words Volcano counts nodes, of the cluster or of a domain.
_NODES: Final = "nodes are unavailable"
_GATED: Final = "SchedulingGated"
#: Where a reason's name should stand, Volcano also puts sentences; a condition of ours takes names only.
_NAME = re.compile(r"[A-Za-z]+")


def read(
    gang: PodGang,
    objects: Sequence[Manifest],
    pods: Sequence[Pod],
    queue: str,
    asked: str = "",
    limit: str = "",
) -> Reading:
    """What became of the gang; `asked` names the resources that its pods ask for, if they are known, and
    `limit` has what of them the queue may give out, if somebody said so."""
    seen = progress(gang, pods)
    decided = verdict_of(gang, seen)
    if decided is not None:
        return decided
    if _unseen(seen):
        return seen.waiting()
    reason, text = next(_conditions(objects), ("", ""))
    words = [*([text] if text else ()), *(each for each in _pod_words(seen) if each not in text)]
    if words == [text] and reason in _ORDINARY and _NODES not in text and _unexplained(seen):
        domains = ", ".join(required_keys(gang))
        words.append(f"Volcano names no node, as it does when {_silence(queue, asked, limit, domains)}")
        reason = USED_UP if limit and not domains else reason
    if words:
        name = UNSCHEDULABLE if reason in _ORDINARY or not _NAME.fullmatch(reason) else reason
        return Reading(Verdict.UNSCHEDULABLE, name, "; ".join([seen.sentence, *words]) + ".")
    if _phase(objects) == "Pending":
        sentence = f"{seen.sentence}; Volcano has not admitted the gang to queue {queue!r} yet."
        return Reading(Verdict.WAITING, QUEUED, sentence)
    return seen.waiting()


def _silence(queue: str, asked: str, limit: str, domains: str) -> str:
    """What it means that Volcano names no node."""
    # With one resource there is no doubt; of several, those that are not short must not be named.
    several = "a resource that the pods ask for (Volcano does not say which)"
    share = f"no share left of {several if ',' in asked else asked}" if asked else "no share left"
    most = f"its capability ({limit}) and what all nodes have" if limit else "what all nodes have"
    why = f"queue {queue!r} has {share}, which is at most {most}"
    return f"no single {domains} has room for all pods that must share it, or {why}" if domains else why


def _unseen(seen: PlacementProgress) -> bool:
    """Whether all that waits still looks as it did behind its gates: what was said before is about that."""
    told = [pod.condition("PodScheduled") for pod in seen.pending]
    return bool(told) and all(each is not None and each.reason == _GATED for each in told)


def _conditions(objects: Sequence[Manifest]) -> Iterator[tuple[str, str]]:
    """Reason and text of what Volcano holds against the gang, unless it has been placed since."""
    for manifest in objects:
        found = _items(_map(manifest.get("status")).get("conditions"))
        true = [each for each in found if each.get("status", "True") == "True"]
        since = max(
            (_text(each.get("lastTransitionTime")) for each in true if each.get("type") == "Scheduled"),
            default="",
        )
        unschedulable = [each for each in true if each.get("type") == UNSCHEDULABLE]
        for each in sorted(
            unschedulable, key=lambda item: _text(item.get("lastTransitionTime")), reverse=True
        ):
            text = _text(each.get("message")).strip().rstrip(".")
            stale = since and _text(each.get("lastTransitionTime")) <= since
            if text and not stale and _NO_REASON not in text:
                yield _text(each.get("reason")), text


def _pod_words(seen: PlacementProgress) -> list[str]:
    """What the nodes lack: the first pod that found none says it; those that wait for it repeat the gang."""
    for pod in seen.pending:
        condition = pod.condition("PodScheduled")
        if condition is None or condition.status != "False" or condition.reason != UNSCHEDULABLE:
            continue
        text = condition.message.strip().rstrip(".")
        if text and "minAvailable" not in text:
            return [text]
    return []


def _unexplained(seen: PlacementProgress) -> bool:
    """Whether a pod that found no node merely repeats the gang: Volcano did not ask the nodes about it."""
    told = [pod.condition("PodScheduled") for pod in seen.pending]
    return any(
        each is not None and each.reason == UNSCHEDULABLE and "minAvailable" in each.message for each in told
    )


def _phase(objects: Sequence[Manifest]) -> str:
    return next((_text(_map(each.get("status")).get("phase")) for each in objects), "")


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: object) -> list[Mapping[str, Any]]:
    return [_map(item) for item in value] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
