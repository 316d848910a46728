"""How a gang is expressed natively: flat, merged or hierarchical; and which constraints each mode enforces.

    FLAT          one native gang per podgroup; podgroups are placed independently of one another
    MERGED        one native gang with the first `minReplicas` pods of every podgroup; the others are outside
    HIERARCHICAL  a tree of CompositePodGroups above one PodGroup per podgroup; says all that is required

A constraint is honoured when the scheduler is told it, or told one that implies it; never by hope.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from grove.api.cliqueset import PodCliqueSet, PodCliqueTemplate, ScalingGroupConfig
from grove.api.gang import PodGang, PodGangSpec
from grove.api.topology import TopologyConstraint
from grove.backends.default.generation import Generation
from grove.errors import InvalidConfiguration


class Mode(StrEnum):
    """The shape of a gang's native objects."""

    FLAT = "Flat"
    MERGED = "Merged"
    HIERARCHICAL = "Hierarchical"


@dataclass(frozen=True, slots=True)
class Requirement:
    """Podgroups that must share one domain: which field says so, of which topology key."""

    field: str
    key: str
    podgroups: frozenset[str]


@dataclass(frozen=True, slots=True)
class Shape:
    """What the choice of a mode depends on: the podgroups of a gang and what is required of them."""

    podgroups: tuple[str, ...]
    requirements: tuple[Requirement, ...] = ()

    def shared_key(self) -> str | None:
        """The key that is required of all podgroups together, if any."""
        everyone = frozenset(self.podgroups)
        return next((each.key for each in self.requirements if each.podgroups == everyone), None)

    def own_key(self, podgroup: str) -> str | None:
        """The key that is required of one podgroup by itself; the narrowest saying comes last and wins."""
        alone = frozenset({podgroup})
        return next((each.key for each in reversed(self.requirements) if each.podgroups == alone), None)


def configured_mode(config: Mapping[str, Any]) -> Mode | None:
    """The mode that the profile's configuration forces, if any."""
    value = config.get("mode")
    if value in (None, ""):
        return None
    if value not in (Mode.FLAT, Mode.MERGED):
        raise InvalidConfiguration(
            f"scheduler profile default: config.mode is {value!r}; it must be Flat or Merged"
        )
    return Mode(value)


def choose(shape: Shape, generation: Generation, config: Mapping[str, Any]) -> Mode:
    """The mode in which this gang is best said here."""
    forced = configured_mode(config)
    if forced is not None:
        return forced
    if generation.composite:
        return Mode.HIERARCHICAL
    # Flat podgroups do not wait for one another: one of them would hold its nodes while another fits nowhere.
    return Mode.FLAT if len(shape.podgroups) <= 1 else Mode.MERGED


def unhonoured(shape: Shape, generation: Generation | None, mode: Mode) -> tuple[Requirement, ...]:
    """The required constraints that the scheduler would not enforce."""
    if generation is None or not generation.topology:
        return shape.requirements
    if mode is Mode.HIERARCHICAL:
        return ()
    if mode is Mode.MERGED:
        shared = shape.shared_key()
        return tuple(each for each in shape.requirements if each.key != shared)
    return tuple(
        each
        for each in shape.requirements
        if len(each.podgroups) != 1 or shape.own_key(next(iter(each.podgroups))) != each.key
    )


def refusal(requirement: Requirement, generation: Generation | None) -> str:
    """Why a required constraint cannot be accepted, and what to do."""
    where = (
        f"the native scheduler of {generation.release}"
        if generation
        else "kube-scheduler without gang scheduling"
    )
    if generation is None or not generation.topology:
        why = "it does not support topology constraints for groups here"
    else:
        why = (
            "it takes one topology key for the whole gang, and roles with keys of their own do not wait for "
            "one another"
        )
    return (
        f"{requirement.key!r} is required but {where} cannot enforce it: {why}; "
        "use pack.preferred, remove the constraint or choose another scheduler backend"
    )


class _Shaped:
    """The shape of the gang that was asked about last: a look asks five times about the same one."""

    spec: PodGangSpec | None = None
    shape: Shape = Shape(())


