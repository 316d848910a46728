"""Make authorities and what they sign: ECDSA on P-256, with the extensions that strict verifiers ask for.

The time is an argument; only the keys and serial numbers are chance.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from grove.webhook.certificates.periods import SKEW, Periods

#: The keys that we sign with: our own, and those of authorities that the Go operator left behind.
SigningKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

_ORGANIZATION: Final = "grove-operator"


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


def new_authority(now: datetime, periods: Periods) -> Pair:
    """An authority that has signed nothing yet; no two have the same name."""
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    name = _name(f"grove-webhook-ca-{serial & 0xFFFFFFFF:08x}")
    public = key.public_key()
    certificate = (
        x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=public, serial_number=serial)
        .not_valid_before(now - SKEW)
        .not_valid_after(now + periods.authority)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), _private(key))


def sign_server(
    authority: x509.Certificate, key: SigningKey, names: Sequence[str], *, now: datetime, periods: Periods
) -> Pair:
    """A certificate for a server with these names; it never outlives its authority."""
    own = ec.generate_private_key(ec.SECP256R1())
    public = own.public_key()
    certificate = (
        x509.CertificateBuilder(
            issuer_name=authority.subject,
            subject_name=_name(names[0][:64]),
            public_key=public,
            serial_number=x509.random_serial_number(),
        )
        .not_valid_before(now - SKEW)
        .not_valid_after(min(now + periods.server, authority.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(_authority_key(authority), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), _private(own))


def _authority_key(authority: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    """How verifiers find the authority: by the identifier that it has, which others compute otherwise."""
    try:
        known = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    except x509.ExtensionNotFound:
        public = authority.public_key()
        assert isinstance(public, ec.EllipticCurvePublicKey | rsa.RSAPublicKey)
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(public)
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(known.value)


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _name(common: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, _ORGANIZATION),
            x509.NameAttribute(NameOID.COMMON_NAME, common),
        ]
    )


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
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
