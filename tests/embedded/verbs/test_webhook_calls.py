"""How webhooks are reached: HTTPS on the loopback, verified by their caBundle and name, by URL or Service."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.embedded.bare_cluster import BARE, MAPS, config_map, refusal
from tests.embedded.verbs.hooks import configure, webhook

from grove.embedded.cluster import EmbeddedCluster
from grove.embedded.local import LocalClient

Manifest = dict[str, Any]
HOST = "127.0.0.1"


@cache
def certificate(name: str, days: int) -> tuple[bytes, bytes]:
    """A self-signed certificate for a name and the loopback, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hook")])
    start = datetime.now(UTC) - timedelta(days=5)
    names = x509.SubjectAlternativeName([x509.DNSName(name), x509.IPAddress(IPv4Address(HOST))])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=5 + days))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return made.public_bytes(serialization.Encoding.PEM), private


@dataclass
class Server:
    """A webhook on a port of the loopback, which allows everything."""

    port: int = 0
    requests: list[tuple[str, str]] = field(default_factory=list)
    connections: set[asyncio.BaseTransport] = field(default_factory=set)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        review = json.loads(await request.read())
        self.requests.append((request.headers["Host"], request.path_qs))
        assert request.transport is not None
        self.connections.add(request.transport)
        response = {"uid": review["request"]["uid"], "allowed": True}
        return web.json_response({**review, "request": None, "response": response})

    def hang_up(self) -> None:
        """Closes all connections, as a server does with those that were idle for long."""
        for transport in self.connections:
            transport.close()
        self.connections.clear()


@asynccontextmanager
async def serving(folder: Path, *, name: str = "hook.hooks.svc", days: int = 2) -> AsyncIterator[Server]:
    server = Server()
    path = folder / "tls.pem"
    path.write_bytes(b"".join(certificate(name, days)))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(path)
    runner = web.ServerRunner(web.Server(server.answer), shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, HOST, 0, ssl_context=tls).start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        await runner.cleanup()


Body = Callable[[EmbeddedCluster, LocalClient], Coroutine[object, object, None]]


def with_cluster(body: Body) -> None:
    async def main() -> None:
        async with EmbeddedCluster(BARE) as cluster:
            await body(cluster, cluster.client())

    asyncio.run(main())


def bundle(*, name: str = "hook.hooks.svc", days: int = 2) -> str:
    return base64.b64encode(certificate(name, days)[0]).decode()


def by_url(url: str, **more: Any) -> Manifest:
    return {**webhook("/v"), "clientConfig": {"url": url, "caBundle": bundle(**more)}, "timeoutSeconds": 5}


def by_service(**more: Any) -> Manifest:
    hook = webhook("/v", timeoutSeconds=5)
    hook["clientConfig"]["caBundle"] = bundle(**more)
    return hook


def test_a_url_is_called_over_https(tmp_path: Path) -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        async with serving(tmp_path) as server:
            await configure(client, "Validating", "c", by_url(f"https://{HOST}:{server.port}/ask"))
            await client.create(MAPS, config_map("m"))
            await client.create(MAPS, config_map("n"))
            assert server.requests == [(f"{HOST}:{server.port}", "/ask?timeout=5s")] * 2
            assert len(server.connections) == 1

    with_cluster(body)


def test_a_service_is_called_by_its_name_where_the_runner_of_the_cluster_says(tmp_path: Path) -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        async with serving(tmp_path) as server:
            cluster.services["hooks", "hook"] = (HOST, server.port)
            await configure(client, "Validating", "c", by_service())
            await client.create(MAPS, config_map("m"))
            assert server.requests == [("hook.hooks.svc:443", "/v?timeout=5s")]

    with_cluster(body)


async def _make_service(client: LocalClient) -> None:
    await client.create("/api/v1/namespaces", {"metadata": {"name": "hooks"}})
    ports = [{"name": "other", "port": 80}]
    service = {"metadata": {"name": "hook"}, "spec": {"ports": ports}}
    await client.create("/api/v1/namespaces/hooks/services", service)


