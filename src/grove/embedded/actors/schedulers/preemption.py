"""Which pods must go so that something more urgent fits: the search that preempting schedulers share.

Two ways, as the real ones have them. `room_for_group` makes room for a whole gang anywhere in the cluster and
evicts units, which are whole gangs or single pods. `NodeSearch` makes room for one pod after another, each on
one node, and evicts pods. Both begin with all candidates gone and put back whoever may stay, the most
important first. Pods that are already leaving count as gone: nobody else has to go for what they free. The
ledger is the same afterwards; nothing is written to the API here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from grove.embedded.actors.objects import Key, is_deleting, is_terminal, key_of, node_of, priority_of
from grove.embedded.actors.schedulers.desk import Desk, Outcome
from grove.embedded.actors.schedulers.gangs import Group, attempt
from grove.embedded.actors.schedulers.placement import Ledger, Trial
from grove.embedded.actors.schedulers.shapes import PodShape
from grove.embedded.errors import Manifest

NEVER = "Never"


@dataclass(slots=True)
class Unit:
    """Pods that are evicted together or not at all."""

    priority: int
    since: str
    """When the youngest of its pods was made: of equals the younger go first."""
    pods: list[Manifest] = field(default_factory=list)


Owner = Callable[[Manifest], tuple[Hashable, int] | None]
"""The unit of a pod and its priority; None for a pod that nobody may evict."""

Mates = Callable[[Manifest], Iterable[Manifest]]
"""All pods that go when this one goes."""


def may_preempt(pods: Iterable[Manifest]) -> bool:
    return all(pod["spec"].get("preemptionPolicy") != NEVER for pod in pods)


def single(pod: Manifest) -> tuple[Hashable, int]:
    """Each pod is a unit of its own."""
    return key_of(pod), priority_of(pod)


def units_below(desk: Desk, priority: int, owner: Owner = single) -> list[Unit]:
    """The units on nodes with a lower priority, the most important first."""
    found: dict[Hashable, Unit] = {}
    for pod in desk.pods:
        if not _stays(desk, pod) or (owned := owner(pod)) is None or owned[1] >= priority:
            continue
        unit = found.setdefault(owned[0], Unit(owned[1], ""))
        unit.pods.append(pod)
        unit.since = max(unit.since, pod["metadata"].get("creationTimestamp") or "")
    return sorted(found.values(), key=lambda unit: (-unit.priority, unit.since, key_of(unit.pods[0])))


def _stays(desk: Desk, pod: Manifest) -> bool:
    return bool(node_of(pod)) and not is_terminal(pod) and not _leaves(desk, pod)


def _leaves(desk: Desk, pod: Manifest) -> bool:
    return is_deleting(pod) or key_of(pod) in desk.evicting


def room_for_group(desk: Desk, group: Group, units: list[Unit]) -> list[Manifest]:
    """The pods of the units that must go so that the group fits; none if that would not help."""
    ledger = desk.ledger
    if not units:
        return []
    with ledger.undone():
        _release(ledger, (pod for pod in desk.pods if _leaves(desk, pod)))
        if _fits(ledger, group):
            return []
        booked = [_bookings(ledger, unit) for unit in units]
        _release(ledger, (pod for unit in units for pod in unit.pods))
        if not _fits(ledger, group):
            return []
        victims: list[Manifest] = []
        for unit, places in zip(units, booked, strict=True):
            for key, node, shape in places:
                ledger.take(key, shape, node)
            if not _fits(ledger, group):
                _release(ledger, unit.pods)
                victims += unit.pods
        return victims


def _fits(ledger: Ledger, group: Group) -> bool:
    trial = Trial(ledger)
    fits = attempt(trial, group).ok
    trial.undo()
    return fits


def _bookings(ledger: Ledger, unit: Unit) -> list[tuple[Key, str, PodShape]]:
    found = ((key_of(pod), ledger.booking(key_of(pod))) for pod in unit.pods)
    return [(key, *booking) for key, booking in found if booking is not None]


def _release(ledger: Ledger, pods: Iterable[Manifest]) -> None:
    for pod in pods:
        ledger.release(key_of(pod))


class NodeSearch:
    """Makes room for pods one by one, each on the node where it costs least.

    Use it inside `ledger.undone()`: it books what it made room for, so that the next pod looks elsewhere.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._ledger = desk.ledger
        _release(desk.ledger, (pod for pod in desk.pods if _leaves(desk, pod)))
        self._gone: set[Key] = set()

    def room_for(self, pod: Manifest) -> list[Manifest]:
        """The pods that must go for this one; none if that does not help or need not be."""
        shape = self._desk.shape(pod)
        if Trial(self._ledger).place(key_of(pod), shape) is not None:
            return []
        below: dict[str, list[Unit]] = {}
        for unit in units_below(self._desk, priority_of(pod)):
            if key_of(unit.pods[0]) not in self._gone:
                below.setdefault(node_of(unit.pods[0]), []).append(unit)
        options = [
            (victims, node.name)
            for node in self._ledger.candidates(shape)
            if (victims := self._victims(shape, node.name, below.get(node.name, [])))
        ]
        if not options:
            return []
        victims, node_name = min(options, key=_cost)
        chosen = [victim for unit in victims for victim in unit.pods]
        _release(self._ledger, chosen)
        self._ledger.take(key_of(pod), shape, node_name)
        self._gone |= {key_of(victim) for victim in chosen}
        return chosen

    def _victims(self, shape: PodShape, node: str, below: list[Unit]) -> list[Unit]:
        with self._ledger.undone():
            booked = [_bookings(self._ledger, unit) for unit in below]
            _release(self._ledger, (pod for unit in below for pod in unit.pods))
            if not self._ledger.fits(shape, node):
                return []
            victims = []
            for unit, places in zip(below, booked, strict=True):
                for key, where, taken in places:
                    self._ledger.take(key, taken, where)
                if not self._ledger.fits(shape, node):
                    _release(self._ledger, unit.pods)
                    victims.append(unit)
            return victims


def _cost(option: tuple[list[Unit], str]) -> tuple[int, int, int, str]:
    """The least important victims first, then the fewest, then the node's name."""
    victims, node = option
    return max(v.priority for v in victims), sum(v.priority for v in victims), len(victims), node


def evict_for_group(
    desk: Desk,
    outcome: Outcome,
    group: Group,
    pods: Sequence[Manifest],
    *,
    owner: Owner = single,
    priority: int | None = None,
) -> None:
    """Let whole units go so that the group fits; `pods` are those of the group that wait."""
    mine = max(map(priority_of, pods)) if priority is None else priority
    if not may_preempt(pods) or (priority is None and not desk.outranks(mine)):
        return
    victims = room_for_group(desk, group, units_below(desk, mine, owner))
    desk.evict(outcome, [(victim, pods[0]) for victim in victims])


def evict_for_pods(
    desk: Desk, outcome: Outcome, pods: Sequence[Manifest], *, mates: Mates = lambda pod: (pod,)
) -> None:
    """Let pods go so that each of these finds a node, one after the other; `mates` go with a victim."""
    if not pods or not may_preempt(pods) or not desk.outranks(max(map(priority_of, pods))):
        return
    with desk.ledger.undone():
        search = NodeSearch(desk)
        chosen = [(victim, pod) for pod in pods for victim in search.room_for(pod)]
    desk.evict(outcome, [(mate, pod) for victim, pod in chosen for mate in mates(victim)])
