"""From a manifest to a view: `decode` raises InvalidInput that names each wrong field.

A manifest is what a person or an API server wrote; a view is what we read of it. Explicit nulls count as
absent, as they do for the API server; what is kept verbatim (pod specs) is not looked into.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Final, TypeVar

import msgspec

from grove.api.crd import schema_of
from grove.errors import FieldError, InvalidInput
from grove.meta import Manifest, View

V = TypeVar("V", bound=View)

_WHERE: Final = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<where>.*)`)?$", re.DOTALL)


def decode(manifest: Manifest, type: type[V], *, strict: bool = False) -> V:
    """The view of a manifest; `strict` also refuses fields that the schema does not know."""
    schema = _schema(type)
    unknown = list(unknown_fields(manifest, type)) if strict else []
    if unknown:
        raise InvalidInput(unknown)
    try:
        return msgspec.convert(_without_nulls(manifest, schema), type=type)
    except msgspec.ValidationError as error:
        raise InvalidInput([_field_error(str(error))]) from None


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
    near = next((known for known in properties if known.lower() == field.lower()), "")
    return f"unknown field; did you mean {near}?" if near else "unknown field"


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


def _field_error(message: str) -> FieldError:
    """`Expected `int`, got `str` - at `$.spec.replicas`` as a field and what is wrong with it."""
    found = _WHERE.match(message)
    what, where = (found["what"], found["where"] or "") if found else (message, "")
    what = what.replace("`", "")
    return FieldError(where, what[:1].lower() + what[1:])
