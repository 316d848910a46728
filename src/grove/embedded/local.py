"""How callers inside the process reach the API server: through its public verbs, without sockets.

`ActorClient` is what an actor needs, so that it can also be run over HTTP against another API server;
`LocalClient` fulfils it around an `App`. Objects that come back are the caller's own copies.
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Protocol

import msgspec

from grove.embedded.errors import ApiError, Manifest, internal
from grove.embedded.identity import ADMIN, User
from grove.embedded.server.app import App
from grove.embedded.server.messages import Request
from grove.embedded.storage.store import encode

decode = msgspec.json.Decoder().decode


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
        content_type: str = "application/merge-patch+json",
        **query: str,
    ) -> Manifest: ...

    async def delete(self, path: str, body: Manifest | None = None, **query: str) -> Manifest: ...

    def watch(self, path: str, **query: str) -> AsyncIterator[Manifest]:
        """Events {"type", "object"} until the server ends the watch; an ERROR event raises `ApiError`."""
        ...


class LocalClient:
    """An `ActorClient` around an `App` in this process."""

    def __init__(self, app: App, user: User = ADMIN, *, agent: str = "embedded") -> None:
        self._app = app
        self._user = user
        self._agent = agent

    async def get(self, path: str, **query: str) -> Manifest:
        return await self._send("GET", path, query)

    async def list(self, path: str, **query: str) -> Manifest:
        return await self._send("GET", path, query)

    async def create(self, path: str, obj: Manifest, **query: str) -> Manifest:
        return await self._send("POST", path, query, encode(obj))

    async def update(self, path: str, obj: Manifest, **query: str) -> Manifest:
        return await self._send("PUT", path, query, encode(obj))

    async def patch(
        self,
        path: str,
        patch: Manifest | builtins.list[Manifest],
        *,
        content_type: str = "application/merge-patch+json",
        **query: str,
    ) -> Manifest:
        return await self._send("PATCH", path, query, encode(patch), content_type=content_type)

    async def delete(self, path: str, body: Manifest | None = None, **query: str) -> Manifest:
        return await self._send("DELETE", path, query, encode(body) if body else b"")

    async def watch(self, path: str, **query: str) -> AsyncGenerator[Manifest, None]:
        request = self._request("GET", path, {**query, "watch": "true"})
        response = await self._app.handle(request)
        if isinstance(response.body, bytes):
            raise _error(decode(response.body), response.status)
        stream = response.body
        try:
            async for chunk in stream:
                for line in chunk.splitlines():
                    event = decode(line)
                    if event["type"] == "ERROR":
                        raise _error(event["object"], 500)
                    yield event
        finally:
            await stream.aclose()

    def _request(self, method: str, path: str, query: dict[str, str]) -> Request:
        return Request(
            method, path, query, {"user-agent": self._agent, "accept": "application/json"}, user=self._user
        )

    async def _send(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: bytes = b"",
        *,
        content_type: str = "application/json",
    ) -> Manifest:
        request = self._request(method, path, query)
        request.body = body
        request.headers["content-type"] = content_type
        response = await self._app.handle(request)
        if not isinstance(response.body, bytes):
            await response.body.aclose()
            raise internal(f"{method} {path} answered a stream; use watch()")
        kind = response.headers.get("Content-Type", "")
        answer: Manifest = decode(response.body) if "json" in kind else {"text": response.body.decode()}
        if response.status >= 400:
            raise _error(answer, response.status)
        return answer


def _error(status: Manifest, code: int) -> ApiError:
    return ApiError(
        status.get("code") or code, status.get("reason", ""), status.get("message", ""), status.get("details")
    )
