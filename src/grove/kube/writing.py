"""The verbs that write: create, patches, apply, replace and delete. Mixed into `client.Client`.

By default a write answers with the metadata alone: the rest is what the cache will bring.
"""

from collections.abc import Sequence
from typing import Final, TypeVar, overload

import msgspec

from grove.kube.canonical import body_of
from grove.kube.decoding import Codec, codec, encode
from grove.kube.exchange import JSON, Call, Exchange
from grove.kube.paths import collection_path, key_of, object_path
from grove.meta import Key, Manifest, ObjectMeta, Resource, View

T = TypeVar("T")

MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
#: JSON is YAML, and this is the only name that every server since 1.22 knows for server-side apply.
APPLY_PATCH: Final = "application/apply-patch+yaml"

Query = tuple[tuple[str, str], ...]
_DRY_RUN: Final[Query] = (("dryRun", "All"),)
_STRICT: Final[Query] = (("fieldValidation", "Strict"),)
IGNORING: Final[Query] = (("fieldValidation", "Ignore"),)
_FORCE: Final[Query] = (("force", "true"),)


class Written(View):
    """What a write answers: which object it was, and which version it has now."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> Key:
        return Key(self.metadata.namespace, self.metadata.name)


class _Kind(msgspec.Struct, frozen=True):
    kind: str = ""


class Writes:
    """What a client can write."""

    _exchange: Exchange
    _manager: Query
    #: What becomes of fields that the server does not know; empty for its default, a warning.
    _unknown: Query = ()

    @overload
    async def create(
        self, resource: Resource, manifest: Manifest, *, dry_run: bool = False, strict: bool = False
    ) -> Written: ...
    @overload
    async def create(
        self,
        resource: Resource,
        manifest: Manifest,
        *,
        type: type[T],
        dry_run: bool = ...,
        strict: bool = ...,
    ) -> T: ...
    async def create(
        self,
        resource: Resource,
        manifest: Manifest,
        *,
        type: type[object] = Written,
        dry_run: bool = False,
        strict: bool = False,
    ) -> object:
        """A new object; raises AlreadyExists. Sent again only when it surely was not executed."""
        path = collection_path(resource, key_of(resource, manifest).namespace)
        query = self._query(dry_run) + (_STRICT if strict else self._unknown)
        call = Call("POST", path, query, body_of(resource, manifest), JSON, idempotent=False)
        return await self._write(call, codec(type))

    @overload
    async def merge_patch(
        self, resource: Resource, key: Key, patch: Manifest, *, subresource: str = "", dry_run: bool = False
    ) -> Written: ...
    @overload
    async def merge_patch(
        self,
        resource: Resource,
        key: Key,
        patch: Manifest,
        *,
        type: type[T],
        subresource: str = "",
        dry_run: bool = False,
    ) -> T: ...
    async def merge_patch(
        self,
        resource: Resource,
        key: Key,
        patch: Manifest,
        *,
        type: type[object] = Written,
        subresource: str = "",
        dry_run: bool = False,
    ) -> object:
        """Change the fields that the patch mentions; None removes one."""
        path = object_path(resource, key, subresource)
        call = Call("PATCH", path, self._query(dry_run) + self._unknown, encode(patch), MERGE_PATCH)
        return await self._write(call, codec(type))

    @overload
    async def json_patch(
        self, resource: Resource, key: Key, operations: Sequence[Manifest], *, subresource: str = ""
    ) -> Written: ...
    @overload
    async def json_patch(
        self,
        resource: Resource,
        key: Key,
        operations: Sequence[Manifest],
        *,
        type: type[T],
        subresource: str = "",
    ) -> T: ...
    async def json_patch(
        self,
        resource: Resource,
        key: Key,
        operations: Sequence[Manifest],
        *,
        type: type[object] = Written,
        subresource: str = "",
    ) -> object:
        """Carry out the operations in order, all or none; a failed `test` raises Invalid."""
        path = object_path(resource, key, subresource)
        # Not idempotent: a repeated `test` fails on its own success, a repeated `add` to a list adds twice.
        query = self._query(False) + self._unknown
        call = Call("PATCH", path, query, encode(operations), JSON_PATCH, idempotent=False)
        return await self._write(call, codec(type))

    @overload
    async def apply(
        self,
        resource: Resource,
        manifest: Manifest,
        *,
        subresource: str = "",
        force: bool = False,
        dry_run: bool = False,
        field_manager: str = "",
    ) -> Written: ...
    @overload
    async def apply(
        self,
        resource: Resource,
        manifest: Manifest,
        *,
        type: type[T],
        subresource: str = "",
        force: bool = False,
        dry_run: bool = False,
        field_manager: str = "",
    ) -> T: ...
    async def apply(
        self,
        resource: Resource,
        manifest: Manifest,
        *,
        type: type[object] = Written,
        subresource: str = "",
        force: bool = False,
        dry_run: bool = False,
        field_manager: str = "",
    ) -> object:
        """Server-side apply: own exactly the fields of the manifest; a Conflict names who else wants one."""
        path = object_path(resource, key_of(resource, manifest), subresource)
        query = self._query(dry_run, field_manager) + (_FORCE if force else ()) + self._unknown
        # The server insists on both, and a builder that mentions only what we own may leave them out.
        complete = {"apiVersion": resource.api_version, "kind": resource.kind, **manifest}
        return await self._write(Call("PATCH", path, query, encode(complete), APPLY_PATCH), codec(type))

    @overload
    async def replace(self, resource: Resource, manifest: Manifest, *, subresource: str = "") -> Written: ...
    @overload
    async def replace(
        self, resource: Resource, manifest: Manifest, *, type: type[T], subresource: str = ""
    ) -> T: ...
    async def replace(
        self, resource: Resource, manifest: Manifest, *, type: type[object] = Written, subresource: str = ""
    ) -> object:
        """Put the whole object; a resourceVersion in it that is not the newest raises Conflict."""
        path = object_path(resource, key_of(resource, manifest), subresource)
        return await self._write(Call("PUT", path, self._query(False), encode(manifest), JSON), codec(type))

    async def delete(
        self,
        resource: Resource,
        key: Key,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "",
        grace_seconds: int | None = None,
        dry_run: bool = False,
    ) -> Written | None:
        """Delete an object, if it is still the one meant; None when it is gone, else what is left for now."""
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options = _delete_options(propagation, grace_seconds)
        if given := {name: value for name, value in preconditions.items() if value}:
            options["preconditions"] = given
        query = _DRY_RUN if dry_run else ()
        call = Call("DELETE", object_path(resource, key), query, encode(options), JSON)
        body = (await self._exchange.answer(call)).body
        if codec(_Kind).one(body, str(call)).kind == "Status":
            return None
        return codec(Written).one(body, str(call))

    async def delete_collection(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        propagation: str = "",
    ) -> None:
        """Delete all objects of a namespace that the selectors match."""
        selectors = (("labelSelector", labels), ("fieldSelector", fields))
        query = tuple((name, value) for name, value in selectors if value)
        body = encode(_delete_options(propagation, None))
        await self._exchange.answer(Call("DELETE", collection_path(resource, namespace), query, body, JSON))

    def _query(self, dry_run: bool, field_manager: str = "") -> Query:
        manager = (("fieldManager", field_manager),) if field_manager else self._manager
        return manager + _DRY_RUN if dry_run else manager

    async def _write(self, call: Call, reader: Codec[T]) -> T:
        return reader.one((await self._exchange.answer(call)).body, str(call))


def _delete_options(propagation: str, grace_seconds: int | None) -> Manifest:
    options: Manifest = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if propagation:
        options["propagationPolicy"] = propagation
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    return options
