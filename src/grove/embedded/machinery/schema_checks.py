"""Does a value satisfy its schema? The answers are the API server's sentences.

Two judges: `validate` for custom resources (422, one cause per broken rule) and `decode_error` for built-in
kinds, whose types are checked while decoding (400, first problem only).
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from grove.embedded.errors import Cause
from grove.embedded.machinery.quantities import MALFORMED, is_quantity
from grove.embedded.machinery.schema_nodes import Node

INVALID = "FieldValueInvalid"
REQUIRED = "FieldValueRequired"
TYPE_INVALID = "FieldValueTypeInvalid"
NOT_SUPPORTED = "FieldValueNotSupported"
DUPLICATE = "FieldValueDuplicate"
TOO_LONG = "FieldValueTooLong"
TOO_MANY = "FieldValueTooMany"

BLOCKING: Final = frozenset({REQUIRED, TYPE_INVALID, NOT_SUPPORTED, TOO_LONG, TOO_MANY})
"""After one of these the CEL rules are not evaluated."""
NOT_CHECKED = Cause(
    "<nil>",
    INVALID,
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)
ABSENT: Final = object()
"""No old value to compare with; distinct from an old null."""
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_NAMES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
_GO_NAMES = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}


def show(value: object) -> str:
    """A value as error messages quote it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def type_name(value: object) -> str:
    return _NAMES.get(type(value), "null")


def validate(value: Any, node: Node, path: str, causes: list[Cause], old: Any = ABSENT) -> None:
    """Appends what is wrong with `value`; what an update leaves as it was is not judged again."""
    if old is not ABSENT and value == old:
        return
    if value is None:
        if not node.nullable and not node.keeps_unknown:
            causes.append(_wrong_type(value, node, path))
        return
    if not _has_type(value, node):
        causes.append(_wrong_type(value, node, path))
        return
    if type(value) is dict:
        if node.required:
            _required(value, node, path, causes)
        _fields(value, node, path, causes, old)
    elif type(value) is list:
        _list(value, node, path, causes, old)
    if not node.simple:
        _limits(value, node, path, causes)
        if node.combinators:
            _combinators(value, node, path, causes)


def _has_type(value: Any, node: Node) -> bool:
    if node.int_or_string:
        return type(value) is int or type(value) is str
    if node.python_type is not None:
        return type(value) is node.python_type
    return node.type != "number" or type(value) in (int, float)


def _wrong_type(value: Any, node: Node, path: str) -> Cause:
    wanted = "integer,string" if node.int_or_string else node.type
    got = type_name(value)
    return Cause(
        path or "<nil>",
        TYPE_INVALID,
        f'Invalid value: "{got}": {path} in body must be of type {wanted}: "{got}"',
    )


def _required(value: dict[str, Any], node: Node, path: str, causes: list[Cause]) -> None:
    causes.extend(
        Cause(f"{path}.{name}" if path else name, REQUIRED, "Required value")
        for name in node.required
        if name not in value
    )


def _fields(value: dict[str, Any], node: Node, path: str, causes: list[Cause], old: Any) -> None:
    known, additional = node.fields or {}, node.additional
    before = old if type(old) is dict else {}
    prefix = f"{path}." if path else ""
    for name, item in value.items():
        child = known.get(name) or additional
        if child is not None:
            validate(item, child, prefix + name, causes, before.get(name, ABSENT))


def _list(value: list[Any], node: Node, path: str, causes: list[Cause], old: Any) -> None:
    if node.list_type in ("map", "set"):
        _duplicates(value, node, path, causes)
    if node.items is None:
        return
    before = old_items(old, node)
    for index, item in enumerate(value):
        previous = before.get(item_key(item, node), ABSENT) if before else ABSENT
        validate(item, node.items, f"{path}[{index}]", causes, previous)


def item_key(item: Any, node: Node) -> str:
    """What makes an item of a list map the same item in another version of the list."""
    if type(item) is not dict:
        return show(item)
    if len(node.map_keys) == 1:
        return str(item.get(node.map_keys[0]))
    return show([item.get(key) for key in node.map_keys])


def old_items(old: Any, node: Node) -> dict[str, Any]:
    """The items of the old list that can be found again: only those of list maps."""
    if type(old) is not list or not node.is_list_map:
        return {}
    return {item_key(item, node): item for item in old}


def _duplicates(value: list[Any], node: Node, path: str, causes: list[Cause]) -> None:
    seen = set()
    for index, item in enumerate(value):
        if node.is_list_map and type(item) is dict:
            key = show({name: item[name] for name in node.map_keys if name in item})
        else:
            key = show(item)
        if key in seen:
            causes.append(Cause(f"{path}[{index}]", DUPLICATE, f"Duplicate value: {key}"))
        seen.add(key)


