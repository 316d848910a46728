"""CustomResourceDefinitions from the view types: `definitions()` is what gets installed.

Types give names, shapes and docstrings; `grove.api.schema` annotations give bounds and defaults;
`grove.api.rules` gives CEL; the table below gives what belongs to a kind as a whole. Pure:
`scripts/generate.py` writes the files.
"""

import copy
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec

from grove.api import conditions, kinds, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.rules import RULES
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.api.schema import CONDITION, INT_OR_STRING, NARROW, OMIT, REQUIRED, SCHEMA, VERBATIM
from grove.api.topology import ClusterTopologyBinding
from grove.meta import Condition, Manifest, Object, ObjectMeta, Resource, View

CATEGORY: Final = "grove"

_SCALARS: Final[Mapping[object, str]] = {str: "string", int: "integer", float: "number", bool: "boolean"}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`; priority 1 is shown with `-o wide` only."""

    name: str
    path: str
    type: str = "integer"
    priority: int = 0

    def manifest(self) -> Manifest:
        entry: Manifest = {"name": self.name, "type": self.type, "jsonPath": self.path}
        return {**entry, "priority": self.priority} if self.priority else entry


def _condition(name: str, type: str, field: str = "status", *, priority: int = 0) -> Column:
    return Column(name, f'.status.conditions[?(@.type=="{type}")].{field}', "string", priority)


@dataclass(frozen=True, slots=True)
class Kind:
    """What belongs to a kind as a whole."""

    resource: Resource
    view: type[Object]
    short_name: str
    columns: tuple[Column, ...]
    #: Where the scale subresource finds the selector; empty when the kind cannot be scaled.
    selector: str = ""


_AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")
_PROGRESS: Final = ".status.updateProgress"
_BACKEND: Final = labels.SCHEDULER_BACKEND.replace(".", r"\.")

KINDS: Final[tuple[Kind, ...]] = (
    Kind(
        kinds.CLIQUESETS,
        PodCliqueSet,
        "pcs",
        (
            Column("Replicas", ".spec.replicas"),
            Column("Available", ".status.availableReplicas"),
            Column("Scheduled", ".status.scheduledReplicas"),
            Column("Updated", ".status.updatedReplicas"),
            _condition("Accepted", conditions.ACCEPTED),
            _AGE,
            # Last, because it is a sentence: why the set is refused, degraded or not available.
            _condition("Reason", conditions.AVAILABLE, "message"),
            Column("PCLQs-Updated", f"{_PROGRESS}.updatedPodCliquesCount", priority=1),
            Column("PCLQs-Total", f"{_PROGRESS}.totalPodCliquesCount", priority=1),
            Column("PCSGs-Updated", f"{_PROGRESS}.updatedPodCliqueScalingGroupsCount", priority=1),
            Column("PCSGs-Total", f"{_PROGRESS}.totalPodCliqueScalingGroupsCount", priority=1),
        ),
        selector=".status.hpaPodSelector",
    ),
    Kind(
        kinds.CLIQUES,
        PodClique,
        "pclq",
        (
            Column("MinAvail", ".spec.minAvailable"),
            Column("Replicas", ".spec.replicas"),
            Column("Ready", ".status.readyReplicas"),
            Column("Scheduled", ".status.scheduledReplicas"),
            Column("Updated", ".status.updatedReplicas"),
            Column("Gated", ".status.scheduleGatedReplicas", priority=1),
            _condition("MinBreached", conditions.MIN_AVAILABLE_BREACHED, priority=1),
            _AGE,
            _condition("Reason", conditions.MIN_AVAILABLE_BREACHED, "message", priority=1),
        ),
        selector=".status.hpaPodSelector",
    ),
    Kind(
        kinds.SCALING_GROUPS,
        PodCliqueScalingGroup,
        "pcsg",
        (
            Column("MinAvail", ".spec.minAvailable"),
            Column("Replicas", ".spec.replicas"),
            Column("Available", ".status.availableReplicas"),
            Column("Scheduled", ".status.scheduledReplicas"),
            Column("Updated", ".status.updatedReplicas"),
            Column("PCLQs-Updated", f"{_PROGRESS}.updatedPodCliquesCount", priority=1),
            Column("PCLQs-Total", f"{_PROGRESS}.totalPodCliquesCount", priority=1),
            _condition("MinBreached", conditions.MIN_AVAILABLE_BREACHED, priority=1),
            _AGE,
            # A sentence: how many replicas are available, and which gang is the first that is not.
            _condition("Reason", conditions.READY, "message"),
        ),
        selector=".status.selector",
    ),
    Kind(
        kinds.TOPOLOGY_BINDINGS,
        ClusterTopologyBinding,
        "ct",
        (
            Column("Domains", ".spec.levels[*].domain", "string"),
            _AGE,
            _condition("Drift", conditions.SCHEDULER_TOPOLOGY_DRIFT, priority=1),
        ),
    ),
    Kind(
        kinds.GANGS,
        PodGang,
        "pg",
        (
            Column("Phase", ".status.phase", "string"),
            _condition("Scheduled", conditions.SCHEDULED),
            _condition("Ready", conditions.READY),
            Column("Backend", f".metadata.labels.{_BACKEND}", "string"),
            _AGE,
            # Last, because it is a sentence: why the gang is, or is not, placed and ready.
            Column("Reason", ".status.message", "string"),
            _condition("Initialized", conditions.INITIALIZED, priority=1),
            _condition("Guarantee", conditions.GANG_GUARANTEE, priority=1),
            Column("Score", ".status.placementScore", "number", priority=1),
        ),
    ),
)


def definitions() -> list[Manifest]:
    """Every CustomResourceDefinition that Grove needs, in a fixed order."""
    return [definition(kind) for kind in KINDS]


def definition(kind: Kind) -> Manifest:
    """The CustomResourceDefinition of one kind."""
    resource = kind.resource
    subresources: Manifest = {"status": {}}
    if kind.selector:
        subresources["scale"] = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": kind.selector,
        }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": str(resource)},
        "spec": {
            "group": resource.gvk.group,
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "shortNames": [kind.short_name],
                "categories": [CATEGORY],
            },
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [
                {
                    "name": resource.gvk.version,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": [column.manifest() for column in kind.columns],
                    "schema": {"openAPIV3Schema": schema_of(kind.view)},
                    "subresources": subresources,
                }
            ],
        },
    }


def schema_of(view: type[View]) -> Manifest:
    """The structural schema of a view; a fresh copy, free to change."""
    return copy.deepcopy(_struct(view))


@cache
def _struct(view: type[View]) -> Manifest:
    if view is Condition:
        return CONDITION
    if view is ObjectMeta:
        return {"type": "object"}
    schema: Manifest = {"type": "object", "properties": {}}
    if view.__doc__:
        schema["description"] = view.__doc__.strip().partition("\n")[0]
    hints = get_type_hints(view, include_extras=True)
    required = []
    for field in msgspec.structs.fields(view):
        value = _value(hints[field.name])
        if value.pop(REQUIRED, False):
            required.append(field.encode_name)
        _add_rules(value, f"{view.__name__}.{field.encode_name}")
        schema["properties"][field.encode_name] = value
    if required:
        schema["required"] = sorted(required)
    _add_rules(schema, view.__name__)
    return schema


def _add_rules(schema: Manifest, where: str) -> None:
    rules = RULES.get(where, ())
    if rules:
        schema["x-kubernetes-validations"] = [rule.manifest() for rule in rules]


def _value(hint: object) -> Manifest:
    """The schema of a field's type together with what its annotations say."""
    if get_origin(hint) is Annotated:
        inner, *metas = get_args(hint)
        schema = _value(inner)
        for meta in metas:
            if isinstance(meta, msgspec.Meta):
                schema = _annotated(schema, meta)
        return schema
    return _bare(hint)


def _annotated(schema: Manifest, meta: msgspec.Meta) -> Manifest:
    extra: Manifest = dict(meta.extra_json_schema or {})
    if SCHEMA in extra:
        schema = copy.deepcopy(extra.pop(SCHEMA))
    for path in extra.pop(OMIT, ()):
        _omit(schema, path)
    for field, bounds in extra.pop(NARROW, {}).items():
        schema["properties"][field].update(bounds)
    if meta.description:
        schema["description"] = meta.description
    schema.update(copy.deepcopy(extra))
    return schema


def _omit(schema: Manifest, path: str) -> None:
    *parents, field = path.split(".")
    at = schema.get("items", schema)
    for parent in parents:
        at = at["properties"][parent]
    del at["properties"][field]


def _bare(hint: object) -> Manifest:
    arguments: tuple[Any, ...] = get_args(hint)
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        if set(arguments) - {type(None)} == {int, str}:
            return copy.deepcopy(INT_OR_STRING)
        return _value(_only(argument for argument in arguments if argument is not type(None)))
    if origin is tuple:
        items = _value(arguments[0])
        if arguments[0] is Condition:
            # Several writers: each owns its own conditions.
            keys = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
            return {"type": "array", "items": items, **keys}
        return {"type": "array", "items": items}
    if origin is dict:
        if arguments[1] is Any:
            return dict(VERBATIM)
        return {"type": "object", "additionalProperties": _value(arguments[1])}
    if isinstance(hint, type) and issubclass(hint, View):
        return schema_of(hint)
    return {"type": _SCALARS[hint]}


def _only(candidates: Iterable[object]) -> object:
    (only,) = candidates
    return only
