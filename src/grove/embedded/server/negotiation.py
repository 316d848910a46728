"""What a client sends and wants back: request bodies decoded, representations chosen.

JSON, YAML and protobuf come in; JSON goes out, as objects, tables or metadata only. Duplicate keys are
found only when the body is not what our encoder would have written, because finding them is slow.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from enum import Enum

import msgspec
import yaml

from grove.embedded.errors import bad_request, unsupported_media
from grove.embedded.server import protobuf

DEEPEST = 150
"""How deep a body may be nested: several recursive steps for each level must fit on Python's stack."""
LONG = 64 * 1024
LARGEST = 3 * 1024 * 1024
TOO_DEEP = f"the body of the request is nested deeper than {DEEPEST} levels"
_YAML = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
YAML = "application/yaml"
decode = msgspec.json.Decoder().decode
encode = msgspec.json.Encoder().encode


class Form(Enum):
    """How objects are shown."""

    OBJECT = "object"
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"


def form_of(accept: str) -> Form:
    """The first acceptable form that this server has."""
    if "as=" not in accept:
        return Form.OBJECT
    for offer in accept.split(","):
        parts = [part.strip() for part in offer.split(";")]
        if "as=Table" in parts and "g=meta.k8s.io" in parts:
            return Form.TABLE
        if "as=PartialObjectMetadata" in parts or "as=PartialObjectMetadataList" in parts:
            return Form.METADATA
        if len(parts) == 1 and parts[0] == JSON:
            return Form.OBJECT
    return Form.OBJECT


def media_type(header: str) -> str:
    return header.split(";")[0].strip() or JSON


async def decode_request(body: bytes, content_type: str) -> object:
    """A request's body as plain values; long YAML, which is slow to read, does not stop everybody else."""
    if len(body) > LONG and "yaml" in media_type(content_type):
        return await asyncio.to_thread(decode_body, body, content_type)
    return decode_body(body, content_type)


def decode_body(body: bytes, content_type: str) -> object:
    """A request's body as plain values; {} when there is none."""
    kind = media_type(content_type)
    if not body:
        return {}
    if kind == PROTOBUF:
        return protobuf.decode(body)
    if kind != JSON and not kind.endswith(("+json", "yaml")):
        raise unsupported_media([JSON, YAML, PROTOBUF])
    try:
        return _bounded(body, decode(body))
    except RecursionError:
        raise bad_request(TOO_DEEP) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if "yaml" not in kind:
            raise bad_request(f"the body of the request is not valid JSON: {error}") from None
    return _from_yaml(body)


def _bounded(body: bytes, value: object) -> object:
    """The value, when it is not nested deeper than what walks it recursively can bear."""
    if body.count(b"{") + body.count(b"[") <= DEEPEST:
        return value
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise bad_request(TOO_DEEP)
        level = [child for each in level for child in _children(each)]
    return value


def _children(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _from_yaml(body: bytes) -> object:
    """YAML as the JSON that it stands for: text keys, and no object that is in two places at once."""
    try:
        value = yaml.load(body, Loader=_YAML)
        if b"*" in body and _size(value, {}) > LARGEST:
            raise bad_request(
                "the body of the request is not valid YAML: document contains excessive aliasing"
            )
        raw = encode(value)
        return _bounded(raw, decode(raw))
    except RecursionError:
        raise bad_request(TOO_DEEP) from None
    except (yaml.YAMLError, msgspec.MsgspecError, TypeError, ValueError) as error:
        raise bad_request(f"the body of the request is not valid YAML: {error}") from None


def _size(value: object, known: dict[int, int]) -> int:
    """About how many bytes a value has when every alias is written out."""
    if not isinstance(value, (dict, list)):
        return len(value) + 2 if isinstance(value, (str, bytes)) else 8
    size = known.get(id(value))
    if size is None:
        known[id(value)] = LARGEST + 1  # what contains itself has no end
        items = value if isinstance(value, list) else [each for pair in value.items() for each in pair]
        size = known[id(value)] = 2 + sum(_size(each, known) for each in items)
    return size


def duplicate_fields(body: bytes, decoded: object) -> list[str]:
    """`duplicate field "path"` for every key that a JSON body has twice in one object."""
    text = body.strip()
    if len(text) == len(encode(decoded)) or not text.startswith(b"{"):
        return []
    try:
        tree = json.loads(text, object_pairs_hook=_Pairs)
    except ValueError:
        return []
    found: list[str] = []
    _walk(tree, "", found.append)
    return [f'duplicate field "{path}"' for path in found]


class _Pairs(list[tuple[str, object]]):
    """A JSON object with every key that it had."""


def _walk(value: object, path: str, report: Callable[[str], None]) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for name, child in value:
            below = f"{path}.{name}" if path else name
            if name in seen:
                report(below)
            seen.add(name)
            _walk(child, below, report)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            _walk(child, f"{path}[{index}]", report)
