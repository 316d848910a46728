"""Native gang scheduling: Workload, PodGroup and CompositePodGroup as 1.35, 1.36 and 1.37 understand them.

Each minor has its own field names and its own idea of what may change; `ctx.minor` decides. A field whose
feature gate is off is dropped without a word, as the server does.
"""

from __future__ import annotations

from typing import Any

from grove.embedded.errors import Cause, Manifest, forbidden
from grove.embedded.kinds.base import (
    IMMUTABLE,
    Strategy,
    dns_label,
    dns_subdomain,
    duplicate,
    fill,
    invalid,
    required,
    too_many,
)
from grove.embedded.kinds.base import forbidden as forbidden_field
from grove.embedded.kinds.context import Context
from grove.embedded.kinds.gang_rules import (
    drop_disabled,
    enabled,
    group_errors,
    immutable_errors,
    policy_errors,
    revision_errors,
)
from grove.embedded.kinds.priority import resolve_priority

FINALIZER = "scheduling.k8s.io/podgroup-protection"
MOST_TEMPLATES = 8
DEEPEST_TREE = 4


class WorkloadStrategy(Strategy):
    def prepare_create(self, obj: Manifest, ctx: Context) -> None:
        self._drop(obj.setdefault("spec", {}), None, ctx)

    def prepare_update(self, new: Manifest, old: Manifest, ctx: Context) -> None:
        self._drop(new.setdefault("spec", {}), old["spec"], ctx)

    def _drop(self, spec: Manifest, old: Manifest | None, ctx: Context) -> None:
        drop_disabled(spec, old, ctx)
        before = {template.get("name"): template for template in (old or {}).get("podGroupTemplates") or ()}
        for template in spec.get("podGroupTemplates") or ():
            drop_disabled(template, before.get(template.get("name")), ctx)

    def validate_create(self, obj: Manifest, ctx: Context) -> list[Cause]:
        spec = obj["spec"]
        causes = _controller_errors(spec.get("controllerRef"))
        if ctx.minor == "1.35":
            return causes + _groups_135(spec.get("podGroups") or [])
        if ctx.minor == "1.36":
            return causes + _templates_136(spec.get("podGroupTemplates") or [])
        return causes + _tree_errors(spec, ctx.minor)

    def validate_update(self, new: Manifest, old: Manifest, ctx: Context) -> list[Cause]:
        after, before = new["spec"], old["spec"]
        causes = [*revision_errors(new, ctx), *self.validate_create(new, ctx)]
        if ctx.minor == "1.35":
            may_add = not before.get("controllerRef")
            names = ("podGroups",) if may_add else ("podGroups", "controllerRef")
            return causes + immutable_errors(after, before, names)
        causes += immutable_errors(after, before, ("controllerRef",))
        if ctx.minor == "1.36":
            return causes + immutable_errors(after, before, ("podGroupTemplates",))
        frozen = tuple(
            name
            for name in ("podGroupTemplates", "compositePodGroupTemplates")
            if _without_counts(after.get(name)) != _without_counts(before.get(name))
        )
        return causes + immutable_errors(after, before, frozen)


def _controller_errors(reference: Manifest | None) -> list[Cause]:
    if reference is None:
        return []
    causes: list[Cause] = []
    if reference.get("apiGroup"):
        causes += dns_subdomain("spec.controllerRef.apiGroup", reference["apiGroup"])
    for name in ("kind", "name"):
        value = reference.get(name)
        if not value:
            causes.append(required(f"spec.controllerRef.{name}"))
        elif value in (".", "..") or "/" in value or "%" in value:
            causes.append(
                invalid(f"spec.controllerRef.{name}", value, "may not be '.' or '..' or contain '/' or '%'")
            )
    return causes


def _list_errors(items: list[Manifest], path: str) -> list[Cause]:
    """Between one and eight items with distinct names."""
    causes: list[Cause] = []
    if len(items) > MOST_TEMPLATES:
        causes.append(too_many(path, len(items), MOST_TEMPLATES))
    seen: set[str] = set()
    for index, item in enumerate(items):
        name = item.get("name", "")
        causes += dns_label(f"{path}[{index}].name", name)
        if name in seen:
            causes.append(duplicate(f"{path}[{index}]", {"name": name}))
        seen.add(name)
    return causes


def _groups_135(groups: list[Manifest]) -> list[Cause]:
    causes = [] if groups else [required("spec.podGroups", "must have at least one item")]
    causes += _list_errors(groups, "spec.podGroups")
    for index, group in enumerate(groups):
        causes += policy_errors(group.get("policy"), f"spec.podGroups[{index}].policy")
    return causes


