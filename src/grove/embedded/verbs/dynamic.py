"""Webhooks as the verbs meet them: when they are asked about a write, and what becomes of what they change.

What a webhook made of an object is read, defaulted and checked as if the client had sent it so. Whoever
asked for the write owns what it named itself; what webhooks add belongs to nobody. Costs a look at two tables
while none is configured.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from grove.embedded.errors import Manifest, bad_request, invalid
from grove.embedded.kinds.context import Context
from grove.embedded.machinery import metadata
from grove.embedded.machinery.options import WriteOptions
from grove.embedded.resource_type import ResourceType
from grove.embedded.verbs.webhooks.dispatch import Webhooks
from grove.embedded.verbs.webhooks.question import Kind, Question, namespace_of

if TYPE_CHECKING:
    from grove.embedded.verbs.api import API

_NOT_YET = ("uid", "creationTimestamp", "generation")
"""What a new object gets only after the mutating webhooks have seen it."""


class DynamicAdmission:
    """Asks the webhooks of a cluster, once it has some."""

    def __init__(self, api: API) -> None:
        self._api = api
        self.webhooks: Webhooks | None = None

    def concerns(self, options: WriteOptions) -> bool:
        """Whether there is anybody to ask about a write."""
        return self.webhooks is not None and self.webhooks.active and not options.admitted

    async def mutate_new(
        self, resource: ResourceType, obj: Manifest, options: WriteOptions, *, named: bool
    ) -> Manifest:
        """A new object as the mutating webhooks leave it; `named` by its writer and not by the server."""
        if not self.concerns(options) or self.webhooks is None:
            return obj
        meta = obj["metadata"]
        hidden = _NOT_YET if named else (*_NOT_YET, "name")
        shown = {**obj, "metadata": {name: value for name, value in meta.items() if name not in hidden}}
        if resource.has_status and resource.key not in self._api.keep_status:
            shown.pop("status", None)
        question = self._question("CREATE", resource, shown, None, options)
        changed = await self.webhooks.mutate(question, self._decoded)
        if changed is shown or changed is None:
            return obj
        kept = {name: meta[name] for name in (*hidden, "managedFields") if name in meta}
        home = self._api.catalog.registry.stored(resource)
        changed["metadata"] |= kept
        self._api.begin_life(home, changed, self._api.context(home, options))
        changed["metadata"] |= kept
        _check(home, changed["metadata"])
        return changed

    async def mutate(
        self, resource: ResourceType, new: Manifest, old: Manifest, options: WriteOptions, context: Context
    ) -> Manifest:
        """An update as the mutating webhooks leave it: they change no more than the request could."""
        if not self.concerns(options) or self.webhooks is None:
            return new
        question = self._question("UPDATE", resource, new, old, options)
        changed = await self.webhooks.mutate(question, self._decoded)
        if changed is new or changed is None:
            return new
        _check(context.resource, changed["metadata"])
        return self._api.merge(context.resource, changed, old, context)

    async def validate(
        self,
        operation: str,
        resource: ResourceType,
        new: Manifest,
        old: Manifest | None,
        options: WriteOptions,
    ) -> None:
        """Raises what a validating webhook has against the write."""
        if self.concerns(options) and self.webhooks is not None:
            await self.webhooks.validate(self._question(operation, resource, new, old, options))

    async def admit_deletion(
        self, resource: ResourceType, old: Manifest, options: WriteOptions, *, named: bool
    ) -> None:
        """Asks about one deleted object; of a collection the request names none."""
        if self.concerns(options) and self.webhooks is not None:
            question = self._question("DELETE", resource, None, old, options)
            await self.webhooks.admit(question if named else replace(question, name=""))

    async def admit_body(
        self,
        operation: str,
        resource: ResourceType,
        key: tuple[str, str],
        body: Manifest,
        options: WriteOptions,
        *,
        shape: Kind | None = None,
        old: Manifest | None = None,
    ) -> Manifest:
        """What webhooks leave of a body that is not stored itself, for the object at (namespace, name)."""
        if not self.concerns(options) or self.webhooks is None:
            return body
        namespace, name = key
        shown = _complete(body, resource, namespace, shape)
        question = Question(operation, resource, shown, old, options, name, namespace, shape)
        return await self.webhooks.admit(question) or body

    def _question(
        self,
        operation: str,
        resource: ResourceType,
        new: Manifest | None,
        old: Manifest | None,
        options: WriteOptions,
    ) -> Question:
        meta = (old if new is None else new or {})["metadata"]  # type: ignore[index]
        name, namespace = str(meta.get("name") or ""), namespace_of(resource, meta)
        return Question(operation, resource, new, old, options, name, namespace)

    def _decoded(self, question: Question, changed: Manifest) -> Manifest:
        """What a webhook made of an object, as the kind reads it."""
        home = self._api.catalog.registry.stored(question.resource)
        meta = changed.get("metadata")
        problem = metadata.type_errors(meta) if isinstance(meta, dict) else "metadata: expected an object"
        if problem or not isinstance(meta, dict):
            raise bad_request(problem)
        metadata.normalise(meta)
        quiet = replace(question.options, field_validation="Ignore")
        _, read = self._api.incoming(home, changed, quiet)
        self._api.default(home, read, self._api.context(home, quiet))
        return read


def _check(home: ResourceType, meta: Manifest) -> None:
    """What a webhook wrote into the metadata must be as right as what a client writes."""
    causes = metadata.metadata_errors(meta)
    if causes:
        raise invalid(home, str(meta.get("name") or ""), causes)


def _complete(body: Manifest, resource: ResourceType, namespace: str, shape: Kind | None) -> Manifest:
    """A body with its kind and namespace, which clients may leave to the path."""
    group, version, kind = shape or (resource.group, resource.version, resource.kind)
    meta = {**(body.get("metadata") or {})}
    if namespace and resource.namespaced:
        meta["namespace"] = namespace
    return {
        **body,
        "kind": kind,
        "apiVersion": f"{group}/{version}" if group else version,
        "metadata": meta,
    }
