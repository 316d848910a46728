"""The three ways to patch an object: RFC 7386 merge patch, RFC 6902 JSON patch, strategic merge patch.

Every function returns a new object and leaves its arguments alone; what does not apply raises `ApiError`.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import msgspec

from grove.embedded.errors import ApiError, Manifest, bad_request, too_large
from grove.embedded.machinery.strategic import strategic_patch

__all__ = ["json_patch", "merge_patch", "strategic_patch"]

REJECTED = "the server rejected our request due to an error in our request"
MOST_OPERATIONS = 10_000
MOST_COPIED = 3 * 1024 * 1024
"""How many bytes the copies of one patch may have together: each can double the document."""
encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), value)
    return result


def json_patch(target: Manifest, operations: Any) -> Manifest:
    """RFC 6902, all or nothing: the first operation that fails refuses the whole patch with 422."""
    if not isinstance(operations, list) or not all(isinstance(operation, dict) for operation in operations):
        raise bad_request("error decoding patch: a JSON patch is a list of operations")
    if len(operations) > MOST_OPERATIONS:
        raise too_large(
            f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(operations)}"
        )
    document: Any = decode(encode(target))
    copied = 0
    for operation in operations:
        try:
            if operation.get("op") == "copy":
                copied += len(encode(_walk(document, _pointer(operation["from"]))))
                if copied > MOST_COPIED:
                    raise ValueError(f"the copies of this patch have more than {MOST_COPIED} bytes")
            document = _apply(document, operation)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise _rejected(operation, error) from error
    if not isinstance(document, dict):
        raise _rejected(operations[-1], ValueError("the result is not an object"))
    return document


def _rejected(operation: Manifest, error: Exception) -> ApiError:
    where = f"{operation.get('op')} operation does not apply: doc is missing or differs at path"
    what = f"{where} {operation.get('path')}"
    detail = {"causes": [{"reason": "UnexpectedServerResponse", "message": f"{what} ({error})"}]}
    return ApiError(422, "Invalid", REJECTED, detail)


def _apply(document: Any, operation: Manifest) -> Any:
    path = _pointer(operation["path"])
    match operation.get("op"):
        case "add":
            return _add(document, path, copy.deepcopy(operation.get("value")))
        case "remove":
            return _remove(document, path)
        case "replace":
            return _replace(document, path, copy.deepcopy(operation.get("value")))
        case "test":
            if not _same(_walk(document, path, missing_is_null=True), operation.get("value")):
                raise ValueError("test failed")
            return document
        case "copy":
            return _add(document, path, decode(encode(_walk(document, _pointer(operation["from"])))))
        case "move":
            source = _pointer(operation["from"])
            value = _walk(document, source)
            return _add(_remove(document, source), path, value)
        case other:
            raise ValueError(f"unexpected kind of operation: {other!r}")


def _pointer(text: Any) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise ValueError(f"{text!r} is not a JSON pointer")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _walk(document: Any, path: Sequence[str], *, missing_is_null: bool = False) -> Any:
    for position, part in enumerate(path):
        last = position == len(path) - 1
        if isinstance(document, list):
            document = document[_index(part, len(document) - 1)]
        elif missing_is_null and last and isinstance(document, dict):
            document = document.get(part)
        else:
            document = document[part]
    return document


def _index(part: str, largest: int) -> int:
    index = int(part)
    if index < 0:
        index += largest + 1
    if not 0 <= index <= largest:
        raise IndexError(f"index {part} is out of bounds")
    return index


def _same(left: Any, right: Any) -> bool:
    """Equality in which true is not 1, as JSON has it."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def _add(document: Any, path: Sequence[str], value: Any) -> Any:
    if not path:
        return value
    parent = _walk(document, path[:-1])
    if isinstance(parent, list):
        if path[-1] == "-":
            parent.append(value)
        else:
            parent.insert(_index(path[-1], len(parent)), value)
    elif isinstance(parent, dict):
        parent[path[-1]] = value
    else:
        raise TypeError("the parent is neither an object nor a list")
    return document


def _remove(document: Any, path: Sequence[str]) -> Any:
    parent = _walk(document, path[:-1])
    if isinstance(parent, list):
        del parent[_index(path[-1], len(parent) - 1)]
    else:
        del parent[path[-1]]
    return document


def _replace(document: Any, path: Sequence[str], value: Any) -> Any:
    if not path:
        return value
    # Kubernetes' library lets a member be replaced that is not there.
    _walk(document, path, missing_is_null=True)
    parent = _walk(document, path[:-1])
    if isinstance(parent, list):
        parent[_index(path[-1], len(parent) - 1)] = value
    else:
        parent[path[-1]] = value
    return document
