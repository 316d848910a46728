"""Rules that groups and templates of groups share: gates, policies, topology, claims, disruption, priority.

Pure: parts of a spec in, field errors out. Which kind needs which rule is in `scheduling`.
"""

from __future__ import annotations

from typing import Any

from grove.embedded.errors import Cause, Manifest
from grove.embedded.kinds.base import (
    IMMUTABLE,
    dns_label,
    dns_subdomain,
    invalid,
    label_key,
    required,
    too_many,
    unsupported,
)
from grove.embedded.kinds.context import Context

MOST_CLAIMS = 4
HIGHEST_PRIORITY = 1_000_000_000
_GATED = {
    "schedulingConstraints": "TopologyAwareWorkloadScheduling",
    "resourceClaims": "DRAWorkloadResourceClaims",
    "parentCompositePodGroupName": "CompositePodGroup",
    "compositePodGroupTemplates": "CompositePodGroup",
    "preemptionPolicy": "PodGroupPreemptionPolicy",
}
_GATED_136 = dict.fromkeys(("disruptionMode", "priorityClassName", "priority"), "WorkloadAwarePreemption")


def enabled(ctx: Context, gate: str) -> bool:
    """Whether a feature gate is on; a context that names none has them all."""
    return ctx.features is None or gate in ctx.features


def drop_disabled(spec: Manifest, old: Manifest | None, ctx: Context) -> None:
    gated = {**_GATED, **(_GATED_136 if ctx.minor == "1.36" else {})}
    for name, gate in gated.items():
        if not enabled(ctx, gate) and not (old or {}).get(name):
            spec.pop(name, None)


def policy_errors(policy: Any, path: str, *, count: str = "minCount") -> list[Cause]:
    """A union: exactly one of basic and gang."""
    members = [name for name in ("basic", "gang") if (policy or {}).get(name) is not None]
    if not members:
        return [invalid(path, "", "must specify one of: `basic`, `gang`")]
    if len(members) > 1:
        shown = "{" + ", ".join(members) + "}"
        return [invalid(path, shown, "must specify exactly one of: `basic`, `gang`")]
    if members == ["gang"]:
        least = policy["gang"].get(count)
        if least is None:
            return [required(f"{path}.gang.{count}")]
        if least < 1:
            return [invalid(f"{path}.gang.{count}", least, "must be greater than or equal to 1")]
    return []


def group_errors(spec: Manifest, path: str, minor: str, *, composite: bool = False) -> list[Cause]:
    """Rules that a group and the template of one share."""
    count = "minGroupCount" if composite else "minCount"
    causes = policy_errors(spec.get("schedulingPolicy"), f"{path}.schedulingPolicy", count=count)
    topology = (spec.get("schedulingConstraints") or {}).get("topology") or []
    where = f"{path}.schedulingConstraints.topology"
    if len(topology) > 1:
        causes.append(too_many(where, len(topology), 1))
    for index, constraint in enumerate(topology):
        causes += label_key(f"{where}[{index}].key", constraint.get("key"))
    causes += _claim_errors(spec.get("resourceClaims") or [], f"{path}.resourceClaims")
    causes += _disruption_errors(spec.get("disruptionMode"), f"{path}.disruptionMode", minor)
    if spec.get("priorityClassName"):
        causes += dns_subdomain(f"{path}.priorityClassName", spec["priorityClassName"])
    if (priority := spec.get("priority")) is not None and priority > HIGHEST_PRIORITY:
        causes.append(
            invalid(f"{path}.priority", priority, f"must be less than or equal to {HIGHEST_PRIORITY}")
        )
    policies = ("Never", "PreemptLowerPriority")
    if spec.get("preemptionPolicy") not in (None, *policies):
        causes.append(unsupported(f"{path}.preemptionPolicy", spec["preemptionPolicy"], policies))
    return causes


def _claim_errors(claims: list[Manifest], path: str) -> list[Cause]:
    causes = [too_many(path, len(claims), MOST_CLAIMS)] if len(claims) > MOST_CLAIMS else []
    for index, claim in enumerate(claims):
        causes += dns_label(f"{path}[{index}].name", claim.get("name"))
        if bool(claim.get("resourceClaimName")) == bool(claim.get("resourceClaimTemplateName")):
            why = "must specify exactly one of: `resourceClaimName`, `resourceClaimTemplateName`"
            causes.append(invalid(f"{path}[{index}]", claim.get("name", ""), why))
    return causes


def _disruption_errors(mode: Any, path: str, minor: str) -> list[Cause]:
    if mode is None:
        return []
    if minor == "1.36":
        return [] if mode in ("Pod", "PodGroup") else [unsupported(path, mode, ("Pod", "PodGroup"))]
    members = [name for name in ("single", "all") if mode.get(name) is not None]
    return (
        [] if len(members) == 1 else [invalid(path, members, "must specify exactly one of: `all`, `single`")]
    )


def immutable_errors(new: Manifest, old: Manifest, names: tuple[str, ...]) -> list[Cause]:
    return [
        invalid(f"spec.{name}", new.get(name), IMMUTABLE)
        for name in names
        if (new.get(name) or None) != (old.get(name) or None)
    ]


def revision_errors(new: Manifest, ctx: Context) -> list[Cause]:
    """Since 1.37 these kinds cannot be replaced without saying which version was read."""
    if ctx.minor in ("1.35", "1.36") or new["metadata"].get("resourceVersion"):
        return []
    return [invalid("metadata.resourceVersion", 0, "must be specified for an update")]
