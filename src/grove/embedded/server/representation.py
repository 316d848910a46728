"""How stored objects are shown to one client: in its API version and in the form that it accepts."""

from __future__ import annotations

from grove.embedded.errors import Manifest
from grove.embedded.machinery import conversion
from grove.embedded.resource_type import ResourceType
from grove.embedded.server.messages import Response, reply
from grove.embedded.server.negotiation import Form
from grove.embedded.server.tables import Printer, partial_metadata
from grove.embedded.storage.store import Entry, encode
from grove.embedded.verbs.api import API
from grove.embedded.verbs.listing import Page


class Representation:
    def __init__(self, api: API) -> None:
        self._api = api
        self._printers: dict[ResourceType, Printer] = {}

    def printer(self, resource: ResourceType) -> Printer:
        found = self._printers.get(resource)
        if found is None:
            if len(self._printers) > 512:
                self._printers.clear()
            found = self._printers[resource] = Printer(resource, self._api.catalog.definition(resource))
        return found

    def one(
        self,
        resource: ResourceType,
        entry: Entry,
        form: Form,
        *,
        include: str = "Metadata",
        status: int = 200,
    ) -> Response:
        """One object; its stored bytes when the client wants just that."""
        if form is Form.OBJECT:
            if not resource.stored_as:
                return reply(entry.raw, status)
            return reply(conversion.to_served(resource, entry.obj), status)
        obj = conversion.to_served(resource, entry.obj)
        if form is Form.METADATA:
            return reply(partial_metadata(obj), status)
        meta = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        table = self.printer(resource).table([obj], now=self._api.clock.now(), metadata=meta, include=include)
        return reply(table, status)

    def many(self, resource: ResourceType, page: Page, form: Form, *, include: str = "Metadata") -> Response:
        """One page of objects."""
        if form is Form.OBJECT:
            return reply(self._list(resource, page))
        objects = [conversion.to_served(resource, entry.obj) for entry in page.entries]
        if form is Form.TABLE:
            printer = self.printer(resource)
            now = self._api.clock.now()
            return reply(printer.table(objects, now=now, metadata=page.metadata(), include=include))
        body: Manifest = {
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": page.metadata(),
            "items": [partial_metadata(obj) for obj in objects],
        }
        return reply(body)

    def _list(self, resource: ResourceType, page: Page) -> bytes:
        """A list from the stored bytes; items of built-in kinds carry no apiVersion and kind, as in
        Kubernetes."""
        if resource.stored_as:
            items = [encode(conversion.to_served(resource, entry.obj)) for entry in page.entries]
        else:
            items = [entry.raw for entry in page.entries]
        if not resource.custom:
            prefix = b'{"apiVersion":"%s","kind":"%s",' % (
                resource.api_version.encode(),
                resource.kind.encode(),
            )
            cut = len(prefix) - 1
            items = [b"{" + raw[cut + 1 :] if raw.startswith(prefix) else raw for raw in items]
        head = b'{"kind":"%s","apiVersion":"%s","metadata":%s,"items":[' % (
            resource.list_kind.encode(),
            resource.api_version.encode(),
            encode(page.metadata()),
        )
        return head + b",".join(items) + b"]}"
