"""A certificate authority for tests: one server certificate for api.test and 127.0.0.1, one for a client."""

import ipaddress
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Pair:
    """A certificate and its key as PEM, and where they lie."""

    certificate: bytes
    key: bytes
    certificate_file: Path
    key_file: Path


@dataclass(frozen=True)
class Pki:
    """Who vouches for whom."""

    authority: Pair
    server: Pair
    client: Pair

    def server_context(self, *, ask_client: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server.certificate_file, self.server.key_file)
        if ask_client:
            context.load_verify_locations(self.authority.certificate_file)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def make_pki(directory: Path) -> Pki:
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = _name("test authority")
    authority = _sign(authority_name, authority_name, authority_key, authority_key, None)
    pairs = {"authority": (authority, authority_key)}
    names: list[x509.GeneralName] = [
        x509.DNSName("api.test"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]
    for who, alternatives in (("server", names), ("client", [x509.DNSName("client.test")])):
        key = ec.generate_private_key(ec.SECP256R1())
        pairs[who] = (_sign(_name(who), authority_name, key, authority_key, alternatives), key)
    return Pki(**{who: _store(directory, who, *pair) for who, pair in pairs.items()})


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _sign(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    alternatives: list[x509.GeneralName] | list[x509.DNSName] | None,
) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=alternatives is None, path_length=None), critical=True)
    )
    if alternatives is not None:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return builder.sign(signer, hashes.SHA256())


def _store(directory: Path, who: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    certificate_file, key_file = directory / f"{who}.crt", directory / f"{who}.key"
    certificate_file.write_bytes(pem)
    key_file.write_bytes(secret)
    return Pair(pem, secret, certificate_file, key_file)
