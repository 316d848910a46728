"""YuniKorn's verdict on a gang, from its pods and from the placeholders that hold places for them.

While YuniKorn reserves, the real pods say nothing: the placeholders do. They are among the gang's pods by
our label, without being any clique's. When YuniKorn gives up it ends the pods, and says why on each of them.

YuniKorn 1.8 writes the same sentence on every placeholder that its queue has a share for and no node takes,
whatever the nodes lack, and nothing on one that its queue has no share for. The cause is only in events: see
`yunikorn.remarks`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from grove.api import labels
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.api.revision import restarts
from grove.backends.base import Context, Reading, Verdict
from grove.backends.shape import PlacementProgress, progress, verdict_of
from grove.backends.yunikorn.marks import TASK_GROUP, in_application, requests_of
from grove.backends.yunikorn.remarks import main_cause

#: YuniKorn looks at no node for it: so it is for a second with every gang, and as long as a quota is used up.
QUEUED: Final = "Queued"
TIMED_OUT: Final = "ResourceReservationTimeout"
REJECTED: Final = "ApplicationRejected"
ENDINGS: Final = (TIMED_OUT, REJECTED)

_PLACEHOLDER: Final = ("internal.yunikorn.apache.org/placeholder", "yunikorn.apache.org/placeholder")


def read(gang: PodGang, pods: Sequence[Pod], context: Context) -> Reading:
    """What became of the gang."""
    members = [pod for pod in pods if not is_placeholder(pod)]
    seen = progress(gang, members)
    if not seen.complete and (ended := next(_ended(gang, members, context), None)) is not None:
        return _given_up(seen, ended)
    decided = verdict_of(gang, seen)
    if decided is not None:
        return decided
    present = _placeholders(gang, pods, context)
    reserved, cause = _reserved(gang, present, context), main_cause((*present, *seen.pending), context)
    if cause is None:
        return _silent(seen, present, reserved)
    number = restarts(gang)
    again = f"restarts of the gang so far: {number}" if number else ""
    parts = filter(None, (seen.sentence, reserved, cause.text, again))
    return Reading(Verdict.UNSCHEDULABLE, cause.reason, "; ".join(parts) + ".")


def is_placeholder(pod: Pod) -> bool:
    """Whether a pod only keeps a place for another one."""
    return labels.POD_CLIQUE not in pod.labels and any(key in pod.annotations for key in _PLACEHOLDER)


def given_up(pod: Pod, gang: PodGang, context: Context) -> bool:
    """Whether YuniKorn ended this pod together with the present start of its gang."""
    ended = pod.status.phase == "Failed" and pod.status.reason in ENDINGS
    return ended and in_application(pod, gang, context)


def places(gang: PodGang, pods: Sequence[Pod], context: Context) -> tuple[int, int]:
    """How many places YuniKorn holds for a gang that is not placed yet, and how many more it looks for.

    It makes all placeholders of an application when that starts, and no others later.
    """
    active = [pod for pod in _placeholders(gang, pods, context) if pod.active]
    reserved = sum(1 for pod in active if pod.bound)
    return reserved, len(active) - reserved


def _placeholders(gang: PodGang, pods: Sequence[Pod], context: Context) -> list[Pod]:
    return [pod for pod in pods if is_placeholder(pod) and in_application(pod, gang, context)]


def _ended(gang: PodGang, members: Sequence[Pod], context: Context) -> Iterator[Pod]:
    return (pod for pod in members if not pod.terminating and given_up(pod, gang, context))


def _given_up(seen: PlacementProgress, pod: Pod) -> Reading:
    text = pod.status.message.strip().rstrip(".") or "no reason given"
    return Reading(
        Verdict.UNSCHEDULABLE,
        pod.status.reason,
        f"{seen.sentence}; YuniKorn gave up: {text}. Grove tries again with new pods.",
    )


def _silent(seen: PlacementProgress, placeholders: Sequence[Pod], reserved: str) -> Reading:
    """YuniKorn has said nothing of what waits."""
    if not placeholders:
        return seen.waiting()
    open_ = next((pod for pod in placeholders if not pod.bound and pod.active), None)
    if open_ is None:
        return Reading(Verdict.WAITING, "WaitingForScheduler", f"{seen.sentence}; {reserved}.")
    why = f"if that stays, the queue has no share left for them: see the events of pod {open_.name}"
    return Reading(Verdict.WAITING, QUEUED, f"{seen.sentence}; {reserved}; {why}.")


def _reserved(gang: PodGang, placeholders: Sequence[Pod], context: Context) -> str:
    """How many places are held, and what the missing ones ask for."""
    if not placeholders:
        return ""
    bound = Counter(pod.annotations.get(TASK_GROUP, "") for pod in placeholders if pod.bound and pod.active)
    lacking = []
    for podgroup in gang.spec.podgroups:
        missing = podgroup.min_replicas - bound[podgroup.name]
        if missing > 0 and any(pod.annotations.get(TASK_GROUP) == podgroup.name for pod in placeholders):
            asked = ", ".join(f"{key} {value}" for key, value in requests_of(podgroup, gang, context).items())
            lacking.append(f"{podgroup.name} lacks {missing}" + (f", each with {asked}" if asked else ""))
    reserved = f"YuniKorn holds {bound.total()} of {gang.minimum} places"
    return f"{reserved}, {'; '.join(lacking)}" if lacking else reserved
