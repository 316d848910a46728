"""What a scheduler reads in a pod and in a node, as hashable values.

Pods of a gang are mostly alike: two pods with the same `PodShape` get the same answer from every node, so all
that follows can work per shape instead of per pod. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from grove.embedded.errors import Manifest
from grove.embedded.machinery.selectors import matches_label_selector

Requests = tuple[tuple[str, int], ...]
"""(resource name, amount), sorted; cpu in millicores, everything else in whole units."""

_QUANTITY = re.compile(r"([+-]?[0-9.]+)([eE][+-]?[0-9]+)?([A-Za-z]*)")
_SUFFIX = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6}
_SUFFIX |= {"G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}


@lru_cache(maxsize=4096)
def amount(resource: str, quantity: str) -> int:
    """A Kubernetes quantity as an integer: millicores for cpu, units otherwise, rounded up."""
    found = _QUANTITY.fullmatch(quantity)
    if found is None or found[3] not in _SUFFIX | _BINARY:
        raise ValueError(f"{quantity!r} is not a quantity of {resource}")
    scale = 1000 if resource == "cpu" else 1
    number, exponent, suffix = found[1], found[2] or "", found[3]
    if suffix in ("", *_BINARY) and not exponent and number.lstrip("+-").isdigit():
        return int(number) * int(_BINARY.get(suffix, 1)) * scale
    exact = float(number + exponent) * (_SUFFIX.get(suffix) or _BINARY[suffix]) * scale
    return -int(-exact // 1) if exact != int(exact) else int(exact)


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    key: str
    operator: str
    value: str
    effect: str

    def covers(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or (bool(self.key) and self.value == taint.value)


@dataclass(frozen=True, slots=True)
class Expression:
    """One requirement on a label, or on the node's name (`field`)."""

    key: str
    operator: str
    values: tuple[str, ...]
    field: bool = False

    def holds(self, node: NodeFacts) -> bool:
        value = node.name if self.field else node.labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return self._compares(value)
        return False

    def _compares(self, value: str | None) -> bool:
        try:
            left, right = int(value or ""), int(self.values[0])
        except (ValueError, IndexError):
            return False
        return left > right if self.operator == "Gt" else left < right


Term = tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class PodShape:
    """Everything about a pod that decides where it fits."""

    requests: Requests
    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[Term, ...] | None = None
    """Required node affinity: one of the terms must hold; None asks for nothing."""
    preferred: tuple[tuple[int, Term], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    near: tuple[Expression, ...] = ()
    """Where the pods are that its required pod affinity asks for, as they are placed now."""

    @property
    def demand(self) -> Mapping[str, int]:
        return dict(self.requests)

    def admits(self, node: NodeFacts) -> bool:
        """Node selector and required node affinity."""
        if any(node.labels.get(key) != value for key, value in self.selector):
            return False
        # An empty term matches no node; an empty list of terms matches none either.
        return self.terms is None or any(
            bool(term) and all(expression.holds(node) for expression in term) for term in self.terms
        )

    def is_near(self, node: NodeFacts) -> bool:
        """Required pod affinity."""
        return all(expression.holds(node) for expression in self.near)

    def liking(self, node: NodeFacts) -> int:
        return sum(weight for weight, term in self.preferred if all(e.holds(node) for e in term))

    def untolerated(self, node: NodeFacts) -> Taint | None:
        for taint in node.taints:
            if taint.effect == "PreferNoSchedule":
                continue
            if not any(toleration.covers(taint) for toleration in self.tolerations):
                return taint
        return None


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a scheduler knows about a node, its load aside."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Mapping[str, int] = field(default_factory=dict)


def node_facts(node: Manifest) -> NodeFacts:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    allocatable = status.get("allocatable") or status.get("capacity") or {}
    taints = tuple(
        Taint(t["key"], t.get("value") or "", t.get("effect") or "") for t in spec.get("taints") or ()
    )
    return NodeFacts(
        name=node["metadata"]["name"],
        labels=dict(node["metadata"].get("labels") or {}),
        taints=taints,
        unschedulable=bool(spec.get("unschedulable")),
        allocatable={name: amount(name, str(value)) for name, value in allocatable.items()},
    )


def pod_shape(pod: Manifest) -> PodShape:
    spec = pod["spec"]
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    return PodShape(
        requests=requests_of(spec),
        selector=tuple(sorted((spec.get("nodeSelector") or {}).items())),
        terms=None if required is None else tuple(_term(t) for t in required.get("nodeSelectorTerms") or ()),
        preferred=tuple((int(p.get("weight") or 0), _term(p.get("preference") or {})) for p in preferred),
        tolerations=tuple(
            Toleration(
                t.get("key") or "", t.get("operator") or "Equal", t.get("value") or "", t.get("effect") or ""
            )
            for t in spec.get("tolerations") or ()
        ),
    )


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """Pods next to which a pod must be placed, and the node label that says what next to means."""

    key: str
    selector: Manifest
    namespaces: tuple[str, ...]

    def selects(self, pod: Manifest) -> bool:
        metadata = pod["metadata"]
        return metadata.get("namespace") in self.namespaces and matches_label_selector(
            self.selector, metadata.get("labels") or {}
        )


def required_neighbours(pod: Manifest) -> list[AffinityTerm]:
    """The required pod affinity of a pod; namespaces by selector are left out."""
    affinity = (pod["spec"].get("affinity") or {}).get("podAffinity") or {}
    return [
        AffinityTerm(
            term["topologyKey"],
            term.get("labelSelector") or {},
            tuple(term.get("namespaces") or (pod["metadata"].get("namespace"),)),
        )
        for term in affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    ]


def _term(term: Manifest) -> Term:
    labels = [(e, False) for e in term.get("matchExpressions") or ()]
    fields = [(e, True) for e in term.get("matchFields") or ()]
    return tuple(
        Expression(e["key"], e["operator"], tuple(e.get("values") or ()), field=is_field)
        for e, is_field in labels + fields
    )


def requests_of(spec: Manifest) -> Requests:
    """The pod's effective request: containers and sidecars, or the largest init step; plus overhead."""
    total = _sum(_container(c) for c in spec.get("containers") or ())
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        own = _container(container)
        if container.get("restartPolicy") == "Always":
            sidecars = _sum((sidecars, own))
            own = {}
        # While an init container runs, the sidecars started before it run as well.
        for name, value in _sum((sidecars, own)).items():
            peak[name] = max(peak.get(name, 0), value)
    total = _sum((total, sidecars))
    for name, value in peak.items():
        total[name] = max(total.get(name, 0), value)
    total = _sum((total, _amounts(spec.get("overhead") or {})))
    total["pods"] = 1
    return tuple(sorted((name, value) for name, value in total.items() if value))


def _container(container: Manifest) -> dict[str, int]:
    resources = container.get("resources") or {}
    # The server defaults requests from limits; a pod that was never defaulted is read the same way.
    return _amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _amounts(quantities: Mapping[str, object]) -> dict[str, int]:
    return {name: amount(name, str(value)) for name, value in quantities.items()}


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0) + value
    return total
