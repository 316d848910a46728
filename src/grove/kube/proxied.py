"""The way to an API server through a proxy, or to one whose name is not ASCII: by aiohttp.

Loaded only where it is needed: aiohttp is larger than the rest of the client. Promises what `direct` does.
"""

import base64
import functools
import io
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload
from multidict import CIMultiDict
from yarl import URL

from grove.errors import Unreachable
from grove.kube.carriage import Request, Response
from grove.kube.retry import LOST, NOT_SENT, TIMED_OUT, TLS

#: aiohttp warns about larger bodies given as bytes; a file-like body is sent in pieces.
_LARGE_BODY: Final = 1 << 20
_PIECE: Final = 1 << 16
_AUTO_HEADERS: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class Proxied:
    """Connections to one server through one proxy; `close` ends them all."""

    def __init__(
        self, server: str, proxy: str, *, server_name: str | None, connect_timeout: float, pool: int
    ) -> None:
        self._server = server
        self._server_name = server_name
        self._connect_timeout = connect_timeout
        self._pool = pool
        self._requests: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None
        self._proxy, self._proxy_headers = _proxy(proxy)
        self._extra: tuple[tuple[str, str], ...] = ()
        if self._proxy_headers and server.startswith("http:"):
            # Without TLS there is no CONNECT that would carry it: the proxy reads the request itself.
            self._extra = tuple(self._proxy_headers.items())

    async def send(self, request: Request, *, tls: ssl.SSLContext | None, limit: float) -> Response:
        """The whole answer, or Unreachable after so many seconds."""
        content = _content(request)
        try:
            async with self._session(streams=False).request(
                request.method,
                self._url(request),
                data=content,
                headers=self._headers(request),
                allow_redirects=False,
                timeout=_timeouts(limit, self._connect_timeout),
                ssl=tls or True,
                server_hostname=self._server_name,
                proxy=self._proxy,
                proxy_headers=self._proxy_headers,
            ) as answer:
                return Response(answer.status, answer.headers, await answer.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if isinstance(content, GuardedBody) and content.refusal is not None:
                raise content.refusal from None
            raise _unreachable(error, request, self._proxy) from error

    async def open(self, request: Request, *, tls: ssl.SSLContext | None) -> "ProxiedStream":
        """The answer as it comes, on a connection of its own."""
        try:
            answer = await self._session(streams=True).request(
                request.method,
                self._url(request),
                headers=self._headers(request),
                allow_redirects=False,
                timeout=_timeouts(None, self._connect_timeout),
                ssl=tls or True,
                server_hostname=self._server_name,
                proxy=self._proxy,
                proxy_headers=self._proxy_headers,
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(error, request, self._proxy) from error
        return ProxiedStream(answer, request, self._proxy)

    async def close(self) -> None:
        """End all connections; requests under way fail."""
        for session in (self._requests, self._streams):
            if session is not None:
                await session.close()

    def _url(self, request: Request) -> URL:
        origin = "/".join(self._server.split("/", 3)[:3])
        return URL(f"{origin}{request.target}", encoded=True)

    def _headers(self, request: Request) -> CIMultiDict[str]:
        merged = CIMultiDict(request.headers)
        for name, value in self._extra:
            merged.add(name, value)
        return merged

    def _session(self, *, streams: bool) -> aiohttp.ClientSession:
        session = self._streams if streams else self._requests
        if session is not None:
            return session
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


def _content(request: Request) -> "GuardedBody | io.BytesIO | bytes | None":
    """The body as aiohttp takes it; one without a guard's last word is sent as soon as it can be."""
    body = request.body
    if body and request.guard is not None:
        return GuardedBody(body, request.guard)
    return io.BytesIO(body) if body is not None and len(body) > _LARGE_BODY else body


class ProxiedStream:
    """An aiohttp answer as a Stream."""

    __slots__ = ("_answer", "_proxy", "_request")

    def __init__(self, answer: aiohttp.ClientResponse, request: Request, proxy: URL | None) -> None:
        self._answer = answer
        self._request = request
        self._proxy = proxy

    @property
    def status(self) -> int:
        return self._answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._answer.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        try:
            async for chunk in self._answer.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(error, self._request, self._proxy) from error

    async def body(self) -> bytes:
        """The whole body."""
        try:
            return await self._answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(error, self._request, self._proxy) from error

    def close(self) -> None:
        """Give up the connection."""
        self._answer.close()


@functools.lru_cache(maxsize=64)
def _timeouts(total: float | None, connect: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=total, sock_connect=connect)


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


def _unreachable(error: Exception, request: Request, proxy: URL | None) -> Unreachable:
    """What happened, in words, and whether the request may have been executed."""
    via = str(proxy.origin()) if proxy is not None else ""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        why = f"the server's certificate was not accepted: {error.certificate_error}"
        return request.unanswered(why, reason=TLS, via=via)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return request.unanswered("no connection in time", reason=NOT_SENT, via=via)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        why = f"the proxy answered {error.status} {error.message}"
        return request.unanswered(why, reason=NOT_SENT, via=via)
    if isinstance(error, aiohttp.ClientConnectorError):
        why = error.os_error.strerror or str(error.os_error)
        return request.unanswered(f"no connection: {why}", reason=NOT_SENT, via=via)
    if isinstance(error, TimeoutError):
        return request.unanswered("no answer in time", reason=TIMED_OUT, via=via)
    why = str(error) or type(error).__name__
    return request.unanswered(f"the connection broke: {why}", reason=LOST, via=via)
