"""Asking one webhook: an HTTPS request to its URL or Service, verified by its caBundle.

A Service is called by its name, `<service>.<namespace>.svc`, which its certificate must carry too; only where
the connection goes is looked up. Failures are told in the words of Kubernetes, which users search for.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import socket
import ssl
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from grove.embedded.errors import Manifest
from grove.embedded.verbs.webhooks.answers import Failed
from grove.embedded.verbs.webhooks.services import ServiceDirectory

_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, */*",
    "User-Agent": "kube-apiserver-admission",
}
_REJECTED = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
}
_IN_ITS_OWN_WORDS = frozenset({403, 406, 415})
_UNKNOWN_AUTHORITY = frozenset({18, 19, 20, 21})
"""What OpenSSL says of a chain that does not end in a certificate of the bundle."""
_EXPIRED = frozenset({9, 10})


class Caller:
    """Keeps connections open between calls, until it is closed."""

    def __init__(self, services: ServiceDirectory) -> None:
        self._services = services
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def call(self, config: Manifest, body: bytes, *, seconds: int) -> bytes:
        """The body of the answer to a POST; raises `Failed` when there is none, or not in time."""
        url = f"{_url(config)}?timeout={seconds}s"
        try:
            async with asyncio.timeout(seconds):
                status, text, answer = await self._post(config, url, body)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Failed(f'failed to call webhook: Post "{url}": {_reason(error, url)}') from error
        if not 200 <= status <= 206:
            raise Failed(f"failed to call webhook: {_rejection(status, answer if text else b'')}")
        return answer

    async def _post(self, config: Manifest, url: str, body: bytes) -> tuple[int, bool, bytes]:
        """Status, whether the body is text for people, and the body."""
        service = config.get("service")
        if service:
            place = self._locate(service, url)
            if callable(place):
                parts = urlsplit(url)
                status, answer = await place(f"{parts.path}?{parts.query}", body)
                return status, status >= 300, answer
        if self._session is None:
            connector = aiohttp.TCPConnector(resolver=_Resolver(self._services), use_dns_cache=False)
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=aiohttp.ClientTimeout(total=None)
            )
        context = _tls(config.get("caBundle") or "")
        try:
            return await _sent(self._session, url, body, context)
        except aiohttp.ClientConnectorError:
            raise
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            # A connection of an earlier call that the server has closed meanwhile; it has read nothing.
            return await _sent(self._session, url, body, context)

    def _locate(self, service: Manifest, url: str) -> Any:
        try:
            return self._services.locate(service["namespace"], service["name"], service.get("port") or 443)
        except Failed as error:
            raise Failed(f'failed to call webhook: Post "{url}": {error}') from error


async def _sent(
    session: aiohttp.ClientSession, url: str, body: bytes, context: ssl.SSLContext
) -> tuple[int, bool, bytes]:
    headers = {**_HEADERS, "Host": urlsplit(url).netloc}
    async with session.post(url, data=body, headers=headers, ssl=context) as response:
        kind = response.headers.get("Content-Type", "")
        return response.status, not kind or kind.startswith("text/"), await response.read()


def _url(config: Manifest) -> str:
    service = config.get("service")
    if not service:
        return str(config["url"])
    path = (service.get("path") or "").lstrip("/")
    return f"https://{service['name']}.{service['namespace']}.svc:{service.get('port') or 443}/{path}"


class _Resolver(AbstractResolver):
    """Sends the names of Services where they listen, and asks the machine about all others."""

    def __init__(self, services: ServiceDirectory) -> None:
        self._services = services

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        name, _, rest = host.partition(".")
        namespace, _, end = rest.partition(".")
        if end != "svc":
            return await aiohttp.ThreadedResolver().resolve(host, port, family)
        place = self._services.locate(namespace, name, port)
        if callable(place):
            raise OSError(f"{host} is served inside this process")
        address, number = place
        kind = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [
            ResolveResult(hostname=host, host=address, port=number, family=kind, proto=0, flags=0),
        ]

    async def close(self) -> None:
        """Nothing was opened."""


@lru_cache(64)
def _tls(bundle: str) -> ssl.SSLContext:
    """Trusts the bundle alone, or what the machine trusts where there is none; the rules are those of Go."""
    try:
        authorities = base64.b64decode(bundle).decode() if bundle else None
        context = ssl.create_default_context(cadata=authorities)
    except (ssl.SSLError, binascii.Error, ValueError) as error:
        why = "unable to load root certificates: unable to parse bytes as PEM block"
        raise Failed(f"could not get REST client: {why}") from error
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.hostname_checks_common_name = False
    return context


def _reason(error: Exception, url: str) -> str:
    """What went wrong on the way, as Go would say it."""
    if isinstance(error, TimeoutError):
        return "context deadline exceeded"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        found = error.certificate_error
        if isinstance(found, ssl.SSLCertVerificationError):
            return f"tls: failed to verify certificate: x509: {_distrust(found, url)}"
    host = urlsplit(url).netloc
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {urlsplit(url).hostname}: no such host"
    if isinstance(error, aiohttp.ClientConnectorError):
        if isinstance(error.os_error, ConnectionRefusedError):
            return f"dial tcp {host}: connect: connection refused"
        return f"dial tcp {host}: {error.os_error.strerror or error.os_error}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(error) or type(error).__name__


def _distrust(error: ssl.SSLCertVerificationError, url: str) -> str:
    if error.verify_code in _UNKNOWN_AUTHORITY:
        return "certificate signed by unknown authority"
    if error.verify_code in _EXPIRED:
        return f"certificate has expired or is not yet valid: {error.verify_message}"
    return f"certificate is not valid for {urlsplit(url).hostname}: {error.verify_message}"


def _rejection(status: int, message: bytes) -> str:
    if status in _REJECTED:
        return _REJECTED[status]
    told = message.decode(errors="replace").strip() or "unknown"
    if status in _IN_ITS_OWN_WORDS:
        return told
    if status >= 500:
        quoted = told.replace('"', '\\"')
        return f'an error on the server ("{quoted}") has prevented the request from succeeding'
    return f"the server responded with the status code {status} but did not return more information"
