"""The small server of probes and metrics answers like any other, and ends when it is told to."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import pytest
import uvloop

from grove.runtime import listening
from grove.runtime.listening import Listener, Page

GET = b"GET /page HTTP/1.1\r\nHost: x\r\n\r\n"
#: More than the kernel holds for a reader.
LARGE = 32 << 20


class Server(Listener):
    def pages(self) -> Mapping[str, Callable[[], Page]]:
        return {
            "/page": lambda: Page(b"hello\n", content_type="text/x"),
            "/large": lambda: Page(bytes(LARGE)),
            "/broken": lambda: Page(b"", status=int("no number")),
        }


def with_server(
    story: Callable[[Server, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> None:
    async def main() -> None:
        server = Server()
        await server.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        try:
            async with asyncio.timeout(5):
                await story(server, reader, writer)
        finally:
            writer.close()
            await server.stop()

    asyncio.run(main())


async def answer(reader: asyncio.StreamReader, *, bodiless: bool = False) -> tuple[list[str], bytes]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().rstrip().split("\r\n")
    (length,) = [int(line.split(": ")[1]) for line in lines if line.startswith("Content-Length: ")]
    return lines, b"" if bodiless else await reader.readexactly(length)


def test_many_pages_are_read_on_one_connection() -> None:
    async def story(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET + GET.replace(b"/page", b"/page?a=b"))
        for _ in range(2):
            lines, body = await answer(reader)
            assert lines == [
                "HTTP/1.1 200 OK",
                "Content-Type: text/x",
                "Content-Length: 6",
                "Connection: keep-alive",
            ]
            assert body == b"hello\n"

    with_server(story)


LAST = {
    "it is asked to close": (b"GET /page HTTP/1.1\r\nConnection: close\r\n\r\n", "200 OK"),
    "it is asked in the old protocol": (b"GET /page HTTP/1.0\r\n\r\n", "200 OK"),
    "two lengths differ": (
        b"GET /page HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 0\r\n\r\n",
        "200 OK",
    ),
    "a body follows": (b"GET /page HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "200 OK"),
    "what it is asked is not HTTP": (b"hello\r\n\r\n", "400 Bad Request"),
}


@pytest.mark.parametrize(("asked", "status"), LAST.values(), ids=LAST)
def test_the_connection_ends_after_the_answer_when(asked: bytes, status: str) -> None:
    async def story(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(asked)
        lines, _ = await answer(reader)
        assert (lines[0], lines[-1]) == (f"HTTP/1.1 {status}", "Connection: close")
        assert await reader.read() == b""

    with_server(story)


OTHERS = {
    "a page that is not there": (b"GET /other HTTP/1.1\r\n\r\n", ["HTTP/1.1 404 Not Found"]),
    "a method that changes something": (
        b"POST /page HTTP/1.1\r\n\r\n",
        ["HTTP/1.1 405 Method Not Allowed", "Allow: GET, HEAD"],
    ),
}


@pytest.mark.parametrize(("asked", "want"), OTHERS.values(), ids=OTHERS)
def test_nothing_else_is_answered(asked: bytes, want: list[str]) -> None:
    async def story(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(asked)
        lines, _ = await answer(reader)
        assert set(want) <= set(lines)

    with_server(story)


def test_a_head_has_no_body() -> None:
    async def story(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET.replace(b"GET", b"HEAD") + GET)
        lines, _ = await answer(reader, bodiless=True)
        assert "Content-Length: 6" in lines
        _, body = await answer(reader)
        assert body == b"hello\n"

    with_server(story)


def test_whoever_asks_nothing_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "_IDLE_SECONDS", 0.01)

    async def story(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b""

    with_server(story)


def test_a_server_that_stops_hangs_up_and_is_not_there_any_more() -> None:
    async def story(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET)
        await answer(reader)
        await server.stop()
        assert await reader.read() == b""
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", server.port)

    with_server(story)


def test_a_page_that_cannot_be_made_is_told_and_the_next_one_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET.replace(b"/page", b"/broken") + GET)
        lines, _ = await answer(reader)
        assert lines[0] == "HTTP/1.1 500 Internal Server Error"
        _, body = await answer(reader)
        assert body == b"hello\n"

    with_server(story)
    assert [record.message for record in caplog.records] == ["page cannot be made"]


def test_whoever_does_not_read_the_answer_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "_IDLE_SECONDS", 0.05)

    async def story(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET.replace(b"/page", b"/large"))
        await reader.readuntil(b"\r\n\r\n")
        (task,) = server._served.values()
        assert task is not None
        await asyncio.wait({task})
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(LARGE)

    with_server(story)


def test_a_server_that_stops_waits_for_nobody_who_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "_LAST_SECONDS", 0.01)

    async def story(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET.replace(b"/page", b"/large"))
        await reader.readuntil(b"\r\n\r\n")
        (task,) = server._served.values()
        await server.stop()
        assert task is not None
        assert task.done()
        assert not server._served

    with_server(story)


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_many_who_ask_at_once_and_leave_disturb_nobody(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """Some ask several times without waiting, some leave at once: the others are answered, the loop told nothing."""

    async def ask(port: int, *, leave: bool) -> list[bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET * 20)
        if leave:
            writer.transport.abort()
            return []
        bodies = [(await answer(reader))[1] for _ in range(20)]
        writer.close()
        return bodies

    async def main() -> None:
        told: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: told.append(what))
        server = Server()
        await server.start()
        asked = await asyncio.gather(*(ask(server.port, leave=n % 2 == 0) for n in range(32)))
        assert asked == [[], [b"hello\n"] * 20] * 16
        await server.stop()
        assert told == []

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


def test_whoever_opens_many_connections_keeps_nobody_else_from_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listening, "_MOST_CONNECTIONS", 3)

    async def story(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        silent = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(5)]
        assert await reader.read() == b""
        assert await silent[0][0].read() == b""
        latest, asking = await asyncio.open_connection("127.0.0.1", server.port)
        asking.write(GET)
        assert (await answer(latest))[1] == b"hello\n"
        for _, waiting in [*silent, (latest, asking)]:
            waiting.close()

    with_server(story)
