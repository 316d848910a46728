"""The operator's own certificate on an API server: Secret, caBundles, permissions, two replicas, crashes."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from tests.webhook.certificates.clusters import (
    ACCOUNT,
    CLIQUESETS,
    MUTATING,
    NAMES,
    SECRET,
    VALIDATING,
    Replica,
    bundles,
    certificate_needs,
    install,
    put_secret,
    ready,
    rule_for,
    secret,
)

from grove.api import kinds
from grove.embedded.faults import Fault
from grove.meta import Key
from grove.testing.virtual_time import virtual_clock
from grove.testing.world import World, WorldOptions, run_world
from grove.webhook.certificates.inspection import certificates_in
from grove.webhook.certificates.material import SECRETS, Material
from grove.webhook.certificates.periods import Periods
from grove.webhook.certificates.plan import Situation, plan_material
from grove.webhook.certificates.signing import sign_server

DAY = timedelta(days=1)


def play(story: Callable[[World], Awaitable[None]]) -> None:
    run_world(story, WorldOptions(nodes=0), operator=False)


def refused(world: World) -> list[str]:
    return [
        f"{each.method} {each.path}"
        for each in world.cluster.requests
        if each.user == ACCOUNT.name and each.status == 403
    ]


def data_of(material: Material) -> dict[str, bytes]:
    return {
        "tls.crt": material.chain,
        "tls.key": material.key,
        "ca.crt": material.ca,
        "ca.key": material.ca_key,
    }


def test_two_replicas_that_start_at_once_share_one_certificate_and_put_it_into_every_configuration() -> None:
    async def story(world: World) -> None:
        await install(world)
        replicas = [Replica(world, seed) for seed in range(2)]
        assert "has not been read yet" in (replicas[0].source.lacking() or "")
        await ready(world, *replicas)
        held = await secret(world)
        assert sorted(held) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]
        assert {each.served.chain for each in replicas if each.served} == {held["tls.crt"]}
        assert await bundles(world) == {held["ca.crt"]}
        assert [await each.refusals() for each in replicas] == [[], []]
        assert refused(world) == []
        await world.settle()
        writes = world.writes(everybody=True)
        await asyncio.sleep(3600)
        assert world.writes(everybody=True) == writes
        assert refused(world) == []
        for each in replicas:
            assert each.told == []
            await each.kill()

    play(story)


def test_a_ca_bundle_that_somebody_overwrites_is_put_right_at_once() -> None:
    async def story(world: World) -> None:
        await install(world)
        replica = Replica(world)
        await ready(world, replica)
        (right,) = await bundles(world)
        for of, name in (
            (VALIDATING, "grove-children-validating-webhook"),
            (MUTATING, "podcliqueset-defaulting-webhook"),
        ):
            found = await world.get(of, name)
            assert found is not None
            found["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(b"nonsense").decode()
            await world.user.replace(of, found)
        # As an upgrade of the chart does, which renders none.
        found = await world.get(VALIDATING, CLIQUESETS.name)
        assert found is not None
        del found["webhooks"][0]["clientConfig"]["caBundle"]
        await world.user.replace(VALIDATING, found)
        await asyncio.sleep(1)
        assert await bundles(world) == {right}
        await replica.kill()

    play(story)


def test_without_watches_it_is_put_right_at_the_next_look() -> None:
    async def story(world: World) -> None:
        await install(
            world, allowed=[each for each in certificate_needs() if each.verb not in ("list", "watch")]
        )
        replica = Replica(world)
        await ready(world, replica)
        (right,) = await bundles(world)
        found = await world.get(VALIDATING, CLIQUESETS.name)
        assert found is not None
        found["webhooks"][0]["clientConfig"]["caBundle"] = ""
        await world.user.replace(VALIDATING, found)
        await asyncio.sleep(1)
        assert await bundles(world) != {right}
        await asyncio.sleep(66)
        assert await bundles(world) == {right}
        await replica.kill()

    play(story)


def test_what_others_wrote_into_webhook_configurations_stays() -> None:
    async def story(world: World) -> None:
        await install(world)
        found = await world.get(VALIDATING, CLIQUESETS.name)
        assert found is not None
        theirs = {
            **found["webhooks"][0],
            "name": "more.example.com",
            "clientConfig": {"url": "https://example.com/", "caBundle": base64.b64encode(b"theirs").decode()},
        }
        found["webhooks"].insert(0, theirs)
        found["metadata"]["labels"] = {"team": "a"}
        await world.user.replace(VALIDATING, found)
        other = {**found, "metadata": {"name": "their-own"}}
        await world.user.create(VALIDATING, other)
        replica = Replica(world)
        await ready(world, replica)
        ours = await world.get(VALIDATING, CLIQUESETS.name)
        own = await world.get(VALIDATING, "their-own")
        assert ours is not None
        assert own is not None
        assert ours["webhooks"][0] == found["webhooks"][0]
        assert ours["metadata"]["labels"] == {"team": "a"}
        assert (
            base64.b64decode(ours["webhooks"][1]["clientConfig"]["caBundle"])
            == (await secret(world))["ca.crt"]
        )
        assert own["webhooks"] == found["webhooks"]
        await replica.kill()

    play(story)


def test_a_configuration_that_is_cert_managers_is_left_alone_and_named() -> None:
    async def story(world: World) -> None:
        await install(world)
        patch = {"metadata": {"annotations": {"cert-manager.io/inject-ca-from": "grove-system/grove"}}}
        await world.user.merge_patch(VALIDATING, CLIQUESETS, patch)
        replica = Replica(world)
        await asyncio.sleep(90)
        found = await world.get(VALIDATING, CLIQUESETS.name)
        assert found is not None
        assert "caBundle" not in found["webhooks"][0]["clientConfig"]
        assert replica.source.lacking() == (
            "ValidatingWebhookConfiguration podcliqueset-validating-webhook has annotation "
            "cert-manager.io/inject-ca-from, so that its caBundle is cert-manager's, but the certificate is the operator's "
            "own: set server.webhooks.certProvisionMode to manual, or remove the annotation"
        )
        assert replica.told == [replica.source.lacking()]
        await replica.kill()

    play(story)


def test_a_missing_permission_is_named_and_nothing_else_is_needed_once_it_is_granted() -> None:
    async def story(world: World) -> None:
        await install(world, allowed=[each for each in certificate_needs() if each.resource != SECRETS])
        replica = Replica(world)
        await asyncio.sleep(60)
        assert "Secret grove-system/grove-webhook-server-cert cannot be read or written: " in (
            replica.source.lacking() or ""
        )
        assert len(replica.told) == 1
        assert replica.served is None
        rules = [rule_for(each) for each in certificate_needs() if each.resource == SECRETS]
        await world.user.merge_patch(kinds.ROLES, Key(SECRET.namespace, "certificates"), {"rules": rules})
        await ready(world, replica)
        assert await replica.refusals() == []
        await replica.kill()

    play(story)


def test_a_certificate_that_cannot_be_renewed_is_served_as_long_as_it_is_valid() -> None:
    async def story(world: World) -> None:
        await install(world, allowed=[each for each in certificate_needs() if each.verb != "update"])
        await put_in_place(world, aged(virtual_clock().now()))
        replica = Replica(world)
        await ready(world, replica)
        assert await replica.refusals() == []
        (problem,) = replica.told
        assert problem.startswith("Secret grove-system/grove-webhook-server-cert cannot be written: ")
        await replica.kill()

    play(story)


def test_an_api_server_that_does_not_answer_leaves_a_replica_ready_for_most_of_a_day() -> None:
    async def story(world: World) -> None:
        await install(world)
        replica = Replica(world)
        await ready(world, replica)
        away = world.cluster.faults.add(Fault("error", user=ACCOUNT.name))
        await asyncio.sleep(20 * 60)
        assert away.happened
        assert len(replica.told) == 1
        assert replica.source.lacking() is None
        # 90 % of the half hour that takes the place of a day here.
        await asyncio.sleep(8 * 60)
        assert "could not be read for" in (replica.source.lacking() or "")
        world.cluster.faults.clear()
        await asyncio.sleep(30)
        assert replica.source.lacking() is None
        await replica.kill()

    play(story)


def test_a_patch_that_is_refused_is_named() -> None:
    async def story(world: World) -> None:
        await install(world, allowed=[each for each in certificate_needs() if each.verb != "patch"])
        replica = Replica(world)
        await asyncio.sleep(60)
        assert (
            "the caBundle of MutatingWebhookConfiguration podcliqueset-defaulting-webhook cannot be written: "
            in (replica.source.lacking() or "")
        )
        assert replica.served is not None
        await replica.kill()

    play(story)


def test_a_deleted_secret_is_made_again_at_once_with_what_is_served() -> None:
    async def story(world: World) -> None:
        await install(world)
        replicas = [Replica(world, seed) for seed in range(2)]
        await ready(world, *replicas)
        before = await secret(world)
        await world.user.delete(SECRETS, SECRET)
        await asyncio.sleep(1)
        after = await secret(world)
        assert after["tls.crt"] == before["tls.crt"]
        assert after["ca.key"] != before["ca.key"]
        assert await bundles(world) == {after["ca.crt"]}
        assert len(certificates_in(after["ca.crt"])) == 2
        for each in replicas:
            assert await each.refusals() == []
            await each.kill()

    play(story)


def aged(now: datetime) -> Material:
    """What an operator made almost ten years ago, and renewed since."""
    made = plan_material(Situation(now - 3650 * DAY + 89 * DAY, NAMES, None)).material
    return plan_material(Situation(now - 2 * DAY, NAMES, made)).material


async def put_in_place(world: World, material: Material) -> None:
    await put_secret(world, data_of(material))
    for of, name in ((VALIDATING, CLIQUESETS.name), (MUTATING, "podcliqueset-defaulting-webhook")):
        found = await world.get(of, name)
        assert found is not None
        found["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(material.ca).decode()
        await world.user.replace(of, found)


#: A new Secret of three steps, and the caBundles of five configurations that follow two of them, some of them twice.
MOST_WRITES = 13


@pytest.mark.parametrize("reached", [False, True], ids=["before it took effect", "after it took effect"])
@pytest.mark.parametrize("number", [*range(1, MOST_WRITES + 1)])
def test_a_rotation_goes_on_after_a_crash_at_any_write(number: int, reached: bool) -> None:
    async def story(world: World) -> None:
        await install(world)
        await put_in_place(world, aged(virtual_clock().now()))
        before = await secret(world)
        death = world.cluster.faults.add(
            Fault("lose", verb="write", user=ACCOUNT.name, skip=number - 1, times=1, after=reached)
        )
        replica = Replica(world, dies_with_a_request=True)
        refusals: list[str] = []
        end = virtual_clock().monotonic() + 3 * Periods().trusted.total_seconds() * 2
        while virtual_clock().monotonic() < end:
            await asyncio.sleep(20)
            if replica.transport.closed.is_set():
                await replica.kill()
                replica = Replica(world, number)
            refusals += await replica.refusals()
        assert death.happened
        assert refusals == []
        held = await secret(world)
        (authority,) = certificates_in(held["ca.crt"])
        assert authority not in certificates_in(before["ca.crt"])
        certificates_in(held["tls.crt"])[0].verify_directly_issued_by(authority)
        assert await bundles(world) == {held["ca.crt"]}
        assert replica.source.lacking() is None
        await replica.kill()

    play(story)


def go_material(now: datetime) -> Material:
    """As the Go operator's certificate controller makes it: RSA, and one name."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Grove-CA")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(now - 2 * DAY)
        .not_valid_after(now + 3000 * DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    made = sign_server(certificate, key, NAMES[:1], now=now - DAY, periods=Periods())
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    return Material(made.certificate, made.key, certificate.public_bytes(serialization.Encoding.PEM), text)


def test_the_authority_of_the_go_operator_is_taken_over() -> None:
    async def story(world: World) -> None:
        await install(world)
        theirs = go_material(virtual_clock().now())
        await put_in_place(world, theirs)
        replica = Replica(world)
        await ready(world, replica)
        held = await secret(world)
        assert held["ca.key"] == theirs.ca_key
        assert held["tls.crt"] != theirs.chain
        assert await bundles(world) == {theirs.ca}
        found = await world.get(SECRETS, SECRET.name, SECRET.namespace)
        assert found is not None
        assert found["type"] == "Opaque"
        await replica.kill()

    play(story)


def test_who_lost_the_names_of_its_server_does_not_lose_its_authority() -> None:
    async def story(world: World) -> None:
        await install(world)
        elsewhere = plan_material(Situation(virtual_clock().now(), ("grove.other.svc",), None)).material
        await put_in_place(world, elsewhere)
        replica = Replica(world)
        await ready(world, replica)
        assert (await secret(world))["ca.key"] == elsewhere.ca_key
        assert await replica.refusals() == []
        await replica.kill()

    play(story)


def test_the_secret_is_the_only_one_that_may_be_read() -> None:
    secrets = [each for each in certificate_needs() if each.resource == SECRETS]
    assert {(each.verb, each.namespace, each.name) for each in secrets} == {
        ("create", SECRET.namespace, ""),
        *((verb, SECRET.namespace, SECRET.name) for verb in ("get", "list", "watch", "update")),
    }
