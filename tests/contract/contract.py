"""What a check speaks with: one API server behind a kubeconfig, and a namespace of the check's own.

Every answer comes back as it is, refusals included: a check is about what a server answers. Nothing here
knows whether the server is embedded or real.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

from grove.kube.config import Connection
from grove.kube.credentials import Credential, StaticCredentials
from grove.kube.transport import HttpTransport

Manifest = dict[str, Any]
Observation = object
"""Anything that JSON can say; compared as JSON."""

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PROTOBUF = "application/vnd.kubernetes.protobuf"

PATIENCE_SECONDS = 30.0
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Unavailable(Exception):
    """This server cannot be asked what the check wants to know; the message says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One response."""

    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> Manifest:
        """The object that the server sent; empty when it sent no JSON object."""
        try:
            decoded = json.loads(self.raw)
        except ValueError:
            return {}
        return cast(Manifest, decoded) if isinstance(decoded, dict) else {}

    @property
    def meta(self) -> Manifest:
        return self.body.get("metadata") or {}

    @property
    def refused(self) -> list[object]:
        """The code, and the reason when the server refused."""
        body = self.body
        failed = body.get("kind") == "Status" and body.get("status") == "Failure"
        return [self.status, body.get("reason")] if failed else [self.status]

    @property
    def told(self) -> list[object]:
        """The code, reason and message of a refusal."""
        body = self.body
        if body.get("kind") != "Status":
            return [self.status]
        return [self.status, body.get("reason"), body.get("message")]

    @property
    def fields(self) -> list[str]:
        """The fields that a refusal complains about."""
        causes = (self.body.get("details") or {}).get("causes") or []
        return sorted({str(cause.get("field")) for cause in causes})


@dataclass(frozen=True, slots=True)
class Server:
    """An API server under contract, and what can be done to it from outside the API."""

    connection: Connection
    minor: str
    forget: Callable[[], Awaitable[None]] | None = None
    """Makes the server forget its past, where somebody can."""

    @property
    def on_loopback(self) -> bool:
        return any(host in self.connection.server for host in ("//127.0.0.1", "//localhost", "//[::1]"))


@dataclass(slots=True)
class Contract:
    """The way in for one check."""

    server: Server
    namespace: str
    transport: HttpTransport
    _others: list[HttpTransport] = field(default_factory=list)

    @property
    def minor(self) -> str:
        return self.server.minor

    def path(self, plural: str, group_version: str = "", *, namespace: str = "") -> str:
        """Where the objects of a namespaced kind are."""
        root = f"/apis/{group_version}" if group_version else "/api/v1"
        return f"{root}/namespaces/{namespace or self.namespace}/{plural}"

    @property
    def maps(self) -> str:
        return self.path("configmaps")

    @property
    def pods(self) -> str:
        return self.path("pods")

    @property
    def gangs(self) -> str:
        return self.path("gangs", "sched.example.com/v1")

    async def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        type: str = JSON,
        accept: str = JSON,
        **query: Any,
    ) -> Answer:
        """One request; `query` is what the URL asks besides."""
        headers = {"Accept": accept, "User-Agent": "contract"}
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if content is not None:
            headers["Content-Type"] = type
        asked = [(name, str(value)) for name, value in query.items()]
        answer = await self.transport.send(method, path, query=asked, headers=headers, body=content)
        return Answer(answer.status, answer.headers, answer.body)

    async def get(self, path: str, *, accept: str = JSON, **query: Any) -> Answer:
        return await self.send("GET", path, accept=accept, **query)

    async def create(self, path: str, obj: object, **query: Any) -> Answer:
        return await self.send("POST", path, obj, **query)

    async def put(self, path: str, obj: object, **query: Any) -> Answer:
        return await self.send("PUT", path, obj, **query)

    async def merge(self, path: str, patch: object, **query: Any) -> Answer:
        return await self.send("PATCH", path, patch, type=MERGE, **query)

    async def strategic(self, path: str, patch: object, **query: Any) -> Answer:
        return await self.send("PATCH", path, patch, type=STRATEGIC, **query)

    async def json_patch(self, path: str, operations: Sequence[Manifest], **query: Any) -> Answer:
        return await self.send("PATCH", path, list(operations), type=JSON_PATCH, **query)

    async def apply(self, path: str, obj: Manifest, *, manager: str, **query: Any) -> Answer:
        asked = {"fieldManager": manager, **query} if manager else query
        return await self.send("PATCH", path, obj, type=APPLY, **asked)

    async def delete(self, path: str, options: Manifest | None = None, **query: Any) -> Answer:
        return await self.send("DELETE", path, options, **query)

    def speaking_as(self, token: str) -> Contract:
        """The same namespace, as the owner of a token."""
        credentials = StaticCredentials(Credential(authorization=f"Bearer {token}"))
        transport = HttpTransport(replace(self.server.connection, credentials=credentials))
        self._others.append(transport)
        return Contract(self.server, self.namespace, transport, self._others)

    # --- watching

    async def watch(
        self, path: str, *, stop_after: int = 99, seconds: float = 5.0, **query: object
    ) -> Watched:
        """The events of one watch: until so many came, the server ended it, or nothing more came."""
        events: list[Manifest] = []
        status, ended = 0, False
        asked = [("watch", "1"), *((name, str(value)) for name, value in query.items())]
        try:
            async with (
                asyncio.timeout(seconds),
                self.transport.stream(path, query=asked, headers={"Accept": JSON}) as stream,
            ):
                status = stream.status
                async for event in _lines(stream.chunks()):
                    events.append(event)
                    if len(events) == stop_after:
                        return Watched(status, events, ended=False)
                ended = True
        except TimeoutError:
            pass
        return Watched(status, events, ended)

    async def until(self, path: str, name: str, holds: Callable[[Manifest | None], object]) -> bool:
        """Waits, by watching, until something is true of an object (None: it is not there)."""
        one = f"metadata.name={name}"
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    listed = (await self.get(path, fieldSelector=one)).body
                    if holds(next(iter(listed.get("items") or ()), None)):
                        return True
                    version = (listed.get("metadata") or {}).get("resourceVersion", "")
                    if await self._seen(path, one, version, holds):
                        return True
        except TimeoutError:
            return False

    async def _seen(
        self, path: str, one: str, version: str, holds: Callable[[Manifest | None], object]
    ) -> bool:
        asked = [
            ("watch", "1"),
            ("fieldSelector", one),
            ("resourceVersion", version),
            ("timeoutSeconds", "5"),
        ]
        async with self.transport.stream(path, query=asked, headers={"Accept": JSON}) as stream:
            async for event in _lines(stream.chunks()):
                if event.get("type") in (None, "ERROR"):
                    return False
                if holds(None if event["type"] == "DELETED" else event["object"]):
                    return True
        return False

    async def gone(self, path: str, name: str) -> bool:
        return await self.until(path, name, lambda found: found is None)

    # --- custom kinds

    async def define(self, crd: Manifest) -> None:
        """Creates a CRD and returns when its objects can be created."""
        answer = await self.create(CRDS, crd)
        if answer.status not in (201, 409):
            raise Unavailable(f"the CRD {crd['metadata']['name']} is refused: {answer.told}")
        await self.until(CRDS, crd["metadata"]["name"], is_established)
        spec = crd["spec"]
        version = next(found["name"] for found in spec["versions"] if found["storage"])
        path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
        for _ in range(20):
            # A real server starts to serve a little after it says so; a short watch is the pause.
            if (await self.get(path)).status == 200:
                return
            await self.watch(CRDS, timeoutSeconds=1, seconds=2, labelSelector="never=matches")
        raise Unavailable(f"{path} is not served although its CRD was created")

    async def close(self) -> None:
        for other in self._others:
            await other.close()
        await self.transport.close()


@dataclass(frozen=True, slots=True)
class Watched:
    status: int
    events: list[Manifest]
    ended: bool
    """Whether the server ended the watch."""

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]


def is_established(crd: Manifest | None) -> bool:
    conditions = ((crd or {}).get("status") or {}).get("conditions") or []
    return any(found["type"] == "Established" and found["status"] == "True" for found in conditions)


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[Manifest]:
    """The JSON documents of a stream, one to a line."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.strip():
                yield json.loads(line)


