"""Whether the cluster has the topology levels that a set asks for."""

from grove.admission.bindings import validate_topology_binding
from grove.api import conditions
from grove.api.cliqueset import PodCliqueSet
from grove.api.constraints import Placed, constraints, domains, topology_name
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
        return _unknown(conditions.TOPOLOGY_BINDING_NOT_FOUND, f'ClusterTopologyBinding "{name}" not found')
    if errors := validate_topology_binding(binding):
        why = "; ".join(map(str, errors))
        return _unknown(
            conditions.TOPOLOGY_BINDING_INVALID, f'ClusterTopologyBinding "{name}" is not valid: {why}'
        )
    missing = [domain for domain in asked if binding.level_key(domain) is None]
    if missing:
        return Condition(
            type=conditions.TOPOLOGY_LEVELS_UNAVAILABLE,
            status="True",
            reason=conditions.TOPOLOGY_LEVELS_MISSING,
            message=f'ClusterTopologyBinding "{name}" has no level {", ".join(map(repr, missing))}',
        )
    return Condition(
        type=conditions.TOPOLOGY_LEVELS_UNAVAILABLE,
        status="False",
        reason=conditions.TOPOLOGY_LEVELS_AVAILABLE,
        message=f'ClusterTopologyBinding "{name}" has every level that the set asks for',
    )


def unmet_requirements(
    cliqueset: PodCliqueSet, binding: ClusterTopologyBinding | None, condition: Condition | None
) -> list[FieldError]:
    """Why a set must not run: it *requires* a placement that the topology cannot express now."""
    if condition is None or condition.status == "False":
        return []
    required = [placed for placed in constraints(cliqueset) if placed.constraint.required]
    if condition.reason in (conditions.TOPOLOGY_BINDING_NOT_FOUND, conditions.TOPOLOGY_BINDING_INVALID):
        way_out = "; create it, or name one that exists" if binding is None else ""
        return [FieldError(_naming_field(required[0]), f"{condition.message}{way_out}")] if required else []
    if condition.reason == conditions.TOPOLOGY_LEVELS_MISSING and binding is not None:
        # What is only preferred and missing keeps nobody from running.
        levels = " ".join(level.domain for level in binding.spec.levels)
        return [
            FieldError(
                placed.required_field,
                f"topology domain {domain!r} does not exist in cluster topology [{levels}]",
            )
            for placed in required
            if (domain := placed.constraint.required) and binding.level_key(domain) is None
        ]
    return [FieldError(placed.required_field, condition.message) for placed in required]


def _naming_field(placed: Placed) -> str:
    """The field that names the binding of a constraint."""
    while not placed.constraint.topology_name and placed.above is not None:
        placed = placed.above
    return f"{placed.field}.topologyName"


def _unknown(reason: str, message: str) -> Condition:
    return Condition(
        type=conditions.TOPOLOGY_LEVELS_UNAVAILABLE, status="Unknown", reason=reason, message=message
    )
