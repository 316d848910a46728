"""An HTTP server of this process on one address: pages that are read, nothing that changes anything.

Small on purpose: it answers GET and HEAD with whole pages, and knows neither bodies nor encodings.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

log = logging.getLogger(__name__)

#: A connection on which nobody asks anything, or takes what was answered, for so long is closed.
_IDLE_SECONDS: Final = 75.0
#: More connections than this end the oldest one: whoever opens many keeps no probe from its answer.
_MOST_CONNECTIONS: Final = 256
#: How long an answer under way may take when the server stops.
_LAST_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Page:
    """What is answered."""

    body: bytes
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"


_NOT_FOUND: Final = Page(b"404: Not Found", 404)
_NOT_ALLOWED: Final = Page(b"405: Method Not Allowed", 405)
_MALFORMED: Final = Page(b"400: Bad Request", 400)
_FAILED: Final = Page(b"500: Internal Server Error", 500)


class Listener:
    """Serves the pages that a subclass names; `port` is the real one after `start`.

    A blank host is every address, of IPv4 and of IPv6.
    """

    def __init__(self, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.host = host
        self.port = port
        self._server: asyncio.Server | None = None
        self._served: dict[asyncio.StreamWriter, asyncio.Task[object] | None] = {}

    def pages(self) -> Mapping[str, Callable[[], Page]]:
        """What is served, by path."""
        raise NotImplementedError

    async def start(self) -> None:
        """Listen; raises OSError if the address is taken."""
        self._server = await asyncio.start_server(self._serve, self.host or None, self.port)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        served = [task for task in self._served.values() if task is not None]
        for writer in list(self._served):
            writer.close()
        if served:
            _, late = await asyncio.wait(served, timeout=_LAST_SECONDS)
            for writer in self._served:
                writer.transport.abort()  # whoever has not read its answer by now will not
            if late:
                await asyncio.wait(late)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._served) >= _MOST_CONNECTIONS:
            oldest = next(iter(self._served))
            oldest.transport.abort()
            self._served.pop(oldest)
        self._served[writer] = asyncio.current_task()
        # An answer has left us before the next request is read: nothing piles up for a reader that stopped.
        writer.transport.set_write_buffer_limits(0)
        try:
            while await self._answer(reader, writer):
                pass
        except (OSError, EOFError, asyncio.LimitOverrunError):
            writer.transport.abort()  # gone, silent or deaf for too long, or not a browser
        finally:
            self._served.pop(writer, None)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether another one may follow on the connection."""
        async with asyncio.timeout(_IDLE_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        if writer.is_closing():
            return False  # it was read before the connection ended
        first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        words = first.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            await _write(writer, _MALFORMED, keep=False)
            return False
        method, target, version = words
        keep = version != "HTTP/1.0" and not any(_ends(*_field(line)) for line in lines)
        answer = self._page(target.partition("?")[0]) if method in ("GET", "HEAD") else _NOT_ALLOWED
        await _write(writer, answer, keep=keep, bodiless=method == "HEAD")
        return keep

    def _page(self, path: str) -> Page:
        page = self.pages().get(path)
        try:
            return page() if page is not None else _NOT_FOUND
        except Exception:
            log.exception("page cannot be made", extra={"path": path})
            return _FAILED


def _ends(name: str, value: str) -> bool:
    """Whether a header says that the connection ends with the answer.

    What follows a body is not looked for: nobody has a reason to send one.
    """
    if name == "content-length":
        return value != "0"
    return name == "transfer-encoding" or (name == "connection" and "close" in value.lower())


def _field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip().lower(), value.strip()


async def _write(writer: asyncio.StreamWriter, page: Page, *, keep: bool, bodiless: bool = False) -> None:
    lines = [
        f"HTTP/1.1 {page.status} {HTTPStatus(page.status).phrase}",
        f"Content-Type: {page.content_type}",
        f"Content-Length: {len(page.body)}",
        f"Connection: {'keep-alive' if keep else 'close'}",
    ]
    if page.status == HTTPStatus.METHOD_NOT_ALLOWED:
        lines.append("Allow: GET, HEAD")
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    writer.write(head if bodiless else head + page.body)
    async with asyncio.timeout(_IDLE_SECONDS):
        await writer.drain()
