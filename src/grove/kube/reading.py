"""The verbs that read: get, list, pages and watch. Mixed into `client.Client`."""

import asyncio
import builtins
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from grove.errors import Gone
from grove.kube.decoding import codec
from grove.kube.exchange import Call, Exchange
from grove.kube.paths import object_path
from grove.kube.watch import STALL_SECONDS, TIMEOUT_SECONDS, WatchEvent, watch_events
from grove.meta import Key, Resource

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """One page of a list.

    `restarted` marks the page with which `pages` began again, because the server forgot the older version
    before the last page was read: what was collected so far is to be dropped.
    """

    items: list[T]
    resource_version: str
    continue_token: str
    remaining: int | None
    restarted: bool = False


class Reads:
    """What a client can read."""

    _exchange: Exchange

    async def get(self, resource: Resource, key: Key, *, type: type[T], subresource: str = "") -> T:
        """One object; raises NotFound if there is none."""
        call = Call("GET", object_path(resource, key, subresource))
        return codec(type).one((await self._exchange.answer(call)).body, str(call))

    async def text(self, path: str, query: Sequence[tuple[str, str]] = ()) -> str:
        """What stands at a path that is no object: a log, or what a pod serves behind the proxy."""
        call = Call("GET", path, tuple(query), accept="*/*")
        return (await self._exchange.answer(call)).body.decode("utf-8", "replace")

    async def list(
        self,
        resource: Resource,
        *,
        type: type[T],
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        limit: int = 500,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Listing[T]:
        """One page; raises Gone when the continue token has expired. A limit of 0 asks for everything."""
        query = _selection(labels, fields)
        if limit:
            query.append(("limit", str(limit)))
        if continue_token:
            query.append(("continue", continue_token))
        if resource_version:
            query.append(("resourceVersion", resource_version))
        call = Call("GET", resource.path(namespace), tuple(query))
        body = codec(type).many((await self._exchange.answer(call)).body, str(call))
        items = body.items if body.items is not None else []
        for item in items:
            if not isinstance(item, dict):
                break
            # Servers leave these out of the items of a list; a plain object would not know what it is.
            item.setdefault("apiVersion", resource.api_version)
            item.setdefault("kind", resource.kind)
        meta = body.metadata
        return Listing(items, meta.resource_version, meta.continue_token, meta.remaining_item_count)

    async def pages(
        self,
        resource: Resource,
        *,
        type: type[T],
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        limit: int = 500,
    ) -> AsyncGenerator[Listing[T], None]:
        """All pages, one after the other; others get their turn in between."""
        token, restarted = "", False
        while True:
            try:
                page = await self.list(
                    resource,
                    type=type,
                    namespace=namespace,
                    labels=labels,
                    fields=fields,
                    limit=limit,
                    continue_token=token,
                )
            except Gone:
                if not token:
                    raise
                # In one piece this time: a second expiry would let us run in circles.
                token, limit, restarted = "", 0, True
                continue
            if restarted:
                page = Listing(page.items, page.resource_version, page.continue_token, page.remaining, True)
                restarted = False
            yield page
            token = page.continue_token
            if not token:
                return
            await asyncio.sleep(0)

    async def list_all(
        self,
        resource: Resource,
        *,
        type: type[T],
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        limit: int = 500,
    ) -> builtins.list[T]:
        """All objects at once, read page by page."""
        everything: builtins.list[T] = []
        pages = self.pages(
            resource, type=type, namespace=namespace, labels=labels, fields=fields, limit=limit
        )
        async for page in pages:
            if page.restarted:
                everything.clear()
            everything += page.items
        return everything

    def watch(
        self,
        resource: Resource,
        *,
        type: type[T],
        resource_version: str,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        timeout_seconds: int = TIMEOUT_SECONDS,
        stall_seconds: float = STALL_SECONDS,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """The changes after a version, by one request.

        Ends when the server ends it; raises Gone when the version is too old, Unreachable when the stream
        breaks or is silent for `stall_seconds`, which must exceed the server's bookmark period of a minute.
        Who leaves before the end closes the iterator (`contextlib.aclosing`), and with it the connection.
        """
        query = [("watch", "true"), ("allowWatchBookmarks", "true"), *_selection(labels, fields)]
        query.append(("timeoutSeconds", str(timeout_seconds)))
        if resource_version:
            query.append(("resourceVersion", resource_version))
        call = Call("GET", resource.path(namespace), tuple(query))
        return watch_events(self._exchange, call, codec(type), stall_seconds=stall_seconds)


def _selection(labels: str, fields: str) -> list[tuple[str, str]]:
    pairs = (("labelSelector", labels), ("fieldSelector", fields))
    return [(name, value) for name, value in pairs if value]
