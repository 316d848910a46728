"""Gang termination: when a gang that ran and fell below its minimum is recycled, and what of it. Pure.

When a clique has fewer working pods than its minimum for longer than the set's `terminationDelay`, its pods
and those of its neighbours are deleted and come back together. A replica of a scaling group is recycled alone
while enough other replicas of the group work; otherwise all pods of the set replica are. One that only waits
does not work, though it is not recycled for that.

Nothing is kept in memory. A breach began when the clique's condition `MinAvailableBreached` was first
observed, which its status keeps across restarts of the operator. Only pods that are older than the deadline
are deleted: what was made since then is the next start. A clique that never had its minimum is not recycled
(`MinAvailableReached`), nor are pods of which none is on a node: there is nothing to give back.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from grove.api import conditions, durations, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSetTemplate
from grove.api.pod import Pod
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.meta import Condition, find_condition, is_true
from grove.plan.clique_status import is_breached, shortfall
from grove.plan.conditions import moment
from grove.plan.layout import GroupReplica, Layout, PlannedClique
from grove.words import counted

#: The pods of a clique.
PodsOf = Callable[[PodClique], Sequence[Pod]]

#: What the admission of a set fills in.
DEFAULT_DELAY = timedelta(hours=4)


@dataclass(frozen=True, slots=True)
class Need:
    """What must recover before a certain time: so many of several parts, each with all of its cliques."""

    due: datetime
    #: The cliques below their minimum: one by itself, or those of each broken replica of a scaling group.
    parts: tuple[tuple[PodClique, ...], ...]
    #: How many of the parts.
    number: int = 1
    #: The scaling group whose replicas the parts are; empty for a clique by itself.
    group: str = ""

    def missing(self, pods_of: PodsOf) -> int:
        """How many parts must still recover; what the cliques say of themselves may be older than this."""
        broken = [each for each in self.parts if any(is_breached(clique, pods_of(clique)) for clique in each)]
        return max(0, self.number - (len(self.parts) - len(broken)))

    def words(self, pods_of: PodsOf) -> list[str]:
        """The fewest pods that would do: `1 more pod of train-0-decode`."""
        lacks = [[(each.name, shortfall(each, pods_of(each))) for each in part] for part in self.parts]
        broken = [lack for lack in lacks if _total(lack)]
        chosen = sorted(broken, key=_total)[: self.missing(pods_of)]
        words = [f"{counted(pods, 'more pod')} of {name}" for lack in chosen for name, pods in lack if pods]
        if 0 < len(chosen) < len(broken):
            other = "another replica" if len(chosen) == 1 else "other replicas"
            lacks_of = "lacks" if len(chosen) == 1 else "lack"
            words[-1] += f" (or what {other} of {self.group} {lacks_of})"
        return words


def _total(lack: Iterable[tuple[str, int]]) -> int:
    return sum(pods for _, pods in lack)


@dataclass(frozen=True, slots=True)
class Termination:
    """That the pods of some cliques are deleted at a certain time, unless those that are breached recover."""

    #: The replica of the set that it is about.
    replica: int
    #: What is recycled: `replica 0`, `replica 2 of train-0-decode (gang train-0-decode-1)`.
    subject: str
    #: All cliques whose pods are deleted.
    cliques: tuple[PodClique, ...]
    #: What must recover; the earliest decides when.
    needs: tuple[Need, ...]
    #: The replica of a scaling group that is recycled; empty where the whole replica of the set is.
    group_replica: str = ""

    @property
    def due(self) -> datetime:
        """When the pods are deleted."""
        return min(each.due for each in self.needs)

    @property
    def breached(self) -> tuple[PodClique, ...]:
        """The cliques below their minimum that decide it."""
        return tuple(clique for need in self.needs for part in need.parts for clique in part)

    def doomed(self, pods_of: PodsOf, now: datetime) -> list[Pod]:
        """The pods that are deleted now; none while it is not due, or when the breach is over."""
        if not any(each.due <= now and each.missing(pods_of) for each in self.needs):
            return []
        return [pod for pod in self._old(pods_of) if not pod.terminating]

    def holds_nodes(self, pods_of: PodsOf) -> bool:
        """Whether there is something to give back."""
        return any(pod.bound and pod.keeps_place for pod in self._old(pods_of))

    def unless(self, pods_of: PodsOf) -> str:
        """What would prevent it: `unless 1 more pod of train-0-decode is ready`."""
        words = [each for need in self.needs for each in need.words(pods_of)]
        are = "is" if len(words) == 1 and words[0].startswith("1 ") else "are"
        return f"unless {' and '.join(words)} {are} ready" if words else "unless its pods become ready"

    def _old(self, pods_of: PodsOf) -> Iterator[Pod]:
        """The pods of the start that failed: what is younger than the deadline belongs to the next one."""
        for clique in self.cliques:
            for pod in pods_of(clique):
                stamp = pod.metadata.creation_timestamp
                if stamp and datetime.fromisoformat(stamp) < self.due:
                    yield pod


def termination_delay(template: PodCliqueSetTemplate) -> timedelta:
    """How long a gang may be below its minimum."""
    return durations.parse(template.termination_delay) if template.termination_delay else DEFAULT_DELAY


def terminations(
    cliques: Mapping[str, PodClique],
    groups: Mapping[str, PodCliqueScalingGroup],
    layout: Callable[[int], Layout],
    delay: timedelta,
) -> list[Termination]:
    """Everything of a set that is recycled unless it recovers; `layout` says how a replica is built."""
    breached = (clique for clique in cliques.values() if breached_since(clique) is not None)
    replicas = {labels.number(clique.labels, labels.SET_REPLICA_INDEX) for clique in breached}
    found: list[Termination] = []
    for replica in sorted(each for each in replicas if each is not None):
        found += _of_replica(replica, layout(replica), cliques, groups, delay)
    return found


def _of_replica(
    replica: int,
    layout: Layout,
    cliques: Mapping[str, PodClique],
    groups: Mapping[str, PodCliqueScalingGroup],
    delay: timedelta,
) -> list[Termination]:
    planned = list(layout.cliques(replica))
    needs = _needs(_breaches((each for each in planned if each.group is None), cliques), delay)
    alone: list[Termination] = []
    for name, config in layout.groups(replica):
        members = _group_replicas(planned, name)
        broken = {
            number: breaches for number, each in members.items() if (breaches := _breaches(each, cliques))
        }
        spare = max(0, layout.replicas_of(name, config) - config.minimum)
        short = sum(_falls_short(each, cliques) for each in members.values())
        since = _minimum_lost(broken.values(), spare, groups.get(name) if short > spare else None)
        if since is not None:
            parts = tuple(tuple(each.clique for each in breaches) for breaches in broken.values())
            needs.append(Need(since + delay, parts, min(len(parts), max(1, short - spare)), name))
            continue
        for number, breaches in broken.items():
            member = GroupReplica(config, name, number)
            there = _there(members[number], cliques)
            subject = f"replica {number} of {name} ({_of_gang(layout, replica, member)})"
            alone.append(Termination(replica, subject, there, tuple(_needs(breaches, delay)), member.name))
    if not needs:
        return alone
    return [Termination(replica, f"replica {replica}", _there(planned, cliques), tuple(needs)), *alone]


def _of_gang(layout: Layout, replica: int, member: GroupReplica) -> str:
    """Which gang: their names look like those of replicas of groups, and count from the group's minimum."""
    return f"{'' if member.scaled else 'in '}gang {layout.gang_of(replica, member)}"


