"""Whether an API server that knows a caBundle gets a connection to a server with a certificate: by real TLS.

OpenSSL reads the clock of the machine, so that it is told not to look at times; those are verified apart, for
the virtual time of the test.
"""

import functools
import ssl
import tempfile
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.x509 import verification

from grove.webhook.serving import ServingCertificate

NAME: Final = "grove-operator.grove-system.svc"
#: X509_V_FLAG_NO_CHECK_TIME, which the ssl module has no name for.
_ANY_TIME: Final = 0x200000


def server_context(chain: bytes, key: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load(context, chain, key)
    return context


def load(context: ssl.SSLContext, chain: bytes, key: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "chain"), Path(folder, "key")
        for file, text in zip(files, (chain, key), strict=True):
            file.write_bytes(text)
        context.load_cert_chain(*files, password="")


@functools.lru_cache(maxsize=16)
def _server(chain: bytes, key: bytes) -> ssl.SSLContext:
    return server_context(chain, key)


@functools.lru_cache(maxsize=16)
def _client(bundle: bytes) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=bundle.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT | _ANY_TIME
    return context


def refusal(certificate: ServingCertificate, bundle: bytes, now: datetime, name: str = NAME) -> str | None:
    """Why a client that trusts the bundle hangs up; None if it talks to the server."""
    verified = _verified(certificate.chain, certificate.key, bundle, name)
    if isinstance(verified, str):
        return verified
    begin, end = verified
    return None if begin <= now < end else f"valid from {begin} to {end} only"


@functools.lru_cache(maxsize=1024)
def _verified(chain: bytes, key: bytes, bundle: bytes, name: str) -> tuple[datetime, datetime] | str:
    """From when to when the two get on with one another; else why they never do."""
    try:
        _shake(_client(bundle), _server(chain, key), name)
        return _times(chain, bundle, name)
    except (ssl.SSLError, ValueError, verification.VerificationError) as error:
        return str(error)


def _shake(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> None:
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(back, there, server_hostname=name),
        server.wrap_bio(there, back, server_side=True),
    ]
    waiting = list(sides)
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(side)
        if not waiting:
            return
    raise ssl.SSLError("the handshake does not end")


def _times(chain: bytes, bundle: bytes, name: str) -> tuple[datetime, datetime]:
    """When the path from the certificate to an authority holds; another verifier than OpenSSL finds it."""
    leaf, *others = x509.load_pem_x509_certificates(chain)
    store = verification.Store(x509.load_pem_x509_certificates(bundle))
    for moment in (leaf.not_valid_before_utc, leaf.not_valid_after_utc - timedelta(seconds=1)):
        builder = verification.PolicyBuilder().store(store).time(moment)
        path = builder.build_server_verifier(x509.DNSName(name)).verify(leaf, others)
    begin = max(each.not_valid_before_utc for each in path)
    return begin, min(each.not_valid_after_utc for each in path)
