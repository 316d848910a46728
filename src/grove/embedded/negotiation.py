"""What a client sends and wants back: request bodies decoded, representations chosen.

JSON, YAML and protobuf come in; JSON goes out, as objects, tables or metadata only. Duplicate keys are
found only when the body is not what our encoder would have written, because finding them is slow.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import Enum

import msgspec
import yaml

from grove.embedded import protobuf
from grove.embedded.errors import bad_request, unsupported_media

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
        return decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if "yaml" not in kind:
            raise bad_request(f"the body of the request is not valid JSON: {error}") from None
    try:
        return yaml.safe_load(body)
    except yaml.YAMLError as error:
        raise bad_request(f"the body of the request is not valid YAML: {error}") from None


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
