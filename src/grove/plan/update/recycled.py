"""How long a replica keeps its turn that gang termination recycled meanwhile. Pure.

Where a new template makes pods fail soon after they are ready, the replica whose turn it is falls below its
minimum and is recycled: its pods start together and are all ready for a moment. That moment is no end of its
turn, or the template would go on to the next replica, and through the whole set. So a replica that was
recycled must have been available for a while: for as long as it had been made to wait, ten minutes at most.

Nothing is remembered for this. The pods of a clique that are all younger than the end of its update by more
than `terminationDelay` were made again by gang termination; since when a clique is available, it says itself.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from grove.api import conditions
from grove.api.clique import PodClique
from grove.api.pod import Pod
from grove.meta import find_condition

#: The longest time that a replica must be available; it is made to wait for four hours where nobody says.
MOST: Final = timedelta(minutes=10)
#: Times in statuses and of creation have whole seconds.
_ROUNDING: Final = timedelta(seconds=1)


def patience(delay: timedelta) -> timedelta:
    """How long a replica that was recycled must have been available; `delay` is its `terminationDelay`."""
    return min(delay, MOST)


def was_recycled(clique: PodClique, pods: Iterable[Pod], since: datetime, delay: timedelta) -> bool:
    """Whether all pods of a clique were made again since its update ended; `since` its replica has its turn.

    Where its pods are still being replaced, they are replaced for that.
    """
    progress = clique.status.update_progress
    ended = progress.update_ended_at if progress is not None else None
    if progress is not None and ended is None:
        return False
    begins = [since, *(_moment(each) for each in (clique.metadata.creation_timestamp, ended) if each)]
    made = [pod.metadata.creation_timestamp for pod in pods if pod.keeps_place]
    return bool(made) and all(each and _moment(each) > max(begins) + delay for each in made)


def available_since(cliques: Sequence[PodClique]) -> datetime | None:
    """Since when all of these cliques say that they are available; None while one does not."""
    found = [find_condition(each.status.conditions, conditions.AVAILABLE) for each in cliques]
    times = [
        each.last_transition_time
        for each in found
        if each is not None and each.is_true and each.last_transition_time
    ]
    return max(map(_moment, times)) + _ROUNDING if times and len(times) == len(cliques) else None


def _moment(stamp: str) -> datetime:
    return datetime.fromisoformat(stamp)
