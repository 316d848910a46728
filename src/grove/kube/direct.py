"""The way to an API server that no proxy stands in: kept connections of our own, over TLS or not.

Promises that a request goes out on a connection made with the TLS context that it asks for. A connection that
broke while it was kept is told from one that broke under a request only by its silence: what may be repeated
is sent once more on a new one, and the rest is `Unreachable`, as in `transport`.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from grove.errors import Unreachable
from grove.kube.carriage import Request, Response
from grove.kube.http_connection import Broken, HttpConnection
from grove.kube.retry import LOST, NOT_SENT, TIMED_OUT, TLS

#: A connection that nobody used for so many seconds is closed.
KEPT_SECONDS: Final = 30.0
#: After so many seconds without a connection to one address the next one is tried as well.
_NEXT_ADDRESS: Final = 0.25
_REPEATABLE: Final = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
_Address = tuple[Any, ...]
_PORTS: Final = {"http": 80, "https": 443}


class Direct:
    """Connections to one server; `close` ends them all."""

    def __init__(self, server: str, *, server_name: str | None, connect_timeout: float) -> None:
        parts = urlsplit(server)
        self._host = parts.hostname or ""
        self._port = parts.port or _PORTS[parts.scheme]
        self._encrypted = parts.scheme == "https"
        bracketed = f"[{self._host}]" if ":" in self._host else self._host
        self._named = bracketed if self._port == _PORTS[parts.scheme] else f"{bracketed}:{self._port}"
        # No certificate names the root, with whose dot a host may end.
        self._server_name = (server_name or self._host).rstrip(".")
        self._connect_timeout = connect_timeout
        #: Those that wait for a request, the one that was used last at the end, with the time of that.
        self._kept: list[tuple[HttpConnection, ssl.SSLContext | None, float]] = []
        self._used: set[HttpConnection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    async def send(self, request: Request, *, tls: ssl.SSLContext | None, limit: float) -> Response:
        """The whole answer, or Unreachable after so many seconds."""
        try:
            async with asyncio.timeout(limit):
                return await self._answer(request, tls)
        except TimeoutError as error:
            raise request.unanswered("no answer in time", reason=TIMED_OUT) from error

    async def open(self, request: Request, *, tls: ssl.SSLContext | None) -> "DirectStream":
        """The answer as it comes, on a connection of its own."""
        connection = await self._connected(request, tls)
        self._used.add(connection)
        try:
            await connection.open(request, self._named)
        except BaseException as error:
            self._used.discard(connection)
            if isinstance(error, Broken):
                raise _broken(request, error) from error
            raise
        return DirectStream(connection, request, self._used)

    async def close(self) -> None:
        """End all connections; requests under way fail."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for connection in (*self._used, *(each[0] for each in self._kept)):
            connection.abort()
        self._kept.clear()
        # What is closed gets to say so before the loop ends; what is below TLS says so first.
        for _ in range(2):
            await asyncio.sleep(0)

    async def _answer(self, request: Request, tls: ssl.SSLContext | None) -> Response:
        while True:
            kept = self._take(tls)
            connection = kept or await self._connected(request, tls)
            self._used.add(connection)
            try:
                return await connection.ask(request, self._named)
            except Broken as error:
                if kept is None or not error.silent or request.method not in _REPEATABLE:
                    raise _broken(request, error) from error
            finally:
                self._used.discard(connection)
                self._keep(connection, tls)

    def _take(self, tls: ssl.SSLContext | None) -> HttpConnection | None:
        while self._kept:
            connection, made_with, _ = self._kept.pop()
            if connection.reusable and made_with is tls:
                return connection
            connection.close()
        return None

    def _keep(self, connection: HttpConnection, tls: ssl.SSLContext | None) -> None:
        if not connection.reusable:
            connection.close()
            return
        loop = asyncio.get_running_loop()
        self._kept.append((connection, tls, loop.time()))
        if self._sweeper is None:
            self._sweeper = loop.call_later(KEPT_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Close what nobody used; they are in the order of their last use."""
        loop = asyncio.get_running_loop()
        until = loop.time() - KEPT_SECONDS
        kept, self._kept = self._kept, []
        for each in kept:
            if each[2] <= until or not each[0].reusable:
                each[0].close()
            else:
                self._kept.append(each)
        oldest = min((each[2] for each in self._kept), default=None)
        self._sweeper = None if oldest is None else loop.call_at(oldest + KEPT_SECONDS, self._sweep)

    async def _connected(self, request: Request, tls: ssl.SSLContext | None) -> HttpConnection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_timeout):
                reached = await _reach(self._host, self._port)
                connection = HttpConnection()
                try:
                    await loop.create_connection(
                        lambda: connection,
                        sock=reached,
                        ssl=tls if self._encrypted else None,
                        server_hostname=self._server_name if self._encrypted else None,
                    )
                except BaseException:
                    # The socket belongs to the loop now, which may have it in use for a while: closed here,
                    # its number would be another connection's in the meantime.
                    connection.abort()
                    raise
        except ssl.SSLCertVerificationError as error:
            why = f"the server's certificate was not accepted: {error}"
            raise request.unanswered(why, reason=TLS) from error
        except TimeoutError as error:
            raise request.unanswered("no connection in time", reason=NOT_SENT) from error
        except (OSError, UnicodeError) as error:
            # A name that cannot be looked up at all is a UnicodeError.
            why = f"no connection: {getattr(error, 'strerror', None) or error}"
            raise request.unanswered(why, reason=NOT_SENT) from error
        if self._closed:
            connection.abort()
            raise request.unanswered("the connection was closed while it was made", reason=NOT_SENT)
        return connection


class DirectStream:
    """An answer on a connection of its own."""

    __slots__ = ("_connection", "_request", "_used")

    def __init__(self, connection: HttpConnection, request: Request, used: set[HttpConnection]) -> None:
        self._connection = connection
        self._request = request
        self._used = used

    @property
    def status(self) -> int:
        return self._connection.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._connection.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        try:
            while piece := await self._connection.piece():
                yield piece
        except Broken as error:
            raise _broken(self._request, error) from error

    async def body(self) -> bytes:
        """The whole body."""
        return b"".join([piece async for piece in self.chunks()])

    def close(self) -> None:
        """Give up the connection."""
        self._used.discard(self._connection)
        self._connection.abort()


def _broken(request: Request, error: Broken) -> Unreachable:
    return request.unanswered(f"the connection broke: {error}", reason=LOST)


async def _reach(host: str, port: int) -> socket.socket:
    """A connected socket; a further address is tried before the one before it has failed for good."""
    left = await _addresses(host, port)
    if len(left) == 1:
        return await _connect(*left[0])
    pending: set[asyncio.Task[socket.socket]] = set()
    failures: list[BaseException] = []
    try:
        while left or pending:
            if left:
                pending.add(asyncio.create_task(_connect(*left.pop(0))))
            wait = _NEXT_ADDRESS if left else None
            done, _ = await asyncio.wait(pending, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                pending.discard(each)
                failure = each.exception()
                if failure is None:
                    return each.result()
                failures.append(failure)
        raise failures[0]
    finally:
        for each in pending:
            each.cancel()
            each.add_done_callback(_close)


async def _addresses(host: str, port: int) -> list[_Address]:
    try:
        # Needs nobody to be asked, and so no thread.
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


def _close(attempt: asyncio.Task[socket.socket]) -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()


async def _connect(
    family: int, kind: int, protocol: int, name: str, address: tuple[Any, ...]
) -> socket.socket:
    made = socket.socket(family, kind, protocol)
    try:
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(made, address)
    except BaseException:
        made.close()
        raise
    return made
