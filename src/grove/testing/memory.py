"""A transport without sockets: the client of `kube/` speaks to an embedded API server in the same event loop.

Requests pass through `App.handle` like those that come over HTTPS, faults and request log included, so that
whole operators run under virtual time. Only bytes cross over; nothing is shared.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from grove.embedded.identity import User
from grove.embedded.server.app import App, Request
from grove.embedded.server.app import Response as Answer
from grove.errors import Unreachable
from grove.kube.retry import LOST, NOT_SENT, TIMED_OUT
from grove.kube.transport import Response, Stream


class MemoryStream:
    """An answer of the embedded server, read as it comes."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    @property
    def status(self) -> int:
        return self._answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._answer.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        body = self._answer.body
        if isinstance(body, bytes):
            yield body
            return
        try:
            async for chunk in body:
                yield chunk
        except ConnectionError as lost:
            raise Unreachable(f"the connection was lost: {lost}") from None

    async def body(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])


class MemoryTransport:
    """The way to an embedded API server in this process, as a user of it."""

    def __init__(self, app: App, user: User, *, dies_with_a_request: bool = False) -> None:
        self._app = app
        self._user = user
        #: Closed by its owner, or because the process "died" with a request that was lost.
        self.closed = asyncio.Event()
        self._dies = dies_with_a_request

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout: float | None = None,
        guard: Callable[[], None] | None = None,
    ) -> Response:
        try:
            async with asyncio.timeout(timeout):
                answer = await self._handle(method, path, query, headers, body, guard)
        except TimeoutError:
            raise Unreachable(
                f"no answer to {method} {path} within {timeout} seconds", reason=TIMED_OUT
            ) from None
        stream = MemoryStream(answer)
        return Response(answer.status, answer.headers, await stream.body())

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Sequence[tuple[str, str]] = (), headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[Stream]:
        answer = await self._handle("GET", path, query, headers, None)
        try:
            yield MemoryStream(answer)
        finally:
            if hasattr(answer.body, "aclose"):
                await answer.body.aclose()

    async def close(self) -> None:
        self.closed.set()

    async def _handle(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]],
        headers: Mapping[str, str] | None,
        body: bytes | None,
        guard: Callable[[], None] | None = None,
    ) -> Answer:
        if self.closed.is_set():
            raise Unreachable("the transport is closed", reason=NOT_SENT)
        names = {name.lower(): value for name, value in (headers or {}).items()}
        request = Request(method, path, dict(query), names, body or b"", self._user)
        # A request over a socket always gives way to others; so does this one.
        await asyncio.sleep(0)
        if guard is not None:
            guard()
        try:
            return await self._app.handle(request)
        except ConnectionError as lost:
            if self._dies:
                self.closed.set()
            raise Unreachable(f"{method} {path}: the connection was lost: {lost}", reason=LOST) from None