def shape_of(gang: PodGang) -> Shape:
    """The shape of a gang; fields are those of the PodGang."""
    if _Shaped.spec is not gang.spec:
        podgroups = tuple([each.name for each in gang.spec.podgroups])
        _Shaped.shape = Shape(podgroups, tuple(_requirements(gang, frozenset(podgroups))))
        _Shaped.spec = gang.spec
    return _Shaped.shape


def _requirements(gang: PodGang, everyone: frozenset[str]) -> Iterator[Requirement]:
    path = "topologyConstraint.packConstraint.required"
    spec = gang.spec
    if spec.topology_constraint and spec.topology_constraint.required:
        yield Requirement(f"spec.{path}", spec.topology_constraint.required, everyone)
    for index, group in enumerate(spec.topology_constraint_group_configs):
        if group.topology_constraint and group.topology_constraint.required and group.pod_group_names:
            field = f"spec.topologyConstraintGroupConfigs[{index}].{path}"
            yield Requirement(field, group.topology_constraint.required, frozenset(group.pod_group_names))
    for index, podgroup in enumerate(spec.podgroups):
        if podgroup.topology_constraint and podgroup.topology_constraint.required:
            field = f"spec.podgroups[{index}].{path}"
            yield Requirement(field, podgroup.topology_constraint.required, frozenset({podgroup.name}))


def shapes_of_set(cliqueset: PodCliqueSet) -> Sequence[Shape]:
    """The shapes of the gangs that a set will have: the base gang and one scaled gang per scaling group."""
    template = cliqueset.template
    cliques = {clique.name: (index, clique) for index, clique in enumerate(template.cliques)}
    whole = _required("spec.template", template.topology_constraint)
    replicas = [
        (index, group, tuple(_replica(group, replica)))
        for index, group in enumerate(template.pod_clique_scaling_groups)
        for replica in range(1 if group.min_available is None else max(1, group.min_available))
    ]
    base = {clique.name: clique.name for clique in cliqueset.standalone_cliques}
    for _, _, members in replicas:
        base.update(members)
    requirements = list(_over(whole, base))
    for index, group, members in replicas:
        requirements += _over(_of_group(index, group), dict(members))
    shapes = [Shape(tuple(base), (*requirements, *_of_cliques(base, cliques)))]
    for index, group in enumerate(template.pod_clique_scaling_groups):
        scaled = dict(_replica(group, 0))
        own = _of_group(index, group) or whole
        shapes.append(Shape(tuple(scaled), (*_over(own, scaled), *_of_cliques(scaled, cliques))))
    return shapes


#: A field and the domain that it requires.
_Required = tuple[str, str] | None


def _required(path: str, constraint: TopologyConstraint | None) -> _Required:
    if constraint is None or not constraint.required:
        return None
    field = "pack.required" if constraint.pack and constraint.pack.required else "packDomain"
    return f"{path}.topologyConstraint.{field}", constraint.required


def _of_group(index: int, group: ScalingGroupConfig) -> _Required:
    return _required(f"spec.template.podCliqueScalingGroups[{index}]", group.topology_constraint)


def _replica(group: ScalingGroupConfig, replica: int) -> Iterator[tuple[str, str]]:
    """The podgroups of one replica of a scaling group and the role that each of them is."""
    return ((f"{group.name}-{replica}-{name}", name) for name in group.clique_names)


def _over(required: _Required, podgroups: Mapping[str, str]) -> Iterable[Requirement]:
    if required and podgroups:
        yield Requirement(required[0], required[1], frozenset(podgroups))


def _of_cliques(
    podgroups: Mapping[str, str], cliques: Mapping[str, tuple[int, PodCliqueTemplate]]
) -> Iterable[Requirement]:
    for podgroup, role in podgroups.items():
        if role in cliques:
            index, clique = cliques[role]
            required = _required(f"spec.template.cliques[{index}]", clique.topology_constraint)
            yield from _over(required, {podgroup: role})
