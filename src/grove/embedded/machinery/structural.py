"""Whether a CustomResourceDefinition may be stored: names, versions, and a structural schema.

Pure: a CRD in, field errors out, with the paths and sentences that Kubernetes uses.
"""

from __future__ import annotations

from collections.abc import Iterator

from grove.embedded.errors import Cause, Manifest

_REQUIRED, _INVALID, _FORBIDDEN = "FieldValueRequired", "FieldValueInvalid", "FieldValueForbidden"
_LOGICAL = ("allOf", "anyOf", "oneOf")
_NOT_IN_LOGICAL = [
    "description",
    "type",
    "default",
    "title",
    "nullable",
    "additionalProperties",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-list-map-keys",
]
_UNSUPPORTED = (
    "definitions",
    "dependencies",
    "deprecated",
    "discriminator",
    "id",
    "patternProperties",
    "$ref",
)
_SUPPORTED = '"array", "boolean", "integer", "number", "object", "string"'
_MAP_KEY_RULE = (
    "Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a "
    "required property"
)
_TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean"})


def crd_errors(crd: Manifest) -> list[Cause]:
    """Everything that is wrong with a CRD; an empty list when it may be served."""
    spec = crd.get("spec") or {}
    causes = list(_name_errors(crd["metadata"].get("name", ""), spec))
    versions = spec.get("versions") or []
    if sum(1 for version in versions if version.get("storage")) != 1:
        message = "Invalid value: must have exactly one version marked as storage version"
        causes.append(Cause("spec.versions", _INVALID, message))
    for index, version in enumerate(versions):
        causes += _version_errors(version, f"spec.versions[{index}]")
    return causes


def _name_errors(name: str, spec: Manifest) -> Iterator[Cause]:
    names = spec.get("names") or {}
    if not spec.get("group"):
        yield Cause("spec.group", _REQUIRED, "Required value")
    elif "." not in spec["group"]:
        message = f'Invalid value: "{spec["group"]}": should be a domain with at least one dot'
        yield Cause("spec.group", _INVALID, message)
    if spec.get("scope") not in ("Namespaced", "Cluster"):
        message = f'Unsupported value: "{spec.get("scope", "")}": supported values: "Cluster", "Namespaced"'
        yield Cause("spec.scope", "FieldValueNotSupported", message)
    for field in ("plural", "kind"):
        if not names.get(field):
            yield Cause(f"spec.names.{field}", _REQUIRED, "Required value")
    if not spec.get("versions"):
        yield Cause("spec.versions", _REQUIRED, "Required value")
    if name != f"{names.get('plural')}.{spec.get('group')}":
        message = f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group'
        yield Cause("metadata.name", _INVALID, message)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        message = f'Invalid value: "{names["listKind"]}": kind and listKind may not be the same'
        yield Cause("spec.names.listKind", _INVALID, message)


def _version_errors(version: Manifest, where: str) -> Iterator[Cause]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if not schema:
        yield Cause(f"{where}.schema.openAPIV3Schema", _REQUIRED, "Required value: schemas are required")
        return
    root = f"{where}.schema.openAPIV3Schema"
    if schema.get("type") != "object":
        shown = schema.get("type", "")
        sentence = (
            f'Invalid value: "{shown}": must be object at the root'
            if shown
            else "Required value: must not be empty at the root"
        )
        yield Cause(f"{root}.type", _INVALID if shown else _REQUIRED, sentence)
    yield from _schema_errors(schema, root)
    scale = (version.get("subresources") or {}).get("scale")
    if scale is not None:
        for field, prefix in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
            path = scale.get(field, "")
            if not path.startswith(prefix):
                message = f'Invalid value: "{path}": should be a json path under {prefix[:-1]}'
                yield Cause(f"{where}.subresources.scale.{field}", _INVALID, message)


