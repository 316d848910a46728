"""Certificates and kubeconfigs: who is who, and who may read the files."""

from __future__ import annotations

import base64
import json
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from grove.real import kubeconfig
from grove.real.certificates import Authority, Pair, signing_keys, write_private
from grove.real.failure import RealFailure
from grove.real.wire import client_context, free_ports


def subject(pem: bytes) -> tuple[str, list[str]]:
    name = x509.load_pem_x509_certificate(pem).subject
    users = [str(each.value) for each in name.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = [str(each.value) for each in name.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    return users[0], groups


def test_a_client_certificate_says_who_its_holder_is() -> None:
    pair = Authority("ca").client("system:serviceaccount:a:b", ("devs", "ops"))
    assert subject(pair.certificate) == ("system:serviceaccount:a:b", ["devs", "ops"])


def test_a_name_that_fits_into_no_certificate_is_refused() -> None:
    with pytest.raises(RealFailure, match="it has 65 characters and 1 to 64 fit"):
        Authority("ca").client("u" * 65)


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> str:
    """What the server learns of the client after a handshake in memory."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=name)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [ours, theirs]
    for _ in range(10):
        for each in list(waiting):
            try:
                each.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(each)
    assert not waiting
    certificate = theirs.getpeercert()
    assert certificate is not None
    return str(certificate["subject"])


def server_context(folder: Path, authority: Authority, trusts: Authority) -> ssl.SSLContext:
    pair = authority.server("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(
        write_private(folder / "s.crt", pair.certificate), write_private(folder / "s.key", pair.key)
    )
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=trusts.certificate.decode())
    return context


def as_client(folder: Path, trusts: Authority, pair: Pair) -> ssl.SSLContext:
    return client_context(
        write_private(folder / "ca.crt", trusts.certificate),
        write_private(folder / "c.crt", pair.certificate),
        write_private(folder / "c.key", pair.key),
    )


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "kubernetes.default.svc"])
def test_server_and_client_of_one_authority_trust_each_other(tmp_path: Path, name: str) -> None:
    authority = Authority("ca")
    client = as_client(tmp_path, authority, authority.client("jane"))
    assert "jane" in _shake_hands(client, server_context(tmp_path, authority, authority), name)


def test_a_user_of_the_cluster_is_nobody_to_etcd(tmp_path: Path) -> None:
    cluster, etcd = Authority("ca"), Authority("etcd-ca")
    client = as_client(tmp_path, etcd, cluster.client("jane", ("system:masters",)))
    with pytest.raises(ssl.SSLError):
        _shake_hands(client, server_context(tmp_path, etcd, etcd), "127.0.0.1")


def test_service_account_keys_are_a_pair() -> None:
    private, public = signing_keys()
    assert private.startswith(b"-----BEGIN EC PRIVATE KEY-----")
    assert public.startswith(b"-----BEGIN PUBLIC KEY-----")


def test_a_kubeconfig_is_complete_and_its_owners_alone(tmp_path: Path) -> None:
    authority = Authority("ca")
    config = kubeconfig.content(
        "https://127.0.0.1:1", authority=authority.certificate, user=authority.client("u")
    )
    path = kubeconfig.write(tmp_path / "new" / "config", config)
    assert path.stat().st_mode & 0o777 == 0o600
    read = json.loads(path.read_text())
    assert read["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1"
    certificate = base64.b64decode(read["users"][0]["user"]["client-certificate-data"])
    assert subject(certificate) == ("u", [])
    assert [each.name for each in path.parent.iterdir()] == ["config"]


def test_a_kubeconfig_of_another_cluster_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("apiVersion: v1\nkind: Config\ncurrent-context: production\n")
    with pytest.raises(FileExistsError, match="describes another cluster"):
        kubeconfig.write(path, {"current-context": kubeconfig.NAME})
    assert "production" in path.read_text()


def test_our_own_kubeconfig_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.touch(mode=0o644)
    kubeconfig.write(path, {"current-context": kubeconfig.NAME, "n": 1})
    kubeconfig.write(path, {"current-context": kubeconfig.NAME, "n": 2})
    assert json.loads(path.read_text())["n"] == 2
    assert path.stat().st_mode & 0o777 == 0o600


def test_ports_are_all_different() -> None:
    assert len(set(free_ports(20))) == 20
