"""An `ActorClient` over HTTPS: the embedded kubelets and nodes play in somebody else's cluster.

Knows a kubeconfig with inline or file credentials (certificate or token), nothing else: no plugins, no
proxies, no retries. What the server refuses raises `ApiError`; what does not reach it raises
`ConnectionError` or `TimeoutError`, which every actor survives.
"""

from __future__ import annotations

import base64
import ssl
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import yaml

from grove.embedded.client import JSON, RequestingClient, decode, event_of, refusal_of
from grove.embedded.errors import Manifest

REQUEST_SECONDS = 30.0
CONNECT_SECONDS = 10.0
TOKEN_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True)
class Address:
    """Where an API server is and how to be somebody there."""

    server: str
    tls: ssl.SSLContext = field(repr=False)
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    strangers: ssl.SSLContext | None = field(default=None, repr=False)
    """For somebody else: trusts the same server, and shows it no certificate."""


class RemoteClient(RequestingClient):
    """The verbs of an actor, as requests; made and closed inside one event loop."""

    def __init__(self, address: Address, *, agent: str = "embedded") -> None:
        self._address = address
        self._server = address.server.rstrip("/")
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=address.tls, limit=0),
            headers={"User-Agent": agent, "Accept": "application/json", **address.headers},
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )

    async def close(self) -> None:
        await self._session.close()

    @asynccontextmanager
    async def account(self, namespace: str, name: str) -> AsyncIterator[RemoteClient]:
        """A client that is a service account, by a token that the server issues to us for it."""
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        issued = await self.create(path, {**request, "spec": {"expirationSeconds": TOKEN_SECONDS}})
        headers = {"Authorization": f"Bearer {issued['status']['token']}"}
        tls = self._address.strangers or self._address.tls
        client = RemoteClient(Address(self._server, tls, headers), agent=f"{namespace}/{name}")
        try:
            yield client
        finally:
            await client.close()

    async def watch(self, path: str, **query: str) -> AsyncGenerator[Manifest, None]:
        limit = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
        try:
            async with self._session.get(
                self._server + path, params={**query, "watch": "true"}, timeout=limit
            ) as answer:
                if answer.status != 200:
                    raise refusal_of(answer.status, await answer.read())
                rest = b""
                # By hand: a line of the stream may be longer than what aiohttp reads as one.
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        if line:
                            yield event_of(line)
        except aiohttp.ClientError as error:
            raise _unreachable("watch", path, error) from error

    async def _send(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: bytes | None = None,
        *,
        content_type: str = JSON,
    ) -> Manifest:
        headers = {"Content-Type": content_type} if body is not None else {}
        limit = aiohttp.ClientTimeout(total=REQUEST_SECONDS, sock_connect=CONNECT_SECONDS)
        try:
            async with self._session.request(
                method, self._server + path, params=query, data=body, headers=headers, timeout=limit
            ) as answer:
                content = await answer.read()
        except aiohttp.ClientError as error:
            raise _unreachable(method, path, error) from error
        if answer.status >= 400:
            raise refusal_of(answer.status, content)
        kind = answer.headers.get("Content-Type", "")
        found: Manifest = decode(content) if "json" in kind else {"text": content.decode()}
        return found


def address_from(kubeconfig: Path) -> Address:
    """The current context of a kubeconfig; ValueError names what is missing in it."""
    config: Manifest = yaml.safe_load(kubeconfig.read_text(encoding="utf-8")) or {}
    context = _named(config, "contexts", str(config.get("current-context") or ""), kubeconfig)["context"]
    cluster = _named(config, "clusters", context["cluster"], kubeconfig)["cluster"]
    user = _named(config, "users", context["user"], kubeconfig)["user"]
    authority = _content(cluster, "certificate-authority", kubeconfig)
    trusted = authority.decode("ascii") if authority else None
    tls, strangers = _context(trusted), _context(trusted)
    certificate, key = (_content(user, name, kubeconfig) for name in ("client-certificate", "client-key"))
    if certificate and key:
        _show(tls, certificate, key)
    token = user.get("token")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return Address(cluster["server"], tls, headers, strangers)


def _named(config: Manifest, part: str, name: str, path: Path) -> Manifest:
    for entry in config.get(part) or ():
        if entry.get("name") == name:
            found: Manifest = entry
            return found
    raise ValueError(f"{path}: {part} has no entry named {name!r}")


def _content(entry: Manifest, name: str, path: Path) -> bytes | None:
    """What `<name>-data` holds inline or `<name>` as a file beside the kubeconfig."""
    if inline := entry.get(f"{name}-data"):
        return base64.b64decode(str(inline))
    if file := entry.get(name):
        return (path.parent / str(file)).read_bytes()
    return None


def _context(trusted: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=trusted)
    # As kubectl: authorities of many clusters lack an extension that Python >= 3.13 insists on.
    context.verify_flags = (context.verify_flags & ~ssl.VERIFY_X509_STRICT) | ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _show(tls: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # The ssl module reads certificates from files only; the directory is ours alone.
    with tempfile.TemporaryDirectory(prefix="grove-actor-") as folder:
        chain, secret = Path(folder, "chain.pem"), Path(folder, "key.pem")
        chain.write_bytes(certificate)
        secret.touch(mode=0o600)
        secret.write_bytes(key)
        tls.load_cert_chain(chain, secret)


def _unreachable(method: str, path: str, error: aiohttp.ClientError) -> ConnectionError:
    return ConnectionError(f"{method} {path} did not reach the server: {error or type(error).__name__}")
