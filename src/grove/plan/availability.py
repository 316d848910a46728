"""Whether a replica of a set has enough ready pods everywhere. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from grove.api.clique import PodClique
from grove.plan.layout import Layout, PlannedGang


def said_ready(clique: PodClique) -> int:
    """How many ready pods the status of a clique tells of."""
    return clique.status.ready_replicas


@dataclass(frozen=True, slots=True)
class ReplicaCliques:
    """The cliques of one replica: standalone ones, and those of each replica of a scaling group."""

    standalone: Sequence[PodClique | None]
    #: By the name of the group, one entry for each of its replicas.
    groups: Mapping[str, Sequence[Sequence[PodClique | None]]]

    @classmethod
    def of(cls, planned: Sequence[PlannedGang], cliques: Mapping[str, PodClique]) -> "ReplicaCliques":
        standalone: list[PodClique | None] = []
        groups: dict[str, dict[int, list[PodClique | None]]] = {}
        for each in (clique for gang in planned for clique in gang.cliques if clique.exists):
            found = cliques.get(each.name)
            if each.group is None:
                standalone.append(found)
            else:
                groups.setdefault(each.group.group, {}).setdefault(each.group.number, []).append(found)
        return cls(standalone, {name: list(replicas.values()) for name, replicas in groups.items()})

    @property
    def there(self) -> int:
        grouped = [clique for replicas in self.groups.values() for each in replicas for clique in each]
        absent = self.standalone.count(None) + grouped.count(None)
        return len(self.standalone) + len(grouped) - absent

    def available(self, layout: Layout, index: int, ready: Callable[[PodClique], int] = said_ready) -> bool:
        """Whether enough pods of every clique are ready, and enough replicas of every scaling group."""
        if not are_available(self.standalone, ready):
            return False
        for name, config in layout.groups(index):
            needed = min(config.minimum, layout.replicas_of(name, config))
            there = sum(are_available(members, ready) for members in self.groups.get(name, ()))
            if there < needed:
                return False
        return True

    def all(self) -> Iterator[PodClique | None]:
        yield from self.standalone
        for replicas in self.groups.values():
            for replica in replicas:
                yield from replica


def are_available(
    cliques: Sequence[PodClique | None], ready: Callable[[PodClique], int] = said_ready
) -> bool:
    """Whether all of these cliques exist and have enough ready pods."""
    return all(
        clique is not None and not clique.terminating and ready(clique) >= clique.spec.needed
        for clique in cliques
    )


def is_updated(clique: PodClique) -> bool:
    """Whether as many pods of a clique as the gang needs were made from its template."""
    return clique.status.updated_replicas >= clique.spec.needed
