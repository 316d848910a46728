"""What an update may change in a pod's spec: images, deadlines, more tolerations, fewer gates; little else.

Pure: two specs in, field errors out.
"""

from __future__ import annotations

from typing import Any

from grove.embedded.errors import Cause, Manifest
from grove.embedded.kinds.base import forbidden, invalid, required

ONLY_THESE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_SET_ASIDE = frozenset(
    {
        "containers",
        "initContainers",
        "ephemeralContainers",
        "activeDeadlineSeconds",
        "tolerations",
        "schedulingGates",
        "nodeSelector",
        "affinity",
        "serviceAccount",
    }
)


def update_errors(new: Manifest, old: Manifest) -> list[Cause]:
    """Everything an update must not do."""
    if new == old:
        return []
    causes = [
        *_gate_errors(new, old),
        *_deadline_errors(new, old),
        *_toleration_errors(new, old),
    ]
    gated = bool(old.get("schedulingGates"))
    placement = _placement_errors(new, old) if gated else []
    causes += placement
    same = _rest(new) == _rest(old) and _same_containers(new, old)
    if not gated:
        same = same and all((new.get(n) or {}) == (old.get(n) or {}) for n in ("nodeSelector", "affinity"))
    elif not placement:
        same = same and _same_but_node_affinity(new, old)
    if not same:
        causes.append(forbidden("spec", ONLY_THESE))
    return causes


def _rest(spec: Manifest) -> Manifest:
    return {
        name: value for name, value in spec.items() if name not in _SET_ASIDE and value not in (None, {}, [])
    }


def _same_containers(new: Manifest, old: Manifest) -> bool:
    for group in ("containers", "initContainers", "ephemeralContainers"):
        before, after = old.get(group) or [], new.get(group) or []
        if len(before) != len(after):
            return False
        if any({**a, "image": ""} != {**b, "image": ""} for a, b in zip(before, after, strict=True)):
            return False
    return all(c.get("image") for group in ("containers", "initContainers") for c in new.get(group) or ())


def _gate_errors(new: Manifest, old: Manifest) -> list[Cause]:
    known = {gate["name"] for gate in old.get("schedulingGates") or ()}
    for gate in new.get("schedulingGates") or ():
        if gate.get("name") not in known:
            why = f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'"
            return [forbidden("spec.schedulingGates", why)]
    return []


def _deadline_errors(new: Manifest, old: Manifest) -> list[Cause]:
    field = "spec.activeDeadlineSeconds"
    before, after = old.get("activeDeadlineSeconds"), new.get("activeDeadlineSeconds")
    if after is None:
        return (
            [invalid(field, after, "must not update from a positive integer to nil value")] if before else []
        )
    if not 1 <= after <= 2_147_483_647:
        return [invalid(field, after, "must be between 1 and 2147483647, inclusive")]
    if before is not None and after > before:
        return [invalid(field, after, f"must be less than or equal to previous value {before}")]
    return []


def _toleration_errors(new: Manifest, old: Manifest) -> list[Cause]:
    """Tolerations may be added; of an existing one only the number of seconds may change."""

    def identity(toleration: Manifest) -> Manifest:
        return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}

    after = [identity(toleration) for toleration in new.get("tolerations") or ()]
    if all(identity(toleration) in after for toleration in old.get("tolerations") or ()):
        return []
    return [
        forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    ]


def _placement_errors(new: Manifest, old: Manifest) -> list[Cause]:
    """While a pod is gated its node choice may be narrowed: selectors added, required terms tightened."""
    causes = []
    selected = new.get("nodeSelector") or {}
    if any(selected.get(key) != value for key, value in (old.get("nodeSelector") or {}).items()):
        why = "only additions are allowed (no mutations or deletions)"
        causes.append(invalid("spec.nodeSelector", new.get("nodeSelector"), why))
    before, after = _required_terms(old), _required_terms(new)
    field = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    if before is not None and after is None:
        causes.append(required(field, "node affinity may only be narrowed while the pod is gated"))
    elif before and after is not None:
        narrowed = len(before) == len(after) and all(
            _narrows(a, b) for a, b in zip(after, before, strict=True)
        )
        if not narrowed:
            why = "only additions are allowed (no mutations or deletions)"
            causes.append(invalid(f"{field}.nodeSelectorTerms", after, why))
    return causes


def _required_terms(spec: Manifest) -> list[Manifest] | None:
    affinity: Any = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    needed = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if needed is None else list(needed.get("nodeSelectorTerms") or [])


def _narrows(new: Manifest, old: Manifest) -> bool:
    """Terms are OR-ed and expressions AND-ed: more expressions in the same term mean fewer nodes."""
    for name in ("matchExpressions", "matchFields"):
        kept = new.get(name) or []
        if any(expression not in kept for expression in old.get(name) or []):
            return False
    return True


def _same_but_node_affinity(new: Manifest, old: Manifest) -> bool:
    def others(spec: Manifest) -> Manifest:
        affinity = spec.get("affinity") or {}
        return {name: value for name, value in affinity.items() if name != "nodeAffinity" and value}

    return others(new) == others(old)
