"""Going back and branching off."""

from __future__ import annotations

from tests.embedded.bare_cluster import CRDS, GANGS, MAPS, config_map, gang, gang_crd, refusal, with_cluster

from grove.embedded.cluster import EmbeddedCluster
from grove.embedded.local import LocalClient


def test_a_restored_cluster_repeats_what_it_did_before() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        snapshot = cluster.snapshot()
        first = await client.create(MAPS, {"metadata": {"generateName": "x-"}})
        cluster.restore(snapshot)
        assert (await client.list(MAPS))["items"] == []
        second = await client.create(MAPS, {"metadata": {"generateName": "x-"}})
        assert second["metadata"] == first["metadata"]

    with_cluster(body)


def test_restoring_takes_back_custom_kinds_too() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        before = cluster.snapshot()
        await client.create(CRDS, gang_crd())
        with_kind = cluster.snapshot()
        cluster.restore(before)
        assert (await refusal(client.list(GANGS))).status == 404
        cluster.restore(with_kind)
        assert (await client.list(GANGS))["items"] == []

    with_cluster(body)


def test_a_fork_is_a_cluster_of_its_own() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(CRDS, gang_crd())
        await client.create(GANGS, gang("shared"))
        async with await cluster.fork() as twin:
            await twin.client().create(GANGS, gang("theirs"))
            await client.create(MAPS, config_map("ours"))
            assert len((await twin.client().list(GANGS))["items"]) == 2
            assert (await twin.client().list(MAPS))["items"] == []
        assert len((await client.list(GANGS))["items"]) == 1

    with_cluster(body)
