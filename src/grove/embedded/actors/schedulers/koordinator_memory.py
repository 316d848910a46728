"""What koord-scheduler remembers of gangs: which pods belong where, and which gang was placed once.

Faithful also where it hurts: gated pods count as members, a PodGroup that goes takes the memory of its
members along, and a pod is remembered again only when something is heard of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from grove.embedded.actors.objects import Key
from grove.embedded.actors.schedulers.koordinator_rules import GangSpec, gang_spec
from grove.embedded.errors import Manifest

Group = tuple[Key, ...]


@dataclass(slots=True)
class Gang:
    """One PodGroup and the pods that name it; without a spec until the PodGroup is seen."""

    spec: GangSpec | None = None
    group: Group = ()
    """The group as the PodGroup first named it: whether it was placed is remembered by this one for good."""
    children: dict[Key, None] = field(default_factory=dict)

    @property
    def enough(self) -> bool:
        return self.spec is not None and len(self.children) >= self.spec.minimum


class Memory:
    def __init__(self) -> None:
        self._gangs: dict[Key, Gang] = {}
        self._satisfied: set[Group] = set()

    def spec(self, gang: Key) -> GangSpec | None:
        found = self._gangs.get(gang)
        return found.spec if found else None

    def children(self, gang: Key) -> list[Key]:
        found = self._gangs.get(gang)
        return list(found.children) if found else []

    def put_podgroup(self, key: Key, podgroup: Manifest, *, placed: bool) -> bool:
        """Learn a PodGroup; whether it now has enough members and had not before."""
        gang = self._gangs.setdefault(key, Gang())
        before = gang.enough
        gang.spec = gang_spec(podgroup)
        gang.group = gang.group or gang.spec.group
        if placed:
            self._satisfied.add(gang.group)
        return gang.enough and not before

    def drop_podgroup(self, key: Key) -> None:
        gang = self._gangs.pop(key, None)
        if gang is None or gang.spec is None:
            return
        if not any(each in self._gangs for each in gang.group):
            self._satisfied.discard(gang.group)

    def see(self, gang: Key, pod: Key, *, bound: bool) -> None:
        found = self._gangs.setdefault(gang, Gang())
        found.children[pod] = None
        if bound and found.spec is not None:
            self._satisfied.add(found.group)

    def forget(self, gang: Key, pod: Key) -> None:
        found = self._gangs.get(gang)
        if found is None:
            return
        found.children.pop(pod, None)
        if found.spec is None and not found.children:
            del self._gangs[gang]

    def satisfied(self, gang: Key) -> bool:
        """Whether the gang was placed once and is asked no more."""
        found = self._gangs.get(gang)
        return bool(found and found.spec and found.spec.once and found.group in self._satisfied)

    def complete(self, gang: Key) -> bool:
        """Whether every PodGroup of the gang's group exists and has enough members, gated ones included."""
        spec = self.spec(gang)
        return spec is not None and all(
            (found := self._gangs.get(each)) is not None and found.enough for each in spec.group
        )

    def passes(self, gang: Key) -> bool:
        """Whether a pod of the gang gets into the queue at all; if not, nobody is told."""
        return self.satisfied(gang) or self.complete(gang)

    def members(self, group: Group) -> Iterator[tuple[Key, GangSpec, list[Key]]]:
        for each in group:
            spec = self.spec(each)
            if spec is not None:
                yield each, spec, self.children(each)
