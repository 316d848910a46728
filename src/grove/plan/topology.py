"""Whether the topology levels that a set asks for exist. Pure."""

from grove.api import conditions
from grove.api.cliqueset import PodCliqueSet
from grove.api.topology import ClusterTopologyBinding
from grove.errors import FieldError
from grove.meta import Condition
from grove.plan.gangs import topology_name


def domains(cliqueset: PodCliqueSet) -> list[str]:
    """Every topology domain that a set's constraints name, once, in order."""
    template = cliqueset.template
    constraints = [
        template.topology_constraint,
        *(group.topology_constraint for group in template.pod_clique_scaling_groups),
        *(clique.topology_constraint for clique in template.cliques),
    ]
    named = [domain for each in constraints if each for domain in (each.required, each.preferred)]
    return [domain for domain in dict.fromkeys(named) if domain]


def levels_condition(
    cliqueset: PodCliqueSet, binding: ClusterTopologyBinding | None, *, enabled: bool
) -> Condition | None:
    """The set's `TopologyLevelsUnavailable`, or None when it has nothing to say."""
    asked = domains(cliqueset)
    if not asked:
        return None
    name = topology_name(cliqueset)
    if not enabled:
        return _unknown(
            conditions.TOPOLOGY_DISABLED,
            "topology-aware scheduling is switched off (topologyAwareScheduling.enabled); "
            "the set's topology constraints have no effect",
        )
    if not name:
        return _unknown(conditions.TOPOLOGY_NAME_MISSING, "no topologyConstraint says topologyName")
    if binding is None:
        return _unknown(
            conditions.TOPOLOGY_BINDING_NOT_FOUND, f"ClusterTopologyBinding {name!r} does not exist"
        )
    missing = [domain for domain in asked if binding.level_key(domain) is None]
    if missing:
        return Condition(
            type=conditions.TOPOLOGY_LEVELS_UNAVAILABLE,
            status="True",
            reason=conditions.TOPOLOGY_LEVELS_MISSING,
            message=f"ClusterTopologyBinding {name!r} has no level {', '.join(map(repr, missing))}",
        )
    return Condition(
        type=conditions.TOPOLOGY_LEVELS_UNAVAILABLE,
        status="False",
        reason=conditions.TOPOLOGY_LEVELS_AVAILABLE,
        message=f"ClusterTopologyBinding {name!r} has every level that the set asks for",
    )


def unmet_requirements(cliqueset: PodCliqueSet, condition: Condition | None) -> list[FieldError]:
    """Why a set must not run: it *requires* a placement that the topology cannot express now."""
    if condition is None or condition.status == "False":
        return []
    template = cliqueset.template
    places = [("spec.template", template.topology_constraint)]
    places += [
        (f"spec.template.cliques[{position}]", clique.topology_constraint)
        for position, clique in enumerate(template.cliques)
    ]
    return [
        FieldError(f"{place}.topologyConstraint.pack.required", condition.message)
        for place, constraint in places
        if constraint is not None and constraint.required
    ]


def _unknown(reason: str, message: str) -> Condition:
    return Condition(
        type=conditions.TOPOLOGY_LEVELS_UNAVAILABLE, status="Unknown", reason=reason, message=message
    )
