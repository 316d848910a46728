"""Read one watch: lines out of chunks, events out of lines, and every way in which a watch can end.

A clean end of the stream ends the iterator. 410, as a status or as an ERROR event, raises Gone; a broken
stream raises Unreachable, one that falls silent Stalled. Never reconnects: the caller decides when, and from
which version.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import msgspec

from grove.errors import Stalled, Unreachable
from grove.kube.decoding import Codec
from grove.kube.exchange import Call, Exchange
from grove.kube.failure import error_from_event
from grove.kube.retry import LOST, TIMED_OUT

T = TypeVar("T")

#: Seconds without a byte after which a watch is dead. The server sends a bookmark about each minute.
STALL_SECONDS: Final = 120.0
#: Seconds after which the server ends a watch by itself.
TIMEOUT_SECONDS: Final = 300

_UNUSUAL: Final = (b'{"type":"ERROR"', b'{"type":"BOOKMARK"')


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """One change: ADDED, MODIFIED, DELETED, or a BOOKMARK whose object carries nothing but a version."""

    type: str
    object: T
    resource_version: str


class Lines:
    """Cuts a byte stream at its newlines; a line may be longer than any chunk or buffer."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes."""
        if b"\n" not in chunk:
            self._parts.append(chunk)  # joined once, when the line ends
            return []
        if self._parts:
            self._parts.append(chunk)
            chunk = b"".join(self._parts)
            self._parts.clear()
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if rest:
            self._parts.append(rest)
        return [line for line in lines if line and not line.isspace()]

    def rest(self) -> bytes:
        """What stands after the last newline."""
        return b"".join(self._parts).strip()


class _RawFrame(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw = msgspec.Raw(b"null")


_raw_frames: Final = msgspec.json.Decoder(_RawFrame)


async def watch_events(
    exchange: Exchange, call: Call, codec: Codec[T], *, stall_seconds: float = STALL_SECONDS
) -> AsyncGenerator[WatchEvent[T], None]:
    """The events of one watch request."""
    request = str(call)
    lines = Lines()
    async with aclosing(_chunks(exchange, call, stall_seconds)) as chunks:
        async for chunk in chunks:
            for line in lines.feed(chunk):
                yield _event(line, codec, request)
    if rest := lines.rest():
        yield _event(rest, codec, request)


async def _chunks(exchange: Exchange, call: Call, stall_seconds: float) -> AsyncGenerator[bytes, None]:
    """The body of the answer; silence before it is Unreachable, within it Stalled."""
    silence: type[Unreachable] = Unreachable
    async with AsyncExitStack() as opened:
        try:
            async with asyncio.timeout(stall_seconds):
                stream = await opened.enter_async_context(exchange.stream(call))
            chunks, silence = stream.chunks(), Stalled
            while True:
                # Around the wait alone: the time that the consumer takes for an event does not count.
                async with asyncio.timeout(stall_seconds):
                    chunk = await anext(chunks, None)
                if chunk is None:
                    return
                yield chunk
        except TimeoutError as error:
            said = f"the watch {call} was silent for {stall_seconds:g} s, so it is taken for dead"
            raise silence(said, reason=TIMED_OUT) from error


def _event(line: bytes, codec: Codec[T], request: str) -> WatchEvent[T]:
    if not line.startswith(_UNUSUAL):
        # The server writes `type` first, so that one pass over the line is enough for nearly all events.
        try:
            frame = codec.fast_frame(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
        else:
            if frame.type not in ("ERROR", "BOOKMARK"):
                return WatchEvent(frame.type, frame.object, codec.resource_version(frame.object))
    try:
        raw = _raw_frames.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        # Cut off by a proxy, or an error page: either way the stream cannot be trusted any further.
        raise Unreachable(f"the watch {request} sent a line that is not an event", reason=LOST) from error
    if raw.type == "ERROR":
        raise error_from_event(request, raw.object)
    item = codec.one(raw.object, request)
    return WatchEvent(raw.type, item, codec.resource_version(item))