def _schema_errors(schema: Manifest, where: str) -> Iterator[Cause]:
    """Walks one structural schema: types everywhere, values only where the type allows them."""
    for word in _UNSUPPORTED:
        if word in schema:
            yield Cause(f"{where}.{word}", _FORBIDDEN, f"Forbidden: {word} is not supported")
    kind = schema.get("type")
    if kind is not None and kind not in _TYPES:
        message = f'Unsupported value: "{kind}": supported values: {_SUPPORTED}'
        yield Cause(f"{where}.type", "FieldValueNotSupported", message)
    if schema.get("properties") and schema.get("additionalProperties") not in (None, False):
        message = "Forbidden: additionalProperties and properties are mutual exclusive"
        yield Cause(f"{where}.additionalProperties", _FORBIDDEN, message)
    yield from _list_errors(schema, where)
    yield from _logical_errors(schema, where)
    for name, child in (schema.get("properties") or {}).items():
        yield from _typed_child(child, f"{where}.properties[{name}]", "specified object fields")
    items = schema.get("items")
    if isinstance(items, dict):
        yield from _typed_child(items, f"{where}.items", "specified array items")
    elif isinstance(items, list):
        message = "Forbidden: items must be a schema object and not an array"
        yield Cause(f"{where}.items", _FORBIDDEN, message)
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        yield from _typed_child(values, f"{where}.additionalProperties", "specified object fields")


def _typed_child(schema: Manifest, where: str, what: str) -> Iterator[Cause]:
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not schema.get("type") and not free:
        yield Cause(f"{where}.type", _REQUIRED, f"Required value: must not be empty for {what}")
    if schema.get("type") and schema.get("x-kubernetes-int-or-string"):
        message = f'Invalid value: "{schema["type"]}": must be empty if x-kubernetes-int-or-string is true'
        yield Cause(f"{where}.type", _INVALID, message)
    yield from _schema_errors(schema, where)


def _list_errors(schema: Manifest, where: str) -> Iterator[Cause]:
    if schema.get("type") == "array" and "items" not in schema:
        yield Cause(f"{where}.items", _REQUIRED, "Required value: must be specified")
    keys = schema.get("x-kubernetes-list-map-keys")
    if schema.get("x-kubernetes-list-type") == "map":
        if not keys:
            message = "Required value: must not be empty if x-kubernetes-list-type is map"
            yield Cause(f"{where}.x-kubernetes-list-map-keys", _REQUIRED, message)
            return
        items = schema.get("items") or {}
        required = items.get("required") or ()
        for key in keys:
            child = (items.get("properties") or {}).get(key)
            if child is None:
                message = f'Invalid value: "{key}": must be a property of the items'
                yield Cause(f"{where}.x-kubernetes-list-map-keys", _INVALID, message)
            elif key not in required and "default" not in child:
                message = _MAP_KEY_RULE
                yield Cause(f"{where}.items.properties[{key}].default", _REQUIRED, message)
    elif keys:
        message = 'Forbidden: must be empty if x-kubernetes-list-type is not "map"'
        yield Cause(f"{where}.x-kubernetes-list-map-keys", _FORBIDDEN, message)


def _logical_errors(schema: Manifest, where: str) -> Iterator[Cause]:
    """allOf, anyOf, oneOf and not may only constrain values; they may not say what exists."""
    int_or_string = bool(schema.get("x-kubernetes-int-or-string"))
    branches = [
        (f"{where}.{word}[{index}]", branch)
        for word in _LOGICAL
        for index, branch in enumerate(schema.get(word) or ())
    ]
    if isinstance(schema.get("not"), dict):
        branches.append((f"{where}.not", schema["not"]))
    for place, branch in branches:
        for word in _NOT_IN_LOGICAL:
            if branch.get(word) and not (word == "type" and int_or_string):
                yield Cause(f"{place}.{word}", _FORBIDDEN, "Forbidden: must be empty to be structural")
        yield from _logical_errors(branch, place)
