"""What the Secret should hold, for whatever it holds."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.webhook.certificates.handshakes import NAME, refusal

from grove.webhook.certificates import signing
from grove.webhook.certificates.inspection import certificates_in, fingerprint, key_in, pem
from grove.webhook.certificates.material import Material
from grove.webhook.certificates.periods import Periods
from grove.webhook.certificates.plan import Plan, Situation, plan_material
from grove.webhook.certificates.provision import server_names
from grove.webhook.serving import ServingCertificate

NOW = datetime(2031, 5, 1, tzinfo=UTC)
DAY = timedelta(days=1)
NAMES = server_names("grove-system")
PERIODS = Periods()


def fresh(now: datetime = NOW) -> Material:
    """What an operator makes where there is nothing."""
    return plan_material(Situation(now, NAMES, None)).material


def prints(material: Material) -> list[str]:
    return [fingerprint(each) for each in certificates_in(material.ca)]


def serving(plan: Plan) -> ServingCertificate:
    return ServingCertificate(plan.material.chain, plan.material.key, plan.material.ca, plan.server.not_after)


def resigned(authority: Material, names: tuple[str, ...], now: datetime) -> Material:
    """The same authority with a server certificate of other names or of another time."""
    (certificate,) = certificates_in(authority.ca)
    key = key_in(authority.ca_key)
    assert isinstance(key, signing.SigningKey)
    made = signing.sign_server(certificate, key, names, now=now, periods=PERIODS)
    return replace(authority, chain=made.certificate, key=made.key)


YEARS_AGO = fresh(NOW - 3650 * DAY + 89 * DAY)
OLD = fresh(NOW - 300 * DAY)
GOOD = fresh(NOW - 30 * DAY)
OTHER = fresh(NOW - 30 * DAY)


@dataclass
class Case:
    """What is there, and what becomes of the authority and of the server certificate."""

    stored: Material | None
    same_ca: bool = False
    same_server: bool = False
    why: tuple[str, ...] = ()
    served: Material | None = None
    present: frozenset[str] | None = None
    trusted: frozenset[str] = field(default_factory=frozenset)


CASES = {
    "nothing is done where all is well": Case(GOOD, same_ca=True, same_server=True),
    "without a Secret everything is made": Case(
        None,
        why=(
            "a new authority is made: there is no Secret",
            "a new server certificate is made: there is no Secret",
        ),
    ),
    "an empty Secret counts as none": Case(
        Material(),
        why=(
            "a new authority is made: ca.crt or ca.key is missing or empty",
            "a new server certificate is made: tls.crt is missing or empty",
        ),
    ),
    "texts that are no PEM are replaced": Case(
        Material(b"x", b"y", b"z", b"?"),
        why=(
            "a new authority is made: ca.key is not a private key in PEM that certificates can be signed with",
            "a new server certificate is made: tls.crt is not a certificate in PEM",
        ),
    ),
    "a server key that is no PEM is replaced": Case(
        replace(GOOD, key=b"secret"),
        same_ca=True,
        why=("a new server certificate is made: tls.key is not a private key in PEM without a password",),
    ),
    "a server certificate without its key is replaced": Case(
        replace(GOOD, key=b""),
        same_ca=True,
        why=("a new server certificate is made: tls.key is missing or empty",),
    ),
    "a server certificate with the key of another is replaced": Case(
        replace(GOOD, key=OTHER.key),
        same_ca=True,
        why=("a new server certificate is made: tls.key is not the key of tls.crt",),
    ),
    "an authority with the key of another is replaced, and what it signed stays until the new one is trusted": Case(
        replace(GOOD, ca_key=OTHER.ca_key),
        same_server=True,
        why=("a new authority is made: ca.crt holds no certificate of ca.key",),
    ),
    "so is one without its key": Case(
        replace(GOOD, ca_key=b""),
        same_server=True,
        why=("a new authority is made: ca.crt or ca.key is missing or empty",),
    ),
    "a server certificate of another authority is replaced": Case(
        replace(GOOD, chain=OTHER.chain, key=OTHER.key),
        same_ca=True,
        why=("a new server certificate is made: ca.crt does not verify tls.crt",),
    ),
    "one for another namespace is replaced": Case(
        resigned(GOOD, server_names("elsewhere"), NOW),
        same_ca=True,
        why=(
            f"a new server certificate is made: tls.crt is not valid for {NAME}: it lacks that name among its subjectAltNames",
        ),
    ),
    "one that lacks a name which API servers do not use is replaced too": Case(
        resigned(GOOD, NAMES[:2], NOW),
        same_ca=True,
        why=(
            "a new server certificate is made: the present one is not valid for grove-operator.grove-system, "
            "grove-operator.grove-system.svc.cluster.local",
        ),
    ),
    "one that has expired is replaced": Case(
        resigned(GOOD, NAMES, NOW - 365 * DAY),
        same_ca=True,
        why=("a new server certificate is made: tls.crt expired at 2031-05-01T00:00:00Z",),
    ),
    "one that will expire in three months is replaced": Case(
        resigned(GOOD, NAMES, NOW - 275 * DAY),
        same_ca=True,
        why=("a new server certificate is made: the present one is valid until 2031-07-30T00:00:00Z only",),
    ),
    "one that will expire a second later is not": Case(
        resigned(OLD, NAMES, NOW - 275 * DAY + timedelta(seconds=1)), same_ca=True, same_server=True
    ),
    "one that is not valid yet is replaced": Case(
        resigned(GOOD, NAMES, NOW + DAY),
        same_ca=True,
        why=("a new server certificate is made: tls.crt is not valid before 2031-05-01T23:00:00Z",),
    ),
    "but a clock that is some minutes behind does not matter": Case(
        resigned(GOOD, NAMES, NOW + timedelta(minutes=59)), same_ca=True, same_server=True
    ),
    "an authority that will expire is replaced, and what it signed stays": Case(
        resigned(YEARS_AGO, NAMES, NOW - DAY),
        same_server=True,
        why=("a new authority is made: the present one is valid until 2031-07-29T00:00:00Z only",),
    ),
    "an authority that has expired is worth nothing": Case(
        fresh(NOW - 3650 * DAY),
        why=(
            "a new authority is made: the one in ca.crt is not an authority, or is not valid now",
            "a new server certificate is made: tls.crt expired at 2022-05-03T00:00:00Z",
        ),
    ),
    "a certificate that is no authority does not become one": Case(
        replace(GOOD, ca=GOOD.chain, ca_key=GOOD.key),
        why=(
            "a new authority is made: the one in ca.crt is not an authority, or is not valid now",
            "a new server certificate is made: ca.crt does not verify tls.crt",
        ),
    ),
    "what is served is put back into a Secret that was emptied": Case(
        Material(),
        served=GOOD,
        present=frozenset(prints(GOOD)),
        why=(
            "a new authority is made: ca.crt or ca.key is missing or empty",
            "the server certificate in use is put back until a new authority is trusted",
        ),
    ),
    "a Secret of somebody else waits until its authority is trusted": Case(
        OTHER,
        same_ca=True,
        served=GOOD,
        present=frozenset(prints(GOOD)),
        why=("the server certificate in use is put back until a new authority is trusted",),
    ),
    "but not if API servers verify by it already": Case(
        OTHER, same_ca=True, same_server=True, served=GOOD, present=frozenset((*prints(GOOD), *prints(OTHER)))
    ),
    "nor if they verify by nothing of this": Case(
        OTHER, same_ca=True, same_server=True, served=GOOD, present=frozenset()
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_secret_is_brought_into_order(case: Case) -> None:
    seen = Situation(NOW, NAMES, case.stored, case.served, case.present, case.trusted)
    plan = plan_material(seen)
    assert plan.why == case.why
    stored = case.stored or Material()
    assert (plan.material.ca_key == stored.ca_key) == case.same_ca
    assert (plan.material.chain == stored.chain) == case.same_server
    # Whatever was there, what is there then serves under every name, and is left alone.
    assert [
        refusal(serving(plan), plan.material.ca, NOW, name) for name in NAMES if name.endswith(".svc")
    ] == [None]
    again = plan_material(replace(seen, stored=plan.material, served=plan.material))
    assert (again.why, again.material) == ((), plan.material)


def test_what_was_served_is_trusted_beside_the_new_authority() -> None:
    for stored in (None, Material(), OTHER):
        seen = Situation(NOW, NAMES, stored, replace(GOOD, ca_key=b""), frozenset(prints(GOOD)))
        plan = plan_material(seen)
        assert (plan.material.chain, plan.material.key) == (GOOD.chain, GOOD.key)
        assert len(prints(plan.material)) == 2
        assert prints(plan.material)[1:] == prints(GOOD)
        assert refusal(serving(plan), GOOD.ca, NOW) is None


def test_an_authority_is_trusted_before_it_signs_and_dropped_when_nobody_serves_by_it() -> None:
    old = resigned(YEARS_AGO, NAMES, NOW - DAY)
    first = plan_material(Situation(NOW, NAMES, old)).material
    new, before = prints(first)
    assert (first.chain, before) == (old.chain, prints(old)[0])

    waiting = Situation(
        NOW + timedelta(minutes=5), NAMES, first, None, frozenset({new, before}), frozenset({before})
    )
    assert plan_material(waiting).material == first

    trusted = replace(waiting, trusted=frozenset({new, before}))
    second = plan_material(trusted)
    assert second.why == ("a new server certificate is made: its authority is being replaced",)
    assert prints(second.material) == [new, before]
    assert refusal(serving(second), pem(certificates_in(second.material.ca)[:1]), NOW) is None

    soon = replace(trusted, stored=second.material, now=trusted.now + PERIODS.retired - timedelta(seconds=1))
    assert plan_material(soon).material == second.material
    late = replace(trusted, stored=second.material, now=trusted.now + PERIODS.retired)
    third = plan_material(late)
    assert third.why == ("authorities that nothing needs any more are dropped",)
    assert prints(third.material) == [new]
    assert third.material.chain == second.material.chain


def test_a_server_certificate_never_outlives_its_authority() -> None:
    near = resigned(YEARS_AGO, NAMES, NOW - 2 * DAY)
    (leaf,), (authority,) = certificates_in(near.chain), certificates_in(near.ca)
    assert leaf.not_valid_after_utc == authority.not_valid_after_utc


def test_a_certificate_that_ends_is_replaced_even_if_the_new_authority_is_not_trusted() -> None:
    """For example because nobody may write caBundles: what has ended is of no use to anybody."""
    old = resigned(YEARS_AGO, NAMES, NOW - DAY)
    first = plan_material(Situation(NOW, NAMES, old)).material
    end = certificates_in(old.chain)[0].not_valid_after_utc
    plan = plan_material(Situation(end, NAMES, first, first))
    assert refusal(serving(plan), plan.material.ca, end) is None
    assert plan.material.chain != old.chain


def test_private_keys_are_not_shown() -> None:
    for value in (
        GOOD,
        serving(plan_material(Situation(NOW, NAMES, GOOD))),
        plan_material(Situation(NOW, NAMES, None)),
    ):
        assert "PRIVATE" not in repr(value)
