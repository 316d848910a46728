"""The same object under another API version.

Objects are stored in one version of their kind. Versions of one kind have the same fields here (a CRD's
conversion strategy `None`, the gang API of one minor), so only `apiVersion` changes; the exception is Event,
whose two APIs name the same facts differently. Pure; never changes its argument.
"""

from __future__ import annotations

from grove.embedded.errors import Manifest
from grove.embedded.resource_type import ResourceType

# core/v1 name -> events.k8s.io/v1 name
_EVENT_FIELDS = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_EVENT_FIELDS_BACK = {new: old for old, new in _EVENT_FIELDS.items()}


def to_stored(resource: ResourceType, obj: Manifest) -> Manifest:
    """What a client sent under `resource`, in the version that is stored."""
    if not resource.stored_as:
        return obj
    return _renamed(obj, resource.stored_as, _EVENT_FIELDS_BACK if _is_event(resource) else {})


def to_served(resource: ResourceType, obj: Manifest) -> Manifest:
    """A stored object as a client of `resource` sees it."""
    if not resource.stored_as:
        return obj
    return _renamed(obj, resource.api_version, _EVENT_FIELDS if _is_event(resource) else {})


def _is_event(resource: ResourceType) -> bool:
    return resource.group == "events.k8s.io" and resource.kind == "Event"


def _renamed(obj: Manifest, api_version: str, names: dict[str, str]) -> Manifest:
    renamed = {names.get(name, name): value for name, value in obj.items()}
    renamed["apiVersion"] = api_version
    return renamed
