"""Priority admission: from the name of a PriorityClass to the number that schedulers compare.

Answers 403 as the admission plugin does; writes only into the spec it is given.
"""

from __future__ import annotations

from grove.embedded.errors import Manifest, forbidden
from grove.embedded.kinds.context import Context

_GROUP, _PLURAL = "scheduling.k8s.io", "priorityclasses"
_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
PREEMPT = "PreemptLowerPriority"


def resolve_priority(spec: Manifest, ctx: Context, name: str, *, preemption: bool = True) -> None:
    """Sets priority (and preemptionPolicy) from priorityClassName, or from the global default class."""
    class_name = spec.get("priorityClassName") or ""
    if class_name:
        value, policy = _named(class_name, ctx, name)
    else:
        value, policy, class_name = _global_default(ctx)
        if class_name:
            spec["priorityClassName"] = class_name
    given = spec.get("priority")
    if given is not None and given != value:
        why = (
            f"the integer value of priority ({given}) must not be provided in {_what(ctx)} spec; "
            f"priority admission controller computed {value} from the given PriorityClass name"
        )
        raise forbidden(ctx.resource, name, why)
    spec["priority"] = value
    if not preemption:
        return
    given_policy = spec.get("preemptionPolicy")
    if given_policy is not None and given_policy != policy:
        why = (
            f"the string value of PreemptionPolicy ({given_policy}) must not be provided in "
            f"{_what(ctx)} spec; priority admission controller computed {policy} from the given "
            "PriorityClass name"
        )
        raise forbidden(ctx.resource, name, why)
    spec["preemptionPolicy"] = policy


def _what(ctx: Context) -> str:
    return ctx.resource.kind.lower()


def _named(class_name: str, ctx: Context, name: str) -> tuple[int, str]:
    found = ctx.find(_GROUP, _PLURAL, "", class_name)
    if found is not None:
        return found.get("value", 0), found.get("preemptionPolicy") or PREEMPT
    if class_name in _SYSTEM:
        return _SYSTEM[class_name], PREEMPT
    raise forbidden(ctx.resource, name, f"no PriorityClass with name {class_name} was found")


def _global_default(ctx: Context) -> tuple[int, str, str]:
    """The lowest of the classes that are marked as the default, or nothing at all."""
    marked = [found for found in ctx.all_of(_GROUP, _PLURAL, "") if found.get("globalDefault")]
    if not marked:
        return 0, PREEMPT, ""
    lowest = min(marked, key=lambda found: int(found.get("value", 0)))
    return lowest.get("value", 0), lowest.get("preemptionPolicy") or PREEMPT, lowest["metadata"]["name"]
