"""A cluster with a data directory comes back as it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.embedded.bare_cluster import (
    BARE,
    CRDS,
    GANGS,
    MAPS,
    config_map,
    gang,
    gang_crd,
    refusal,
    with_cluster,
)

from grove.embedded.cluster import EmbeddedCluster
from grove.embedded.local import LocalClient


def test_objects_kinds_and_revisions_survive_a_restart(tmp_path: Path) -> None:
    kept: list[object] = []
    options = replace(BARE, data_dir=tmp_path / "data")

    async def before(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(CRDS, gang_crd())
        await client.create(GANGS, gang("g"))
        await client.create(MAPS, config_map("gone"))
        await client.delete(f"{MAPS}/gone")
        kept.extend([await client.get(f"{GANGS}/g"), cluster.store.revision, cluster.token])

    async def after(cluster: EmbeddedCluster, client: LocalClient) -> None:
        assert [await client.get(f"{GANGS}/g"), cluster.store.revision, cluster.token] == kept
        assert (await client.list(MAPS))["items"] == []
        await client.create(GANGS, gang("h"))
        error = await refusal(anext(client.watch(GANGS, resourceVersion="5")))
        assert error.status == 410

    with_cluster(before, options)
    with_cluster(after, options)


def test_a_journalled_cluster_cannot_be_restored_behind_its_journals_back(tmp_path: Path) -> None:
    async def body(cluster: EmbeddedCluster, _: LocalClient) -> None:
        with pytest.raises(RuntimeError, match="fork"):
            cluster.restore(cluster.snapshot())

    with_cluster(body, replace(BARE, data_dir=tmp_path / "data"))
