"""HTTPS on the loopback around an `App`: aiohttp's low-level server, no router, no middleware.

Turns HTTP into `Request`s and `Response`s into HTTP; decides nothing.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import AsyncGenerator

from aiohttp import web

from grove.embedded.access.tls import Certificates
from grove.embedded.errors import too_large
from grove.embedded.faults import ConnectionLost
from grove.embedded.server.app import App
from grove.embedded.server.messages import Request, Response

LOOPBACK = "127.0.0.1"
LARGEST_BODY = 3 * 1024 * 1024
SHUTDOWN_SECONDS = 1.0


class PortInUse(Exception):
    """The chosen port is taken; the message says which and what to do."""


class HttpServer:
    def __init__(self, app: App, certificates: Certificates, *, port: int = 0, host: str = LOOPBACK) -> None:
        self._app = app
        self._certificates = certificates
        self._port = port
        self._host = host
        self._runner: web.ServerRunner | None = None

    @property
    def url(self) -> str:
        return f"https://{self._host}:{self._port}"

    async def start(self) -> None:
        """Listens; with port 0 the system chooses one."""
        listener = self._listen()
        # To an API server a request's Content-Encoding means nothing: compressed bytes are no JSON.
        server = web.Server(self._handle, access_log=None, handler_cancellation=True, auto_decompress=False)
        self._runner = web.ServerRunner(server, shutdown_timeout=SHUTDOWN_SECONDS)
        await self._runner.setup()
        site = web.SockSite(
            self._runner,
            listener,
            ssl_context=self._certificates.server_context(),
        )
        await site.start()
        self._port = listener.getsockname()[1]

    def _listen(self) -> socket.socket:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self._host, self._port))
        except OSError as error:
            listener.close()
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                raise PortInUse(
                    f"the embedded cluster cannot listen on {self._host}:{self._port} ({error.strerror}); "
                    "choose another port, or 0 for any free one"
                ) from None
            raise
        return listener

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.shutdown()
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, http: web.BaseRequest) -> web.StreamResponse:
        body = await _read(http)
        if body is None:
            error = too_large(f"limit is {LARGEST_BODY}")
            return web.json_response(error.to_status(), status=error.status)
        request = Request(
            method=http.method,
            path=http.path,
            query=dict(http.query),
            headers=_headers(http),
            body=body,
        )
        try:
            response = await self._app.handle(request)
        except ConnectionLost:
            if http.transport is not None:
                http.transport.abort()
            return web.Response(status=500)
        if isinstance(response.body, bytes):
            return _whole(response, response.body)
        return await _stream(http, response, response.body)


def _headers(http: web.BaseRequest) -> dict[str, str]:
    """Headers by lower-case name; one that comes several times is joined, as HTTP allows."""
    headers: dict[str, str] = {}
    for name, value in http.headers.items():
        key = name.lower()
        if not value.isascii():
            # Bytes that are no UTF-8 come as halves of characters, which nothing can be made of.
            value = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        headers[key] = f"{headers[key]},{value}" if key in headers else value
    return headers


async def _read(http: web.BaseRequest) -> bytes | None:
    """The body; None when it is larger than any object may be."""
    if not http.body_exists:
        return b""
    body = bytearray()
    async for chunk in http.content.iter_any():
        body += chunk
        if len(body) > LARGEST_BODY:
            return None
    return bytes(body)


def _whole(response: Response, body: bytes) -> web.Response:
    answer = web.Response(body=body, status=response.status, headers=response.headers)
    for warning in response.warning_headers():
        answer.headers.add("Warning", warning)
    return answer


async def _stream(
    http: web.BaseRequest, response: Response, body: AsyncGenerator[bytes, None]
) -> web.StreamResponse:
    answer = web.StreamResponse(status=response.status, headers=response.headers)
    answer.enable_chunked_encoding()
    try:
        await answer.prepare(http)
        async for chunk in body:
            await answer.write(chunk)
        await answer.write_eof()
    except ConnectionError:
        pass  # the client went away; there is nobody to tell
    finally:
        await body.aclose()
    return answer
