"""Structural schemas, prepared once: default, prune and validate objects the way the API server does.

A `Schema` compiles an OpenAPI v3 document into `Node`s; patches and server-side apply walk the same nodes.
`default` and `prune` change the object in place; `validate` never does.
"""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import Any

from grove.embedded import data
from grove.embedded.errors import Cause, Manifest, bad_request
from grove.embedded.machinery import cel
from grove.embedded.machinery.schema_checks import ABSENT, BLOCKING, NOT_CHECKED, decode_error, validate
from grove.embedded.machinery.schema_nodes import OPAQUE, Compiler, Node, Resolver, builtin_resolver

__all__ = ["OPAQUE", "Cause", "Node", "Schema", "builtin_schema", "custom_schema"]

_META = ("apiVersion", "kind", "metadata")


def _no_references(reference: str) -> Manifest:
    raise ValueError(f"a structural schema cannot use $ref ({reference})")


class Schema:
    """One kind's schema, prepared: a built-in kind's (`resolver` follows its `$ref`s) or a `custom` one."""

    def __init__(
        self, openapi: Manifest, resolver: Resolver = _no_references, *, custom: bool = False
    ) -> None:
        self.openapi = openapi
        self.builtin = not custom
        names = openapi.get("x-kubernetes-group-version-kind") or [{}]
        self._kind: str = names[0].get("kind", "Object")
        self._version: str = names[0].get("version", "")
        self.root: Node = Compiler(resolver, builtin=self.builtin, object_meta=object_meta).root(openapi)

    def default(self, obj: Manifest) -> None:
        """Fills in defaults; a null where null is not allowed counts as absent."""
        _default(obj, self.root)

    def prune(self, obj: Manifest) -> list[str]:
        """Drops what the schema does not know and returns the paths of what it dropped.

        Nulls of a built-in kind go too: to Go they are absent values, and stored objects never have them.
        """
        unknown: list[str] = []
        if self.builtin:
            _drop_nulls(obj, self.root)
        _prune(obj, self.root, "", unknown)
        return unknown

    def drop_empty(self, obj: Manifest) -> None:
        """Drops the empty lists and maps of a built-in kind that Go leaves out when it writes JSON."""
        _drop_empty(obj, self.root)

    def validate(self, obj: Manifest, old: Manifest | None = None) -> list[Cause]:
        """What is wrong with the object, rules on transitions from `old` included.

        A built-in kind is only checked for what decoding refuses (raises 400); its rules are in `kinds`.
        """
        if self.builtin:
            self._check_types(obj)
            return []
        causes: list[Cause] = []
        body = {name: value for name, value in obj.items() if name not in _META}
        before: Any = ABSENT if old is None else {n: value for n, value in old.items() if n not in _META}
        validate(body, self.root, "", causes, before)
        causes = [cause for cause in causes if cause.field not in _META]
        if self.root.rules_below:
            if any(cause.reason in BLOCKING for cause in causes):
                causes.append(NOT_CHECKED)
            else:
                cel.check(obj, ABSENT if old is None else old, self.root, "", causes)
        return causes

    def check_rules(self) -> list[Cause]:
        """Compiles every CEL rule; the causes say which rule of a CRD is not acceptable and why."""
        return cel.check_rules(self.root) if self.root.rules_below else []

    def _check_types(self, obj: Manifest) -> None:
        for name, value in obj.items():
            child = self.root.field(name)
            problem = decode_error(value, child, f"{self._kind}.{name}") if child is not None else ""
            if problem:
                what = f'{self._kind} in version "{self._version}" cannot be handled as a {self._kind}'
                raise bad_request(f"{what}: {problem}")


@lru_cache(1)
def object_meta() -> Node:
    """The node of metadata, the same for every kind."""
    resolver = builtin_resolver("1.36")
    compiler = Compiler(resolver, builtin=True, object_meta=lambda: OPAQUE)
    return compiler.compile({"$ref": data.PREFIX + data.OBJECT_META})


@lru_cache(512)
def builtin_schema(minor: str, group: str, version: str, kind: str) -> Schema | None:
    """The schema of a built-in kind in one Kubernetes minor, compiled on first use."""
    openapi = data.schema_of(minor, group, version, kind)
    if openapi is None:
        return None
    return Schema(openapi, builtin_resolver(minor))


def custom_schema(openapi: Manifest) -> Schema:
    """The schema of one version of a CRD (`spec.versions[].schema.openAPIV3Schema`)."""
    return Schema(openapi, custom=True)


def _default(value: Any, node: Node) -> None:
    if type(value) is dict:
        for name, child in node.default_fields:
            if value.get(name) is None and not (name in value and child.nullable):
                value[name] = copy.deepcopy(child.default)
        known, additional = node.fields or {}, node.additional
        nulls = []
        for name, item in value.items():
            kind = type(item)
            if kind is dict or kind is list:
                child_node = known.get(name) or additional
                if child_node is not None:
                    _default(item, child_node)
            elif item is None:
                child_node = known.get(name)
                if child_node is not None and not child_node.nullable and not child_node.keeps_unknown:
                    nulls.append(name)
        for name in nulls:
            del value[name]
    elif node.items is not None:
        for item in value:
            kind = type(item)
            if kind is dict or kind is list:
                _default(item, node.items)


def _drop_nulls(value: Any, node: Node) -> None:
    if type(value) is dict:
        known, additional = node.fields, node.additional
        if known is None and additional is None:
            return
        nulls = []
        for name, item in value.items():
            child = known.get(name) if known is not None else None
            if child is None:
                child = additional
            if item is None:
                if child is not None and child is additional and child.type == "string":
                    # To Go a null in a map of strings is an empty string.
                    value[name] = ""
                elif child is None or not child.keeps_unknown:
                    nulls.append(name)
            elif child is not None and (type(item) is dict or type(item) is list):
                _drop_nulls(item, child)
        for name in nulls:
            del value[name]
    elif node.items is not None:
        for index, item in enumerate(value):
            if item is None and node.items.type in ("object", "string"):
                value[index] = {} if node.items.type == "object" else ""
            elif type(item) is dict or type(item) is list:
                _drop_nulls(item, node.items)


def _drop_empty(value: Any, node: Node) -> None:
    if type(value) is list:
        if node.items is not None:
            for item in value:
                _drop_empty(item, node.items)
        return
    if type(value) is not dict or node.fields is None:
        return
    empty = []
    for name, item in value.items():
        child = node.fields.get(name)
        if child is None or (type(item) is not dict and type(item) is not list):
            continue
        if item:
            _drop_empty(item, child)
        elif name not in node.required and (type(item) is list or child.additional is not None):
            empty.append(name)
    for name in empty:
        del value[name]


def _prune(value: Any, node: Node, path: str, unknown: list[str]) -> None:
    if type(value) is dict:
        known, additional = node.fields, node.additional
        if known is None and additional is None:
            return
        dropped = []
        for name, item in value.items():
            child = known.get(name) if known is not None else None
            if child is None:
                child = additional
            if child is None:
                if not node.keeps_unknown:
                    dropped.append(name)
            elif type(item) is dict or type(item) is list:
                _prune(item, child, f"{path}.{name}" if path else name, unknown)
        for name in dropped:
            del value[name]
            unknown.append(f"{path}.{name}" if path else name)
    elif node.items is not None:
        for index, item in enumerate(value):
            kind = type(item)
            if kind is dict or kind is list:
                _prune(item, node.items, f"{path}[{index}]", unknown)