def _templates_136(templates: list[Manifest]) -> list[Cause]:
    causes = [] if templates else [required("spec.podGroupTemplates", "must have at least one item")]
    causes += _list_errors(templates, "spec.podGroupTemplates")
    for index, template in enumerate(templates):
        causes += group_errors(template, f"spec.podGroupTemplates[{index}]", "1.36")
    return causes


def _tree_errors(spec: Manifest, minor: str) -> list[Cause]:
    """1.37: flat templates or a tree of composite ones; unique names, one priority for all."""
    flat, composite = spec.get("podGroupTemplates") or [], spec.get("compositePodGroupTemplates") or []
    if bool(flat) == bool(composite):
        why = "must specify exactly one of: `compositePodGroupTemplates`, `podGroupTemplates`"
        return [invalid("spec", "", why)]
    causes: list[Cause] = []
    found: list[tuple[str, Manifest]] = []
    _walk_templates(spec, "spec", minor, 1, causes, found)
    seen: set[str] = set()
    for path, template in found:
        name = template.get("name", "")
        if name in seen:
            causes.append(duplicate(f"{path}.name", name))
        seen.add(name)
    first = (found[0][1].get("priorityClassName"), found[0][1].get("priority"))
    for path, template in found[1:]:
        if (template.get("priorityClassName"), template.get("priority")) != first:
            why = "all templates must have the same priorityClassName and priority"
            causes.append(invalid(path, template.get("name", ""), why))
    return causes


def _walk_templates(
    parent: Manifest,
    path: str,
    minor: str,
    depth: int,
    causes: list[Cause],
    found: list[tuple[str, Manifest]],
) -> None:
    for kind in ("podGroupTemplates", "compositePodGroupTemplates"):
        templates = parent.get(kind) or []
        where = f"{path}.{kind}"
        if len(templates) > MOST_TEMPLATES:
            causes.append(too_many(where, len(templates), MOST_TEMPLATES))
        for index, template in enumerate(templates):
            here = f"{where}[{index}]"
            found.append((here, template))
            causes += dns_label(f"{here}.name", template.get("name"))
            composite = kind.startswith("composite")
            causes += group_errors(template, here, minor, composite=composite)
            if not composite:
                continue
            if depth >= DEEPEST_TREE:
                causes.append(
                    forbidden_field(here, f"the tree of templates may be at most {DEEPEST_TREE} levels deep")
                )
            elif not template.get("podGroupTemplates") and not template.get("compositePodGroupTemplates"):
                causes.append(required(here, "must have at least one child template"))
            else:
                _walk_templates(template, here, minor, depth + 1, causes, found)


def _without_counts(value: Any) -> Any:
    """Templates as they must stay: everything but the minimum counts."""
    if isinstance(value, list):
        return [_without_counts(item) for item in value]
    if isinstance(value, dict):
        return {n: _without_counts(v) for n, v in value.items() if n not in ("minCount", "minGroupCount")}
    return value


class PodGroupStrategy(Strategy):
    def prepare_create(self, obj: Manifest, ctx: Context) -> None:
        spec = obj.setdefault("spec", {})
        obj.pop("status", None)
        drop_disabled(spec, None, ctx)
        name = obj["metadata"].get("name", "")
        finalizers = obj["metadata"].get("finalizers") or []
        if FINALIZER not in finalizers:
            obj["metadata"]["finalizers"] = [*finalizers, FINALIZER]
        if ctx.minor == "1.36":
            _check_template(obj, ctx, name)
        if ctx.minor != "1.36" or enabled(ctx, "WorkloadAwarePreemption"):
            gated = ctx.minor != "1.36" and enabled(ctx, "PodGroupPreemptionPolicy")
            resolve_priority(spec, ctx, name, preemption=gated)

    def prepare_update(self, new: Manifest, old: Manifest, ctx: Context) -> None:
        drop_disabled(new.setdefault("spec", {}), old["spec"], ctx)

    def default(self, obj: Manifest, ctx: Context) -> None:
        super().default(obj, ctx)
        spec = obj.setdefault("spec", {})
        if ctx.minor != "1.36":
            fill(spec, disruptionMode={"single": {}})
        else:
            # A default asks for no gate: what was dropped as disabled comes back as this.
            fill(spec, disruptionMode="Pod")

    def validate_create(self, obj: Manifest, ctx: Context) -> list[Cause]:
        spec = obj["spec"]
        causes = group_errors(spec, "spec", ctx.minor)
        causes += _reference_errors(spec)
        if spec.get("parentCompositePodGroupName"):
            causes += dns_subdomain("spec.parentCompositePodGroupName", spec["parentCompositePodGroupName"])
            if not spec.get("workloadRef"):
                why = "must be set when parentCompositePodGroupName is set"
                causes.append(required("spec.workloadRef", why))
        return causes

    def validate_update(self, new: Manifest, old: Manifest, ctx: Context) -> list[Cause]:
        after, before = new["spec"], old["spec"]
        names = sorted((after.keys() | before.keys()) - {"schedulingPolicy"})
        causes = [*revision_errors(new, ctx), *self.validate_create(new, ctx)]
        causes += immutable_errors(after, before, tuple(names))
        policies = [spec.get("schedulingPolicy") for spec in (after, before)]
        if ctx.minor != "1.36":
            policies = [_without_counts(policy) for policy in policies]
        if policies[0] != policies[1]:
            causes.append(invalid("spec.schedulingPolicy", after.get("schedulingPolicy"), IMMUTABLE))
        return causes


