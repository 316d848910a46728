"""A server that says exactly the bytes that a test gives it, and a transport to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from grove.kube.carriage import Response
from grove.kube.config import Connection
from grove.kube.transport import HttpTransport

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class Wire:
    """A server that says exactly these bytes, a piece at a time; one list for each connection, in order."""

    scripts: list[list[bytes]]
    #: Whether it hangs up after its last piece.
    hangs_up: bool = False
    heads: list[bytes] = field(default_factory=list)
    connections: int = 0
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def speak(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        script = self.scripts[min(self.connections, len(self.scripts) - 1)]
        self.connections += 1
        try:
            for said in script:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                self.asked.set()
                for byte in split(said):
                    writer.write(byte)
                    await writer.drain()
                    await asyncio.sleep(0)
            if not self.hangs_up:
                await reader.read()
        except (OSError, EOFError):
            pass
        finally:
            writer.close()


def split(said: bytes) -> list[bytes]:
    """Short answers come byte by byte, so that every boundary is met."""
    return [said[at : at + 1] for at in range(len(said))] if len(said) < 400 else [said]


@asynccontextmanager
async def transport_to(wire: Wire) -> AsyncIterator[HttpTransport]:
    server = await asyncio.start_server(wire.speak, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    transport = HttpTransport(Connection(f"http://127.0.0.1:{port}"), timeout=5.0)
    try:
        yield transport
    finally:
        await transport.close()
        server.close()


async def told(*said: bytes, hangs_up: bool = False, method: str = "GET") -> Response:
    """What the transport makes of it."""
    async with transport_to(Wire([list(said)], hangs_up)) as transport:
        return await transport.send(method, "/x")
