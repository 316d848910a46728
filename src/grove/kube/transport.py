"""Carry bytes to an API server and back: the `Transport` protocol and its implementation on aiohttp.

A transport knows addresses, TLS, proxies and credentials; it knows no verbs, retries nothing but a request
whose credential was refused (401) and has been renewed, and gives each answer as it came. No answer is
`Unreachable`, whose `reason` (see `retry`) says whether the request may have been executed. Paths and queries
are given unencoded.
"""

import asyncio
import base64
import functools
import io
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import quote, unquote, urlencode, urlsplit, urlunsplit

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload
from multidict import CIMultiDict
from yarl import URL

from grove.errors import Unreachable
from grove.kube.config import Connection
from grove.kube.credentials import Credential
from grove.kube.retry import LOST, NOT_SENT, TIMED_OUT, TLS
from grove.kube.tls import ClientCertificate, client_context

#: aiohttp warns about larger bodies given as bytes; a file-like body is sent in pieces.
_LARGE_BODY: Final = 1 << 20
_PIECE: Final = 1 << 16
_AUTO_HEADERS: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_NO_HEADERS: Final[Mapping[str, str]] = {}
_is_plain = re.compile(r"[A-Za-z0-9/._~:@!$&'()*+,;=-]*").fullmatch


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Stream(Protocol):
    """An answer that is read as it comes."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body in pieces of any size; raises Unreachable if it breaks off before its end."""

    async def body(self) -> bytes:
        """The whole body, for answers that turn out to be errors."""


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


class HttpTransport:
    """HTTP/1.1 over a pool of connections, and a second pool for streams: watches starve no request."""

    def __init__(
        self, connection: Connection, *, pool: int = 100, timeout: float = 30.0, connect_timeout: float = 10.0
    ) -> None:
        self._connection = connection
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        # Waiting for a free connection must not count against an attempt's timeout, so we queue here, in
        # order, and not inside aiohttp.
        self._slots = asyncio.Semaphore(pool)
        self._pool = pool
        self._requests: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None
        self._tls: ssl.SSLContext | bool = True
        self._tls_for: ClientCertificate | None = None
        self._proxy, self._proxy_headers = _proxy(connection.proxy)
        self._extra = connection.headers
        if self._proxy_headers and connection.server.startswith("http:"):
            # Without TLS there is no CONNECT that would carry it: the proxy reads the request itself.
            self._extra += tuple(self._proxy_headers.items())
        self._server_name = connection.tls.server_name or None
        self._closed = False
        if connection.server.startswith("https:"):
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
        url = self._url(path, query)
        credentials = self._connection.credentials
        limit = _timeouts(timeout or self._timeout, self._connect_timeout)
        async with self._slots:
            credential = credentials.current() or await credentials.obtain()
            answer = await self._send_once(method, url, headers, _content(body, guard), limit, credential)
            if answer.status == 401 and await credentials.rejected(credential):
                credential = await credentials.obtain()
                answer = await self._send_once(method, url, headers, _content(body, guard), limit, credential)
        return answer

    async def _send_once(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        content: "GuardedBody | io.BytesIO | bytes | None",
        limit: aiohttp.ClientTimeout,
        credential: Credential,
    ) -> Response:
        session = self._session(streams=False)
        try:
            async with session.request(
                method,
                url,
                data=content,
                headers=self._headers(headers, credential),
                allow_redirects=False,
                timeout=limit,
                ssl=self._context(credential),
                server_hostname=self._server_name,
                proxy=self._proxy,
                proxy_headers=self._proxy_headers,
            ) as answer:
                return Response(answer.status, answer.headers, await answer.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if isinstance(content, GuardedBody) and content.refusal is not None:
                raise content.refusal from None
            raise _unreachable(error, method, url, self._proxy) from error

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> AsyncIterator[Stream]:
        """A GET on a connection of its own, with no limit of time but that for connecting."""
        url = self._url(path, query)
        credentials = self._connection.credentials
        credential = credentials.current() or await credentials.obtain()
        answer = await self._open(url, headers, credential)
        try:
            if answer.status == 401 and await credentials.rejected(credential):
                answer.close()
                answer = await self._open(url, headers, await credentials.obtain())
            yield _HttpStream(answer, url, self._proxy)
        finally:
            answer.close()  # a stream is left in its middle: its connection cannot be used again

    async def _open(
        self, url: URL, headers: Mapping[str, str], credential: Credential
    ) -> aiohttp.ClientResponse:
        try:
            return await self._session(streams=True).get(
                url,
                headers=self._headers(headers, credential),
                allow_redirects=False,
                timeout=_timeouts(None, self._connect_timeout),
                ssl=self._context(credential),
                server_hostname=self._server_name,
                proxy=self._proxy,
                proxy_headers=self._proxy_headers,
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(error, "GET", url, self._proxy) from error

    async def close(self) -> None:
        """Close both pools; requests under way fail."""
        self._closed = True
        for session in (self._requests, self._streams):
            if session is not None:
                await session.close()

    def _url(self, path: str, query: Sequence[tuple[str, str]]) -> URL:
        encoded = path if _is_plain(path) else quote(path, safe="/:@!$&'()*+,;=~")
        suffix = f"?{_encode_query(tuple(query))}" if query else ""
        return URL(f"{self._connection.server}{encoded}{suffix}", encoded=True)

    def _headers(self, headers: Mapping[str, str], credential: Credential) -> CIMultiDict[str]:
        merged = CIMultiDict(headers)
        merged.setdefault("Accept-Encoding", "identity")
        if credential.authorization:
            merged["Authorization"] = credential.authorization
        for name, value in self._extra:
            merged.add(name, value)
        return merged

    def _context(self, credential: Credential) -> ssl.SSLContext | bool:
        if credential.certificate is not self._tls_for and self._tls is not True:
            self._use_certificate(credential)
        return self._tls

    def _use_certificate(self, credential: Credential) -> None:
        """Connections are pooled by context: a new certificate means new connections."""
        self._tls = client_context(
            self._connection.tls, credential.certificate, certificate_source=credential.source
        )
        self._tls_for = credential.certificate

    def _session(self, *, streams: bool) -> aiohttp.ClientSession:
        session = self._streams if streams else self._requests
        if session is not None and not self._closed:
            return session
        if self._closed:
            raise Unreachable(f"the connection to {self._connection.server} has been closed", reason="Closed")
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0 if streams else self._pool, keepalive_timeout=30.0),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=_AUTO_HEADERS,
            auto_decompress=True,
            trust_env=False,
        )
        if streams:
            self._streams = session
        else:
            self._requests = session
        return session


