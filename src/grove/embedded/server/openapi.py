"""The OpenAPI v3 documents that kubectl needs for apply, diff and explain.

One index and one document per group and version: paths with the operations that a client looks up, and the
schemas of the kinds with everything that they refer to. `openapi_v2` has the older form.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from grove.embedded import data
from grove.embedded.errors import Manifest
from grove.embedded.kinds.catalog import Catalog
from grove.embedded.resource_type import ResourceType
from grove.embedded.verbs.patching import accepted_types


def _parameter(name: str, kind: str = "string") -> Manifest:
    return {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}


_WRITE = [_parameter("dryRun"), _parameter("fieldManager"), _parameter("fieldValidation")]
_PATCH = [*_WRITE, _parameter("force", "boolean")]


def index(catalog: Catalog) -> Manifest:
    """Every document with a hash that changes when the document does."""
    paths = {}
    for group, versions in catalog.registry.groups().items():
        for version in versions:
            path = f"apis/{group}/{version}" if group else f"api/{version}"
            text = f"{path}:{catalog.registry.revision}".encode()
            digest = hashlib.sha256(text).hexdigest().upper()
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
    return {"paths": paths}


def document(catalog: Catalog, group: str, version: str) -> Manifest | None:
    """The document of one group and version; None when it is not served."""
    resources = [r for r in catalog.registry if r.group == group and r.version == version]
    if not resources:
        return None
    paths: Manifest = {}
    schemas: Manifest = {}
    wanted: list[str] = []
    for resource in resources:
        paths.update(paths_of(resource))
        definition = catalog.definition(resource)
        if definition is not None:
            schemas[custom_name(resource)] = custom_schema_of(resource, definition.openapi)
            wanted.append(data.OBJECT_META)
        else:
            name = data.component_name(catalog.minor, group, version, resource.kind)
            wanted.extend([name] if name else [])
    _add_components(schemas, wanted, catalog.minor)
    info = {"title": "Kubernetes", "version": f"v{catalog.minor}.0"}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def paths_of(resource: ResourceType) -> Manifest:
    gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind}

    def operation(action: str, **more: object) -> Manifest:
        return {
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": gvk,
            "responses": {},
            **more,
        }

    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    place = f"{root}/namespaces/{{namespace}}" if resource.namespaced else root
    bodies = {kind: {"schema": {"type": "object"}} for kind in accepted_types(resource)}
    collection: Manifest = {"post": operation("post", parameters=_WRITE)}
    if "list" not in resource.verbs:
        return {f"{place}/{resource.plural}": collection}
    collection["get"] = operation("list")
    collection["delete"] = operation("deletecollection")
    single = {
        "get": operation("get"),
        "put": operation("put", parameters=_WRITE),
        "patch": operation("patch", parameters=_PATCH, requestBody={"content": bodies}),
        "delete": operation("delete", parameters=[_parameter("dryRun")]),
    }
    return {f"{place}/{resource.plural}": collection, f"{place}/{resource.plural}/{{name}}": single}


def custom_name(resource: ResourceType) -> str:
    return f"{'.'.join(reversed(resource.group.split('.')))}.{resource.version}.{resource.kind}"


def custom_schema_of(resource: ResourceType, openapi: Manifest) -> Manifest:
    gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    meta = {"allOf": [{"$ref": data.PREFIX + data.OBJECT_META}], "description": "Standard object's metadata."}
    properties: Manifest = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    properties = {**properties, **(openapi.get("properties") or {}), "metadata": meta}
    return {**openapi, "properties": properties, "x-kubernetes-group-version-kind": [gvk]}


def _add_components(schemas: Manifest, wanted: list[str], minor: str) -> None:
    """Adds schemas by name, and everything that they refer to."""
    components = data.components(minor)
    while wanted:
        name = wanted.pop()
        if name in schemas or name not in components:
            continue
        schemas[name] = components[name]
        wanted.extend(_references(components[name]))


def _references(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key == "$ref" and isinstance(value, str):
                yield value.removeprefix(data.PREFIX)
            else:
                yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)
