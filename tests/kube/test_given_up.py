"""Requests that are given up, answered too early or cut off: no connection, socket or task is left of them."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
import uvloop
from tests.kube.pki import Pki
from tests.kube.wire import OK, Wire, transport_to

from grove.errors import Unreachable
from grove.kube import direct
from grove.kube.carriage import Request
from grove.kube.config import Connection
from grove.kube.http_connection import Broken, HttpConnection
from grove.kube.retry import NOT_SENT
from grove.kube.tls import TlsOptions
from grove.kube.transport import HttpTransport

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each request with its path, in two pieces."""
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            path = head.split()[1]
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(path) + path[:3])
            await asyncio.sleep(0)
            if not writer.is_closing():
                writer.write(path[3:])
    except (OSError, EOFError):
        pass
    finally:
        writer.close()


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("kept", [True, False], ids=["on a kept connection", "on a new connection"])
@pytest.mark.parametrize("encrypted", [True, False], ids=["with TLS", "without TLS"])
def test_a_request_may_be_given_up_at_any_moment(
    pki: Pki, encrypted: bool, kept: bool, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """The next one gets its own answer, and the loop is told of nothing that nobody awaited."""

    async def main() -> None:
        told: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: told.append(what))
        context = pki.server_context() if encrypted else None
        server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=context)
        url = f"{'https' if encrypted else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        tls = TlsOptions(authority=pki.authority.certificate)
        for turns in range(24):
            transport = HttpTransport(Connection(url, tls=tls), timeout=5.0)
            if kept:
                await transport.send("GET", "/first")
            given_up = asyncio.create_task(transport.send("GET", "/given-up"))
            for _ in range(turns):
                await asyncio.sleep(0)
            given_up.cancel()
            await asyncio.wait({given_up})
            answers = await asyncio.gather(*(transport.send("GET", f"/next/{n}") for n in range(3)))
            assert [each.body for each in answers] == [b"/next/0", b"/next/1", b"/next/2"]
            await transport.close()
        server.close()
        assert told == []

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


async def test_an_answer_that_comes_before_the_request_was_sent_counts() -> None:
    heads: list[bytes] = []
    over = asyncio.Event()

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 413 Request Entity Too Large\r\nContent-Length: 0\r\n\r\n")
        await over.wait()  # reads nothing of the body, and does not hang up either
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    transport = HttpTransport(Connection(url), timeout=5.0)
    large = b"x" * (32 << 20)
    for _ in range(2):
        assert (await transport.send("PUT", "/x", body=large)).status == 413
    assert len(heads) == 2, "of the first request there is a rest in the way"
    await transport.close()
    over.set()
    server.close()


async def test_an_answer_is_not_waited_for_behind_a_body_that_nobody_reads() -> None:
    connection = HttpConnection()
    connection.connection_made(Stuffed())
    asking = asyncio.create_task(connection.ask(Request("PUT", "", "/x", "", (), b"x" * (1 << 20)), "x"))
    await asyncio.sleep(0)
    connection.pause_writing()
    for _ in range(3):
        await asyncio.sleep(0)
    connection.data_received(OK)
    assert (await asyncio.wait_for(asking, 5)).body == b"ok"
    assert not connection.reusable


class Stuffed(asyncio.Transport):
    """Takes everything, and has sent nothing of it yet."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 1

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        pass


async def test_a_connection_is_not_used_again_before_all_of_the_last_request_was_sent() -> None:
    connection = HttpConnection()
    connection.connection_made(Stuffed())
    asking = asyncio.create_task(connection.ask(Request("PUT", "", "/x", "", (), b"{}"), "x"))
    await asyncio.sleep(0)
    connection.data_received(OK)
    assert (await asking).body == b"ok"
    assert not connection.reusable


async def test_a_connection_is_not_used_again_once_the_server_has_ended_it() -> None:
    """Between that and the news that it is lost a create would be written to nowhere, and not be repeated."""
    wire = Wire([[OK]], hangs_up=True)
    async with transport_to(wire) as transport:
        await transport.send("GET", "/x")
        way = transport._known_way
        assert isinstance(way, direct.Direct)
        ((connection, _, _),) = way._kept
        ended: list[bool] = []
        lost = connection.connection_lost

        def note(exc: Exception | None) -> None:
            ended.append(connection.reusable)
            lost(exc)
            over.set()

        over = asyncio.Event()
        connection.connection_lost = note  # type: ignore[method-assign]
        await asyncio.wait_for(over.wait(), 5)
        assert ended == [False]


async def test_what_came_after_nonsense_is_not_listened_to() -> None:
    connection = HttpConnection()
    connection.connection_made(Stuffed())
    asking = asyncio.create_task(connection.ask(Request("GET", "", "/x", "", ()), "x"))
    await asyncio.sleep(0)
    connection.data_received(b"nonsense\r\n\r\n")
    connection.data_received(OK)
    assert isinstance((await asyncio.gather(asking, return_exceptions=True))[0], Broken)


async def test_a_request_that_is_being_connected_is_not_sent_after_closing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wire = Wire([[OK]])
    async with transport_to(wire) as transport:
        found, connect = asyncio.Event(), direct._connect

        async def slow(*address: Any) -> socket.socket:
            found.set()
            await closed.wait()
            return await connect(*address)

        closed = asyncio.Event()
        monkeypatch.setattr(direct, "_connect", slow)
        asking = asyncio.create_task(transport.send("POST", "/x", body=b"{}"))
        await found.wait()
        await transport.close()
        closed.set()
        with pytest.raises(Unreachable) as caught:
            await asking
        assert caught.value.reason == NOT_SENT
        assert wire.heads == []


async def test_a_name_may_end_with_the_dot_of_the_root(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a name is looked up as it stands, and no certificate holds it so."""
    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=pki.server_context())
    port = server.sockets[0].getsockname()[1]
    asked: list[str] = []
    find = direct._addresses

    async def found(host: str, port: int) -> list[tuple[Any, ...]]:
        asked.append(host)
        return await find("127.0.0.1", port)

    monkeypatch.setattr(direct, "_addresses", found)
    tls = TlsOptions(authority=pki.authority.certificate)
    for url in (f"https://api.test.:{port}", f"HTTPS://API.test:{port}"):
        transport = HttpTransport(Connection(url, tls=tls), timeout=5.0)
        assert (await transport.send("GET", "/path")).body == b"/path"
        await transport.close()
    assert asked == ["api.test.", "api.test"]
    server.close()