class GuardedBody(Payload):
    """A body that asks its guard before each piece is sent: without its end no server acts on a request.

    By then the connection is there, which may have taken long, and nothing is left to wait for.
    """

    def __init__(self, body: bytes, guard: Callable[[], None]) -> None:
        super().__init__(body, content_type="application/octet-stream")
        self._size = len(body)
        self._guard = guard
        #: What the guard raised; the session tells it as a failed connection.
        self.refusal: Exception | None = None

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return bytes(self._value).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        await self.write_with_length(writer, None)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        for start in range(0, len(self._value), _PIECE):
            try:
                self._guard()
            except Exception as refusal:
                self.refusal = refusal
                raise
            await writer.write(self._value[start : start + _PIECE])


def _content(
    body: bytes | None, guard: Callable[[], None] | None
) -> "GuardedBody | io.BytesIO | bytes | None":
    """The body as aiohttp takes it; one without a guard's last word is sent as soon as it can be."""
    if guard is not None:
        guard()
        if body:
            return GuardedBody(body, guard)
    return io.BytesIO(body) if body is not None and len(body) > _LARGE_BODY else body


class _HttpStream:
    """An aiohttp answer as a Stream."""

    __slots__ = ("_answer", "_proxy", "_url")

    def __init__(self, answer: aiohttp.ClientResponse, url: URL, proxy: URL | None) -> None:
        self._answer = answer
        self._url = url
        self._proxy = proxy

    @property
    def status(self) -> int:
        return self._answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._answer.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._answer.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(error, "GET", self._url, self._proxy) from error

    async def body(self) -> bytes:
        try:
            return await self._answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(error, "GET", self._url, self._proxy) from error


@functools.lru_cache(maxsize=64)
def _timeouts(total: float | None, connect: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=total, sock_connect=connect)


@functools.lru_cache(maxsize=1024)
def _encode_query(query: tuple[tuple[str, str], ...]) -> str:
    return urlencode(query, quote_via=quote)


def _proxy(url: str) -> tuple[URL | None, dict[str, str] | None]:
    """The proxy's address, and the header for its user and password if the URL has them."""
    if not url:
        return None, None
    parts = urlsplit(url)
    userinfo, at, host = parts.netloc.rpartition("@")
    if not at:
        return URL(url), None
    user, _, password = userinfo.partition(":")
    secret = base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode("ascii")
    bare = urlunsplit((parts.scheme, host, parts.path, parts.query, ""))
    return URL(bare), {"Proxy-Authorization": f"Basic {secret}"}


def _unreachable(error: Exception, method: str, url: URL, proxy: URL | None) -> Unreachable:
    """What happened, in words, and whether the request may have been executed."""
    request = f"{method} {url.origin()}{url.raw_path}"
    via = f" through the proxy {proxy.origin()}" if proxy is not None else ""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        why = f"the server's certificate was not accepted: {error.certificate_error}"
        return Unreachable(f"{request}{via} failed: {why}", reason=TLS)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return Unreachable(f"{request}{via} failed: no connection in time", reason=NOT_SENT)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        why = f"the proxy answered {error.status} {error.message}"
        return Unreachable(f"{request}{via} failed: {why}", reason=NOT_SENT)
    if isinstance(error, aiohttp.ClientConnectorError):
        why = error.os_error.strerror or str(error.os_error)
        return Unreachable(f"{request}{via} failed: no connection: {why}", reason=NOT_SENT)
    if isinstance(error, TimeoutError):
        return Unreachable(f"{request}{via} failed: no answer in time", reason=TIMED_OUT)
    why = str(error) or type(error).__name__
    return Unreachable(f"{request}{via} failed: the connection broke: {why}", reason=LOST)
