"""The client's own connections: which are kept, what is sent again, and how it ends."""

import asyncio

import pytest
import uvloop
from tests.kube.pki import Pki
from tests.kube.stub import client_of, reply, serve
from tests.kube.wire import OK, Wire, transport_to

from grove.errors import Unreachable
from grove.kube import direct
from grove.kube.config import Connection
from grove.kube.retry import LOST, NOT_SENT, TIMED_OUT
from grove.kube.tls import TlsOptions
from grove.kube.transport import HttpTransport
from grove.meta import Key, Object, resource

PODS = resource("", "v1", "Pod")


async def test_a_connection_is_used_again() -> None:
    wire = Wire([[OK, OK, OK]])
    async with transport_to(wire) as transport:
        for _ in range(3):
            assert (await transport.send("GET", "/x")).body == b"ok"
    assert wire.connections == 1


LAST = {
    "it says so": b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 2\r\n\r\nok",
    "it is of the old protocol": b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "it has a length and chunks": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
    ),
    "it says so in the second of two lines": (
        b"HTTP/1.1 200 OK\r\nConnection: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
    ),
    "it says more than its answer": OK + b"HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n" + b"x" * 400,
}


@pytest.mark.parametrize("said", LAST.values(), ids=LAST)
async def test_a_connection_is_not_used_again_when(said: bytes) -> None:
    wire = Wire([[said], [OK]])
    async with transport_to(wire) as transport:
        assert (await transport.send("GET", "/x")).body == b"ok"
        assert (await transport.send("GET", "/x")).body == b"ok"
    assert wire.connections == 2


async def test_a_read_is_sent_once_more_when_a_kept_connection_turns_out_to_be_closed() -> None:
    wire = Wire([[OK, b""], [OK]], hangs_up=True)
    async with transport_to(wire) as transport:
        await transport.send("GET", "/x")
        assert (await transport.send("GET", "/y")).body == b"ok"
    assert [head.split()[1] for head in wire.heads] == [b"/x", b"/y", b"/y"]


async def test_a_create_is_not_sent_again_when_a_kept_connection_turns_out_to_be_closed() -> None:
    wire = Wire([[OK, b""], [OK]], hangs_up=True)
    async with transport_to(wire) as transport:
        await transport.send("GET", "/x")
        with pytest.raises(Unreachable) as caught:
            await transport.send("POST", "/y", body=b"")
    assert caught.value.reason == LOST
    assert wire.connections == 1


async def test_what_was_given_up_takes_its_connection_with_it() -> None:
    wire = Wire([[b"HTTP/1.1 200 OK\r\n"], [OK]])
    async with transport_to(wire) as transport:
        with pytest.raises(Unreachable) as caught:
            await transport.send("GET", "/x", timeout=0.02)
        assert caught.value.reason == TIMED_OUT
        assert (await transport.send("GET", "/x")).body == b"ok"
    assert wire.connections == 2


async def test_a_connection_that_nobody_uses_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "KEPT_SECONDS", 0.01)
    over = asyncio.Event()

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        assert await reader.read() == b""
        over.set()
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    transport = HttpTransport(Connection(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
    await transport.send("GET", "/x")
    await asyncio.wait_for(over.wait(), 5)
    await transport.close()
    server.close()


async def test_closing_ends_what_is_under_way() -> None:
    wire = Wire([[b"HTTP/1.1 200 OK\r\n"]])
    async with transport_to(wire) as transport:
        asking = asyncio.create_task(transport.send("GET", "/x"))
        await asyncio.wait_for(wire.asked.wait(), 5)
        await transport.close()
        with pytest.raises(Unreachable):
            await asking


async def test_a_header_cannot_smuggle_in_another() -> None:
    async with transport_to(Wire([[OK]])) as transport:
        with pytest.raises(ValueError, match="contains the end of a line"):
            await transport.send("GET", "/x", headers={"Accept": "a\r\nX: y"})


async def test_a_server_of_which_one_address_is_dead_is_reached_at_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wire = Wire([[OK]])
    async with transport_to(wire) as transport:
        real = direct._addresses

        async def found(host: str, port: int) -> list[tuple[object, ...]]:
            (good,) = await real(host, port)
            # A port on which nobody listens, before the one that is right.
            return [(*good[:4], (host, 1)), good]

        monkeypatch.setattr(direct, "_addresses", found)
        assert (await transport.send("GET", "/x")).body == b"ok"


@pytest.mark.parametrize("host", ["127.0.0.1:1", "[::1]:1", "no..name"])
async def test_a_server_that_cannot_be_reached_was_sent_nothing(host: str) -> None:
    transport = HttpTransport(Connection(f"http://{host}"), connect_timeout=5.0)
    with pytest.raises(Unreachable, match="no connection") as caught:
        await transport.send("POST", "/x", body=b"{}")
    assert caught.value.reason == NOT_SENT
    await transport.close()


def test_it_works_on_uvloop_over_tls_with_a_body_of_megabytes(pki: Pki) -> None:
    async def main() -> None:
        large = {"metadata": {"name": "a", "namespace": "x"}, "data": "x" * (3 << 20)}
        async with serve(reply(large), tls=pki.server_context()) as stub:
            tls = TlsOptions(authority=pki.authority.certificate)
            transport = HttpTransport(Connection(stub.url, tls=tls))
            answer = await transport.send("PUT", "/x", body=b"y" * (2 << 20))
            assert len(answer.body) > 3 << 20
            async with transport.stream("/x") as stream:
                assert await stream.body() == answer.body
            await transport.close()
            assert [len(asked.body) for asked in stub.asked] == [2 << 20, 0]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


async def test_a_stream_that_nobody_reads_makes_the_server_wait() -> None:
    piece, sent = b"%x\r\n%s\r\n" % (1 << 16, b"x" * (1 << 16)), 0

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(1000):
            writer.write(piece)
            await writer.drain()
            sent += 1
        writer.write(b"0\r\n\r\n")

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    transport = HttpTransport(Connection(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
    async with transport.stream("/x") as stream:
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.05)
        assert sent < 900
        assert len(await stream.body()) == 1000 << 16
    await transport.close()
    server.close()


async def test_reads_and_writes_of_the_client_share_a_connection() -> None:
    async with serve(reply({"metadata": {"name": "a", "namespace": "x"}})) as stub, client_of(stub) as client:
        await client.get(PODS, Key("x", "a"), type=Object)
        await client.merge_patch(PODS, Key("x", "a"), {"metadata": {}})
        assert [asked.method for asked in stub.asked] == ["GET", "PATCH"]
        assert stub.asked[0].headers["Host"] == stub.url.removeprefix("http://")
