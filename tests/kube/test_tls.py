"""Who is believed, and who we say that we are."""

import base64
from pathlib import Path

import pytest
from tests.kube.pki import Pki
from tests.kube.stub import client_to, reply, serve

from grove import errors
from grove.errors import KubeconfigError
from grove.kube.config import Connection
from grove.kube.credentials import Credential, StaticCredentials
from grove.kube.retry import TLS
from grove.kube.tls import ClientCertificate, TlsOptions, client_context
from grove.kube.transport import HttpTransport

VERSION = reply({"major": "1"})


async def test_a_server_that_our_authority_vouches_for_is_believed(pki: Pki) -> None:
    async with serve(VERSION, tls=pki.server_context()) as stub:
        options = TlsOptions(authority=pki.authority.certificate)
        async with client_to(Connection(stub.url, tls=options)) as client:
            assert (await client.version()).major == "1"


async def test_a_server_that_nobody_vouches_for_is_not_and_is_not_asked_again(pki: Pki) -> None:
    async with serve(VERSION, tls=pki.server_context()) as stub, client_to(Connection(stub.url)) as client:
        with pytest.raises(errors.Unreachable, match="the server's certificate was not accepted") as caught:
            await client.version()
        assert caught.value.reason == TLS
        assert stub.asked == []


async def test_the_server_may_go_by_another_name(pki: Pki) -> None:
    async with serve(VERSION, tls=pki.server_context()) as stub:
        right = TlsOptions(authority=pki.authority.certificate, server_name="api.test")
        async with client_to(Connection(stub.url, tls=right)) as client:
            assert (await client.version()).major == "1"
        wrong = TlsOptions(authority=pki.authority.certificate, server_name="other.test")
        async with client_to(Connection(stub.url, tls=wrong)) as client:
            with pytest.raises(errors.Unreachable, match="certificate"):
                await client.version()


async def test_verification_can_be_switched_off(pki: Pki) -> None:
    blind = TlsOptions(verify=False)
    async with (
        serve(VERSION, tls=pki.server_context()) as stub,
        client_to(Connection(stub.url, tls=blind)) as client,
    ):
        assert (await client.version()).major == "1"


async def test_a_client_certificate_is_shown(pki: Pki) -> None:
    certificate = ClientCertificate(pki.client.certificate, pki.client.key)
    options = TlsOptions(authority=pki.authority.certificate)
    async with serve(VERSION, tls=pki.server_context(ask_client=True)) as stub:
        shown = StaticCredentials(Credential(certificate=certificate))
        async with client_to(Connection(stub.url, tls=options, credentials=shown)) as client:
            assert (await client.version()).major == "1"
        async with client_to(Connection(stub.url, tls=options), attempts=1) as client:
            with pytest.raises(errors.Unreachable):
                await client.version()


def test_a_certificate_that_does_not_load_is_named_at_once(pki: Pki) -> None:
    wrong = Credential(
        "",
        ClientCertificate(pki.client.certificate, pki.server.key),
        "config: users[a].user.client-certificate",
    )
    connection = Connection("https://api.test", credentials=StaticCredentials(wrong))
    with pytest.raises(KubeconfigError, match=r"config: users\[a\]\.user\.client-certificate cannot be used"):
        HttpTransport(connection)


def test_an_authority_that_does_not_load_is_named() -> None:
    broken = b"-----BEGIN CERTIFICATE-----\n" + base64.b64encode(b"x") + b"\n-----END CERTIFICATE-----\n"
    with pytest.raises(KubeconfigError, match="config: clusters holds no usable PEM certificate"):
        client_context(TlsOptions(authority=broken, source="config: clusters"))


def test_a_private_key_does_not_stay_on_the_disk(
    pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    client_context(TlsOptions(), ClientCertificate(pki.client.certificate, pki.client.key))
    assert list(tmp_path.iterdir()) == []


def test_secrets_are_not_printed(pki: Pki) -> None:
    certificate = ClientCertificate(pki.client.certificate, pki.client.key)
    printed = repr(Credential("Bearer secret", certificate, "here"))
    assert "secret" not in printed
    assert "PRIVATE" not in printed + repr(certificate)
