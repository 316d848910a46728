"""How callers inside the process reach the API server: through its public verbs, without sockets.

`ActorClient` is what an actor needs, so that it can also be run over HTTP against another API server;
`LocalClient` fulfils it around an `App`. Objects that come back are the caller's own copies.
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Protocol

from grove.embedded.client import JSON, MERGE, RequestingClient, decode, error_of, event_of
from grove.embedded.errors import Manifest, internal
from grove.embedded.identity import ADMIN, User
from grove.embedded.server.app import App
from grove.embedded.server.messages import Request


class ActorClient(Protocol):
    """The verbs that an actor may use; every one raises `ApiError` when the server refuses.

    Paths are absolute API paths ("/api/v1/namespaces/default/pods/x"); keyword arguments become the query.
    """

    async def get(self, path: str, **query: str) -> Manifest: ...

    async def list(self, path: str, **query: str) -> Manifest: ...

    async def create(self, path: str, obj: Manifest, **query: str) -> Manifest: ...

    async def update(self, path: str, obj: Manifest, **query: str) -> Manifest: ...

    async def patch(
        self,
        path: str,
        patch: Manifest | builtins.list[Manifest],
        *,
        content_type: str = MERGE,
        **query: str,
    ) -> Manifest: ...

    async def delete(self, path: str, body: Manifest | None = None, **query: str) -> Manifest: ...

    def watch(self, path: str, **query: str) -> AsyncIterator[Manifest]:
        """Events {"type", "object"} until the server ends the watch; an ERROR event raises `ApiError`."""
        ...


class LocalClient(RequestingClient):
    """An `ActorClient` around an `App` in this process."""

    def __init__(self, app: App, user: User = ADMIN, *, agent: str = "embedded") -> None:
        self._app = app
        self._user = user
        self._agent = agent

    async def watch(self, path: str, **query: str) -> AsyncGenerator[Manifest, None]:
        request = self._request("GET", path, {**query, "watch": "true"})
        response = await self._app.handle(request)
        if isinstance(response.body, bytes):
            raise error_of(decode(response.body), response.status)
        stream = response.body
        try:
            async for chunk in stream:
                for line in chunk.splitlines():
                    yield event_of(line)
        finally:
            await stream.aclose()

    def _request(self, method: str, path: str, query: dict[str, str]) -> Request:
        return Request(method, path, query, {"user-agent": self._agent, "accept": JSON}, user=self._user)

    async def _send(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: bytes | None = None,
        *,
        content_type: str = JSON,
    ) -> Manifest:
        request = self._request(method, path, query)
        request.body = body or b""
        request.headers["content-type"] = content_type
        response = await self._app.handle(request)
        if not isinstance(response.body, bytes):
            await response.body.aclose()
            raise internal(f"{method} {path} answered a stream; use watch()")
        kind = response.headers.get("Content-Type", "")
        answer: Manifest = decode(response.body) if "json" in kind else {"text": response.body.decode()}
        if response.status >= 400:
            raise error_of(answer, response.status)
        return answer
