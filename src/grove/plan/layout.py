"""Which gangs and cliques each replica of a set has, and which clique belongs to which gang. Pure.

The one walk over roles and scaling groups. A replica has a base gang: its standalone cliques, and of each
scaling group the replicas up to the group's minimum. Each further replica of a group is a *scaled gang*,
which is placed once the base gang is.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from grove.api import names
from grove.api.cliqueset import PodCliqueSet, PodCliqueSetTemplate, PodCliqueTemplate, ScalingGroupConfig
from grove.api.scaling_group import PodCliqueScalingGroup


class GroupReplica(NamedTuple):
    """One replica of a scaling group."""

    config: ScalingGroupConfig
    #: The name of the PodCliqueScalingGroup.
    group: str
    number: int

    @property
    def name(self) -> str:
        return names.group_replica(self.group, self.number)

    @property
    def scaled(self) -> bool:
        """Whether it is above the group's minimum and thus a gang of its own."""
        return self.number >= self.config.minimum


class PlannedClique(NamedTuple):
    """A clique that a replica has, or would have if its scaling group were not scaled below its minimum."""

    name: str
    role: PodCliqueTemplate
    gang: str
    #: The replica of a scaling group that it belongs to; None for a standalone clique.
    group: GroupReplica | None = None
    #: Whether it should exist. The base gang keeps a podgroup for one that is scaled away.
    exists: bool = True


class PlannedGang(NamedTuple):
    """A gang that a replica has."""

    name: str
    replica: int
    cliques: tuple[PlannedClique, ...]
    #: The gang that must be placed first; empty for the base gang itself.
    base: str = ""
    #: The replica of a scaling group that a scaled gang consists of.
    group: GroupReplica | None = None


def layout_of(
    cliqueset: PodCliqueSet,
    groups: Mapping[str, PodCliqueScalingGroup],
    granted: Mapping[str, int] | None = None,
) -> "Layout":
    """The layout of a set by its present template, with the scaling groups that it has.

    `granted` says by name how many replicas groups may have that may not have all that they ask for.
    """
    scaled_to = {name: group.spec.replicas for name, group in groups.items()}
    return Layout(cliqueset.name, cliqueset.template, {**scaled_to, **(granted or {})})


def pods_of_a_replica(template: PodCliqueSetTemplate) -> int:
    """How many pods a template gives one replica of a set."""
    copies = {
        role: group.initial_replicas
        for group in template.pod_clique_scaling_groups
        for role in group.clique_names
    }
    return sum(role.spec.replicas * copies.get(role.name, 1) for role in template.cliques)


@dataclass(frozen=True)
class Layout:
    """The gangs and cliques of every replica that is built from one template."""

    cliqueset: str
    template: PodCliqueSetTemplate
    #: The replicas of the scaling groups that exist, by their names; others have what the template says.
    scaled_to: Mapping[str, int] = field(default_factory=dict)

    @property
    def groups_of_template(self) -> tuple[ScalingGroupConfig, ...]:
        return self.template.pod_clique_scaling_groups

    def groups(self, replica: int) -> Iterator[tuple[str, ScalingGroupConfig]]:
        """The scaling groups of one replica, by name."""
        for config in self.template.pod_clique_scaling_groups:
            yield names.scaling_group(self.cliqueset, replica, config.name), config

    def replicas_of(self, group: str, config: ScalingGroupConfig) -> int:
        """How many replicas a scaling group should have."""
        return self.scaled_to.get(group, config.initial_replicas)

    def gangs(self, replica: int) -> Iterator[PlannedGang]:
        """The base gang of a replica, then its scaled gangs."""
        yield self.base_gang(replica)
        for group, config in self.groups(replica):
            for index in range(config.minimum, self.replicas_of(group, config)):
                yield self._scaled_gang(replica, GroupReplica(config, group, index))

    def cliques(self, replica: int) -> Iterator[PlannedClique]:
        """The cliques that one replica should have."""
        for gang in self.gangs(replica):
            for clique in gang.cliques:
                if clique.exists:
                    yield clique

    def base_gang(self, replica: int) -> PlannedGang:
        """The gang that every replica has."""
        name = names.base_gang(self.cliqueset, replica)
        cliques = [
            PlannedClique(names.clique(self.cliqueset, replica, role.name), role, name)
            for role in self._standalone.values()
        ]
        for group, config in self.groups(replica):
            there = self.replicas_of(group, config)
            for index in range(config.minimum):
                cliques += self._members(GroupReplica(config, group, index), name, exist=index < there)
        return PlannedGang(name, replica, tuple(cliques))

    def find_gang(self, replica: int, name: str) -> PlannedGang | None:
        """The gang of a replica that has this name; None if it should have no such gang."""
        if name == names.base_gang(self.cliqueset, replica):
            return self.base_gang(replica)
        for group, config in self.groups(replica):
            found = names.indexed(name.removeprefix(f"{group}-")) if name.startswith(f"{group}-") else None
            if found is not None and not found[1] and not name.endswith("-"):
                index = found[0] + config.minimum
                if index < self.replicas_of(group, config):
                    return self._scaled_gang(replica, GroupReplica(config, group, index))
        return None

    def find_clique(self, replica: int, name: str) -> PlannedClique | None:
        """The clique of a replica that has this name; None if it should have no such clique."""
        prefix = names.clique(self.cliqueset, replica, "")
        if not name.startswith(prefix):
            return None
        if (role := self._standalone.get(name.removeprefix(prefix))) is not None:
            return PlannedClique(name, role, names.base_gang(self.cliqueset, replica))
        for group, config in self.groups(replica):
            found = names.indexed(name.removeprefix(f"{group}-")) if name.startswith(f"{group}-") else None
            if found is None or found[1] not in config.clique_names:
                continue
            if found[0] < self.replicas_of(group, config):
                member = GroupReplica(config, group, found[0])
                return PlannedClique(name, self._roles[found[1]], self.gang_of(replica, member), member)
        return None

    def gang_of(self, replica: int, member: GroupReplica) -> str:
        """The name of the gang that a replica of a scaling group belongs to."""
        if member.scaled:
            return names.scaled_gang(member.group, member.number - member.config.minimum)
        return names.base_gang(self.cliqueset, replica)

    def position(self, role: str) -> int:
        """Where a role stands in the template's list of cliques."""
        return self._positions[role]

    def _scaled_gang(self, replica: int, member: GroupReplica) -> PlannedGang:
        name = self.gang_of(replica, member)
        base = names.base_gang(self.cliqueset, replica)
        return PlannedGang(name, replica, tuple(self._members(member, name)), base, member)

    def _members(self, member: GroupReplica, gang: str, *, exist: bool = True) -> Iterator[PlannedClique]:
        for role in member.config.clique_names:
            name = names.group_clique(member.group, member.number, role)
            yield PlannedClique(name, self._roles[role], gang, member, exist)

    @cached_property
    def _standalone(self) -> Mapping[str, PodCliqueTemplate]:
        return {role.name: role for role in self.template.standalone_cliques}

    @cached_property
    def _roles(self) -> Mapping[str, PodCliqueTemplate]:
        return {role.name: role for role in self.template.cliques}

    @cached_property
    def _positions(self) -> Mapping[str, int]:
        return {role.name: position for position, role in enumerate(self.template.cliques)}
