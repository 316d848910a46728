"""Schemas compiled into nodes: every `$ref` followed once, every keyword where the walkers look for it.

A node is immutable after `Compiler` made it, and may contain itself (JSONSchemaProps does).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from grove.embedded import data
from grove.embedded.errors import Manifest
from grove.embedded.machinery.patterns import compile_pattern

PYTHON_TYPES: Final[dict[str, type]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
}
_LIMITS = (
    *("minimum", "maximum", "multipleOf", "minLength", "maxLength", "pattern", "enum"),
    *("minItems", "maxItems", "minProperties", "maxProperties", "uniqueItems"),
)
Resolver = Callable[[str], Manifest]


class Node:
    """One schema, ready to be walked. `fields` is None where any field may appear."""

    __slots__ = (
        "additional",
        "atomic",
        "combinators",
        "default",
        "default_fields",
        "embedded",
        "fields",
        "format",
        "has_default",
        "int_or_string",
        "items",
        "keeps_unknown",
        "limits",
        "list_type",
        "map_keys",
        "merge_key",
        "nullable",
        "pattern",
        "python_type",
        "required",
        "rules",
        "rules_below",
        "simple",
        "strategies",
        "type",
    )

    def __init__(self) -> None:
        self.type = ""
        self.python_type: type | None = None
        self.format = ""
        self.fields: dict[str, Node] | None = None
        self.additional: Node | None = None
        self.items: Node | None = None
        self.required: tuple[str, ...] = ()
        self.has_default = False
        self.default: Any = None
        self.default_fields: tuple[tuple[str, Node], ...] = ()
        self.nullable = False
        self.keeps_unknown = False
        self.int_or_string = False
        self.embedded = False
        self.list_type = ""
        self.map_keys: tuple[str, ...] = ()
        self.atomic = False
        self.merge_key = ""
        self.strategies: frozenset[str] = frozenset()
        self.limits: Manifest = {}
        self.pattern: re.Pattern[str] | None = None
        self.combinators: dict[str, list[Node]] = {}
        self.rules: list[Manifest] = []
        self.rules_below = False
        self.simple = False

    def field(self, name: str) -> Node | None:
        """The node of one field, or None where the schema says nothing about it."""
        if self.fields is not None and (found := self.fields.get(name)) is not None:
            return found
        return self.additional

    def knows(self, name: str) -> bool:
        """Whether an object of this node may have the field."""
        if self.keeps_unknown or self.additional is not None or self.fields is None:
            return True
        return name in self.fields

    @property
    def is_list_map(self) -> bool:
        return self.list_type == "map"


OPAQUE: Final = Node()
OPAQUE.keeps_unknown = True
OPAQUE.simple = True


class Compiler:
    """Turns an OpenAPI document into nodes: a built-in kind as Go structs, a CRD as a structural schema."""

    def __init__(self, resolver: Resolver, *, builtin: bool, object_meta: Callable[[], Node]) -> None:
        self._resolve = resolver
        self._builtin = builtin
        self._object_meta = object_meta
        self._by_reference: dict[str, Node] = {}

    def root(self, schema: Manifest) -> Node:
        """The node of a whole object, whose metadata is always ObjectMeta."""
        node = self.compile(schema)
        if not self._builtin:
            self._add_type_meta(node)
        _mark_rules(node, set())
        return node

    def compile(self, schema: Manifest) -> Node:
        reference = schema.get("$ref")
        if reference is None and len(schema.get("allOf", ())) == 1 and "type" not in schema:
            reference = schema["allOf"][0].get("$ref")
        if reference is None:
            node = Node()
            self._fill(node, schema)
            return node
        target = self._by_reference.get(reference)
        if target is None:
            target = self._by_reference[reference] = Node()
            self._fill(target, self._resolve(reference))
        if "default" in schema or schema.get("x-kubernetes-map-type"):
            node = Node()
            self._fill(
                node,
                {
                    **self._resolve(reference),
                    **{k: v for k, v in schema.items() if k not in ("$ref", "allOf")},
                },
            )
            return node
        return target

    def _fill(self, node: Node, schema: Manifest) -> None:
        node.type = schema.get("type", "")
        node.python_type = PYTHON_TYPES.get(node.type)
        node.format = schema.get("format", "")
        node.nullable = bool(schema.get("nullable"))
        node.int_or_string = bool(schema.get("x-kubernetes-int-or-string"))
        node.embedded = bool(schema.get("x-kubernetes-embedded-resource"))
        node.has_default = "default" in schema
        node.default = schema.get("default")
        node.required = tuple(schema.get("required", ()))
        node.list_type = schema.get("x-kubernetes-list-type", "")
        node.map_keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
        node.atomic = schema.get("x-kubernetes-map-type") == "atomic"
        node.merge_key = schema.get("x-kubernetes-patch-merge-key", "")
        node.strategies = frozenset(filter(None, schema.get("x-kubernetes-patch-strategy", "").split(",")))
        node.limits = {name: schema[name] for name in _LIMITS if name in schema}
        node.rules = [] if self._builtin else list(schema.get("x-kubernetes-validations", ()))
        if "pattern" in schema:
            node.pattern = compile_pattern(schema["pattern"])
        self._fill_children(node, schema)
        for name in ("allOf", "anyOf", "oneOf"):
            if name in schema:
                node.combinators[name] = [self.compile(child) for child in schema[name]]
        if "not" in schema:
            node.combinators["not"] = [self.compile(schema["not"])]
        node.simple = not (node.limits or node.rules or node.format or node.required or node.combinators)

    def _fill_children(self, node: Node, schema: Manifest) -> None:
        properties = schema.get("properties")
        if properties is not None:
            node.fields = {name: self.compile(child) for name, child in properties.items()}
            node.default_fields = tuple((n, child) for n, child in node.fields.items() if child.has_default)
        elif node.type == "object" and not self._builtin:
            node.fields = {}
        additional = schema.get("additionalProperties")
        if isinstance(additional, dict):
            node.additional = self.compile(additional) if additional else OPAQUE
        elif additional is True:
            node.keeps_unknown = True
        if schema.get("x-kubernetes-preserve-unknown-fields") or (not node.type and properties is None):
            node.keeps_unknown = True
        if isinstance(schema.get("items"), dict):
            node.items = self.compile(schema["items"])
        if node.embedded:
            self._add_type_meta(node)

    def _add_type_meta(self, node: Node) -> None:
        text = Node()
        text.type, text.python_type, text.simple = "string", str, True
        node.fields = {
            **(node.fields or {}),
            "apiVersion": text,
            "kind": text,
            "metadata": self._object_meta(),
        }


def _mark_rules(node: Node, seen: set[int]) -> bool:
    """Notes on every node whether a CEL rule lies at or below it, so that walks skip the rest."""
    if id(node) in seen:
        return node.rules_below
    seen.add(id(node))
    children = [*(node.fields or {}).values(), node.additional, node.items]
    below = [_mark_rules(child, seen) for child in children if child is not None]
    node.rules_below = bool(node.rules) or any(below)
    return node.rules_below


def builtin_resolver(minor: str) -> Resolver:
    """Follows the `$ref`s of the package's own schemas."""
    return lambda reference: data.resolve(minor, reference)
