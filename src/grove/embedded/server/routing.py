"""From a path and a method to what is asked of which object.

The grammar of API paths is fixed, so there is no router: split, look up, done.
"""

from __future__ import annotations

from dataclasses import dataclass

from grove.embedded.errors import method_not_allowed, no_such_path
from grove.embedded.kinds.registry import Registry
from grove.embedded.machinery.options import TRUE
from grove.embedded.resource_type import ResourceType
from grove.embedded.server.messages import Request

_WITH_NAME = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "POST": "create"}
_WITHOUT_NAME = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}


@dataclass(slots=True)
class Target:
    """What a request addresses."""

    resource: ResourceType
    verb: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def label(self) -> str:
        """The resource as logs, faults and roles name it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else str(self.resource)


def group_version(parts: list[str]) -> tuple[str, str, list[str]] | None:
    """(group, version, the rest) of a path below /api or /apis; None when it is too short for that."""
    if parts[0] == "api" and len(parts) >= 2:
        return "", parts[1], parts[2:]
    if parts[0] == "apis" and len(parts) >= 3:
        return parts[1], parts[2], parts[3:]
    return None


def target_of(request: Request, registry: Registry, group: str, version: str, rest: list[str]) -> Target:
    """What the request wants; 404 for an unknown resource, 405 for a method that it does not have."""
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not _is_namespace_part(group, rest):
        namespace, rest = rest[1], rest[2:]
    resource = registry.lookup(group, version, rest[0])
    if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
        if resource is None or len(rest) <= 3:
            raise no_such_path()
        rest = [*rest[:2], rest[2]]
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if subresource and subresource not in resource.subresources:
        raise no_such_path()
    verb = _verb(request, resource, name, subresource)
    if resource.namespaced and not namespace and (name or verb in ("create", "deletecollection")):
        raise method_not_allowed()
    return Target(resource, verb, namespace, name, subresource)


def _is_namespace_part(group: str, rest: list[str]) -> bool:
    return not group and len(rest) == 3 and rest[2] in ("status", "finalize")


def _verb(request: Request, resource: ResourceType, name: str, subresource: str) -> str:
    verb = (_WITH_NAME if name else _WITHOUT_NAME).get(request.method)
    if verb is None or (verb == "create" and name and not subresource):
        raise method_not_allowed()
    if request.method == "GET" and not name and request.query.get("watch") in TRUE:
        verb = "watch"
    if not subresource and verb not in resource.verbs:
        raise method_not_allowed()
    return verb
