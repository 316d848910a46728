"""Which places of a clique are still taken by pods that are on their way out. Pure.

A place is an index and with it a hostname. A pod on a node keeps it until it is gone or has ended: two pods
with one hostname would answer to one DNS name, and their peers would reach either of them. So the next pod of
a place is created when its predecessor is gone; the predecessor may also be a pod of an earlier clique of the
same name. A pod that does not go, because nobody stops it, is stuck and is waited for no longer.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import count, islice
from typing import Final

from grove.api import names
from grove.api.clique import PodClique
from grove.api.pod import Pod

#: A pod that is still there so long after the end of its grace period is stuck: a kubelet that answers needs
#: seconds.
STUCK_SECONDS: Final = 60.0


def is_stuck(pod: Pod, now: datetime) -> bool:
    """Whether a pod should have been gone long ago and may still run, for all that anybody knows."""
    return pod.terminating and pod.may_run and _left(pod, now) <= 0


def is_on_lost_node(pod: Pod) -> bool:
    """Whether the pod was ready and its node no longer answers, so that nobody knows whether it still runs.

    Then the node controller says that the pod is not ready, and gives no reason; a kubelet gives one. It
    changes nothing of a pod that is still starting.
    """
    ready, containers = pod.condition("Ready"), pod.condition("ContainersReady")
    if not pod.bound or not pod.active or ready is None or containers is None:
        return False
    return ready.status == "False" and not ready.reason and containers.is_true


def leaving(
    clique: PodClique, pods: Iterable[Pod], predecessors: Iterable[Pod], now: datetime
) -> dict[int, Pod]:
    """By index, the pods of the clique that are terminating and still have their hostnames.

    All pods of an earlier clique are on their way out, whether somebody has deleted them yet or not. One that
    nobody has deleted yet may be placed in this moment, also if the cache shows it on no node; once it is
    terminating it stays where it is.
    """
    found: dict[int, Pod] = {}
    for pod in (*(pod for pod in pods if pod.terminating), *predecessors):
        index = names.hostname_index(clique.name, pod.spec.hostname)
        holds = pod.active or pod.may_run
        if index is not None and holds and not is_stuck(pod, now):
            found[index] = pod
    return found


def free_places(clique: PodClique, holding: Iterable[Pod], number: int) -> list[int]:
    """The lowest so many places that these pods leave free, also those that must be waited for.

    Nothing is created at a higher index instead: the indexes stay dense.
    """
    filled = {names.hostname_index(clique.name, pod.spec.hostname) for pod in holding}
    return list(islice((index for index in count() if index not in filled), max(0, number)))


def awaited(clique: PodClique, pods: Iterable[Pod], leaving: Mapping[int, Pod]) -> Iterator[Pod]:
    """The pods that must be gone before the clique can have all of its own."""
    holding = [pod for pod in pods if pod.keeps_place]
    for index in free_places(clique, holding, clique.spec.replicas - len(holding)):
        if index in leaving:
            yield leaving[index]


def until_stuck(pods: Iterable[Pod], now: datetime) -> float | None:
    """In how many seconds the first of these pods counts as stuck unless it is gone; None for none."""
    going = (pod for pod in pods if pod.terminating and pod.may_run and not is_stuck(pod, now))
    return min((_left(pod, now) for pod in going), default=None)


def awaited_sentence(pods: Sequence[Pod]) -> str:
    """What is waited for; empty for nothing."""
    if not pods:
        return ""
    first, more = min(pod.name for pod in pods), len(pods) - 1
    return f"waiting for pod {first}{f' and {more} more' if more else ''} to terminate"


def _left(pod: Pod, now: datetime) -> float:
    # The timestamp of a deletion is already the end of the grace period.
    ends = datetime.fromisoformat(pod.metadata.deletion_timestamp or "")
    left = STUCK_SECONDS - (now - ends).total_seconds()
    # What the inaccuracy of floats leaves is no wait.
    return left if left > 0.001 else 0.0
