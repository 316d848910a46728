"""Decide what the Secret of the webhooks' certificate should hold now, and what is served until then. Pure.

An API server verifies by a caBundle that it read some time ago, and a replica serves a certificate that it
read some time ago. So an authority is exchanged in three steps, each of them one write of the Secret:

1. The new authority is trusted: `ca.crt` holds both, `ca.key` is the new one's. The same is served as before.
2. Once every caBundle has held the new one for `Periods.trusted`: it signs what is served. Both are trusted.
3. Once that has been so for `Periods.retired`: the old one is dropped.

The same steps are taken when the Secret was deleted, emptied or replaced, as long as somebody remembers a
certificate that the API server still trusts. Only if nobody does is a new one served at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from grove.runtime.clock import rfc3339
from grove.webhook.certificates import signing
from grove.webhook.certificates.inspection import (
    ServerPair,
    authorities_in,
    belong_together,
    certificates_in,
    fingerprint,
    issuer_of,
    key_in,
    pem,
    server_pair,
    unnamed,
)
from grove.webhook.certificates.material import Material
from grove.webhook.certificates.periods import SKEW, Periods


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything that decides."""

    now: datetime
    #: What the server is called; the first is the name by which API servers verify it.
    names: Sequence[str]
    #: What the Secret holds; None where there is no Secret.
    stored: Material | None
    #: What this replica serves and what verifies it; None for one that has just started.
    served: Material | None = None
    #: The fingerprints of authorities that are in every caBundle now; None where that cannot be told.
    present: frozenset[str] | None = None
    #: Those that have been for long enough that every API server has read them.
    trusted: frozenset[str] = frozenset()
    periods: Periods = field(default_factory=Periods)


@dataclass(frozen=True, slots=True)
class Plan:
    """What the Secret should hold, which of it is served, and why it should be otherwise than it is."""

    material: Material
    server: ServerPair
    #: Who signed what is served.
    issuer: x509.Certificate
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Signer:
    certificate: x509.Certificate
    key: signing.SigningKey
    key_text: bytes


@dataclass(frozen=True, slots=True)
class _Signed:
    """What may be served, and the authority that verifies it."""

    pair: ServerPair
    issuer: x509.Certificate


def plan_material(seen: Situation) -> Plan:
    """What the Secret should hold now; equal to what it holds when nothing is to be done."""
    why: list[str] = []
    signer = _signer(seen)
    if isinstance(signer, str):
        why.append(f"a new authority is made: {signer}")
        signer = _new_signer(seen)
    current = _current(seen)
    renewal = current if isinstance(current, str) else _renewal(seen, current, signer)
    if isinstance(current, str) or (renewal and _may_sign(seen, current, signer)):
        why.append(f"a new server certificate is made: {renewal}")
        current = _sign(seen, signer)
    elif seen.stored is None or current.pair.chain != seen.stored.chain:
        why.append("the server certificate in use is put back until a new authority is trusted")
    trusted = _to_trust(seen, signer, current)
    material = Material(current.pair.chain, current.pair.key, pem(trusted), signer.key_text)
    if material == seen.stored:
        why = []
    elif not why:
        why = ["authorities that nothing needs any more are dropped"]
    return Plan(material, current.pair, current.issuer, tuple(why))


def plan_without_writing(seen: Situation) -> Plan | None:
    """What can be served where the Secret cannot be written; None if it holds nothing that can be."""
    if seen.stored is None:
        return None
    found = _signed(seen, seen.stored)
    return None if isinstance(found, str) else Plan(seen.stored, found.pair, found.issuer)


def _signer(seen: Situation) -> _Signer | str:
    """The authority in the Secret that can sign for long enough; else why there is none."""
    if seen.stored is None:
        return "there is no Secret"
    if not seen.stored.ca.strip() or not seen.stored.ca_key.strip():
        return "ca.crt or ca.key is missing or empty"
    key = key_in(seen.stored.ca_key)
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        return "ca.key is not a private key in PEM that certificates can be signed with"
    ours = [each for each in certificates_in(seen.stored.ca) if belong_together(each, key)]
    if not ours:
        return "ca.crt holds no certificate of ca.key"
    lasting = [each for each in authorities_in(seen.stored.ca, seen.now) if each in ours]
    if not lasting:
        return "the one in ca.crt is not an authority, or is not valid now"
    end = lasting[0].not_valid_after_utc
    if seen.now >= end - seen.periods.ahead:
        return f"the present one is valid until {rfc3339(end)} only"
    return _Signer(lasting[0], key, seen.stored.ca_key)


def _new_signer(seen: Situation) -> _Signer:
    made = signing.new_authority(seen.now, seen.periods)
    key = key_in(made.key)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    (certificate,) = certificates_in(made.certificate)
    return _Signer(certificate, key, made.key)


def _current(seen: Situation) -> _Signed | str:
    """What is to be served if nothing new is made; else why what is there cannot be."""
    stored = _signed(seen, seen.stored) if seen.stored is not None else "there is no Secret"
    served = _signed(seen, seen.served) if seen.served is not None else "nothing was served before"
    if isinstance(stored, str):
        return stored if isinstance(served, str) else served
    if isinstance(served, str) or seen.present is None:
        return stored
    # Somebody exchanged the Secret: what no API server can verify yet waits its turn like any new authority.
    unknown = fingerprint(stored.issuer) not in seen.present
    return served if unknown and fingerprint(served.issuer) in seen.present else stored


def _signed(seen: Situation, material: Material) -> _Signed | str:
    pair = server_pair(material.chain, material.key, name=seen.names[0], now=seen.now)
    if isinstance(pair, str):
        return pair
    issuer = issuer_of(pair.leaf, authorities_in(material.ca, seen.now))
    return _Signed(pair, issuer) if issuer is not None else "ca.crt does not verify tls.crt"


def _renewal(seen: Situation, current: _Signed, signer: _Signer) -> str:
    """Why what is served should be replaced; empty if it need not be."""
    if current.issuer != signer.certificate:
        return "its authority is being replaced"
    if lacking := unnamed(current.pair.leaf, seen.names):
        return f"the present one is not valid for {', '.join(lacking)}"
    if seen.now >= current.pair.not_after - seen.periods.ahead:
        return f"the present one is valid until {rfc3339(current.pair.not_after)} only"
    return ""


def _may_sign(seen: Situation, current: _Signed, signer: _Signer) -> bool:
    """Whether API servers surely verify what this authority signs."""
    return current.issuer == signer.certificate or fingerprint(signer.certificate) in seen.trusted


def _sign(seen: Situation, signer: _Signer) -> _Signed:
    made = signing.sign_server(signer.certificate, signer.key, seen.names, now=seen.now, periods=seen.periods)
    (leaf,) = certificates_in(made.certificate)
    return _Signed(ServerPair(made.certificate, made.key, leaf), signer.certificate)


def _to_trust(seen: Situation, signer: _Signer, current: _Signed) -> list[x509.Certificate]:
    """The signer, the issuer of what is served, and others while a replica may still serve by them."""
    others = authorities_in(seen.stored.ca, seen.now) if seen.stored is not None else []
    issued = current.pair.leaf.not_valid_before_utc + SKEW
    if seen.now >= issued + seen.periods.retired:
        others = []
    found = {fingerprint(each): each for each in (signer.certificate, current.issuer, *others)}
    return list(found.values())
