"""Defaults and rules of HorizontalPodAutoscalers. No controller runs here: nothing is ever scaled."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

from grove.embedded.errors import Cause, Manifest
from grove.embedded.kinds.base import Strategy, fill, forbidden, invalid, required
from grove.embedded.kinds.context import Context
from grove.embedded.machinery.quantities import parse

_CPU: Manifest = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
_ALL_AT_ONCE: Manifest = {"type": "Percent", "value": 100, "periodSeconds": 15}
_BEHAVIOR: dict[str, Manifest] = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, _ALL_AT_ONCE],
    },
    "scaleDown": {"selectPolicy": "Max", "policies": [_ALL_AT_ONCE]},
}
#: By type of metric: its field, and the targets of which it needs one.
_SOURCES = {
    "Resource": ("resource", ("averageUtilization", "averageValue")),
    "ContainerResource": ("containerResource", ("averageUtilization", "averageValue")),
    "Pods": ("pods", ("averageValue",)),
    "Object": ("object", ("averageValue", "value")),
    "External": ("external", ("averageValue", "value")),
}
_TARGET_TYPES = ("Utilization", "Value", "AverageValue")


class AutoscalerStrategy(Strategy):
    """Bounds, metrics and, where any of it is given, behaviour are filled in."""

    def default(self, obj: Manifest, ctx: Context) -> None:
        super().default(obj, ctx)
        spec = obj.setdefault("spec", {})
        fill(spec, minReplicas=1)
        if not spec.get("metrics"):
            spec["metrics"] = [deepcopy(_CPU)]
        if spec.get("behavior") is not None:
            for direction, rules in _BEHAVIOR.items():
                fill(spec["behavior"], **{direction: {}})
                fill(spec["behavior"][direction], **deepcopy(rules))

    def validate_create(self, obj: Manifest, ctx: Context) -> list[Cause]:
        spec = obj["spec"]
        return [*_bounds(spec), *_target_ref(spec), *_metrics(spec)]

    def validate_update(self, new: Manifest, old: Manifest, ctx: Context) -> list[Cause]:
        return self.validate_create(new, ctx)


def _bounds(spec: Manifest) -> Iterator[Cause]:
    least, most = spec["minReplicas"], spec.get("maxReplicas", 0)
    if least < 1:
        yield invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if most < 1:
        yield invalid("spec.maxReplicas", most, "must be greater than 0")
    elif most < least:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")


def _target_ref(spec: Manifest) -> Iterator[Cause]:
    target = spec.get("scaleTargetRef") or {}
    for name in ("kind", "name", "apiVersion"):
        if not target.get(name):
            yield required(f"spec.scaleTargetRef.{name}")


def _metrics(spec: Manifest) -> Iterator[Cause]:
    metrics = spec.get("metrics") or []
    for index, metric in enumerate(metrics):
        yield from _metric(f"spec.metrics[{index}]", metric)
    if spec["minReplicas"] == 0 and not any(each.get("type") in ("Object", "External") for each in metrics):
        why = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield forbidden("spec.metrics", why)


def _metric(path: str, metric: Manifest) -> Iterator[Cause]:
    kind = metric.get("type") or ""
    if kind not in _SOURCES:
        # What stands beside an unknown type is not looked at.
        yield required(f"{path}.type") if not kind else invalid(f"{path}.type", kind, "is no type of metric")
        return
    field, targets = _SOURCES[kind]
    for other, _ in _SOURCES.values():
        if other != field and metric.get(other) is not None:
            why = "may not specify more than one metric source"
            yield forbidden(f"{path}.{other}", why)
    source = metric.get(field)
    if source is None:
        yield required(f"{path}.{field}", "must populate information for the given metric source")
        return
    yield from _target(f"{path}.{field}.target", source.get("target") or {}, kind, targets)


def _target(path: str, target: Manifest, kind: str, targets: tuple[str, ...]) -> Iterator[Cause]:
    if not target.get("type"):
        yield required(f"{path}.type")
    elif target["type"] not in _TARGET_TYPES:
        yield invalid(f"{path}.type", target["type"], "must be either Utilization, Value, or AverageValue")
    for name in ("value", "averageValue", "averageUtilization"):
        if target.get(name) is not None and parse(target[name]) <= 0:
            yield invalid(f"{path}.{name}", target[name], "must be greater than 0")
    there = [name for name in targets if target.get(name) is not None]
    if not there:
        yield required(f"{path}.{targets[0]}", f"must set {' or '.join(targets)}")
    elif len(there) > 1 and kind != "Object":
        why = f"may not set both {' and '.join(there)}"
        yield forbidden(f"{path}.{there[-1]}", why)


STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("autoscaling", "HorizontalPodAutoscaler"): AutoscalerStrategy(),
}
