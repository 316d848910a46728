"""Strategic merge patch: a merge patch that knows which lists are keyed.

The schema's `x-kubernetes-patch-*` marks say how; the directives are `$patch`, `$retainKeys`,
`$setElementOrder/<field>` and `$deleteFromPrimitiveList/<field>`. Only built-in kinds have such schemas.
"""

from __future__ import annotations

import copy
from typing import Any

from grove.embedded.errors import Manifest, bad_request
from grove.embedded.machinery.schema import Schema
from grove.embedded.machinery.schema_nodes import OPAQUE, Node

PATCH = "$patch"
RETAIN = "$retainKeys"
ORDER = "$setElementOrder/"
DELETE_PRIMITIVES = "$deleteFromPrimitiveList/"


def strategic_patch(target: Manifest, patch: Any, schema: Schema | None) -> Any:
    """A new object: `target` changed as `patch` asks."""
    return _patch(target, patch, schema.root if schema is not None else OPAQUE)


def _patch(target: Any, patch: Any, schema: Node) -> Any:
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    directive = patch.get(PATCH)
    if directive == "replace":
        return {name: copy.deepcopy(value) for name, value in patch.items() if name != PATCH}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"Unknown patch type found: {directive}")
    result = dict(target) if isinstance(target, dict) else {}
    if RETAIN in patch:
        _check_retained(patch)
        result = {name: value for name, value in result.items() if name in patch[RETAIN]}
    for name, value in patch.items():
        if not name.startswith("$"):
            _patch_field(result, name, value, schema.field(name) or OPAQUE)
    _directives(result, patch, schema)
    return result


def _check_retained(patch: Manifest) -> None:
    kept = patch[RETAIN]
    if not isinstance(kept, list):
        raise bad_request(f"{RETAIN} must be a list of field names")
    for name, value in patch.items():
        if not name.startswith("$") and value is not None and name not in kept:
            raise bad_request(f"{RETAIN} list doesn't contain all present keys: {name} is missing")


def _patch_field(result: Manifest, name: str, value: Any, node: Node) -> None:
    if value is None:
        result.pop(name, None)
    elif isinstance(value, dict):
        if value.get(PATCH) == "delete":
            result.pop(name, None)
        elif value.get(PATCH) == "replace" and name not in result:
            return  # Kubernetes replaces only what is there.
        else:
            result[name] = _patch(result.get(name), value, node)
    elif isinstance(value, list) and "merge" in node.strategies:
        result[name] = _merge_list(result.get(name) or [], value, node)
    else:
        result[name] = _without_directives(value) if isinstance(value, list) else value


def _without_directives(items: list[Any]) -> list[Any]:
    return [copy.deepcopy(item) for item in items if not (isinstance(item, dict) and set(item) == {PATCH})]


def _merge_list(current: list[Any], patch: list[Any], node: Node) -> list[Any]:
    key = node.merge_key
    if not key or not all(isinstance(item, dict) for item in patch):
        return [*current, *(copy.deepcopy(item) for item in patch if item not in current)]
    if any(item.get(PATCH) == "replace" for item in patch):
        return [
            {name: copy.deepcopy(value) for name, value in item.items() if name != PATCH}
            for item in patch
            if set(item) != {PATCH}
        ]
    result = list(current)
    for item in patch:
        if key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        place = next(
            (i for i, old in enumerate(result) if isinstance(old, dict) and old.get(key) == item[key]), None
        )
        if item.get(PATCH) == "delete":
            result = [old for old in result if not isinstance(old, dict) or old.get(key) != item[key]]
        elif place is None:
            result.append(_patch({}, item, node.items or OPAQUE))
        else:
            result[place] = _patch(result[place], item, node.items or OPAQUE)
    return result


def _directives(result: Manifest, patch: Manifest, schema: Node) -> None:
    for name, value in patch.items():
        if name.startswith(DELETE_PRIMITIVES):
            field = name.removeprefix(DELETE_PRIMITIVES)
            result[field] = [item for item in result.get(field) or [] if item not in value]
    for name, order in patch.items():
        if name.startswith(ORDER):
            field = name.removeprefix(ORDER)
            node = schema.field(field)
            if node is not None and isinstance(result.get(field), list):
                result[field] = _ordered(result[field], order, node.merge_key)


def _ordered(items: list[Any], order: list[Any], key: str) -> list[Any]:
    """The listed items in the wanted order; each unlisted one stays behind the item that it followed."""

    def identity(item: Any) -> str:
        return repr(item.get(key) if key and isinstance(item, dict) else item)

    place = {identity(item): index for index, item in enumerate(order)}
    listed = sorted(
        (item for item in items if identity(item) in place), key=lambda item: place[identity(item)]
    )
    result: list[Any] = []
    followers: dict[str, list[Any]] = {}
    previous = ""
    for item in items:
        if identity(item) in place:
            previous = identity(item)
        else:
            followers.setdefault(previous, []).append(item)
    result.extend(followers.get("", ()))
    for item in listed:
        result.append(item)
        result.extend(followers.get(identity(item), ()))
    return result
