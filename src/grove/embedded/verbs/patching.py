"""Patches of the four kinds, turned into creates and updates.

Merge, JSON and strategic patches change the live object; an apply merges by field ownership and may create.
A patch that lost a race is tried again on the new state, unless it named the state it was made for.
"""

from __future__ import annotations

import asyncio

import msgspec

from grove.embedded.errors import (
    ApiError,
    Cause,
    Manifest,
    bad_request,
    conflict,
    invalid,
    not_found,
)
from grove.embedded.machinery import conversion, ssa
from grove.embedded.machinery.options import WriteOptions
from grove.embedded.machinery.patch import json_patch, merge_patch, strategic_patch
from grove.embedded.machinery.schema import Schema
from grove.embedded.resource_type import ResourceType
from grove.embedded.storage.store import Entry, encode
from grove.embedded.verbs.api import API

APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
CONFLICT_RETRIES = 5
SLOW = 1 << 25
"""From how many operations times bytes on a patch is carried out beside the event loop."""

Patch = Manifest | list[Manifest]
decode = msgspec.json.Decoder().decode


def accepted_types(resource: ResourceType) -> list[str]:
    """The content types that a patch of this kind may have; only built-in kinds know how to merge lists."""
    types = [JSON_PATCH, MERGE_PATCH, APPLY]
    return types if resource.custom else [*types, STRATEGIC_PATCH]


class Patches:
    def __init__(self, api: API) -> None:
        self._api = api

    async def patch(
        self,
        resource: ResourceType,
        key: tuple[str, str],
        patch: Patch,
        content_type: str,
        options: WriteOptions,
    ) -> tuple[Entry, bool]:
        """Patches the object at (namespace, name); the flag says whether an apply created it."""
        if content_type == APPLY:
            return await self._apply(resource, key, patch, options)
        pinned = is_pinned(patch)
        for _ in range(CONFLICT_RETRIES - 1):
            try:
                return await self._patch_once(resource, key, patch, content_type, options), False
            except ApiError as error:
                if error.reason != "Conflict" or pinned:
                    raise
        return await self._patch_once(resource, key, patch, content_type, options), False

    async def _patch_once(
        self,
        resource: ResourceType,
        key: tuple[str, str],
        patch: Patch,
        content_type: str,
        options: WriteOptions,
    ) -> Entry:
        entry = self._api.get(resource, *key)
        live = conversion.to_served(resource, decode(entry.raw))
        schema = self._api.catalog.schema(resource)
        if len(patch) * len(entry.raw) > SLOW:
            # Many operations on a large object: others are served meanwhile.
            new = await asyncio.to_thread(patched, live, patch, content_type, schema=schema)
        else:
            new = patched(live, patch, content_type, schema=schema)
        return await self._api.update(resource, *key, new, options)

    async def _apply(
        self, resource: ResourceType, key: tuple[str, str], patch: Patch, options: WriteOptions
    ) -> tuple[Entry, bool]:
        """Server-side apply: merges by field ownership and creates the object when there is none."""
        namespace, name = key
        if not options.manager:
            message = "Required value: is required for apply patch"
            raise _invalid_options(Cause("fieldManager", "FieldValueRequired", message))
        applied = self._configuration(resource, key, patch, options)
        entry = self._api.store.find(resource.key, namespace if resource.namespaced else "", name)
        wanted = applied["metadata"].pop("resourceVersion", None)
        schema = self._api.catalog.schema(resource)
        if entry is None:
            if options.subresource:
                raise not_found(resource, name)
            if uid := applied["metadata"].get("uid"):
                why = (
                    f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                )
                raise conflict(resource, name, why)
            # A resourceVersion is compared with the object that is there; of a new one it is not looked at.
            new = ssa.apply(
                None,
                applied,
                manager=options.manager,
                schema=schema,
                force=options.force,
                now=self._api.now(),
            )
            managed = new["metadata"].pop("managedFields", None) or []
            return await self._api.create(resource, namespace, new, options, managed=managed), True
        if wanted and wanted != entry.obj["metadata"]["resourceVersion"]:
            raise conflict(resource, name)
        live = conversion.to_served(resource, decode(entry.raw))
        new = ssa.apply(
            live,
            applied,
            manager=options.manager,
            schema=schema,
            force=options.force,
            now=self._api.now(),
            subresource=options.subresource,
            has_status=resource.has_status,
        )
        return await self._api.update(resource, namespace, name, new, options, applied=True), False

    def _configuration(
        self, resource: ResourceType, key: tuple[str, str], patch: Patch, options: WriteOptions
    ) -> Manifest:
        """The configuration to apply, checked and without fields that the kind does not have."""
        if not isinstance(patch, dict):
            raise bad_request("an apply configuration must be an object")
        for field in ("apiVersion", "kind"):
            if not patch.get(field):
                raise bad_request(f"the apply configuration of {resource} {key[1]!r} has no {field}")
        applied: Manifest = decode(encode(patch))
        if (applied.get("metadata") or {}).get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        self._api.accept(resource, *key, applied, applied=True)
        schema = self._api.catalog.schema(resource)
        if schema is not None:
            unknown = schema.prune(applied)
            if unknown:
                # Ownership of a field without a type cannot be told; Kubernetes answers 500 without a reason.
                what = f"({key[0] if patch['metadata'].get('namespace') else ''}/{key[1]}; "
                what += f"{resource.group}/{resource.version}, Kind={resource.kind})"
                fields = f".{unknown[0]}: field not declared in schema"
                raise ApiError(500, "", f"failed to create typed patch object {what}: {fields}")
        return applied


def is_pinned(patch: Patch) -> bool:
    """Whether a patch names the state that it was made for."""
    meta = patch.get("metadata") if isinstance(patch, dict) else None
    return isinstance(meta, dict) and bool(meta.get("resourceVersion"))


def _invalid_options(cause: Cause) -> ApiError:
    options = ResourceType("meta.k8s.io", "v1", "PatchOptions", "patchoptions", "patchoptions")
    return invalid(options, "", [cause])


def patched(live: Manifest, patch: Patch, content_type: str, *, schema: Schema | None) -> Manifest:
    """A live object with a merge, JSON or strategic patch carried out on it."""
    if content_type == JSON_PATCH:
        new = json_patch(live, patch)
    elif content_type == STRATEGIC_PATCH:
        new = strategic_patch(live, patch, schema)
    else:
        new = merge_patch(live, patch)
    if not isinstance(new, dict):
        raise bad_request("the patch leaves no object")
    return new
