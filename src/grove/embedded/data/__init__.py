"""Facts about Kubernetes that are too many to write by hand: schemas per minor and the protobuf field table.

Loaded on first use and kept; nobody may change what these functions return. `README.md` names the sources.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from functools import cache
from importlib import resources

import msgspec

from grove.embedded.errors import Manifest

PREFIX = "#/components/schemas/"
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def _read(name: str) -> bytes:
    return gzip.decompress((resources.files(__package__) / name).read_bytes())


@cache
def _schemas() -> tuple[dict[str, Manifest], dict[str, dict[str, Manifest | None]]]:
    document = msgspec.json.decode(_read("schemas.json.gz"))
    return document["base"], document["differences"]


@cache
def components(minor: str) -> Mapping[str, Manifest]:
    """Every component schema of one Kubernetes minor, by its OpenAPI name."""
    base, differences = _schemas()
    if minor not in differences:
        raise ValueError(f"no schemas for Kubernetes {minor!r}; there are {', '.join(sorted(differences))}")
    merged = {**base, **differences[minor]}
    return {name: schema for name, schema in sorted(merged.items()) if schema is not None}


@cache
def _names(minor: str) -> Mapping[tuple[str, str, str], str]:
    return {
        (gvk["group"], gvk["version"], gvk["kind"]): name
        for name, schema in components(minor).items()
        for gvk in schema.get("x-kubernetes-group-version-kind", ())
        if name.endswith("." + gvk["kind"])
    }


def component_name(minor: str, group: str, version: str, kind: str) -> str | None:
    """The OpenAPI name of a built-in kind, such as `io.k8s.api.core.v1.Pod`."""
    return _names(minor).get((group, version, kind))


def schema_of(minor: str, group: str, version: str, kind: str) -> Manifest | None:
    """The schema of a built-in kind; its `$ref`s name `components`."""
    name = component_name(minor, group, version, kind)
    return components(minor)[name] if name else None


def resolve(minor: str, reference: str) -> Manifest:
    """What a `$ref` of these schemas points to."""
    return components(minor)[reference.removeprefix(PREFIX)]


@cache
def protobuf_table() -> Mapping[str, Mapping[int, tuple[str, str, str]]]:
    """Message name -> field number -> (JSON name, "o"ne | "r"epeated | "m"ap, type)."""
    raw = msgspec.json.decode(_read("protobuf.json.gz"), type=dict[str, dict[str, tuple[str, str, str]]])
    return {name: {int(number): field for number, field in fields.items()} for name, fields in raw.items()}
