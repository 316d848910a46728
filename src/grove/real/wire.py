"""The few requests that a control plane makes of its own components: is it ready, compact, does this exist.

Speaks TLS with the control plane's own certificates only, and never through a proxy.
"""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp

from grove.meta import Manifest
from grove.real.certificates import LOOPBACK
from grove.real.failure import RealFailure

REQUEST_SECONDS = 5.0


def client_context(authority: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    """Trusts one authority and shows one certificate."""
    context = ssl.create_default_context(cafile=str(authority))
    context.load_cert_chain(certificate, key)
    return context


class Wire:
    """Requests with one identity; made inside a running event loop and closed there."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, force_close=True),
            timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
            trust_env=False,
        )

    async def close(self) -> None:
        await self._session.close()

    def answers(self, url: str) -> Callable[[], Awaitable[bool]]:
        """A probe: whether a GET is answered with 200."""

        async def probe() -> bool:
            try:
                async with self._session.get(url) as response:
                    return response.status == 200
            except (aiohttp.ClientError, TimeoutError, OSError):
                return False

        return probe

    def tells(self, url: str, holds: Callable[[Manifest], bool]) -> Callable[[], Awaitable[bool]]:
        """A probe: whether something holds of the object that a GET is answered with."""

        async def probe() -> bool:
            try:
                async with self._session.get(url) as response:
                    return response.status == 200 and holds(json.loads(await response.text()))
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
                return False

        return probe

    async def create(self, url: str, body: Manifest) -> None:
        """Creates an object; one that is there already is good."""
        try:
            async with self._session.post(url, json=body) as response:
                if response.status not in (201, 409):
                    text = await response.text()
                    raise RealFailure(f"POST {url} was answered with {response.status}: {text[:300]}")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise RealFailure(f"POST {url} was not answered: {error or type(error).__name__}") from error

    async def post(self, url: str, body: Manifest) -> Manifest:
        """The answer to a POST; RealFailure when it is not a 200."""
        try:
            async with self._session.post(url, json=body) as response:
                text = await response.text()
                if response.status != 200:
                    raise RealFailure(f"POST {url} was answered with {response.status}: {text[:300]}")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise RealFailure(f"POST {url} was not answered: {error or type(error).__name__}") from error
        result: Manifest = json.loads(text)
        return result


def free_ports(count: int) -> list[int]:
    """Different ports of the loopback that nobody listens on at this moment."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(count)]
    try:
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


def require_free(port: int) -> None:
    """Raises the sentence that helps when somebody listens on a port of the loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise RealFailure(
                f"cannot listen on {LOOPBACK}:{port}: {error.strerror}; choose another port"
            ) from None


async def compact(wire: Wire, etcd_url: str) -> int:
    """Makes etcd forget every revision before the present one, and answers which that is."""
    status = await wire.post(f"{etcd_url}/v3/maintenance/status", {})
    revision = int(status["header"]["revision"])
    await wire.post(f"{etcd_url}/v3/kv/compaction", {"revision": str(revision), "physical": True})
    return revision
