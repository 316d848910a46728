"""What the server tells clients about its kinds: discovery documents, aggregated (v2) and legacy.

Generated from the registry on every change of it; nothing is stored.
"""

from __future__ import annotations

from collections.abc import Iterator

from grove.embedded.errors import Manifest
from grove.embedded.kinds.builtins import SUBRESOURCE_KINDS, SUBRESOURCE_VERBS
from grove.embedded.kinds.registry import Registry
from grove.embedded.resource_type import ResourceType

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def wants_aggregated(accept: str) -> bool:
    return "APIGroupDiscoveryList" in accept and "v=v2" in accept.replace("v=v2beta1", "")


def aggregated(registry: Registry, *, core: bool) -> Manifest:
    """Every group in one document; `/api` has the core group, `/apis` the others."""
    items = []
    for group, versions in registry.groups().items():
        if (group == "") is not core:
            continue
        meta: Manifest = {"name": group, "creationTimestamp": None} if group else {"creationTimestamp": None}
        items.append({"metadata": meta, "versions": [_version(registry, group, v) for v in versions]})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _version(registry: Registry, group: str, version: str) -> Manifest:
    resources = [_resource(resource) for resource in _of(registry, group, version)]
    return {"version": version, "resources": resources, "freshness": "Current"}


def _of(registry: Registry, group: str, version: str) -> Iterator[ResourceType]:
    return (r for r in registry if r.group == group and r.version == version)


def _resource(resource: ResourceType) -> Manifest:
    entry: Manifest = {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.subresources:
        entry["subresources"] = [
            {
                "subresource": name,
                "responseKind": dict(
                    zip(("group", "version", "kind"), _sub_kind(resource, name), strict=True)
                ),
                "verbs": list(SUBRESOURCE_VERBS[name]),
            }
            for name in sorted(resource.subresources)
        ]
    return entry


def _sub_kind(resource: ResourceType, name: str) -> tuple[str, str, str]:
    return SUBRESOURCE_KINDS.get(name, (resource.group, resource.version, resource.kind))


def api_versions() -> Manifest:
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def group_list(registry: Registry) -> Manifest:
    groups = [_group(name, versions) for name, versions in registry.groups().items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_group(registry: Registry, name: str) -> Manifest | None:
    versions = registry.groups().get(name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)} if versions else None


def _group(name: str, versions: list[str]) -> Manifest:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def resource_list(registry: Registry, group: str, version: str) -> Manifest | None:
    """The legacy document of one group and version; None when it is not served."""
    resources: list[Manifest] = []
    for resource in _of(registry, group, version):
        entry: Manifest = {
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": list(resource.verbs),
        }
        if resource.short_names:
            entry["shortNames"] = list(resource.short_names)
        if resource.categories:
            entry["categories"] = list(resource.categories)
        resources.append(entry)
        resources.extend(_legacy_sub(resource, name) for name in sorted(resource.subresources))
    if not resources:
        return None
    full = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": full, "resources": resources}


def _legacy_sub(resource: ResourceType, name: str) -> Manifest:
    group, version, kind = _sub_kind(resource, name)
    entry: Manifest = {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": kind,
        "verbs": list(SUBRESOURCE_VERBS[name]),
    }
    if name in SUBRESOURCE_KINDS:
        entry["group"], entry["version"] = group, version
    return entry
