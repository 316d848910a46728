"""The keys of one control plane: an authority for the cluster, one for etcd, and what they sign.

Created for each control plane and gone with it. The two authorities are apart, so that a user of the
cluster is nobody to etcd. Private keys leave as PEM texts; `write_private` is how they reach a disk.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from grove.real.failure import RealFailure

LIFETIME = timedelta(days=365)
LOOPBACK = "127.0.0.1"
#: The first address of the service range is the one of the API server itself.
SERVICE_ADDRESS = "10.0.0.1"
#: How long the common name of a certificate may be.
MAX_NAME = 64

_SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, as PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs certificates; its private key stays in memory."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        certificate = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(authority=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = certificate.public_bytes(serialization.Encoding.PEM)

    def server(self, name: str, others: Sequence[str] = ()) -> Pair:
        """A certificate for a server on the loopback; etcd's gateway also presents it as a client.

        `others` are further names under which it is asked for.
        """
        names: list[x509.GeneralName] = [x509.DNSName(known) for known in (*_SERVER_NAMES, *others)]
        names += [x509.IPAddress(ipaddress.ip_address(address)) for address in (LOOPBACK, SERVICE_ADDRESS)]
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        return self._sign(_name(name), purposes, x509.SubjectAlternativeName(names))

    def client(self, user: str, groups: Sequence[str] = ()) -> Pair:
        """A certificate that makes its holder this user with these groups."""
        if not 0 < len(user) <= MAX_NAME:
            raise RealFailure(
                f"{user!r} cannot be the user of a client certificate: it has {len(user)} characters and "
                f"1 to {MAX_NAME} fit"
            )
        return self._sign(_name(user, groups), [ExtendedKeyUsageOID.CLIENT_AUTH])

    def _sign(
        self,
        subject: x509.Name,
        purposes: Sequence[x509.ObjectIdentifier],
        names: x509.SubjectAlternativeName | None = None,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(subject, self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Pair(certificate.public_bytes(serialization.Encoding.PEM), _private(key))


def signing_keys() -> tuple[bytes, bytes]:
    """The private and the public key of service-account tokens."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return _private(key), public


def write_private(path: Path, content: bytes) -> Path:
    """Writes a file that only its owner can read, never for a moment otherwise."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(content)
    return path


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    # A little in the past: the clocks of two processes need not agree to the second.
    begin = datetime.now(UTC) - timedelta(minutes=5)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + LIFETIME)
    )


def _name(user: str, groups: Sequence[str] = ()) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    # "SEC1" form: what kube-apiserver reads as a service-account key.
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
