"""What a player of nodes may see and do in somebody else's cluster: its own nodes and the pods on them.

`GuestClient` speaks through the transport of the kubeconfig, with whatever credentials and proxies that
names; `OnlyNodes` hides everything else from the actors and refuses what they should never ask for.
"""

import builtins
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from typing import Final

from grove.embedded.actors.objects import LEASES, NODES, PODS, node_of
from grove.embedded.client import JSON, MERGE, RequestingClient, decode, event_of, refusal_of
from grove.embedded.errors import ApiError, Manifest
from grove.errors import Unreachable
from grove.kube.transport import Response, Transport

_LEASES_OF_NODES: Final = f"{LEASES.root}/namespaces/kube-node-lease/{LEASES.plural}"


class GuestClient(RequestingClient):
    """The verbs of an actor, through a transport; fulfils `ActorClient`."""

    def __init__(self, transport: Transport, *, agent: str) -> None:
        self._transport = transport
        self._headers = {"Accept": JSON, "User-Agent": agent}

    async def watch(self, path: str, **query: str) -> AsyncGenerator[Manifest, None]:
        asked = [*query.items(), ("watch", "true")]
        try:
            async with self._transport.stream(path, query=asked, headers=self._headers) as stream:
                if stream.status != 200:
                    raise refusal_of(stream.status, await stream.body())
                rest = b""
                async for chunk in stream.chunks():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        if line:
                            yield event_of(line)
        except Unreachable as error:
            raise ConnectionError(str(error)) from error

    async def _send(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: bytes | None = None,
        *,
        content_type: str = JSON,
    ) -> Manifest:
        headers = {**self._headers, "Content-Type": content_type} if body is not None else self._headers
        try:
            answer: Response = await self._transport.send(
                method, path, query=[*query.items()], headers=headers, body=body
            )
        except Unreachable as error:
            raise ConnectionError(str(error)) from error
        if answer.status >= 400:
            raise refusal_of(answer.status, answer.body)
        found: Manifest = decode(answer.body)
        return found


class OnlyNodes:
    """An `ActorClient` for which there are no nodes but these, and no pods but those on them."""

    def __init__(self, client: GuestClient, names: Collection[str]) -> None:
        self._client = client
        self._names = frozenset(names)

    async def get(self, path: str, **query: str) -> Manifest:
        return await self._client.get(path, **query)

    async def list(self, path: str, **query: str) -> Manifest:
        page = await self._client.list(path, **query)
        items = [item for item in page.get("items") or () if self._is_ours(path, item)]
        return {**page, "items": items}

    async def create(self, path: str, obj: Manifest, **query: str) -> Manifest:
        self._permit("POST", f"{path}/{obj['metadata']['name']}")
        return await self._client.create(path, obj, **query)

    async def update(self, path: str, obj: Manifest, **query: str) -> Manifest:
        self._permit("PUT", path)
        return await self._client.update(path, obj, **query)

    async def patch(
        self,
        path: str,
        patch: Manifest | builtins.list[Manifest],
        *,
        content_type: str = MERGE,
        **query: str,
    ) -> Manifest:
        self._permit("PATCH", path)
        return await self._client.patch(path, patch, content_type=content_type, **query)

    async def delete(self, path: str, body: Manifest | None = None, **query: str) -> Manifest:
        self._permit("DELETE", path)
        return await self._client.delete(path, body, **query)

    async def watch(self, path: str, **query: str) -> AsyncGenerator[Manifest, None]:
        async with aclosing(self._client.watch(path, **query)) as stream:
            async for event in stream:
                # A bookmark says nothing about an object; a pod becomes visible when it is bound to us.
                if event["type"] == "BOOKMARK" or self._is_ours(path, event["object"]):
                    yield event

    def _is_ours(self, path: str, obj: Manifest) -> bool:
        if path == NODES.collection():
            return obj["metadata"]["name"] in self._names
        return path == PODS.collection() and node_of(obj) in self._names

    def _permit(self, method: str, path: str) -> None:
        """Nodes and leases by name; pods are ours because no other was ever shown (and their uid is sent)."""
        parts = path.removeprefix(f"{NODES.collection()}/").split("/")
        if path.startswith(f"{NODES.collection()}/") and parts[0] in self._names:
            return
        if path.startswith(f"{_LEASES_OF_NODES}/") and path.rsplit("/", 1)[-1] in self._names:
            return
        if path.startswith(f"{PODS.root}/namespaces/") and f"/{PODS.plural}/" in path:
            return
        raise ApiError(403, "Forbidden", f"{method} {path} is outside what the node simulator may touch")
