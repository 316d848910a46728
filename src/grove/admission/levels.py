"""Whether the cluster has the topology levels that a set asks for."""

from grove.api import conditions
from grove.api.cliqueset import PodCliqueSet
from grove.api.constraints import constraints, domains, topology_name
from grove.api.topology import ClusterTopologyBinding
from grove.errors import FieldError
from grove.meta import Condition


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
            "topology-aware scheduling is switched off (topologyAwareScheduling.enabled); required topology "
            "constraints are refused and preferred ones have no effect",
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
    return [
        FieldError(placed.required_field, condition.message)
        for placed in constraints(cliqueset)
        if placed.constraint.required
    ]


def _unknown(reason: str, message: str) -> Condition:
    return Condition(
        type=conditions.TOPOLOGY_LEVELS_UNAVAILABLE, status="Unknown", reason=reason, message=message
    )