def _reference_errors(spec: Manifest) -> list[Cause]:
    causes: list[Cause] = []
    if (reference := spec.get("podGroupTemplateRef")) is not None:
        workload = reference.get("workload")
        path = "spec.podGroupTemplateRef"
        if workload is None:
            return [invalid(path, "", "must specify one of: `workload`")]
        causes += dns_subdomain(f"{path}.workload.workloadName", workload.get("workloadName"))
        causes += dns_label(f"{path}.workload.podGroupTemplateName", workload.get("podGroupTemplateName"))
    if (reference := spec.get("workloadRef")) is not None:
        causes += dns_subdomain("spec.workloadRef.workloadName", reference.get("workloadName"))
        causes += dns_label("spec.workloadRef.templateName", reference.get("templateName"))
    return causes


def _check_template(obj: Manifest, ctx: Context, name: str) -> None:
    """1.36 only: the Workload and the template that a PodGroup names must exist."""
    reference = ((obj["spec"].get("podGroupTemplateRef") or {}).get("workload")) or {}
    wanted, template = reference.get("workloadName"), reference.get("podGroupTemplateName")
    if not wanted:
        return
    workload = ctx.find("scheduling.k8s.io", "workloads", obj["metadata"].get("namespace", ""), wanted)
    if workload is None:
        raise forbidden(ctx.resource, name, f'workload "{wanted}" does not exist')
    if workload["metadata"].get("deletionTimestamp"):
        raise forbidden(ctx.resource, name, f'workload "{wanted}" is being deleted')
    known = {found.get("name") for found in workload["spec"].get("podGroupTemplates") or ()}
    if template not in known:
        raise forbidden(ctx.resource, name, f'workload "{wanted}" has no pod group template "{template}"')


class CompositePodGroupStrategy(Strategy):
    def prepare_create(self, obj: Manifest, ctx: Context) -> None:
        spec = obj.setdefault("spec", {})
        obj.pop("status", None)
        drop_disabled(spec, None, ctx)
        preemption = enabled(ctx, "PodGroupPreemptionPolicy")
        resolve_priority(spec, ctx, obj["metadata"].get("name", ""), preemption=preemption)

    def default(self, obj: Manifest, ctx: Context) -> None:
        super().default(obj, ctx)
        fill(obj.setdefault("spec", {}), disruptionMode={"single": {}})

    def validate_create(self, obj: Manifest, ctx: Context) -> list[Cause]:
        spec = obj["spec"]
        causes = group_errors(spec, "spec", ctx.minor, composite=True)
        if not spec.get("workloadRef"):
            causes.append(required("spec.workloadRef"))
        if spec.get("parentCompositePodGroupName"):
            causes += dns_subdomain("spec.parentCompositePodGroupName", spec["parentCompositePodGroupName"])
        return causes + _reference_errors(spec)

    def validate_update(self, new: Manifest, old: Manifest, ctx: Context) -> list[Cause]:
        after, before = new["spec"], old["spec"]
        names = tuple(sorted(after.keys() | before.keys()))
        return [
            *revision_errors(new, ctx),
            *self.validate_create(new, ctx),
            *immutable_errors(after, before, names),
        ]


_GROUP = "scheduling.k8s.io"
STRATEGIES: dict[tuple[str, str], Strategy] = {
    (_GROUP, "Workload"): WorkloadStrategy(),
    (_GROUP, "PodGroup"): PodGroupStrategy(),
    (_GROUP, "CompositePodGroup"): CompositePodGroupStrategy(),
}
