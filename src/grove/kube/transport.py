"""Carry bytes to an API server and back: the `Transport` protocol and its implementation over HTTP.

A transport knows addresses, TLS, proxies and credentials; it knows no verbs, retries nothing but a request
whose credential was refused (401) and has been renewed, and gives each answer as it came. No answer is
`Unreachable`, whose `reason` (see `retry`) says whether the request may have been executed. Paths and queries
are given unencoded.
"""

import asyncio
import functools
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Protocol
from urllib.parse import quote, urlencode, urlsplit

from grove.errors import Unreachable
from grove.kube.carriage import OpenStream, Request, Response, Stream
from grove.kube.config import Connection
from grove.kube.credentials import Credential
from grove.kube.direct import Direct
from grove.kube.tls import ClientCertificate, client_context

__all__ = ["HttpTransport", "Response", "Stream", "Transport"]

_NO_HEADERS: Final[Mapping[str, str]] = {}
_is_plain = re.compile(r"[A-Za-z0-9/._~:@!$&'()*+,;=-]*").fullmatch


class Transport(Protocol):
    """The way to one API server."""

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] = _NO_HEADERS,
        body: bytes | None = None,
        timeout: float | None = None,
        guard: Callable[[], None] | None = None,
    ) -> Response:
        """One attempt; `timeout` is in seconds and None means the transport's own.

        `guard` is called immediately before the request goes out, however long it had to wait for that; what
        it raises is raised, and the request is not sent.
        """

    def stream(
        self,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> AbstractAsyncContextManager[Stream]:
        """A GET whose answer is read as it comes, for as long as it takes."""

    async def close(self) -> None:
        """Give up all connections."""


class Way(Protocol):
    """How requests get to a server: directly or through a proxy."""

    async def send(self, request: Request, *, tls: ssl.SSLContext | None, limit: float) -> Response: ...

    async def open(self, request: Request, *, tls: ssl.SSLContext | None) -> OpenStream: ...

    async def close(self) -> None: ...


class HttpTransport:
    """HTTP/1.1 over a pool of connections, and one more for each stream: watches starve no request."""

    def __init__(
        self, connection: Connection, *, pool: int = 100, timeout: float = 30.0, connect_timeout: float = 10.0
    ) -> None:
        self._connection = connection
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        # Waiting for a free connection must not count against an attempt's timeout, so we queue here, in
        # order, and not inside the way.
        self._slots = asyncio.Semaphore(pool)
        self._pool = pool
        self._known_way: Way | None = None
        self._tls: ssl.SSLContext | None = None
        self._tls_for: ClientCertificate | None = None
        parts = urlsplit(connection.server)
        self._origin = f"{parts.scheme}://{parts.netloc.lower()}"
        self._prefix = parts.path
        self._closed = False
        if parts.scheme == "https":
            # Told now rather than with the first request: a certificate that does not load.
            self._use_certificate(connection.credentials.current() or Credential())

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] = _NO_HEADERS,
        body: bytes | None = None,
        timeout: float | None = None,
        guard: Callable[[], None] | None = None,
    ) -> Response:
        """One attempt, and a second with a fresh credential if the first was answered with 401."""
        limit = timeout or self._timeout
        credentials = self._connection.credentials
        async with self._slots:
            credential = credentials.current() or await credentials.obtain()
            if guard is not None:
                guard()
            request = self._request(method, path, query, headers, credential, body, guard)
            answer = await self._way().send(request, tls=self._context(credential), limit=limit)
            if answer.status == 401 and await credentials.rejected(credential):
                credential = await credentials.obtain()
                if guard is not None:
                    guard()
                request = self._request(method, path, query, headers, credential, body, guard)
                answer = await self._way().send(request, tls=self._context(credential), limit=limit)
        return answer

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> AsyncIterator[Stream]:
        """A GET on a connection of its own, with no limit of time but that for connecting."""
        credentials = self._connection.credentials
        credential = credentials.current() or await credentials.obtain()
        answer = await self._open(path, query, headers, credential)
        try:
            if answer.status == 401 and await credentials.rejected(credential):
                answer.close()
                answer = await self._open(path, query, headers, await credentials.obtain())
            yield answer
        finally:
            answer.close()  # a stream is left in its middle: its connection cannot be used again

    async def close(self) -> None:
        """Close all connections; requests under way fail."""
        self._closed = True
        if self._known_way is not None:
            await self._known_way.close()

    async def _open(
        self,
        path: str,
        query: Sequence[tuple[str, str]],
        headers: Mapping[str, str],
        credential: Credential,
    ) -> OpenStream:
        request = self._request("GET", path, query, headers, credential)
        return await self._way().open(request, tls=self._context(credential))

    def _request(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]],
        headers: Mapping[str, str],
        credential: Credential,
        body: bytes | None = None,
        guard: Callable[[], None] | None = None,
    ) -> Request:
        encoded = path if _is_plain(path) else quote(path, safe="/:@!$&'()*+,;=~")
        sent = [*headers.items()]
        if "Accept-Encoding" not in headers:
            sent.append(("Accept-Encoding", "identity"))
        if credential.authorization:
            sent.append(("Authorization", credential.authorization))
        sent += self._connection.headers
        asked = f"?{_encode_query(tuple(query))}" if query else ""
        whole = f"{self._prefix}{encoded}"
        return Request(method, self._origin, whole, asked, tuple(sent), body, guard)

    def _context(self, credential: Credential) -> ssl.SSLContext | None:
        if credential.certificate is not self._tls_for and self._tls is not None:
            self._use_certificate(credential)
        return self._tls

    def _use_certificate(self, credential: Credential) -> None:
        """Connections are pooled by context: a new certificate means new connections."""
        self._tls = client_context(
            self._connection.tls, credential.certificate, certificate_source=credential.source
        )
        self._tls_for = credential.certificate

    def _way(self) -> Way:
        if self._closed:
            raise Unreachable(f"the connection to {self._connection.server} has been closed", reason="Closed")
        if self._known_way is None:
            self._known_way = self._find_way()
        return self._known_way

    def _find_way(self) -> Way:
        server, proxy = self._connection.server, self._connection.proxy
        name, limit = self._connection.tls.server_name or None, self._connect_timeout
        if not proxy and server.isascii():
            return Direct(server, server_name=name, connect_timeout=limit)
        from grove.kube.proxied import Proxied

        return Proxied(server, proxy, server_name=name, connect_timeout=limit, pool=self._pool)


@functools.lru_cache(maxsize=1024)
def _encode_query(query: tuple[tuple[str, str], ...]) -> str:
    return urlencode(query, quote_via=quote)
