"""How actors name, address and read API objects: paths, keys, conditions, durations.

Pure values and functions over plain manifests; no requests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from grove.embedded.errors import ApiError, Manifest

Key = tuple[str, str]
"""(namespace, name); the namespace of a cluster-scoped object is empty."""

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True, order=True)
class Resource:
    """One served resource as its URL names it."""

    group: str
    version: str
    plural: str
    namespaced: bool = True
    kind: str = ""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def collection(self, namespace: str = "") -> str:
        """Path of all objects, of one namespace or of all namespaces."""
        if namespace:
            return f"{self.root}/namespaces/{namespace}/{self.plural}"
        return f"{self.root}/{self.plural}"

    def path(self, key: Key, subresource: str = "") -> str:
        """Path of one object or of one of its subresources."""
        suffix = f"/{subresource}" if subresource else ""
        return f"{self.collection(key[0])}/{key[1]}{suffix}"


PODS = Resource("", "v1", "pods", kind="Pod")
NODES = Resource("", "v1", "nodes", namespaced=False, kind="Node")
NAMESPACES = Resource("", "v1", "namespaces", namespaced=False, kind="Namespace")
EVENTS = Resource("", "v1", "events", kind="Event")
LEASES = Resource("coordination.k8s.io", "v1", "leases", kind="Lease")
CRDS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    namespaced=False,
    kind="CustomResourceDefinition",
)
PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", namespaced=False, kind="PriorityClass"
)


def key_of(obj: Manifest) -> Key:
    meta = obj["metadata"]
    return meta.get("namespace") or "", meta["name"]


def uid_of(obj: Manifest) -> str:
    return str(obj["metadata"].get("uid") or "")


def is_deleting(obj: Manifest) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def annotations_of(obj: Manifest) -> Mapping[str, str]:
    return obj["metadata"].get("annotations") or {}


def labels_of(obj: Manifest) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}


def phase_of(pod: Manifest) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def is_terminal(pod: Manifest) -> bool:
    """The pod's containers have ended for good; it no longer uses its node."""
    return phase_of(pod) in ("Succeeded", "Failed")


def is_gated(pod: Manifest) -> bool:
    return bool(pod["spec"].get("schedulingGates"))


def priority_of(pod: Manifest) -> int:
    return int(pod["spec"].get("priority") or 0)


def node_of(pod: Manifest) -> str:
    return str(pod["spec"].get("nodeName") or "")


def condition(obj: Manifest, kind: str) -> Manifest:
    """The condition of that type, or an empty mapping."""
    for found in (obj.get("status") or {}).get("conditions") or ():
        if found.get("type") == kind:
            return dict(found)
    return {}


def same_condition(obj: Manifest, wanted: Manifest) -> bool:
    """Whether the object already says so (time aside), which makes a write superfluous."""
    found = condition(obj, wanted["type"])
    return all(found.get(field) == wanted.get(field) for field in ("status", "reason", "message"))


_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float | None:
    """Seconds in "3s", "1m30s", "250ms" or a bare number; None when the text is no duration."""
    text = text.strip()
    try:
        return float(text)
    except ValueError:
        pass
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _UNIT[unit] for number, unit in parts)


def is_absent(error: ApiError) -> bool:
    return error.status == 404


def is_stale(error: ApiError) -> bool:
    """Somebody else was faster, or the object is gone: look again rather than complain."""
    return error.status in (404, 409)
