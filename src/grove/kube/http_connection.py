"""One connection that speaks HTTP/1.1: a request out, its answer in, one at a time.

Promises an answer as the server framed it, or `Broken`. A connection that was left in the middle, or whose
server said anything that is not an answer, is `reusable` no more. Knows no addresses, credentials or verbs.
"""

import asyncio
import re
import ssl
import zlib
from collections import deque
from enum import Enum, auto
from typing import Final, cast

from grove.kube.carriage import Headers, Request, Response
from grove.kube.http_head import head_of, parsed
from grove.kube.inflating import COMPRESSED, Inflater

#: No head, and no line between two chunks, is longer.
_LONGEST_HEAD: Final = 1 << 17
#: A body is sent in such pieces, before each of which its guard is asked.
_PIECE: Final = 1 << 16
#: A stream that nobody reads holds about so many bytes before the server has to wait.
_MOST_HELD: Final = 1 << 18
_is_size_line = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?", re.DOTALL).fullmatch
_is_length = re.compile(r"[0-9]{1,18}").fullmatch


class Broken(Exception):
    """The connection ended before the answer did, or what it said is no answer.

    With `silent` not a byte of the answer had come.
    """

    def __init__(self, why: str, *, silent: bool = False) -> None:
        super().__init__(why)
        self.silent = silent


class _Part(Enum):
    """What the next byte of an answer belongs to."""

    NOTHING = auto()
    HEAD = auto()
    SIZED = auto()
    ENDLESS = auto()
    SIZE_LINE = auto()
    CHUNK = auto()
    CHUNK_END = auto()
    TRAILER = auto()


