"""What identifies a Kubernetes object: Key, GVK, Resource, ObjectMeta, Condition, owner reference.

Views decode from JSON into frozen partial structs and are never encoded back: unknown fields would vanish.
What we write are plain mappings (`Manifest`) that mention only the fields we own. Imports nothing of ours.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, dataclass_transform

import msgspec

#: A JSON object as we write it. The only place in the tree where `Any` is welcome.
Manifest = dict[str, Any]


# The decorator repeats for type checkers what the class arguments do at run time for every subclass.
@dataclass_transform(frozen_default=True, kw_only_default=True)
class View(msgspec.Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """The base of every read-view: immutable, partial, untracked by the cyclic collector."""


class Key(NamedTuple):
    """Where an object lives; the namespace of a cluster-scoped object is empty."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


_new_tuple = tuple.__new__


class GVK(NamedTuple):
    """Group, version and kind."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class Resource(NamedTuple):
    """A kind together with the path segment that serves it."""

    gvk: GVK
    plural: str
    namespaced: bool = True

    @property
    def kind(self) -> str:
        return self.gvk.kind

    @property
    def api_version(self) -> str:
        return self.gvk.api_version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of the collection, the object or its subresource."""
        group, version, _ = self.gvk
        parts = ["/apis", group, version] if group else ["/api", version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def __str__(self) -> str:
        return f"{self.plural}.{self.gvk.group}" if self.gvk.group else self.plural


def resource(group: str, version: str, kind: str, plural: str = "", *, namespaced: bool = True) -> Resource:
    """A resource whose plural is the lower-case kind with an s unless given."""
    return Resource(GVK(group, version, kind), plural or kind.lower() + "s", namespaced)


class OwnerReference(View):
    """Who an object belongs to."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(View):
    """The part of metadata that anyone of ours reads."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class Condition(View):
    """One line of an object's story, as metav1.Condition has it."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: int | None = None

    @property
    def is_true(self) -> bool:
        return self.status == "True"


class Object(View):
    """Any object, seen by its metadata alone; every kind's view extends it."""

    #: Fields, or fields of fields, that thousands of objects have alike: a cache holds equal ones once.
    SHARED: ClassVar[tuple[str, ...]] = ()

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> Key:
        metadata = self.metadata
        # As Key(...) does, without the call in between: nothing is asked for more often.
        return _new_tuple(Key, (metadata.namespace, metadata.name))

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def labels(self) -> dict[str, str]:
        return self.metadata.labels

    @property
    def annotations(self) -> dict[str, str]:
        return self.metadata.annotations

    @property
    def terminating(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def owner(self) -> OwnerReference | None:
        """The owner that controls this object, if any."""
        for reference in self.metadata.owner_references:
            if reference.controller:
                return reference
        return None


class UntypedObject(Object, frozen=True, gc=False, kw_only=True):
    """An object of a kind that we know only as a manifest: metadata as a view, the whole as `manifest`.

    The whole but for `managedFields`, of which only what was applied is kept.
    """

    SHARED: ClassVar[tuple[str, ...]] = ("applied",)

    manifest: Manifest = msgspec.field(default_factory=dict)
    #: By field manager, the fields that its last server-side apply mentioned, as nested mappings of names.
    applied: dict[str, Manifest] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, manifest: Manifest, resource: Resource) -> "UntypedObject":
        """The view of a decoded object; items of a list do not repeat their kind, so it is filled in.

        Who updated which field is left out: nobody here asks, and it is larger than the object itself.
        """
        metadata = dict(manifest.get("metadata") or {})
        managed = metadata.pop("managedFields", None) or ()
        return cls(
            api_version=resource.api_version,
            kind=resource.kind,
            metadata=msgspec.convert(metadata, ObjectMeta),
            manifest={
                **manifest,
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "metadata": metadata,
            },
            applied={
                str(entry.get("manager")): _shared_names(msgspec.json.encode(entry.get("fieldsV1") or {}))
                for entry in managed
                if entry.get("operation") == "Apply" and not entry.get("subresource")
            },
        )


@lru_cache(maxsize=512)
def _shared_names(fields: bytes) -> Manifest:
    """The names in an encoded set of fields; objects made alike, and there are thousands, share one."""
    return _field_names(msgspec.json.decode(fields, type=dict))


def _field_names(fields: Manifest) -> Manifest:
    """The names in a set of fields; a list is one field, whatever of it is managed."""
    return {
        name.removeprefix("f:"): _field_names(inner)
        for name, inner in fields.items()
        if name.startswith("f:") and isinstance(inner, dict)
    }


def find_condition(conditions: Iterable[Condition], type: str) -> Condition | None:
    """The condition of this type, if the object has one."""
    for condition in conditions:
        if condition.type == type:
            return condition
    return None


def is_true(conditions: Iterable[Condition], type: str) -> bool:
    """Whether the object has a condition of this type and it is true."""
    condition = find_condition(conditions, type)
    return condition is not None and condition.is_true


def condition_manifest(condition: Condition) -> Manifest:
    """The condition as it is written, without the fields that are unset."""
    manifest: Manifest = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time,
        "observedGeneration": condition.observed_generation,
    }
    return {field: value for field, value in manifest.items() if value is not None}


def owner_reference(owner: Object, gvk: GVK, *, controller: bool = True) -> Manifest:
    """The reference that makes `owner` responsible for another object."""
    return {
        "apiVersion": gvk.api_version,
        "kind": gvk.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": controller,
        "blockOwnerDeletion": controller,
    }


def manifest_key(manifest: Mapping[str, Any]) -> Key:
    """Where a manifest says that it lives."""
    metadata = manifest["metadata"]
    return Key(metadata.get("namespace", ""), metadata["name"])
