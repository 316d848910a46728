"""The topology constraints of a set: where each stands and what is above it.

Constraints stand on the set, on scaling groups and on cliques; a level inherits the binding's name from the
nearest level above that has a constraint.
"""

from dataclasses import dataclass

from grove.api.cliqueset import PodCliqueSet
from grove.api.topology import TopologyConstraint


@dataclass(frozen=True, slots=True)
class Placed:
    """A constraint, the field in which it stands, and the nearest constraint above it."""

    field: str
    constraint: TopologyConstraint
    above: "Placed | None" = None

    @property
    def topology_name(self) -> str:
        """The binding's name, inherited if need be."""
        if self.constraint.topology_name:
            return self.constraint.topology_name
        return self.above.topology_name if self.above else ""

    @property
    def required_field(self) -> str:
        """The field that says which domain is required: packDomain on sets of an earlier release."""
        pack = self.constraint.pack
        return f"{self.field}.{'pack.required' if pack and pack.required else 'packDomain'}"


def constraints(cliqueset: PodCliqueSet) -> list[Placed]:
    """Every constraint of a set: its own, then those of groups, then those of cliques."""
    template = cliqueset.template
    top = (
        Placed("spec.template.topologyConstraint", template.topology_constraint)
        if template.topology_constraint
        else None
    )
    found = [top] if top else []
    above: dict[str, Placed] = {}
    for index, group in enumerate(template.pod_clique_scaling_groups):
        if group.topology_constraint:
            field = f"spec.template.podCliqueScalingGroups[{index}].topologyConstraint"
            placed = Placed(field, group.topology_constraint, top)
            found.append(placed)
            above.update(dict.fromkeys(group.clique_names, placed))
    for index, clique in enumerate(template.cliques):
        if clique.topology_constraint:
            field = f"spec.template.cliques[{index}].topologyConstraint"
            found.append(Placed(field, clique.topology_constraint, above.get(clique.name, top)))
    return found


def topology_name(cliqueset: PodCliqueSet) -> str:
    """The ClusterTopologyBinding that the set is about; empty when it has no constraint or names none."""
    return next((placed.topology_name for placed in constraints(cliqueset) if placed.topology_name), "")


def domains(cliqueset: PodCliqueSet) -> list[str]:
    """Every topology domain that a set's constraints name, once, in order."""
    named = [
        domain
        for placed in constraints(cliqueset)
        for domain in (placed.constraint.required, placed.constraint.preferred)
    ]
    return [domain for domain in dict.fromkeys(named) if domain]
