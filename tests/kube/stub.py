"""A server on loopback that answers what the test says and remembers what it was asked."""

import asyncio
import json
import random
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from aiohttp import web

from grove.kube.client import Client
from grove.kube.config import Connection
from grove.kube.credentials import Credentials, StaticCredentials
from grove.kube.retry import RetryPolicy
from grove.kube.transport import HttpTransport
from grove.meta import Manifest


@dataclass(frozen=True)
class Asked:
    """One request as it arrived."""

    method: str
    target: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> object:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """One answer; `drop` closes the connection instead, `chunks` are sent one by one."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    drop: bool = False
    chunks: Sequence[bytes] | None = None
    #: What follows the chunks: the proper end, a broken connection, or silence.
    then: Literal["end", "drop", "hang"] = "end"


def reply(content: object, status: int = 200, **headers: str) -> Reply:
    """A JSON answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, json.dumps(content).encode(), {"Content-Type": "application/json", **named})


def status(code: int, reason: str = "", message: str = "", **details: object) -> Manifest:
    """A Status as API servers send it."""
    body: Manifest = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    return body | {"reason": reason, "message": message, "details": details}


def refusal(code: int, reason: str = "", message: str = "", **headers: str) -> Reply:
    """An answer that says no."""
    return reply(status(code, reason, message), code, **headers)


Script = Callable[[Asked], Reply]


@dataclass
class Stub:
    """What the server has seen, and how to reach it."""

    script: Script
    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        asked = Asked(
            request.method,
            str(request.raw_path),
            request.path,
            dict(request.query),
            request.headers.copy(),
            await request.content.read(),  # not read(), which has a limit of its own
        )
        self.asked.append(asked)
        said = self.script(asked)
        if said.drop:
            return self._drop(request)
        if said.chunks is None:
            return web.Response(status=said.status, body=said.body, headers=dict(said.headers))
        stream = web.StreamResponse(status=said.status, headers=dict(said.headers))
        await stream.prepare(request)
        for chunk in said.chunks:
            await stream.write(chunk)
        if said.then == "drop":
            return self._drop(request)
        if said.then == "hang":
            await self.over.wait()
        return stream

    @staticmethod
    def _drop(request: web.BaseRequest) -> web.Response:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()


def one_after_the_other(*replies: Reply) -> Script:
    """The replies in order; the last one for ever."""
    left = list(replies)
    return lambda asked: left.pop(0) if len(left) > 1 else left[0]


@asynccontextmanager
async def serve(
    *replies: Reply, script: Script | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Stub]:
    """A stub that listens until the block ends."""
    stub = Stub(script or one_after_the_other(*(replies or (Reply(),))))
    runner = web.ServerRunner(web.Server(stub.answer), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    host, port = runner.addresses[0][:2]
    stub.url = f"{'https' if tls else 'http'}://{host}:{port}"
    try:
        yield stub
    finally:
        stub.over.set()
        await runner.cleanup()


def eager(attempts: int = 5) -> RetryPolicy:
    """A policy that retries without waiting."""
    return RetryPolicy(attempts=attempts, first=0.0, jitter=0.0, rng=random.Random(0))


@asynccontextmanager
async def client_of(
    stub: Stub, *, attempts: int = 5, credentials: Credentials | None = None, pool: int = 100
) -> AsyncIterator[Client]:
    """A client of the stub that retries without waiting."""
    connection = Connection(stub.url, credentials=credentials or StaticCredentials())
    async with client_to(connection, attempts=attempts, pool=pool) as client:
        yield client


@asynccontextmanager
async def client_to(connection: Connection, *, attempts: int = 5, pool: int = 100) -> AsyncIterator[Client]:
    """A client of any connection that retries without waiting."""
    client = Client(HttpTransport(connection, pool=pool), retries=eager(attempts))
    try:
        yield client
    finally:
        await client.close()
