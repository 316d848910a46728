"""Secrets with tokens of a service account go with it; others stay."""

import asyncio

from tests.embedded.bare_cluster import with_cluster

from grove.embedded.cluster import ClusterOptions, EmbeddedCluster
from grove.embedded.errors import Manifest
from grove.embedded.local import LocalClient

SECRETS = "/api/v1/namespaces/default/secrets"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


def secret(name: str, account: str, type_: str = "kubernetes.io/service-account-token") -> Manifest:
    marks = {"kubernetes.io/service-account.name": account}
    return {"kind": "Secret", "metadata": {"name": name, "annotations": marks}, "type": type_}


def test_the_tokens_of_an_account_are_deleted_with_it_and_no_other_secret_is() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        for account in ("mine", "yours"):
            await client.create(ACCOUNTS, {"kind": "ServiceAccount", "metadata": {"name": account}})
        for each in (
            secret("token", "mine"),
            secret("older-token", "mine"),
            secret("theirs", "yours"),
            secret("plain", "mine", "Opaque"),
        ):
            await client.create(SECRETS, each)
        await client.delete(f"{ACCOUNTS}/mine")
        await asyncio.sleep(5)
        found = await client.list(SECRETS)
        assert {each["metadata"]["name"] for each in found["items"]} == {"theirs", "plain"}

    with_cluster(body, ClusterOptions(nodes=0, listen=False))
