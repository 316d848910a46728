"""Whether topology constraints name one binding, domains that it has, and levels that nest.

Constraints stand on the set, on scaling groups and on cliques; a level inherits the binding's name from the
nearest level above that has a constraint.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from grove.admission.naming import CLIQUES, GROUPS, TEMPLATE
from grove.api.cliqueset import PodCliqueSet
from grove.api.topology import ClusterTopologyBinding, TopologyConstraint
from grove.errors import FieldError

_DISABLED: Final = "topology constraints are not allowed when Topology Aware Scheduling is disabled"
_UNNAMED: Final = "topologyName is required when topologyConstraint is set and cannot be inherited"
_MIXED: Final = (
    "all topologyConstraint.topologyName values within a PodCliqueSet must match "
    "in the current implementation"
)


@dataclass(frozen=True, slots=True)
class Topology:
    """What admission knows of the topology: whether it counts, and the binding that the set names."""

    enabled: bool = False
    binding: ClusterTopologyBinding | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """A constraint, where it stands, and the nearest constraint above it."""

    field: str
    constraint: TopologyConstraint
    above: "Placed | None" = None

    @property
    def topology_name(self) -> str:
        """The binding's name, inherited if need be."""
        if self.constraint.topology_name:
            return self.constraint.topology_name
        return self.above.topology_name if self.above else ""


def constraints(cliqueset: PodCliqueSet) -> list[Placed]:
    """Every constraint of a set: its own, then those of groups, then those of cliques."""
    template = cliqueset.template
    top = (
        Placed(f"{TEMPLATE}.topologyConstraint", template.topology_constraint)
        if template.topology_constraint
        else None
    )
    found = [top] if top else []
    above: dict[str, Placed] = {}
    for index, group in enumerate(template.pod_clique_scaling_groups):
        if group.topology_constraint:
            placed = Placed(f"{GROUPS}[{index}].topologyConstraint", group.topology_constraint, top)
            found.append(placed)
            above.update(dict.fromkeys(group.clique_names, placed))
    for index, clique in enumerate(template.cliques):
        if clique.topology_constraint:
            field = f"{CLIQUES}[{index}].topologyConstraint"
            found.append(Placed(field, clique.topology_constraint, above.get(clique.name, top)))
    return found


def topology_name(cliqueset: PodCliqueSet) -> str:
    """The ClusterTopologyBinding that the set is about; empty when it has no constraint or names none."""
    return next((placed.topology_name for placed in constraints(cliqueset) if placed.topology_name), "")


def validate_topology(cliqueset: PodCliqueSet, topology: Topology) -> Iterator[FieldError]:
    """Everything wrong with the topology constraints of a set."""
    placed = constraints(cliqueset)
    yield from _shapes(placed)
    if not topology.enabled:
        yield from (FieldError(each.field, _DISABLED) for each in placed)
        return
    unnamed = [each for each in placed if not each.topology_name]
    yield from (FieldError(f"{each.field}.topologyName", _UNNAMED) for each in unnamed)
    if len({each.topology_name for each in placed if each.topology_name}) > 1:
        yield from (
            FieldError(f"{each.field}.topologyName", _MIXED)
            for each in placed
            if each.constraint.topology_name
        )
    elif placed and not unnamed:
        yield from _against(placed, topology.binding)


def topology_warnings(cliqueset: PodCliqueSet, topology: Topology) -> Iterator[str]:
    """Constraints that are allowed but pointless or deprecated."""
    levels = topology.binding.spec.levels if topology.binding else ()
    depth = {level.domain: index for index, level in enumerate(levels)}
    for placed in constraints(cliqueset):
        at, constraint = placed.field, placed.constraint
        if constraint.pack_domain:
            yield f"{at}.packDomain is deprecated; use {at}.pack.required instead"
        required, preferred = depth.get(constraint.required or ""), depth.get(constraint.preferred or "")
        if required is not None and preferred is not None and preferred < required:
            yield f"{at}.pack.preferred is coarser than {at}.pack.required and is redundant"


def _shapes(placed: list[Placed]) -> Iterator[FieldError]:
    for each in placed:
        constraint = each.constraint
        if constraint.pack is None and constraint.pack_domain is None:
            yield FieldError(
                f"{each.field}.pack", "topologyConstraint must specify pack or deprecated packDomain"
            )
        elif constraint.pack is not None and not (constraint.pack.required or constraint.pack.preferred):
            yield FieldError(f"{each.field}.pack", "pack must specify at least one of required or preferred")
        if constraint.pack is not None and constraint.pack.required and constraint.pack_domain:
            yield FieldError(
                f"{each.field}.pack.required", "must not set both pack.required and deprecated packDomain"
            )


def _against(placed: list[Placed], binding: ClusterTopologyBinding | None) -> Iterator[FieldError]:
    """The constraints against the levels of the binding."""
    if binding is None:
        name = placed[0].topology_name
        yield FieldError(
            f"{TEMPLATE}.topologyConstraint.topologyName",
            f'ClusterTopologyBinding "{name}" not found; create it first',
        )
        return
    order = [level.domain for level in binding.spec.levels]
    unknown = list(_unknown_domains(placed, order))
    yield from unknown
    if not unknown:
        yield from _nesting(placed, order)


def _unknown_domains(placed: list[Placed], order: list[str]) -> Iterator[FieldError]:
    for each in placed:
        pack = each.constraint.pack
        for field, domain in (
            ("packDomain", each.constraint.pack_domain),
            ("pack.required", pack.required if pack else None),
            ("pack.preferred", pack.preferred if pack else None),
        ):
            if domain and domain not in order:
                yield FieldError(
                    f"{each.field}.{field}",
                    f"topology domain '{domain}' does not exist in cluster topology [{', '.join(order)}]",
                )


def _nesting(placed: list[Placed], order: list[str]) -> Iterator[FieldError]:
    """A level above must not be narrower than one below it; the error stands at the level above."""
    seen: set[FieldError] = set()
    for each in placed:
        above = each.above
        while above is not None:
            for suffix, upper, lower in (
                ("", above.constraint.required, each.constraint.required),
                (".pack.preferred", above.constraint.preferred, each.constraint.preferred),
            ):
                if upper and lower and order.index(upper) > order.index(lower):
                    error = FieldError(
                        f"{above.field}{suffix}",
                        f"domain '{upper}' is narrower than '{lower}', which is asked for below it, at "
                        f"{each.field}{suffix}",
                    )
                    if error not in seen:
                        seen.add(error)
                        yield error
            above = above.above
