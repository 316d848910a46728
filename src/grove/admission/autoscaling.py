"""Whether a role or a scaling group can be scaled by load as its configuration says. Pure.

The bounds fit the minimum and the replicas, and the metrics are such as autoscaling/v2 has: what the API
server would refuse of the autoscaler, or drop from it, is refused in the set, where its author looks.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Final, NamedTuple

from grove.admission.naming import CLIQUES, GROUPS
from grove.api.clique import DEFAULT_METRICS, AutoScalingConfig
from grove.api.cliqueset import PodCliqueSet, PodCliqueTemplate
from grove.api.quantities import quantity
from grove.errors import FieldError
from grove.meta import Manifest
from grove.words import value_in_words


class Bounds(NamedTuple):
    """What the bounds of an autoscaler must fit."""

    replicas: int
    minimum: int


class _Source(NamedTuple):
    """One type of metric: where it stands, the fields that it needs, and of which targets it needs one."""

    field: str
    needed: tuple[str, ...]
    targets: tuple[str, ...]
    #: Whether more than one target is too much.
    one_target: bool = True


_UTILIZATION: Final = "averageUtilization"
_AVERAGE: Final = "averageValue"
_VALUE: Final = "value"
_TARGETS: Final = (_UTILIZATION, _AVERAGE, _VALUE)
_TARGET_TYPES: Final = frozenset({"Utilization", "AverageValue", "Value"})
_SOURCES: Final[Mapping[str, _Source]] = {
    "Resource": _Source("resource", ("name",), (_UTILIZATION, _AVERAGE)),
    "ContainerResource": _Source("containerResource", ("name", "container"), (_UTILIZATION, _AVERAGE)),
    "Pods": _Source("pods", ("metric",), (_AVERAGE,)),
    "Object": _Source("object", ("describedObject", "metric"), (_VALUE, _AVERAGE), one_target=False),
    "External": _Source("external", ("metric",), (_VALUE, _AVERAGE)),
}
#: The fields of what a metric names, and those of them that it needs.
_PARTS: Final[Mapping[str, tuple[frozenset[str], tuple[str, ...]]]] = {
    "metric": (frozenset({"name", "selector"}), ("name",)),
    "describedObject": (frozenset({"apiVersion", "kind", "name"}), ("kind", "name")),
}


def validate_autoscaling(field: str, config: AutoScalingConfig, bounds: Bounds) -> Iterator[FieldError]:
    """Everything wrong with one configuration, at this field of the set."""
    lower = config.lowest(bounds.replicas, bounds.minimum)
    if lower < bounds.minimum:
        yield FieldError(
            f"{field}.minReplicas",
            f"must be greater than or equal to minAvailable ({bounds.minimum}); got {lower}",
        )
    upper, limits = config.max_replicas, {"minReplicas": lower, "replicas": bounds.replicas}
    for name, limit in limits.items():
        if upper < limit:
            yield FieldError(
                f"{field}.maxReplicas", f"must be greater than or equal to {name} ({limit}); got {upper}"
            )
    for index, metric in enumerate(config.metrics):
        yield from _metric(f"{field}.metrics[{index}]", metric)


def autoscaling_notices(cliqueset: PodCliqueSet) -> Iterator[FieldError]:
    """Metrics that are valid and by which Kubernetes' autoscaler cannot scale, or scales wrongly."""
    template = cliqueset.template
    for index, role in enumerate(template.cliques):
        if (config := role.spec.auto_scaling_config) is not None:
            yield from _unmeasurable(f"{CLIQUES}[{index}].spec.autoScalingConfig", config, [role])
    for index, group in enumerate(template.pod_clique_scaling_groups):
        if (config := group.scale_config) is not None:
            members = [role for role in template.cliques if role.name in group.clique_names]
            field = f"{GROUPS}[{index}].scaleConfig"
            yield from _unmeasurable(field, config, members)
            yield from _counted_by_pods(field, config, members)


def _counted_by_pods(
    field: str, config: AutoScalingConfig, roles: Sequence[PodCliqueTemplate]
) -> Iterator[FieldError]:
    """Of most metrics the autoscaler multiplies a ratio by the pods that it selects, not by the replicas.

    With three pods in a replica it asks for three times too much, so that half of the load scales a group up.
    """
    pods = sum(role.spec.replicas for role in roles)
    if pods <= 1:
        return
    for metric in config.metrics or DEFAULT_METRICS:
        kind = str(metric.get("type"))
        inner = metric.get(_SOURCES[kind].field) if kind in _SOURCES else None
        target = inner.get("target") if isinstance(inner, dict) else None
        by_replica = kind in ("External", "Object") and isinstance(target, dict) and target.get(_AVERAGE)
        if not by_replica:
            yield FieldError(
                field,
                f"Kubernetes computes replicas from a metric of type {kind} by counting pods, and a replica "
                f"of this group has {pods}: it asks for too many; use an External or Object metric with an "
                "averageValue, which counts replicas",
            )


