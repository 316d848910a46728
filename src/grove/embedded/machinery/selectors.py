"""Label and field selectors, compiled to predicates over objects.

Understands what `labelSelector` and `fieldSelector` may say in a query. Which fields a kind can be selected
by is a table here for built-in kinds and comes from the CRD for custom ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from grove.embedded.errors import Manifest, bad_request
from grove.embedded.resource_type import ResourceType

Predicate = Callable[[Manifest], bool]
_Test = Callable[[str | None], bool]

_SET = re.compile(r"(?P<key>\S+?)\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUALITY = re.compile(r"(?P<key>[^\s=!]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^\s=!]*)")
_KEY = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")

_POD = (
    "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName spec.hostNetwork "
    "status.phase status.podIP status.podIPs status.nominatedNodeName"
)
_EVENT = (
    "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid "
    "involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath "
    "reason reportingComponent source type"
)
_REGARDING = _EVENT.replace("involvedObject.", "regarding.") + " reportingController"
FIELDS: dict[tuple[str, str], frozenset[str]] = {
    ("", "pods"): frozenset(_POD.split()),
    ("", "events"): frozenset(_EVENT.split()),
    ("events.k8s.io", "events"): frozenset(_REGARDING.split()),
    ("", "nodes"): frozenset({"spec.unschedulable"}),
    ("", "namespaces"): frozenset({"status.phase"}),
    ("", "secrets"): frozenset({"type"}),
    ("", "replicationcontrollers"): frozenset({"status.replicas"}),
    ("apps", "replicasets"): frozenset({"status.replicas"}),
    ("batch", "jobs"): frozenset({"status.successful"}),
    ("resource.k8s.io", "resourceslices"): frozenset({"spec.nodeName", "spec.driver"}),
}
# A field that is absent still has a value in Go; these are not the empty string.
ZERO_VALUES = {
    "spec.unschedulable": "false",
    "spec.hostNetwork": "false",
    "status.replicas": "0",
    "status.successful": "0",
}
# Selectable names that are not the path of the field.
RENAMED = {
    ("", "events", "source"): "source.component",
    ("", "events", "reportingComponent"): "reportingComponent",
    ("events.k8s.io", "events", "source"): "deprecatedSource.component",
    ("events.k8s.io", "events", "reportingComponent"): "reportingController",
    ("batch", "jobs", "status.successful"): "status.succeeded",
}


def label_predicate(text: str) -> Predicate | None:
    """The predicate of a label selector; None when it selects everything."""
    tests = [_label_test(part) for part in _parts(text)]
    if not tests:
        return None

    def matches(obj: Manifest) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(test(labels.get(key)) for key, test in tests)

    return matches


def _parts(text: str) -> Iterator[str]:
    """Splits at the commas that are not within a set's parentheses; nothing may be missing around one."""
    if not text.strip():
        return
    for part in re.split(r",(?![^()]*\))", text):
        if not part.strip():
            raise bad_request(
                "unable to parse requirement: found ',', expected: !, identifier, or 'end of string'"
            )
        yield part.strip()


def _label_test(part: str) -> tuple[str, _Test]:
    if found := _SET.fullmatch(part):
        values = frozenset(value.strip() for value in found["values"].split(","))
        return _checked(found["key"], values), _membership(values, wanted=found["op"] == "in")
    if found := _EQUALITY.fullmatch(part):
        values = frozenset({found["value"]})
        return _checked(found["key"], values), _membership(values, wanted=found["op"] != "!=")
    if part.startswith("!"):
        return _checked(part[1:].strip(), ()), lambda value: value is None
    return _checked(part, ()), lambda value: value is not None


def _membership(values: frozenset[str], *, wanted: bool) -> _Test:
    if wanted:
        return lambda value: value in values
    return lambda value: value not in values


def _checked(key: str, values: Iterable[str]) -> str:
    if not _KEY.fullmatch(key):
        raise bad_request(f'unable to parse requirement: "{key}" is not a valid label key')
    for value in values:
        if not _VALUE.fullmatch(value):
            raise bad_request(f'unable to parse requirement: values: Invalid value: "{value}" of label {key}')
    return key


def field_predicate(text: str, resource: ResourceType, selectable: Iterable[str] = ()) -> Predicate | None:
    """The predicate of a field selector; `selectable` are the paths that a CRD allows besides name and
    namespace."""
    allowed = {"metadata.name", "metadata.namespace", *selectable}
    allowed |= FIELDS.get((resource.group, resource.plural), frozenset())
    tests: list[tuple[list[str], str, str, bool]] = []
    for part in _field_parts(text):
        path, operator, value = _field_requirement(part)
        if path not in allowed:
            raise bad_request(f'field label not supported: "{path}" for {resource}')
        real = RENAMED.get((resource.group, resource.plural, path), path)
        tests.append((real.split("."), ZERO_VALUES.get(path, ""), value, operator != "!="))
    if not tests:
        return None

    def matches(obj: Manifest) -> bool:
        return all((_text_at(obj, path, zero) == value) is wanted for path, zero, value, wanted in tests)

    return matches


def _field_parts(text: str) -> Iterator[str]:
    for part in re.split(r"(?<!\\),", text):
        if part:
            yield part


def _field_requirement(part: str) -> tuple[str, str, str]:
    found = re.fullmatch(r"([^=!]*)(!=|==|=)(.*)", part, re.DOTALL)
    if not found:
        raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
    if not re.fullmatch(r"(?:[^\\,=]|\\[\\,=])*", found[3]):
        raise bad_request(
            f"invalid field selector: unescaped or badly escaped character in value: {found[3]}"
        )
    value = re.sub(r"\\([\\,=])", r"\1", found[3])
    return found[1], found[2], value


def _text_at(obj: Manifest, path: list[str], zero: str) -> str:
    value = at_path(obj, path)
    if value is None:
        return zero
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def at_path(obj: object, path: Iterable[str]) -> object:
    """The value at a path of keys; None when any part is missing."""
    for part in path:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(part)
    return obj


def both(first: Predicate | None, second: Predicate | None) -> Predicate | None:
    if first is None or second is None:
        return first or second
    one, two = first, second
    return lambda obj: one(obj) and two(obj)


def matches_label_selector(selector: Manifest | None, labels: Manifest) -> bool:
    """Whether labels satisfy a metav1.LabelSelector; an absent selector matches nothing, an empty one
    everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression_holds(rule, labels) for rule in selector.get("matchExpressions") or ())


def _expression_holds(rule: Manifest, labels: Manifest) -> bool:
    value = labels.get(rule["key"])
    match rule.get("operator"):
        case "In":
            return value in (rule.get("values") or ())
        case "NotIn":
            return value not in (rule.get("values") or ())
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False


def selected_name(fields: str) -> str:
    """The one name that a field selector leaves; empty when it leaves several."""
    for part in fields.split(","):
        found = _EQUALITY.fullmatch(part.strip())
        if found and found["key"] == "metadata.name" and found["op"] != "!=":
            return found["value"]
    return ""
