"""What webhooks are asked: one write, as an AdmissionReview of admission.k8s.io."""

from __future__ import annotations

from dataclasses import dataclass, replace

from grove.embedded.errors import Manifest
from grove.embedded.machinery import conversion
from grove.embedded.machinery.options import WriteOptions
from grove.embedded.resource_type import ResourceType

NAMESPACES = ("", "namespaces")
Kind = tuple[str, str, str]
"""Group, version and kind."""


@dataclass(frozen=True, slots=True)
class Question:
    """One write of `resource`; `new` and `old` are in the version that is stored."""

    operation: str
    resource: ResourceType
    new: Manifest | None
    old: Manifest | None
    options: WriteOptions
    name: str
    """Empty while the server has not chosen it, and for each object of a deleted collection."""
    namespace: str
    """Of a Namespace its own name."""
    shape: Kind | None = None
    """The kind of the body, where it is not the object itself: Scale, Binding, Eviction."""

    @property
    def subresource(self) -> str:
        return self.options.subresource

    def about(self, new: Manifest) -> Question:
        """The same write of an object that a webhook has changed."""
        return replace(self, new=new)

    def kind_in(self, resource: ResourceType) -> Kind:
        return self.shape or (resource.group, resource.version, resource.kind)

    def shown(self, resource: ResourceType, obj: Manifest | None) -> Manifest | None:
        """The object in the version that a webhook is asked about."""
        return obj if obj is None or self.shape else conversion.to_served(resource, obj)

    def taken(self, resource: ResourceType, obj: Manifest) -> Manifest:
        """What a webhook made of the object, in the version that is stored."""
        return obj if self.shape else conversion.to_stored(resource, obj)

    def request(self, resource: ResourceType) -> Manifest:
        """Everything about the write but the objects, with the kind in the version of `resource`."""
        told: Manifest = {
            "kind": _kind(self.kind_in(resource)),
            "resource": _plural(resource),
            "requestKind": _kind(self.kind_in(self.resource)),
            "requestResource": _plural(self.resource),
        }
        if self.subresource:
            told["subResource"] = told["requestSubResource"] = self.subresource
        if self.name:
            told["name"] = self.name
        if self.namespace:
            told["namespace"] = self.namespace
        return {
            **told,
            "operation": self.operation,
            "userInfo": self._user(),
            "dryRun": self.options.dry_run,
            "options": {
                "kind": f"{self.operation.capitalize()}Options",
                "apiVersion": "meta.k8s.io/v1",
                **self.options.asked,
            },
        }

    def review(self, uid: str, resource: ResourceType, version: str) -> Manifest:
        """The AdmissionReview in one of its versions."""
        request = {
            "uid": uid,
            **self.request(resource),
            "object": self.shown(resource, self.new),
            "oldObject": self.shown(resource, self.old),
        }
        return {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}", "request": request}

    def _user(self) -> Manifest:
        user = self.options.user
        told: Manifest = {"username": user.name}
        if user.uid:
            told["uid"] = user.uid
        if user.groups:
            told["groups"] = list(user.groups)
        return told


def namespace_of(resource: ResourceType, meta: Manifest) -> str:
    """The namespace that a write is in; a Namespace is in itself."""
    return str(meta.get("name" if resource.key == NAMESPACES else "namespace") or "")


def _kind(kind: Kind) -> Manifest:
    return dict(zip(("group", "version", "kind"), kind, strict=True))


def _plural(resource: ResourceType) -> Manifest:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}