def _unmeasurable(
    field: str, config: AutoScalingConfig, roles: Sequence[PodCliqueTemplate]
) -> Iterator[FieldError]:
    """Utilization is a share of what containers request: where they request nothing, nothing is scaled."""
    for metric in config.metrics or DEFAULT_METRICS:
        inner = metric.get("resource")
        target = inner.get("target") if isinstance(inner, dict) else None
        if not isinstance(target, dict) or target.get("type") != "Utilization":
            continue
        name = str(metric["resource"].get("name"))
        without = [
            f"{container.get('name')!r} of clique {role.name!r}"
            for role in roles
            for container in _without_request(role.spec.pod_spec, name)
        ]
        if without:
            yield FieldError(
                field,
                f"scales by the utilization of {name}, a share of what containers request, but container "
                f"{without[0]} requests none; unless a LimitRange fills it in, the autoscaler cannot act",
            )


def _without_request(pods: Manifest, name: str) -> Iterator[Manifest]:
    """The containers that run while the pod does and request nothing of a resource."""
    if name in ((pods.get("resources") or {}).get("requests") or {}):
        return
    sidecars = [each for each in pods.get("initContainers") or () if each.get("restartPolicy") == "Always"]
    for container in (*(pods.get("containers") or ()), *sidecars):
        resources = container.get("resources") or {}
        # The API server fills in requests from limits.
        if name not in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}:
            yield container


def _metric(field: str, metric: Manifest) -> Iterator[FieldError]:
    kind = metric.get("type")
    source = _SOURCES.get(str(kind))
    if source is None:
        yield FieldError(f"{field}.type", f"must be one of {_listed(_SOURCES)}; got {kind!r}")
        return
    yield from _unknown(field, metric, {"type", source.field}, f"a metric of type {kind}")
    inner, at = metric.get(source.field), f"{field}.{source.field}"
    if not isinstance(inner, dict):
        yield FieldError(at, f"is required for a metric of type {kind}")
        return
    yield from _unknown(at, inner, {*source.needed, "target"}, f"a metric of type {kind}")
    yield from _missing(at, inner, source.needed)
    for name, (known, needed) in _PARTS.items():
        if (part := inner.get(name)) and not isinstance(part, dict):
            yield FieldError(f"{at}.{name}", f"must be an object, not {value_in_words(part)}")
        elif part:
            yield from _unknown(f"{at}.{name}", part, known, f"a {name}")
            yield from _missing(f"{at}.{name}", part, needed)
    yield from _target(f"{at}.target", inner.get("target"), source)


def _target(field: str, target: object, source: _Source) -> Iterator[FieldError]:
    if not isinstance(target, dict):
        yield FieldError(field, "is required")
        return
    yield from _unknown(field, target, {"type", *_TARGETS}, "a target")
    if str(target.get("type")) not in _TARGET_TYPES:
        yield FieldError(f"{field}.type", f"must be {_listed(_TARGET_TYPES)}; got {target.get('type')!r}")
    there = [name for name in source.targets if target.get(name) is not None]
    if not there:
        yield FieldError(field, f"must set {' or '.join(source.targets)}")
    elif len(there) > 1 and source.one_target:
        yield FieldError(field, f"must not set both {' and '.join(there)}")
    for name in _TARGETS:
        if target.get(name) is not None and not _is_positive(target[name]):
            yield FieldError(f"{field}.{name}", f"must be greater than 0; got {target[name]!r}")


def _is_positive(amount: object) -> bool:
    try:
        return quantity(str(amount)) > 0
    except ValueError:
        return False


def _unknown(field: str, value: Manifest, known: Set[str], what: str) -> Iterator[FieldError]:
    for name, item in value.items():
        if name not in known and item is not None:
            yield FieldError(f"{field}.{name}", f"{what} has no such field, only {', '.join(sorted(known))}")


def _missing(field: str, value: Manifest, needed: Sequence[str]) -> Iterator[FieldError]:
    for name in needed:
        if not value.get(name):
            yield FieldError(f"{field}.{name}", "is required")


def _listed(names: Iterable[str]) -> str:
    first, *others = sorted(names)
    return f"{', '.join([first, *others[:-1]])} or {others[-1]}" if others else first