@asynccontextmanager
async def contract_on(server: Server, namespace: str) -> AsyncIterator[Contract]:
    """A contract with a fresh namespace in which pods can be created; the namespace is deleted afterwards."""
    contract = Contract(server, namespace, HttpTransport(server.connection))
    try:
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        answer = await contract.create("/api/v1/namespaces", made)
        if answer.status != 201:
            raise Unavailable(f"the namespace {namespace} cannot be created: {answer.told}")
        await _prepare_account(contract)
        yield contract
    finally:
        await contract.delete(f"/api/v1/namespaces/{namespace}")
        await contract.close()


async def _prepare_account(contract: Contract) -> None:
    """Pods need their namespace's account; without a token volume they look the same everywhere."""
    accounts = contract.path("serviceaccounts")
    account: Manifest = {"automountServiceAccountToken": False}
    made = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}, **account}
    if (await contract.create(accounts, made)).status != 409:
        return
    # The controller manager was faster.
    await contract.merge(f"{accounts}/default", account)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "tried"},
        "spec": {"containers": [{"name": "main", "image": "image:1"}]},
    }
    for _ in range(20):
        # A real server goes by its cache of accounts, which hears of the change a little later.
        tried = await contract.create(contract.path("pods"), pod, dryRun="All")
        if tried.status == 201 and not tried.body["spec"].get("volumes"):
            return
        await contract.watch(accounts, timeoutSeconds=1, seconds=2, labelSelector="never=matches")
    raise Unavailable(f"pods of namespace {contract.namespace} still get a token volume")
