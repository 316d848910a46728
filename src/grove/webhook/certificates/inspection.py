"""Understand PEM texts that anybody may have written: what is in them, or what is wrong with them.

Raises nothing for bad input; the sentences name the file or key and never quote a private key.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from grove.runtime.clock import rfc3339


@dataclass(frozen=True, slots=True)
class ServerPair:
    """A server's certificate that belongs to its key."""

    chain: bytes
    key: bytes = field(repr=False)
    leaf: x509.Certificate

    @property
    def not_after(self) -> datetime:
        return self.leaf.not_valid_after_utc


def certificates_in(text: bytes) -> list[x509.Certificate]:
    """The certificates of a PEM text in their order; none if it is not one."""
    try:
        return x509.load_pem_x509_certificates(text)
    except ValueError:
        return []


def key_in(text: bytes) -> PrivateKeyTypes | None:
    """The private key of a PEM text; None if there is none that can be used without a password."""
    try:
        return serialization.load_pem_private_key(text, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None


def authorities_in(text: bytes, now: datetime) -> list[x509.Certificate]:
    """The authorities of a PEM text that hold at this time, each once."""
    found = {fingerprint(each): each for each in certificates_in(text)}
    return [each for each in found.values() if _is_authority(each) and valid_at(each, now)]


def fingerprint(certificate: x509.Certificate) -> str:
    """What tells certificates apart."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def pem(certificates: Iterable[x509.Certificate]) -> bytes:
    """The certificates as one PEM text."""
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


def valid_at(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc


def belong_together(certificate: x509.Certificate, key: PrivateKeyTypes) -> bool:
    """Whether this is the certificate of that key."""
    return certificate.public_key() == key.public_key()


def issuer_of(
    certificate: x509.Certificate, authorities: Iterable[x509.Certificate]
) -> x509.Certificate | None:
    """Which of the authorities signed the certificate."""
    for authority in authorities:
        try:
            certificate.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
            continue
        return authority
    return None


def unnamed(certificate: x509.Certificate, wanted: Sequence[str]) -> list[str]:
    """Those of the wanted names, or addresses, that the certificate is not valid for."""
    try:
        listed = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return list(wanted)
    names = {name.lower() for name in listed.get_values_for_type(x509.DNSName)}
    addresses = {str(address) for address in listed.get_values_for_type(x509.IPAddress)}
    return [name for name in wanted if not (name in addresses or _matches(name.lower(), names))]


def server_pair(chain: bytes, key: bytes, *, name: str, now: datetime) -> ServerPair | str:
    """The pair if a server can be verified by it under this name at this time; else what is wrong with it."""
    for file, text in (("tls.crt", chain), ("tls.key", key)):
        if not text.strip():
            return f"{file} is missing or empty"
    certificates, parsed = certificates_in(chain), key_in(key)
    if not certificates:
        return "tls.crt is not a certificate in PEM"
    if parsed is None:
        return "tls.key is not a private key in PEM without a password"
    leaf = certificates[0]
    if not belong_together(leaf, parsed):
        return "tls.key is not the key of tls.crt"
    return _unusable(leaf, name, now) or ServerPair(chain, key, leaf)


def _unusable(leaf: x509.Certificate, name: str, now: datetime) -> str:
    if now >= leaf.not_valid_after_utc:
        return f"tls.crt expired at {rfc3339(leaf.not_valid_after_utc)}"
    if now < leaf.not_valid_before_utc:
        return f"tls.crt is not valid before {rfc3339(leaf.not_valid_before_utc)}"
    if unnamed(leaf, [name]):
        return f"tls.crt is not valid for {name}: it lacks that name among its subjectAltNames"
    return ""


def _matches(name: str, listed: Iterable[str]) -> bool:
    """Whether a name is listed, or a wildcard in the place of its first label is."""
    _, _, rest = name.partition(".")
    return name in listed or (bool(rest) and f"*.{rest}" in listed)


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return bool(certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca)
    except (x509.ExtensionNotFound, ValueError):
        return False
