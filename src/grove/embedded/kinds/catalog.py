"""Everything the server knows about each kind: its schema, strategy, columns, scale paths, selectable fields.

Built-in kinds come from package data, custom kinds from CRDs as they are stored. Compiles each schema once.
Holds no objects.
"""

from __future__ import annotations

from grove.embedded.errors import Manifest
from grove.embedded.kinds import Strategy, crds, strategy_for
from grove.embedded.kinds.crds import Definition, ScalePaths
from grove.embedded.kinds.registry import Registry
from grove.embedded.machinery.schema import Schema, builtin_schema, custom_schema
from grove.embedded.resource_type import ResourceType

BUILTIN_SCALE = ScalePaths(("spec", "replicas"), ("status", "replicas"))


class Catalog:
    def __init__(self, minor: str, features: frozenset[str] | None = None) -> None:
        self.minor = minor
        self.features = features
        self.registry = Registry(minor, features)
        self._schemas: dict[ResourceType, Schema | None] = {}
        self._strategies: dict[ResourceType, Strategy] = {}
        self._definitions: dict[ResourceType, Definition] = {}
        self._served: dict[str, list[ResourceType]] = {}

    def schema(self, resource: ResourceType) -> Schema | None:
        """The compiled schema; None for a kind that accepts anything."""
        if resource not in self._schemas:
            self._schemas[resource] = self._compile(resource)
        return self._schemas[resource]

    def _compile(self, resource: ResourceType) -> Schema | None:
        definition = self._definitions.get(resource)
        if definition is not None:
            return custom_schema(definition.openapi)
        return builtin_schema(self.minor, resource.group, resource.version, resource.kind)

    def strategy(self, resource: ResourceType) -> Strategy:
        found = self._strategies.get(resource)
        if found is None:
            found = self._strategies[resource] = strategy_for(resource)
        return found

    def definition(self, resource: ResourceType) -> Definition | None:
        """What the CRD says; None for a built-in kind."""
        return self._definitions.get(resource)

    def selectable(self, resource: ResourceType) -> tuple[str, ...]:
        definition = self._definitions.get(resource)
        return definition.selectable if definition else ()

    def scale(self, resource: ResourceType) -> ScalePaths | None:
        if "scale" not in resource.subresources:
            return None
        definition = self._definitions.get(resource)
        return definition.scale if definition else BUILTIN_SCALE

    def serve(self, crd: Manifest) -> list[ResourceType]:
        """Serves what a stored CRD defines, in place of what it defined before; returns the kinds."""
        name = crd["metadata"]["name"]
        self.withdraw(name)
        served = []
        for definition in crds.definitions(crd):
            self._definitions[definition.resource] = definition
            self.registry.add(definition.resource)
            served.append(definition.resource)
        self._served[name] = served
        return served

    def withdraw(self, name: str) -> list[ResourceType]:
        """Stops serving what the CRD of this name defined; returns the kinds."""
        gone = self._served.pop(name, [])
        for resource in gone:
            self.registry.remove(resource)
            self._definitions.pop(resource, None)
            self._schemas.pop(resource, None)
            self._strategies.pop(resource, None)
        return gone
