"""From a manifest to a view: `decode` raises InvalidInput that names each wrong field.

A manifest is what a person or an API server wrote; a view is what we read of it. Explicit nulls count as
absent, as they do for the API server; what is kept verbatim (pod specs) is not looked into.
"""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Final, TypeVar

import msgspec

from grove.api.crd import schema_of
from grove.errors import FieldError, InvalidInput
from grove.meta import Manifest, View
from grove.words import value_in_words

V = TypeVar("V", bound=View)

_MISSING: Final = re.compile(r"Object missing required field `(.+)`")
_PYTHON: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
}
_WANTED: Final[Mapping[str, str]] = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}
_TEXTS: Final[Manifest] = {"type": "object", "additionalProperties": {"type": "string"}}
_TEXT: Final[Manifest] = {"type": "string"}
#: What a definition of ours leaves to the API server.
_METADATA: Final[Manifest] = {
    "name": _TEXT,
    "namespace": _TEXT,
    "labels": _TEXTS,
    "annotations": _TEXTS,
}
_WHERE: Final = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<where>.*)`)?$", re.DOTALL)


def means_the_same(one: View, other: View) -> bool:
    """Whether two views are equal to an API server as well: to Python alone, 1 and true are."""
    return one == other and msgspec.json.encode(one) == msgspec.json.encode(other)


def decode(manifest: Manifest, type: type[V], *, strict: bool = False) -> V:
    """The view of a manifest; `strict` also refuses fields that the schema does not know."""
    schema = _schema(type)
    unknown = list(unknown_fields(manifest, type)) if strict else []
    try:
        view = msgspec.convert(_without_nulls(manifest, schema), type=type)
    except msgspec.ValidationError as error:
        # Looked for only now: what is right is decoded without a second walk.
        wrong = list(_wrong_types(manifest, schema, ""))
        raise InvalidInput([*unknown, *(wrong or [_field_error(str(error))])]) from None
    if unknown:
        raise InvalidInput(unknown)
    return view


def unknown_fields(manifest: Manifest, type: type[View]) -> Iterator[FieldError]:
    """Fields that the API server would drop, each with its path."""
    yield from _unknown(manifest, _schema(type), "")


@cache
def _schema(type: type[View]) -> Manifest:
    """The schema, made once: admission decodes with every request."""
    return schema_of(type)


def _unknown(value: object, schema: Manifest, path: str) -> Iterator[FieldError]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown(item, schema.get("items", {}), f"{path}[{index}]")
    properties = schema.get("properties")
    if not isinstance(value, dict) or properties is None:
        return
    for field, item in value.items():
        at = f"{path}.{field}" if path else str(field)
        if field in properties:
            yield from _unknown(item, properties[field], at)
        elif not schema.get("x-kubernetes-preserve-unknown-fields"):
            yield FieldError(at, _unknown_message(str(field), properties))


def _unknown_message(field: str, properties: Manifest) -> str:
    lowered = {known.lower(): known for known in properties}
    near = get_close_matches(field.lower(), lowered, n=1, cutoff=0.8)
    return f"unknown field; did you mean {lowered[near[0]]}?" if near else "unknown field"


def _without_nulls(value: object, schema: Manifest) -> object:
    """The value without nulls, copied only where the schema looks."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return value
    if isinstance(value, list):
        return [_without_nulls(item, schema.get("items", {})) for item in value]
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        return {
            field: _without_nulls(item, properties.get(field, {}))
            for field, item in value.items()
            if item is not None
        }
    return value


def _wrong_types(value: object, schema: Manifest, path: str) -> Iterator[FieldError]:
    """Every value of another type than the schema wants; nulls count as absent."""
    wanted = schema.get("type")
    if value is None or wanted is None or schema.get("x-kubernetes-int-or-string"):
        return
    if not isinstance(value, _PYTHON[wanted]) or (isinstance(value, bool) and wanted != "boolean"):
        yield FieldError(path, f"must be {_WANTED[wanted]}, not {value_in_words(value)}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _wrong_types(item, schema.get("items", {}), f"{path}[{index}]")
    elif isinstance(value, dict):
        properties = schema.get("properties") or (_METADATA if path == "metadata" else {})
        for field, item in value.items():
            inner: Manifest = properties.get(field) or schema.get("additionalProperties") or {}
            at = f"{path}[{field}]" if "additionalProperties" in schema else f"{path}.{field}".lstrip(".")
            yield from _wrong_types(item, inner, at)


def _field_error(message: str) -> FieldError:
    """What only the decoder notices, such as a number that is too large, as a field and what is wrong."""
    found = _WHERE.match(message)
    what, where = (found["what"], found["where"] or "") if found else (message, "")
    if missing := _MISSING.fullmatch(what):
        return FieldError(f"{where}.{missing[1]}".lstrip("."), "is required")
    what = what.replace("`", "")
    return FieldError(where, what[:1].lower() + what[1:])
