"""How the actors of the embedded cluster reach the API server: through its public verbs, without sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from grove.embedded.errors import Manifest


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
        patch: Manifest | list[Manifest],
        *,
        content_type: str = "application/merge-patch+json",
        **query: str,
    ) -> Manifest: ...

    async def delete(self, path: str, body: Manifest | None = None, **query: str) -> Manifest: ...

    def watch(self, path: str, **query: str) -> AsyncIterator[Manifest]:
        """Events {"type", "object"} until the server ends the watch; an ERROR event raises `ApiError`."""
        ...