async def _make_port(client: LocalClient) -> None:
    ports = [{"name": "webhooks", "port": 443, "targetPort": 9443}]
    await client.patch("/api/v1/namespaces/hooks/services/hook", {"spec": {"ports": ports}})


async def _make_endpoints(client: LocalClient, port: int) -> None:
    made = {
        "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
        "addressType": "IPv4",
        "ports": [{"name": "metrics", "port": 1}, {"name": "webhooks", "port": port}],
        "endpoints": [
            {"addresses": ["127.0.0.9"], "conditions": {"ready": False}},
            {"addresses": [HOST]},
        ],
    }
    await client.create("/apis/discovery.k8s.io/v1/namespaces/hooks/endpointslices", made)


def test_a_service_is_called_where_its_endpoints_are(tmp_path: Path) -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        post = 'failed to call webhook: Post "https://hook.hooks.svc:443/v?timeout=5s": '

        async def lacks(what: str) -> bool:
            return (await refusal(client.create(MAPS, config_map("m")))).message.endswith(post + what)

        async with serving(tmp_path) as server:
            await configure(client, "Validating", "c", by_service())
            assert await lacks('service "hook" not found')
            await _make_service(client)
            assert await lacks('no service port 443 found for service "hook"')
            await _make_port(client)
            assert await lacks('no endpoints available for service "hook"')
            await _make_endpoints(client, server.port)
            await client.create(MAPS, config_map("m"))
            assert len(server.requests) == 1

    with_cluster(body)


async def _told(cluster: EmbeddedCluster, client: LocalClient, hook: Manifest) -> str:
    await configure(client, "Validating", "c", hook)
    refused = await refusal(client.create(MAPS, config_map("m")))
    assert (refused.status, refused.reason) == (500, "InternalError")
    begin = 'Internal error occurred: failed calling webhook "v.example.com": '
    assert refused.message.startswith(begin)
    return refused.message.removeprefix(begin)


def test_a_server_that_is_not_there_is_told_in_the_words_of_kubernetes() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        with socket.socket() as closed:
            closed.bind((HOST, 0))
            place = f"{HOST}:{closed.getsockname()[1]}"
            told = await _told(cluster, client, by_url(f"https://{place}/x"))
        assert told == (
            f'failed to call webhook: Post "https://{place}/x?timeout=5s": '
            f"dial tcp {place}: connect: connection refused"
        )

    with_cluster(body)


DISTRUSTED: dict[str, tuple[Manifest, Manifest, str]] = {
    "signed by somebody else": (
        {},
        {"name": "somebody.else"},
        "certificate signed by unknown authority",
    ),
    "expired": ({"days": -1}, {"days": -1}, "certificate has expired or is not yet valid"),
    "of another name": (
        {"name": "other.hooks.svc"},
        {"name": "other.hooks.svc"},
        "certificate is not valid for hook.hooks.svc",
    ),
}


@pytest.mark.parametrize(("served", "trusted", "want"), DISTRUSTED.values(), ids=DISTRUSTED)
def test_a_certificate_is_not_trusted_that_is(
    tmp_path: Path, served: Manifest, trusted: Manifest, want: str
) -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        async with serving(tmp_path, **served) as server:
            cluster.services["hooks", "hook"] = (HOST, server.port)
            told = await _told(cluster, client, by_service(**trusted))
            assert f"tls: failed to verify certificate: x509: {want}" in told
            assert server.requests == []

    with_cluster(body)


def test_a_bundle_that_is_no_certificate_is_told() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        hook = by_url(f"https://{HOST}:1/x")
        hook["clientConfig"]["caBundle"] = base64.b64encode(b"nothing").decode()
        told = await _told(cluster, client, hook)
        assert told == (
            "could not get REST client: unable to load root certificates: unable to parse bytes as PEM block"
        )

    with_cluster(body)


def test_a_connection_that_the_server_closed_meanwhile_is_made_again(tmp_path: Path) -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        async with serving(tmp_path) as server:
            cluster.services["hooks", "hook"] = (HOST, server.port)
            await configure(client, "Validating", "c", by_service())
            for index in range(5):
                await client.create(MAPS, config_map(f"m{index}"))
                server.hang_up()
            assert len(server.requests) == 5

    with_cluster(body)
