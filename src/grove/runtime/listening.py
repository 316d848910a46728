"""An HTTP server of this process on one address: pages that are read, nothing that changes anything.

Small on purpose: it answers GET and HEAD with whole pages, and knows neither bodies nor encodings.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

#: A connection on which nobody asks anything for so long is closed.
_IDLE_SECONDS: Final = 75.0
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
            await asyncio.wait(served, timeout=_LAST_SECONDS)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._served[writer] = asyncio.current_task()
        try:
            while await self._answer(reader, writer):
                pass
        except (OSError, EOFError, asyncio.LimitOverrunError):
            pass  # gone, silent for too long, or not a browser
        finally:
            del self._served[writer]
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether another one may follow on the connection."""
        async with asyncio.timeout(_IDLE_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        words = first.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            await _write(writer, _MALFORMED, keep=False)
            return False
        method, target, version = words
        fields = dict(_field(line) for line in lines)
        # What follows a body is not looked for: nobody has a reason to send one.
        bodiless = fields.get("content-length", "0") == "0" and "transfer-encoding" not in fields
        keep = bodiless and version != "HTTP/1.0" and "close" not in fields.get("connection", "").lower()
        if method in ("GET", "HEAD"):
            page = self.pages().get(target.partition("?")[0])
            answer = page() if page is not None else _NOT_FOUND
        else:
            answer = _NOT_ALLOWED
        await _write(writer, answer, keep=keep, bodiless=method == "HEAD")
        return keep


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
    await writer.drain()
