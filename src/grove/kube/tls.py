"""Build the TLS side of a connection from PEM data; inline keys touch the disk only while they are loaded.

Raises KubeconfigError with the source that the caller names; never falls back to an unverified connection.
"""

import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

from grove.errors import KubeconfigError


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A certificate chain and its private key, both PEM."""

    chain: bytes
    key: bytes

    def __repr__(self) -> str:
        return "ClientCertificate(…)"


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """How the server proves who it is; `authority` is PEM, and None means the system's authorities."""

    authority: bytes | None = None
    verify: bool = True
    server_name: str = ""
    #: Where the authority came from, for error messages: a file and a field.
    source: str = "the system's certificate authorities"


def client_context(
    options: TlsOptions, certificate: ClientCertificate | None = None, *, certificate_source: str = ""
) -> ssl.SSLContext:
    """A context for connections to the API server."""
    try:
        text = options.authority.decode("ascii") if options.authority is not None else None
        context = ssl.create_default_context(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise KubeconfigError(f"{options.source} holds no usable PEM certificate ({error})") from error
    # Cluster authorities made by older tools lack an extension that Python >= 3.13 insists on, and a bundle
    # may hold an intermediate only; Kubernetes' own clients accept both.
    context.verify_flags = (context.verify_flags & ~ssl.VERIFY_X509_STRICT) | ssl.VERIFY_X509_PARTIAL_CHAIN
    if not options.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        _load_certificate(context, certificate, certificate_source or "the client certificate")
    return context


def _load_certificate(context: ssl.SSLContext, certificate: ClientCertificate, source: str) -> None:
    # The ssl module reads certificates from files only; the directory is ours alone (mode 0700).
    with tempfile.TemporaryDirectory(prefix="grove-tls-") as directory:
        chain, key = Path(directory, "chain.pem"), Path(directory, "key.pem")
        chain.write_bytes(certificate.chain)
        key.touch(mode=0o600)
        key.write_bytes(certificate.key)
        try:
            # An empty password: an encrypted key must fail rather than ask on the terminal.
            context.load_cert_chain(chain, key, password="")
        except (ssl.SSLError, ValueError) as error:
            raise KubeconfigError(
                f"{source} cannot be used: the certificate and its key do not load together ({error})"
            ) from error
