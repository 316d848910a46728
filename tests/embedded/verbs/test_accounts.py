"""Pods and their ServiceAccounts: `default` is in every namespace, and an account that is missing is refused."""

from __future__ import annotations

from dataclasses import replace

from tests.embedded.bare_cluster import BARE, PODS, refusal, with_cluster

from grove.embedded.cluster import EmbeddedCluster
from grove.embedded.errors import Manifest
from grove.embedded.local import LocalClient

NAMESPACES = "/api/v1/namespaces"
ACCOUNTS = f"{NAMESPACES}/new/serviceaccounts"


def pod(name: str, **spec: object) -> Manifest:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def test_a_pod_with_an_account_that_does_not_exist_is_refused() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        error = await refusal(client.create(PODS, pod("p", serviceAccountName="nope")))
        assert (error.status, error.reason) == (403, "Forbidden")
        assert error.message == (
            'pods "p" is forbidden: error looking up service account default/nope: '
            'serviceaccount "nope" not found'
        )
        await client.create(f"{NAMESPACES}/default/serviceaccounts", {"metadata": {"name": "nope"}})
        made = await client.create(PODS, pod("p", serviceAccountName="nope"))
        assert made["spec"]["serviceAccountName"] == "nope"

    with_cluster(body)


def test_a_new_namespace_has_its_default_account_and_gets_it_again() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(NAMESPACES, {"metadata": {"name": "new"}})
        first = await client.get(f"{ACCOUNTS}/default")
        await client.create(f"{NAMESPACES}/new/pods", pod("p"))
        await client.delete(f"{ACCOUNTS}/default")
        second = await client.get(f"{ACCOUNTS}/default")
        assert second["metadata"]["uid"] != first["metadata"]["uid"]
        await client.create(f"{NAMESPACES}/new/pods", pod("q"))

    with_cluster(body)


def test_a_namespace_that_goes_takes_its_account_along() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(NAMESPACES, {"metadata": {"name": "new"}})
        await client.delete(f"{NAMESPACES}/new")
        await client.delete(f"{ACCOUNTS}/default")
        assert (await client.list(ACCOUNTS))["items"] == []

    with_cluster(body, replace(BARE, nodes=0))


def test_a_pod_gets_the_pull_secrets_of_its_account_unless_it_has_its_own() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        secrets = {"imagePullSecrets": [{"name": "registry"}]}
        await client.patch(f"{NAMESPACES}/default/serviceaccounts/default", secrets)
        made = await client.create(PODS, pod("p"))
        assert made["spec"]["imagePullSecrets"] == [{"name": "registry"}]
        own = await client.create(PODS, pod("q", imagePullSecrets=[{"name": "own"}]))
        assert own["spec"]["imagePullSecrets"] == [{"name": "own"}]

    with_cluster(body)