def _there(planned: Iterable[PlannedClique], cliques: Mapping[str, PodClique]) -> tuple[PodClique, ...]:
    return tuple(cliques[each.name] for each in planned if each.name in cliques)


def _needs(breaches: "Iterable[_Breach]", delay: timedelta) -> list[Need]:
    """Each of these cliques must recover."""
    return [Need(each.since + delay, ((each.clique,),)) for each in breaches]


@dataclass(frozen=True, slots=True)
class _Breach:
    """That a clique is below its minimum, and since when that counts."""

    clique: PodClique
    since: datetime


def _minimum_lost(
    broken: Collection[list[_Breach]], spare: int, group: PodCliqueScalingGroup | None
) -> datetime | None:
    """Since when too few replicas of a group work because some are broken; None while enough do.

    `group` says since when, where others that are not broken do not work either.
    """
    if len(broken) > spare:
        # The group's minimum is gone since this many of its replicas were broken at once.
        return _earliest(sorted(broken, key=_earliest)[spare])
    # Others may wait for their first placement, or again: the group counts them and says since when.
    told = _told_breached(group.status.conditions) if group is not None else None
    return max(told, min(map(_earliest, broken))) if told is not None and broken else None


def _falls_short(members: Iterable[PlannedClique], cliques: Mapping[str, PodClique]) -> bool:
    """Whether a replica of a group does not work at this moment: what the group itself says may be older."""
    found = [cliques.get(each.name) for each in members]
    return any(
        each is None or each.terminating or _told_breached(each.status.conditions) is not None
        for each in found
    )


def _group_replicas(planned: Iterable[PlannedClique], group: str) -> dict[int, list[PlannedClique]]:
    """The cliques of one scaling group, by its replica."""
    found: dict[int, list[PlannedClique]] = {}
    for each in planned:
        if each.group is not None and each.group.group == group:
            found.setdefault(each.group.number, []).append(each)
    return found


def _breaches(planned: Iterable[PlannedClique], cliques: Mapping[str, PodClique]) -> list[_Breach]:
    """Those of the planned cliques that are below a minimum that they once had."""
    found = (cliques[each.name] for each in planned if each.name in cliques)
    return [_Breach(each, since) for each in found if (since := breached_since(each)) is not None]


def _earliest(breaches: Iterable[_Breach]) -> datetime:
    return min(each.since for each in breaches)


def breached_since(clique: PodClique) -> datetime | None:
    """Since when a clique that once had its minimum has been below it; None while it is not, or is going."""
    if clique.terminating or not is_true(clique.status.conditions, conditions.MIN_AVAILABLE_REACHED):
        return None
    since = _told_breached(clique.status.conditions)
    if since is None:
        return None
    # One that came to its minimum and lost it again unseen was never told to be above it: it counts from when
    # that was found out.
    reached = find_condition(clique.status.conditions, conditions.MIN_AVAILABLE_REACHED)
    found_out = _transition(reached) if reached is not None else None
    return since if found_out is None else max(since, found_out)


def _told_breached(told: Sequence[Condition]) -> datetime | None:
    """Since when these conditions say that the minimum is not there; None while they do not."""
    breach = find_condition(told, conditions.MIN_AVAILABLE_BREACHED)
    return _transition(breach) if breach is not None and breach.is_true else None


def _transition(condition: Condition) -> datetime | None:
    """When a condition changed at the latest; None where that cannot be read and is written anew."""
    told = moment(condition.last_transition_time)
    # Times in a status have whole seconds; nothing is recycled before its delay is over.
    return told + timedelta(seconds=1) if told is not None else None
