"""The one OpenAPI v2 document, for clients that still ask for it: JSON, or protobuf as client-go wants it.

kubectl falls back to it for what the v3 documents do not describe, such as `kind: List`. Made of the same
schemas; what version 2 cannot say (alternatives, null) is left out, which allows more and never less.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from functools import cache

import msgspec

from grove.embedded import data
from grove.embedded.errors import Manifest
from grove.embedded.kinds.catalog import Catalog
from grove.embedded.server import openapi

PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_REFERENCE = "#/definitions/"
_OPEN = ("nullable", "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")
"""What allows values that version 2 has no type for."""
encode = msgspec.json.Encoder().encode


def wants_protobuf(accept: str) -> bool:
    return "proto-openapi.spec.v2" in accept


def document(catalog: Catalog) -> Manifest:
    """The whole document."""
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": f"v{catalog.minor}.0"},
        "paths": dict(_paths(catalog)),
        "definitions": {**_builtin_definitions(catalog.minor), **dict(_custom_definitions(catalog))},
    }


def _custom_definitions(catalog: Catalog) -> Iterator[tuple[str, Manifest]]:
    for resource in catalog.registry:
        definition = catalog.definition(resource)
        if definition is not None:
            schema = openapi.custom_schema_of(resource, definition.openapi)
            yield openapi.custom_name(resource), _as_v2(schema)


@cache
def _builtin_definitions(minor: str) -> dict[str, Manifest]:
    return {name: _as_v2(schema) for name, schema in data.components(minor).items()}


def _as_v2(schema: Manifest) -> Manifest:
    """A schema without what version 2 does not know."""
    found: Manifest = {}
    for name, value in schema.items():
        if name == "properties":
            found[name] = {field: _as_v2(child) for field, child in value.items()}
        elif name in ("items", "additionalProperties"):
            found[name] = _as_v2(value) if isinstance(value, dict) else value
        elif name == "$ref":
            found[name] = _REFERENCE + value.removeprefix(data.PREFIX)
        elif name == "allOf" and len(value) == 1 and "$ref" in value[0]:
            found["$ref"] = _REFERENCE + value[0]["$ref"].removeprefix(data.PREFIX)
        elif name in _FIELDS or name.startswith("x-"):
            found[name] = value
    if "format" in schema and schema.get("x-kubernetes-int-or-string"):
        # The built-in kinds for which a text may be a number.
        return {"type": "string", "format": schema["format"]}
    if any(schema.get(name) for name in _OPEN):
        for name in ("type", "properties", "items", "additionalProperties", "required"):
            found.pop(name, None)
    return found


def _paths(catalog: Catalog) -> Iterator[tuple[str, Manifest]]:
    for resource in catalog.registry:
        for path, methods in openapi.paths_of(resource).items():
            yield path, {method: _operation(operation) for method, operation in methods.items()}


def _operation(operation: Manifest) -> Manifest:
    found = {**operation, "responses": {"200": {"description": "OK"}}}
    if "parameters" in operation:
        found["parameters"] = [
            {**_without(each, "schema"), **each["schema"]} for each in operation["parameters"]
        ]
    if body := found.pop("requestBody", None):
        found["consumes"] = list(body["content"])
    return found


def _without(value: Manifest, name: str) -> Manifest:
    return {key: item for key, item in value.items() if key != name}


# --- protobuf: messages as openapi.v2 of Google's gnostic defines them, by field number

_TEXT, _FLAG, _NUMBER, _REAL, _ANY = "text", "flag", "number", "real", "any"
_FIELDS: dict[str, tuple[int, str]] = {
    "$ref": (1, _TEXT),
    "format": (2, _TEXT),
    "title": (3, _TEXT),
    "description": (4, _TEXT),
    "multipleOf": (6, _REAL),
    "maximum": (7, _REAL),
    "exclusiveMaximum": (8, _FLAG),
    "minimum": (9, _REAL),
    "exclusiveMinimum": (10, _FLAG),
    "maxLength": (11, _NUMBER),
    "minLength": (12, _NUMBER),
    "pattern": (13, _TEXT),
    "maxItems": (14, _NUMBER),
    "minItems": (15, _NUMBER),
    "uniqueItems": (16, _FLAG),
    "maxProperties": (17, _NUMBER),
    "minProperties": (18, _NUMBER),
    "required": (19, _TEXT),
    "enum": (20, _ANY),
    "type": (22, _TEXT),
}
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def protobuf(catalog: Catalog) -> bytes:
    """The whole document as protobuf."""
    found = document(catalog)
    info = _text(1, found["info"]["title"]) + _text(2, found["info"]["version"])
    paths = b"".join(_part(2, _named(name, _path_item(item))) for name, item in found["paths"].items())
    builtin = _builtin_messages(catalog.minor)
    definitions = b"".join(
        _part(1, builtin.get(name) or _named(name, _schema(schema)))
        for name, schema in found["definitions"].items()
    )
    return _text(1, found["swagger"]) + _part(2, info) + _part(8, paths) + _part(9, definitions)


@cache
def _builtin_messages(minor: str) -> dict[str, bytes]:
    return {name: _named(name, _schema(schema)) for name, schema in _builtin_definitions(minor).items()}


def _schema(schema: Manifest) -> bytes:
    parts: list[tuple[int, bytes]] = []
    for name, value in schema.items():
        if name == "type":
            parts.append((22, _part(22, _text(1, value))))
        elif name in _FIELDS:
            number, kind = _FIELDS[name]
            parts.append((number, _scalar(number, kind, value)))
        elif name == "properties":
            fields = (_part(1, _named(field, _schema(child))) for field, child in value.items())
            parts.append((25, _part(25, b"".join(fields))))
        elif name == "items":
            parts.append((23, _part(23, _part(1, _schema(value)))))
        elif name == "additionalProperties":
            inner = _part(1, _schema(value)) if isinstance(value, dict) else _varint(2, int(value))
            parts.append((21, _part(21, inner)))
    return b"".join(part for _, part in sorted(parts)) + _extensions(31, schema)


def _scalar(number: int, kind: str, value: object) -> bytes:
    if isinstance(value, list):
        return b"".join(_scalar(number, kind, each) for each in value)
    if kind == _ANY:
        return _part(number, _any(value))
    if kind == _TEXT:
        return _text(number, str(value))
    if kind == _REAL:
        return _key(number, 1) + struct.pack("<d", value)
    return _varint(number, int(value))  # type: ignore[call-overload]


def _path_item(methods: Manifest) -> bytes:
    ordered = sorted((_METHODS[method], operation) for method, operation in methods.items())
    return b"".join(_part(number, _encoded_operation(operation)) for number, operation in ordered)


def _encoded_operation(operation: Manifest) -> bytes:
    consumes = b"".join(_text(7, each) for each in operation.get("consumes", ()))
    parameters = b"".join(_part(8, _parameter(each)) for each in operation.get("parameters", ()))
    responses = (
        _part(1, _named(code, _part(1, _text(1, each["description"]))))
        for code, each in operation["responses"].items()
    )
    return consumes + parameters + _part(9, b"".join(responses)) + _extensions(13, operation)


def _parameter(parameter: Manifest) -> bytes:
    """A parameter in the query, inside the three alternatives that it could have been."""
    fields = _text(2, parameter["in"]) + _text(4, parameter["name"]) + _text(6, parameter["type"])
    if parameter.get("uniqueItems"):
        fields += _varint(20, 1)
    return _part(1, _part(2, _part(3, fields)))


def _extensions(number: int, value: Manifest) -> bytes:
    names = sorted(name for name in value if name.startswith("x-"))
    return b"".join(_part(number, _named(name, _any(value[name]))) for name in names)


def _any(value: object) -> bytes:
    """A value as YAML text, of which JSON is a part."""
    return _text(2, encode(value).decode())


def _named(name: str, message: bytes) -> bytes:
    return _text(1, name) + _part(2, message)


def _text(number: int, text: str) -> bytes:
    return _part(number, text.encode())


def _part(number: int, content: bytes) -> bytes:
    return _key(number, 2) + _digits(len(content)) + content


def _varint(number: int, value: int) -> bytes:
    return _key(number, 0) + _digits(value & (1 << 64) - 1)


def _key(number: int, wire: int) -> bytes:
    return _digits(number << 3 | wire)


def _digits(value: int) -> bytes:
    """A number in groups of seven bits, the lowest first."""
    return bytes(_groups(value))


def _groups(value: int) -> Iterable[int]:
    while value > 127:
        yield value & 127 | 128
        value >>= 7
    yield value
