"""The replicas that an update adds, and which of them it gives up for want of room. Pure.

They stand in for replicas that are down, and need nodes as those do. While a replica that has its turn finds
no room, no further one gets its turn because of them, and only those stay without which more would be down
than `maxUnavailable` allows. What was given up is not made again in the same update: its status tells how
many are left.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from grove.api import conditions
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.meta import find_condition, is_true
from grove.plan.update.budget import Budget, budget_of

#: What schedulers say of a gang when there is no room, or no share of it left.
_NO_ROOM: Final = frozenset(
    {
        conditions.UNSCHEDULABLE,
        conditions.QUEUED,
        conditions.OVER_LIMIT,
        conditions.OVER_QUOTA,
        conditions.SHARE_USED_UP,
        conditions.RESERVATION_TIMEOUT,
    }
)


@dataclass(frozen=True, slots=True)
class Surplus:
    """How many replicas there are beyond those that a set asks for."""

    count: int = 0
    #: How many are left in this update; None where none was given up.
    left: int | None = None
    #: The replicas that have their turn and find no room.
    short: tuple[int, ...] = ()


NO_SURPLUS: Final = Surplus()


def surplus_allowed(cliqueset: PodCliqueSet, *, begins: bool) -> int:
    """How many replicas an update may add: less than `maxSurge` once it gave some up."""
    surge, progress = budget_of(cliqueset).surge, cliqueset.status.update_progress
    if begins or progress is None or progress.update_ended_at is not None:
        return surge
    left = progress.surplus_replicas
    return surge if left is None else min(surge, max(0, left))


def surplus_needed(budget: Budget, down: int) -> int:
    """How many surplus replicas must serve while so many others are down.

    Where nothing may be down, the update could never go on without one.
    """
    return max(down - budget.unavailable, 0 if budget.unavailable else 1)


def surplus_kept(serving: Sequence[bool], needed: int) -> int:
    """How many stay of the replicas that were added, the first ones, so that as many serve as are needed."""
    chosen = [number for number, serves in enumerate(serving, 1) if serves][:needed]
    return min(len(serving), max(needed, *chosen[-1:], 0))


def waits_for_room(gang: PodGang) -> bool:
    """Whether the scheduler of a gang has found no place for some of its pods."""
    scheduled = find_condition(gang.status.conditions, conditions.SCHEDULED)
    if scheduled is not None and not scheduled.is_true and scheduled.reason in _NO_ROOM:
        return True
    return is_true(gang.status.conditions, conditions.PODS_ABOVE_MINIMUM_PENDING)


def holding_room(budget: Budget, count: int, placed: Iterable[int]) -> str:
    """That surplus replicas hold room, and how to have it back; empty where none is placed."""
    found = [str(each) for each in sorted(placed)]
    if not found:
        return ""
    several = len(found) > 1
    listed = " and ".join([", ".join(found[:-1]), found[-1]]) if several else found[0]
    ways = [f"set maxSurge to {count - 1}"] if count > 1 or budget.unavailable else []
    out = " or ".join([*ways, "raise maxUnavailable"])
    which = f"replicas {listed} hold" if several else f"replica {listed} holds"
    return f"surplus {which} room: {out} to free {'some of it' if several else 'it'}"
