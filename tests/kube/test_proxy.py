"""Which proxy is used, and that it is really used."""

import asyncio

import pytest
from tests.kube.stub import client_to, reply, serve

from grove import errors
from grove.errors import KubeconfigError
from grove.kube.config import Connection
from grove.kube.proxy import proxy_for
from grove.kube.retry import NOT_SENT

PROXY = "http://proxy.test:3128"
SERVER = "https://api.example.com:6443"
CASES: dict[str, tuple[str, dict[str, str], str]] = {
    "nothing set": (SERVER, {}, ""),
    "HTTPS_PROXY": (SERVER, {"HTTPS_PROXY": PROXY}, PROXY),
    "https_proxy": (SERVER, {"https_proxy": PROXY}, PROXY),
    "without a scheme": (SERVER, {"HTTPS_PROXY": "proxy.test:3128"}, PROXY),
    "HTTP_PROXY is for http alone": (SERVER, {"HTTP_PROXY": PROXY}, ""),
    "http server": ("http://api.example.com", {"HTTP_PROXY": PROXY}, PROXY),
    "loopback": ("https://127.0.0.1:6443", {"HTTPS_PROXY": PROXY}, ""),
    "localhost": ("https://localhost:6443", {"HTTPS_PROXY": PROXY}, ""),
    "star": (SERVER, {"HTTPS_PROXY": PROXY, "NO_PROXY": "*"}, ""),
    "the host": (SERVER, {"HTTPS_PROXY": PROXY, "NO_PROXY": "x, api.example.com"}, ""),
    "a parent domain": (SERVER, {"HTTPS_PROXY": PROXY, "NO_PROXY": "example.com"}, ""),
    "a dotted domain": (SERVER, {"HTTPS_PROXY": PROXY, "no_proxy": ".example.com"}, ""),
    "a dotted domain is not itself": (
        "https://example.com",
        {"HTTPS_PROXY": PROXY, "NO_PROXY": ".example.com"},
        PROXY,
    ),
    "the end of a name is no domain": (
        "https://myexample.com",
        {"HTTPS_PROXY": PROXY, "NO_PROXY": "example.com"},
        PROXY,
    ),
    "the port": (SERVER, {"HTTPS_PROXY": PROXY, "NO_PROXY": "example.com:6443"}, ""),
    "another port": (SERVER, {"HTTPS_PROXY": PROXY, "NO_PROXY": "example.com:443"}, PROXY),
    "a network": ("https://10.1.2.3", {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.0.0.0/8"}, ""),
    "another network": (
        "https://11.1.2.3",
        {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.0.0.0/8,nonsense/x"},
        PROXY,
    ),
    "an address": ("https://[fd00::1]:443", {"HTTPS_PROXY": PROXY, "NO_PROXY": "fd00:0::1"}, ""),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_environment_chooses_the_proxy(case: tuple[str, dict[str, str], str]) -> None:
    server, environ, want = case
    assert proxy_for(server, environ) == want


def test_the_kubeconfig_wins_even_for_loopback() -> None:
    environ = {"HTTPS_PROXY": "http://other.test", "NO_PROXY": "*"}
    assert proxy_for("https://127.0.0.1", environ, explicit=PROXY) == PROXY


def test_a_proxy_of_another_kind_is_named_without_its_password() -> None:
    with pytest.raises(KubeconfigError, match="environment variable HTTPS_PROXY must be") as caught:
        proxy_for(SERVER, {"HTTPS_PROXY": "socks5://me:secret@proxy.test"})
    assert "secret" not in str(caught.value)


async def test_a_request_goes_through_the_proxy_with_its_password() -> None:
    async with serve(reply({"major": "1"})) as proxy:
        connection = Connection("http://api.test:8080", proxy=proxy.url.replace("//", "//me:p%40ss@"))
        async with client_to(connection) as client:
            assert (await client.version()).major == "1"
        assert proxy.asked[0].target == "http://api.test:8080/version"
        assert proxy.asked[0].headers["Proxy-Authorization"] == "Basic bWU6cEBzcw=="


async def test_a_proxy_that_refuses_to_connect_is_told() -> None:
    lines: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines.extend((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n"))
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        async with client_to(
            Connection("https://api.test:6443", proxy=f"http://me:pass@127.0.0.1:{port}"), attempts=1
        ) as client:
            with pytest.raises(errors.Unreachable, match=r"through the proxy .*answered 403") as caught:
                await client.version()
    finally:
        server.close()
    assert caught.value.reason == NOT_SENT
    assert lines[0] == b"CONNECT api.test:6443 HTTP/1.1"
    assert b"Proxy-Authorization: Basic bWU6cGFzcw==" in lines
    assert "pass" not in str(caught.value)