class HttpConnection(asyncio.Protocol):
    """The protocol of one connection; made by whoever connects."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._part = _Part.NOTHING
        #: The beginning of a line or of a head of which the rest has not come.
        self._rest = b""
        #: How many bytes of the body, or of the chunk, are still to come.
        self._left = 0
        self._status = 0
        self._headers: dict[str, str] = {}
        self._pieces: deque[bytes] = deque()
        self._held = 0
        self._inflater: Inflater | None = None
        self._bodiless = False
        self._streams = False
        self._heard = False
        self._complete = True
        self._keeps = True
        self._paused = False
        #: Why the connection is over; None while it is there.
        self._over: str | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent."""
        if not self._keeps or not self._complete or self._over is not None:
            return False
        # Between the end that the server sent and `connection_lost` the loop turns once.
        return self._transport is not None and not self._transport.is_closing()

    @property
    def status(self) -> int:
        return self._status

    @property
    def headers(self) -> Headers:
        return Headers(self._headers)

    async def ask(self, request: Request, host: str) -> Response:
        """Send a request and take in the whole answer."""
        self._begin(request, streams=False)
        try:
            await self._send(request, host)
            while not self._complete:
                await self._wait()
        except BaseException:
            self.abort()
            raise
        if self._transport is None or self._transport.get_write_buffer_size():
            # Answered before it was asked: what is left of the request is in the way of the next one.
            self._keeps = False
        pieces = self._pieces
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        return Response(self._status, Headers(self._headers), body)

    async def open(self, request: Request, host: str) -> None:
        """Send a request and take in the head of the answer."""
        self._begin(request, streams=True)
        try:
            await self._send(request, host)
            while not self._status and not self._complete:
                await self._wait()
        except BaseException:
            self.abort()
            raise

    async def piece(self) -> bytes:
        """What has come of the body since the last piece; nothing when that was all."""
        while not self._pieces:
            if self._complete:
                return b""
            await self._wait()
        pieces = self._pieces
        piece = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._held = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return piece

    def close(self) -> None:
        """End a connection that nobody uses."""
        self._keeps = False
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End the connection wherever it is."""
        self._keeps = False
        if self._transport is not None:
            self._transport.abort()

    # Sending

    def _begin(self, request: Request, *, streams: bool) -> None:
        self._part, self._streams, self._bodiless = _Part.HEAD, streams, request.method == "HEAD"
        self._status, self._headers, self._inflater = 0, {}, None
        self._heard = self._complete = False

    async def _send(self, request: Request, host: str) -> None:
        head, body, guard = head_of(request, host), request.body or b"", request.guard
        transport = self._transport
        if transport is None or self._over is not None:
            raise Broken(self._over or "it was closed", silent=True)
        if guard is not None:
            guard()
        if len(body) <= _PIECE:
            transport.write(head + body)
            return
        transport.write(head)
        for start in range(0, len(body), _PIECE):
            await self._may_write()
            if self._complete:
                self._keeps = False
                return
            if guard is not None and start:
                guard()
            transport.write(body[start : start + _PIECE])

    async def _may_write(self) -> None:
        if self._writable is not None:
            await self._writable
        else:
            await asyncio.sleep(0)
        if self._over is not None and not self._complete:
            raise Broken(self._over, silent=not self._heard)

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)

    # Receiving

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of it.
        self._transport = cast(asyncio.Transport, transport)
        if not self._keeps:
            # Given up while it was made: nobody knows of it any more.
            self.abort()

    def eof_received(self) -> None:
        """The server ended its side; a connection that is lost does not come here."""
        if self._part is _Part.ENDLESS and self._is_the_end():
            try:
                self._finish()
            except ValueError as error:
                self._refuse(error)

    def _is_the_end(self) -> bool:
        """Whether the server itself said so: below TLS anybody could, to cut an answer off."""
        encrypted = self._transport.get_extra_info("ssl_object") if self._transport is not None else None
        if encrypted is None:
            return True
        try:
            return not encrypted.read(1)
        except ssl.SSLError:
            return False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._over is None:
            self._over = str(exc) if exc is not None and str(exc) else "the server closed it"
        self._keeps = False
        self.resume_writing()
        self._wake()

    def data_received(self, data: bytes) -> None:
        if self._over is not None:
            return
        self._heard = True
        if self._rest:
            data, self._rest = self._rest + data, b""
        at, end = 0, len(data)
        try:
            while at < end:
                at = self._take(data, at)
        except (ValueError, zlib.error) as error:
            self._refuse(error)
            return
        if self._complete or self._streams:
            self._wake()

    def _refuse(self, error: Exception) -> None:
        self._over = f"the server did not answer in HTTP: {error}"
        self.abort()
        self._wake()

    def _take(self, data: bytes, at: int) -> int:
        """Take in the next part; answers with where the one after it begins."""
        part = self._part
        if part is _Part.SIZED or part is _Part.CHUNK:
            return self._take_body(data, at)
        if part is _Part.SIZE_LINE or part is _Part.TRAILER:
            return self._take_line(data, at)
        if part is _Part.HEAD:
            return self._take_head(data, at)
        if part is _Part.CHUNK_END:
            if len(data) - at < 2:
                return self._keep(data, at)
            if data[at : at + 2] != b"\r\n":
                raise ValueError("a chunk does not end where it should")
            self._part = _Part.SIZE_LINE
            return at + 2
        if part is _Part.ENDLESS:
            self._push(data[at:])
            return len(data)
        raise ValueError("it said more than it was asked")

    def _take_body(self, data: bytes, at: int) -> int:
        end = min(len(data), at + self._left)
        self._left -= end - at
        self._push(data[at:end])
        if not self._left:
            if self._part is _Part.CHUNK:
                self._part = _Part.CHUNK_END
            else:
                self._finish()
        return end

    def _take_line(self, data: bytes, at: int) -> int:
        end = data.find(b"\r\n", at)
        if end < 0:
            return self._keep(data, at)
        if self._part is _Part.TRAILER:
            if end == at:
                self._finish()
            return end + 2
        size = _is_size_line(data[at:end])
        if size is None:
            raise ValueError("a chunk has no size")
        self._left = int(size[1], 16)
        self._part = _Part.CHUNK if self._left else _Part.TRAILER
        return end + 2

    def _take_head(self, data: bytes, at: int) -> int:
        end = data.find(b"\r\n\r\n", at)
        if end < 0:
            return self._keep(data, at)
        version, status, headers = parsed(data[at:end].decode("utf-8", "surrogateescape"))
        if 100 <= status < 200:
            if status == 101:
                raise ValueError("it changed the protocol")
            return end + 4
        self._status, self._headers = status, headers
        if version != "HTTP/1.1" or "close" in headers.get("connection", "").lower():
            self._keeps = False
        if headers.get("content-encoding", "").lower() in COMPRESSED:
            self._inflater = Inflater()
        self._part = self._framing(status, headers)
        if self._part is _Part.NOTHING:
            self._finish()
        return end + 4

    def _framing(self, status: int, headers: dict[str, str]) -> _Part:
        """How the body that follows this head ends."""
        if self._bodiless or status in (204, 304):
            return _Part.NOTHING
        coding, length = headers.get("transfer-encoding"), headers.get("content-length")
        if coding is not None:
            if coding.lower() != "chunked":
                raise ValueError(f"the transfer encoding {coding!r} is not known")
            if length is not None:
                # Somebody on the way may have believed the length: what follows may be no answer of ours.
                self._keeps = False
            return _Part.SIZE_LINE
        if length is None:
            self._keeps = False
            return _Part.ENDLESS
        if not _is_length(length):
            raise ValueError(f"the length {length!r} is no number")
        self._left = int(length)
        return _Part.SIZED if self._left else _Part.NOTHING

    def _keep(self, data: bytes, at: int) -> int:
        """Wait for the rest of what begins here."""
        if len(data) - at > _LONGEST_HEAD:
            raise ValueError("a line does not end")
        self._rest = data[at:]
        return len(data)

    def _push(self, piece: bytes) -> None:
        if self._inflater is not None:
            piece = self._inflater.add(piece)
        if not piece:
            return
        self._pieces.append(piece)
        if self._streams:
            self._held += len(piece)
            if self._held > _MOST_HELD and not self._paused and self._transport is not None:
                self._paused = True
                self._transport.pause_reading()

    def _finish(self) -> None:
        if self._inflater is not None:
            self._inflater.end()
        self._part, self._complete = _Part.NOTHING, True
        # Whoever still sends need not wait for a server that has said all it has to say.
        self.resume_writing()

    # Waiting

    async def _wait(self) -> None:
        """Return when something came; raises Broken when nothing more will."""
        if self._over is not None:
            raise Broken(self._over, silent=not self._heard)
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
