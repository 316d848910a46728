"""Build the path of one object, refusing what would address something else.

An empty name would turn the deletion of an object into the deletion of a collection; a slash would reach
another resource.
"""

from grove.errors import FieldError, InvalidInput
from grove.meta import Key, Manifest, Resource


def object_path(resource: Resource, key: Key, subresource: str = "") -> str:
    """The path of an object or its subresource."""
    namespace, name = key
    if not name or "/" in name or "%" in name or name in (".", ".."):
        raise _refused(resource, "metadata.name", f"{name!r} cannot be the name of an object")
    _check_namespace(resource, namespace)
    return resource.path(namespace, name, subresource)


def collection_path(resource: Resource, namespace: str) -> str:
    """The path to which new objects of a namespace are posted."""
    _check_namespace(resource, namespace)
    return resource.path(namespace)


def key_of(resource: Resource, manifest: Manifest) -> Key:
    """Where a manifest says that it lives; a missing part is left empty for the checks above to name."""
    metadata = manifest.get("metadata") or {}
    return Key((metadata.get("namespace") or "") if resource.namespaced else "", metadata.get("name") or "")


def _check_namespace(resource: Resource, namespace: str) -> None:
    if resource.namespaced and (not namespace or "/" in namespace or namespace in (".", "..")):
        raise _refused(resource, "metadata.namespace", f"{namespace!r} cannot be the namespace of an object")


def _refused(resource: Resource, field: str, why: str) -> InvalidInput:
    return InvalidInput([FieldError(field, f"{resource.kind}: {why}")])
