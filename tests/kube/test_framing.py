"""Where the client's own HTTP/1.1 takes an answer to end, and what it takes for none."""

import asyncio
import gzip
import socket
import threading

import pytest
import uvloop
from tests.kube.pki import Pki
from tests.kube.wire import OK, Wire, told, transport_to

from grove.errors import Unreachable
from grove.kube.config import Connection
from grove.kube.retry import LOST
from grove.kube.tls import TlsOptions
from grove.kube.transport import HttpTransport

GZIPPED = gzip.compress(b"hello")
HEAD = b"HTTP/1.1 200 OK\r\n"


def compressed(body: bytes) -> bytes:
    return HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


FRAMED = {
    "a length": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
    "chunks with extensions and a trailer": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n"
    ),
    "an interim answer first": (
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
    ),
    "a status without a word": b"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello",
    "compressed although not asked for": compressed(GZIPPED),
    "compressed in two members": compressed(gzip.compress(b"hel") + gzip.compress(b"lo")),
    "the same length twice": HEAD + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
}


@pytest.mark.parametrize("said", FRAMED.values(), ids=FRAMED)
async def test_an_answer_ends_where_its_framing_says(said: bytes) -> None:
    answer = await told(said)
    assert (answer.status, answer.body) == (200, b"hello")


async def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    answer = await told(b"HTTP/1.0 200 OK\r\n\r\nhello", hangs_up=True)
    assert answer.body == b"hello"


async def test_headers_are_found_in_any_case_and_of_a_repeated_one_the_first_counts() -> None:
    said = b"HTTP/1.1 200 OK\r\nX-Flow:  a b \r\nx-flow: c\r\nContent-Length: 0\r\n\r\n"
    answer = await told(said)
    assert (answer.headers["x-FLOW"], answer.headers.get("Missing")) == ("a b", None)
    assert list(answer.headers) == ["x-flow", "content-length"]


MALFORMED = {
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "a header without a colon": b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n",
    "a folded header": b"HTTP/1.1 200 OK\r\nA: b\r\n c: d\r\n\r\n",
    "a length that is no number": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "an unknown transfer encoding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "a chunk without a size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
    "a chunk that is longer than it says": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n0\r\n\r\n"
    ),
    "another protocol from now on": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    "a head without an end": b"HTTP/1.1 200 OK\r\nA: " + b"b" * (1 << 18),
    "nothing that can be inflated": compressed(b"hello"),
    "a compressed body that is cut off": compressed(GZIPPED[:-9]),
    "something after a compressed body": compressed(GZIPPED + b"more"),
    "two lengths": HEAD + b"Content-Length: 5\r\nContent-Length: 7\r\n\r\nhello",
    "two lengths in one line": HEAD + b"Content-Length: 5, 5\r\n\r\nhello",
    "two transfer encodings": (
        HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    ),
}


@pytest.mark.parametrize("said", MALFORMED.values(), ids=MALFORMED)
async def test_what_is_no_answer_is_a_lost_connection(said: bytes) -> None:
    with pytest.raises(Unreachable, match="did not answer in HTTP") as caught:
        await told(said)
    assert caught.value.reason == LOST


@pytest.mark.parametrize("length", [6, 400])
async def test_an_answer_that_breaks_off_is_a_lost_connection(length: int) -> None:
    said = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\nhello" % length
    with pytest.raises(Unreachable, match="the connection broke: the server closed it") as caught:
        await told(said, hangs_up=True)
    assert caught.value.reason == LOST


BODILESS = {
    "it was only asked for the head": ("HEAD", HEAD + b"Content-Length: 5\r\n\r\n"),
    "it was only asked for the head of chunks": ("HEAD", HEAD + b"Transfer-Encoding: chunked\r\n\r\n"),
    "there is no content": ("GET", b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n"),
    "nothing has changed": ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"),
    "nothing was compressed": ("GET", compressed(b"")),
}


@pytest.mark.parametrize(("method", "said"), BODILESS.values(), ids=BODILESS)
async def test_an_answer_has_no_body_and_its_connection_is_kept_when(method: str, said: bytes) -> None:
    wire = Wire([[said, OK]])
    async with transport_to(wire) as transport:
        assert (await transport.send(method, "/x")).body == b""
        assert (await transport.send("GET", "/x")).body == b"ok"
    assert wire.connections == 1


async def test_an_answer_without_a_length_is_not_complete_because_we_hang_up() -> None:
    wire = Wire([[HEAD + b"\r\nhel"]])
    async with transport_to(wire) as transport, transport.stream("/x") as stream:
        chunks = stream.chunks()
        assert await anext(chunks) == b"h"
        await transport.close()
        with pytest.raises(Unreachable):
            _ = [chunk async for chunk in chunks]


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("says_so", [True, False])
def test_over_tls_an_answer_without_a_length_ends_only_where_the_server_says_so(
    pki: Pki, loop: type[asyncio.AbstractEventLoop], says_so: bool
) -> None:
    listening = socket.create_server(("127.0.0.1", 0))

    def speak() -> None:
        with pki.server_context().wrap_socket(listening.accept()[0], server_side=True) as accepted:
            accepted.recv(1 << 16)
            accepted.sendall(HEAD + b"\r\nhello")
            if says_so:
                accepted.unwrap().close()

    async def ask() -> bytes:
        url = f"https://127.0.0.1:{listening.getsockname()[1]}"
        tls = TlsOptions(authority=pki.authority.certificate)
        transport = HttpTransport(Connection(url, tls=tls), timeout=5.0)
        try:
            return (await transport.send("GET", "/x")).body
        finally:
            await transport.close()

    speaking = threading.Thread(target=speak)
    speaking.start()
    with listening, asyncio.Runner(loop_factory=loop) as runner:
        if says_so:
            assert runner.run(ask()) == b"hello"
        else:
            with pytest.raises(Unreachable, match="the server closed it"):
                runner.run(ask())
        speaking.join()
