"""Write down the keys and certificates of a new control plane, each readable by its owner only."""

from __future__ import annotations

from typing import Final

from grove.real.certificates import Authority, Pair, signing_keys, write_private
from grove.real.commands import FRONT_PROXY, Files

ADMIN: Final = "grove-admin"
ADMIN_GROUP: Final = "system:masters"


def write_keys(files: Files) -> Authority:
    """Everything that the programs find by its path; answers who signs the certificates of users."""
    for folder in (files.keys, files.users):
        folder.mkdir(mode=0o700, exist_ok=True)
    cluster, etcd = Authority("grove-real-ca"), Authority("grove-real-etcd-ca")
    # Whoever it signs may speak for any user to the API servers behind this one: it signs nobody else.
    front = Authority("grove-real-front-proxy-ca")
    private, public = signing_keys()
    _write_pair(files, "server", cluster.server("kube-apiserver"))
    _write_pair(files, "admin", cluster.client(ADMIN, (ADMIN_GROUP,)))
    _write_pair(files, "etcd", etcd.server("etcd"))
    _write_pair(files, "etcd-client", etcd.client("kube-apiserver"))
    _write_pair(files, "front-proxy", front.client(FRONT_PROXY))
    for name, content in (
        ("ca.crt", cluster.certificate),
        ("etcd-ca.crt", etcd.certificate),
        ("front-proxy-ca.crt", front.certificate),
        ("sa.key", private),
        ("sa.pub", public),
    ):
        write_private(files.key(name), content)
    return cluster


def _write_pair(files: Files, name: str, pair: Pair) -> None:
    write_private(files.key(f"{name}.crt"), pair.certificate)
    write_private(files.key(f"{name}.key"), pair.key)
