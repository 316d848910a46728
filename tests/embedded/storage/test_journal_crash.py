"""What a data directory holds when the cluster ends badly: a copy of its files is what a kill leaves behind."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.embedded.bare_cluster import BARE, MAPS, config_map, refusal, send, with_cluster

from grove.embedded import cluster as clusters
from grove.embedded.cluster import EmbeddedCluster
from grove.embedded.errors import Manifest
from grove.embedded.local import LocalClient
from grove.embedded.storage.journal import CHANGES, FILE, DirectoryInUse

NODES = "/api/v1/nodes"
SERVICES = "/api/v1/namespaces/default/services"


def uids(cluster: EmbeddedCluster) -> list[str]:
    return [
        entry.obj["metadata"]["uid"]
        for _, table in cluster.store.tables()
        for entry in table.entries.values()
    ]


def modes(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()}


def as_it_is(_: Path) -> None:
    """The files as the kill left them."""


def cut(by: int) -> Callable[[Path], None]:
    def lose(data: Path) -> None:
        os.truncate(data / CHANGES, max(0, (data / CHANGES).stat().st_size - by))

    return lose


def garbled(data: Path) -> None:
    content = bytearray((data / CHANGES).read_bytes())
    content[len(content) // 2] ^= 0xFF
    (data / CHANGES).write_bytes(content)


def without_sqlite_log(data: Path) -> None:
    os.truncate(data / f"{FILE}-wal", 0)


DAMAGES = {
    "none": as_it_is,
    "one byte missing": cut(1),
    "everything missing": cut(1 << 30),
    "a flipped bit": garbled,
    "the database's own log missing": without_sqlite_log,
}


def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    options = replace(BARE, data_dir=tmp_path / "data")
    kept: list[Manifest] = []

    async def before(_: EmbeddedCluster, client: LocalClient) -> None:
        for number in range(20):
            await client.create(MAPS, config_map(f"m{number}"))
        await client.delete(f"{MAPS}/m3")
        await client.patch(f"{MAPS}/m4", {"data": {"changed": "yes"}})
        kept.extend((await client.list(MAPS))["items"])
        shutil.copytree(tmp_path / "data", tmp_path / "killed")

    async def after(_: EmbeddedCluster, client: LocalClient) -> None:
        assert (await client.list(MAPS))["items"] == kept
        assert len((await client.list(NODES))["items"]) == BARE.nodes

    with_cluster(before, options)
    with_cluster(after, replace(options, data_dir=tmp_path / "killed"))


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_no_uid_and_no_revision_comes_twice(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    options = replace(BARE, data_dir=tmp_path / "data")
    seen: list[str] = []
    last: list[str] = []

    async def before(cluster: EmbeddedCluster, client: LocalClient) -> None:
        for number in range(5):
            made = await client.create(MAPS, config_map(f"m{number}"))
            last.append(made["metadata"]["resourceVersion"])
        page = (await client.list(MAPS, limit="2"))["metadata"]
        last.append(page["resourceVersion"])
        seen.extend(uids(cluster))
        last.append(page["continue"])
        shutil.copytree(tmp_path / "data", tmp_path / "killed")

    async def after(cluster: EmbeddedCluster, client: LocalClient) -> None:
        *versions, token = last
        made = [await client.create(MAPS, config_map(f"n{number}")) for number in range(5)]
        assert {each["metadata"]["uid"] for each in made}.isdisjoint(seen)
        assert len(set(uids(cluster))) == len(uids(cluster))
        assert all(int(each["metadata"]["resourceVersion"]) > max(map(int, versions)) for each in made)
        for version in versions:
            error = await refusal(anext(client.watch(MAPS, resourceVersion=version)))
            assert (error.status, error.reason) == (410, "Expired")
        assert (await refusal(client.list(MAPS, limit="2", **{"continue": token}))).status == 410

    with_cluster(before, options)
    damage(tmp_path / "killed")
    with_cluster(after, replace(options, data_dir=tmp_path / "killed"))


def test_uids_and_addresses_do_not_come_twice_after_a_clean_restart_either(tmp_path: Path) -> None:
    options = replace(BARE, data_dir=tmp_path / "data")
    service = {"spec": {"ports": [{"port": 80}]}}

    async def life(cluster: EmbeddedCluster, client: LocalClient) -> None:
        name = f"s{cluster.store.revision}"
        await client.create(SERVICES, {"metadata": {"name": name}, **service})
        assert len(set(uids(cluster))) == len(uids(cluster))
        addresses = [each["spec"]["clusterIP"] for each in (await client.list(SERVICES))["items"]]
        assert len(set(addresses)) == len(addresses)

    for _ in range(3):
        with_cluster(life, options)


@pytest.mark.parametrize(("number", "want"), [(errno.ENOSPC, 507), (errno.EDQUOT, 507), (errno.EIO, 500)])
def test_a_disk_that_takes_half_of_a_write_refuses_it_and_works_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, want: int
) -> None:
    options = replace(BARE, data_dir=tmp_path / "data")
    write = os.pwrite

    def broken(fd: int, content: bytes, offset: int) -> int:
        if len(content) > 100:
            return write(fd, content[:100], offset)
        raise OSError(number, os.strerror(number))

    async def before(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(MAPS, config_map("kept"))
        revision = cluster.store.revision
        with monkeypatch.context() as patched:
            patched.setattr(os, "pwrite", broken)
            for action in (
                client.create(MAPS, config_map("refused")),
                client.patch(f"{MAPS}/kept", {"data": {"refused": "x"}}),
                client.delete(f"{MAPS}/kept"),
            ):
                error = await refusal(action)
                assert error.status == want
                assert "nothing was stored" in error.message
            assert cluster.store.revision == revision
            assert (await send(cluster, "GET", f"{MAPS}/refused")).status == 404
            assert "refused" not in (await client.get(f"{MAPS}/kept")).get("data", {})
        await client.create(MAPS, config_map("later"))
        shutil.copytree(tmp_path / "data", tmp_path / "killed")

    async def after(_: EmbeddedCluster, client: LocalClient) -> None:
        kept = (await client.list(MAPS))["items"]
        assert [each["metadata"]["name"] for each in kept] == ["kept", "later"]

    with_cluster(before, options)
    with_cluster(after, replace(options, data_dir=tmp_path / "killed"))


def test_a_directory_is_used_by_one_cluster_at_a_time(tmp_path: Path) -> None:
    options = replace(BARE, data_dir=tmp_path / "data")

    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        with pytest.raises(DirectoryInUse) as refused:
            EmbeddedCluster(options)
        assert str(tmp_path / "data") in str(refused.value)
        assert f"process {os.getpid()}" in str(refused.value)
        await client.create(MAPS, config_map("still-works"))

    with_cluster(body, options)


def test_only_the_owner_reads_what_is_kept(tmp_path: Path) -> None:
    options = replace(BARE, data_dir=tmp_path / "new" / "data")
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    (shared / FILE).touch(mode=0o644)
    before = os.umask(0)
    try:
        for folder in (tmp_path / "new" / "data", shared):

            async def body(_: EmbeddedCluster, client: LocalClient, folder: Path = folder) -> None:
                await client.create(MAPS, config_map("m"))
                files = modes(folder)
                assert files == dict.fromkeys(files, 0o600)
                assert FILE in files

            with_cluster(body, replace(options, data_dir=folder))
    finally:
        os.umask(before)
    assert (tmp_path / "new" / "data").stat().st_mode & 0o777 == 0o700


def test_a_cluster_that_never_was_complete_starts_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = replace(BARE, data_dir=tmp_path / "data")

    async def unused(*_: object) -> None:
        raise AssertionError("it must not have started")

    def ended(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(clusters, "node_objects", ended)
        with pytest.raises(KeyboardInterrupt):
            with_cluster(unused, options)

    async def after(_: EmbeddedCluster, client: LocalClient) -> None:
        assert len((await client.list(NODES))["items"]) == BARE.nodes

    with_cluster(after, options)
    with_cluster(after, options)
