"""The verbs of an actor's client, made of one request each, and how refusals are read from answers.

How a request reaches a server is decided by whoever derives from `RequestingClient`; nothing here does.
"""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod

import msgspec

from grove.embedded.errors import ApiError, Manifest

JSON = "application/json"
MERGE = "application/merge-patch+json"

decode = msgspec.json.Decoder().decode
encode = msgspec.json.Encoder().encode


class RequestingClient(ABC):
    """Reads and writes by `_send`; every verb raises `ApiError` when the server refuses."""

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
        content_type: str = MERGE,
        **query: str,
    ) -> Manifest:
        return await self._send("PATCH", path, query, encode(patch), content_type=content_type)

    async def delete(self, path: str, body: Manifest | None = None, **query: str) -> Manifest:
        return await self._send("DELETE", path, query, encode(body) if body else None)

    @abstractmethod
    async def _send(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: bytes | None = None,
        *,
        content_type: str = JSON,
    ) -> Manifest: ...


def event_of(line: bytes) -> Manifest:
    """An event of a watch; one that is an error raises it."""
    event: Manifest = decode(line)
    if event["type"] == "ERROR":
        raise error_of(event["object"], 500)
    return event


def refusal_of(status: int, content: bytes) -> ApiError:
    """What an answer refuses, also if it is no Status."""
    try:
        body = decode(content)
    except msgspec.DecodeError:
        body = None
    if not isinstance(body, dict):
        body = {"message": content.decode(errors="replace").strip()}
    return error_of(body, status)


def error_of(status: Manifest, code: int) -> ApiError:
    """The error that a Status tells; `code` where it has none."""
    return ApiError(
        status.get("code") or code, status.get("reason", ""), status.get("message", ""), status.get("details")
    )
