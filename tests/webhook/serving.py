"""Webhooks over real HTTPS on the loopback, with certificates that the test makes."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
from tests.kube.pki import make_pki

from grove.runtime.metrics import Metrics
from grove.webhook.review import Answer, Request
from grove.webhook.server import WebhookServer
from grove.webhook.serving import ServingCertificate

Reviews = Mapping[str, Callable[[Request], Awaitable[Answer]]]


def made_certificate(folder: Path) -> ServingCertificate:
    """A certificate for 127.0.0.1, by an authority of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    pki = make_pki(folder)
    until = datetime.now(UTC) + timedelta(days=1)
    return ServingCertificate(pki.server.certificate, pki.server.key, pki.authority.certificate, until)


class GivenCertificates:
    """A source whose certificates a test gives out."""

    def __init__(self, certificate: ServingCertificate | None = None) -> None:
        self.certificate = certificate
        self._changed: list[Callable[[ServingCertificate], None]] = []

    async def run(self) -> None:
        await asyncio.get_running_loop().create_future()

    def lacking(self) -> str | None:
        return None if self.certificate is not None else "there is no certificate yet"

    def subscribe(self, changed: Callable[[ServingCertificate], None]) -> None:
        self._changed.append(changed)
        if self.certificate is not None:
            changed(self.certificate)

    def give(self, certificate: ServingCertificate) -> None:
        self.certificate = certificate
        for changed in self._changed:
            changed(certificate)


@dataclass
class Served:
    """A server that listens, and a client of it."""

    server: WebhookServer
    certificates: GivenCertificates
    metrics: Metrics
    session: aiohttp.ClientSession
    trusted: ssl.SSLContext = field(default_factory=ssl.create_default_context)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.server.port}"

    def trust(self, certificate: ServingCertificate) -> None:
        self.trusted = ssl.create_default_context(cadata=certificate.ca.decode())

    async def send(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
        """One request on a connection of its own."""
        sent = {"Content-Type": "application/json", "Connection": "close", **headers}
        async with self.session.request(
            method, self.url + path, data=body, headers=sent, ssl=self.trusted
        ) as response:
            return response.status, await response.read()


async def synced() -> None:
    """Nothing to wait for."""


@contextlib.asynccontextmanager
async def served(reviews: Reviews, certificate: ServingCertificate) -> AsyncIterator[Served]:
    """The reviews behind a server until the block is left."""
    metrics, source = Metrics(), GivenCertificates(certificate)
    server = WebhookServer(reviews, source, metrics, synced=synced, host="127.0.0.1")
    running = asyncio.create_task(server.run())
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
        try:
            await asyncio.wait_for(server.listening.wait(), 10)
            found = Served(server, source, metrics, session)
            found.trust(certificate)
            yield found
        finally:
            running.cancel()
            await asyncio.wait({running})