def _limits(value: Any, node: Node, path: str, causes: list[Cause]) -> None:
    limits = node.limits
    if "enum" in limits and value not in limits["enum"]:
        allowed = ", ".join(map(show, limits["enum"]))
        causes.append(
            Cause(path, NOT_SUPPORTED, f"Unsupported value: {show(value)}: supported values: {allowed}")
        )
    kind = type(value)
    shown: object = value
    if kind is int or kind is float:
        broken = _number_limits(value, limits)
    elif kind is str:
        broken = _string_limits(value, node, path, causes)
    elif kind is list or kind is dict:
        broken = _size_limits(value, limits, path, causes)
        shown = len(value)
    else:
        return
    causes.extend(
        Cause(path, INVALID, f"Invalid value: {show(shown)}: {path} in body {problem}") for problem in broken
    )


def _number_limits(value: float, limits: dict[str, Any]) -> list[str]:
    broken = []
    low, high, step = limits.get("minimum"), limits.get("maximum"), limits.get("multipleOf")
    if low is not None and value < low:
        broken.append(f"should be greater than or equal to {_plain(low)}")
    if high is not None and value > high:
        broken.append(f"should be less than or equal to {_plain(high)}")
    if step and value % step:
        broken.append(f"should be a multiple of {_plain(step)}")
    return broken


def _plain(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else str(number)


def _string_limits(value: str, node: Node, path: str, causes: list[Cause]) -> list[str]:
    broken = []
    limits = node.limits
    if len(value) < limits.get("minLength", 0):
        broken.append(f"should be at least {limits['minLength']} chars long")
    if "maxLength" in limits and len(value) > limits["maxLength"]:
        causes.append(Cause(path, TOO_LONG, f"Too long: may not be more than {limits['maxLength']} bytes"))
    if node.pattern is not None and node.pattern.search(value) is None:
        broken.append(f"should match '{limits['pattern']}'")
    if node.format == "date-time" and _DATE_TIME.fullmatch(value) is None:
        broken.append(f"must be of type date-time: {show(value)}")
    return broken


def _size_limits(value: Any, limits: dict[str, Any], path: str, causes: list[Cause]) -> list[str]:
    least, most, what = (
        ("minItems", "maxItems", "items")
        if type(value) is list
        else ("minProperties", "maxProperties", "properties")
    )
    if most in limits and len(value) > limits[most]:
        causes.append(
            Cause(path, TOO_MANY, f"Too many: {len(value)}: must have at most {limits[most]} items")
        )
    if len(value) < limits.get(least, 0):
        return [f"should have at least {limits[least]} {what}"]
    return []


def _passes(value: Any, node: Node, path: str) -> bool:
    causes: list[Cause] = []
    validate(value, node, path, causes)
    return not causes


def _combinators(value: Any, node: Node, path: str, causes: list[Cause]) -> None:
    def wrong(what: str) -> None:
        causes.append(Cause(path or "<nil>", INVALID, f'Invalid value: "": "{path}" {what}'))

    for child in node.combinators.get("allOf", ()):
        validate(value, child, path, causes)
    if "anyOf" in node.combinators and not any(
        _passes(value, child, path) for child in node.combinators["anyOf"]
    ):
        wrong("must validate at least one schema (anyOf)")
    if "oneOf" in node.combinators:
        matches = sum(_passes(value, child, path) for child in node.combinators["oneOf"])
        if matches != 1:
            found = f"Found {matches} valid alternatives" if matches else "Found none valid"
            wrong(f"must validate one and only one schema (oneOf). {found}")
    if "not" in node.combinators and _passes(value, node.combinators["not"][0], path):
        wrong("must not validate the schema (not)")


def decode_error(value: Any, node: Node, path: str) -> str:
    """Why a built-in kind's body cannot be decoded, or "" if it can; null is a Go zero value."""
    if value is None:
        return ""
    kind = type(value)
    if node.int_or_string:
        if node.format == "quantity":
            return "" if is_quantity(value) else MALFORMED
        return (
            "" if kind in (int, str) else "json: cannot unmarshal " + _into(value, path, "intstr.IntOrString")
        )
    wanted = node.python_type
    if (wanted is not None and kind is not wanted) or (node.type == "number" and kind not in (int, float)):
        return "json: cannot unmarshal " + _into(value, path, _go_type(node))
    if kind is dict:
        known, additional = node.fields or {}, node.additional
        for name, item in value.items():
            child = known.get(name) or additional
            if child is not None and (problem := decode_error(item, child, f"{path}.{name}")):
                return problem
    elif kind is list and node.items is not None:
        for item in value:
            if problem := decode_error(item, node.items, path):
                return problem
    elif kind is int and not _fits(value, node.format):
        return "json: cannot unmarshal " + _into(value, path, _go_type(node))
    elif node.format == "date-time" and kind is str and _DATE_TIME.fullmatch(value) is None:
        return f"parsing time {show(value)} as RFC 3339: cannot parse {show(value)}"
    return ""


def _fits(value: int, form: str) -> bool:
    bits = 31 if form == "int32" else 63
    return -(1 << bits) <= value < 1 << bits


def _go_type(node: Node) -> str:
    named = {"boolean": "bool", "integer": node.format or "int", "number": "float64"}
    return named.get(node.type, node.type)


def _into(value: Any, path: str, go_type: str) -> str:
    return f"{_GO_NAMES.get(type(value), 'null')} into Go struct field {path} of type {go_type}"
