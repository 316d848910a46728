"""Over real HTTPS on the loopback: certificates, tokens, streams, kubeconfig, ports."""

from __future__ import annotations

import asyncio
import base64
import ssl
import stat
from pathlib import Path

import aiohttp
import msgspec
import pytest
import yaml
from tests.embedded.bare_cluster import MAPS, config_map

from grove.embedded.cluster import ClusterOptions, EmbeddedCluster, RefusedToStart
from grove.embedded.faults import Fault
from grove.embedded.server.http import PortInUse

OPTIONS = ClusterOptions(actors=False, nodes=1)


def session(cluster: EmbeddedCluster) -> aiohttp.ClientSession:
    authority = cluster.kubeconfig()["clusters"][0]["cluster"]["certificate-authority-data"]
    context = ssl.create_default_context(cadata=base64.b64decode(authority).decode())
    # As Python 3.13 and later do by themselves.
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    connector = aiohttp.TCPConnector(ssl=context)
    headers = {"Authorization": f"Bearer {cluster.token}"}
    return aiohttp.ClientSession(cluster.url, connector=connector, headers=headers)


async def verbs_over_https() -> list[int | str]:
    async with EmbeddedCluster(OPTIONS) as cluster, session(cluster) as http:
        async with http.post(MAPS, json=config_map("x")) as made:
            seen: list[int | str] = [made.status]
        async with http.post(MAPS, json={**config_map("y"), "odd": 1}) as warned:
            seen.append(warned.headers["Warning"])
        async with http.get(MAPS, headers={"Authorization": ""}) as refused:
            seen.append(refused.status)
        return seen


async def watch_over_https() -> list[str]:
    query = {"watch": "true", "resourceVersion": "0"}
    async with (
        EmbeddedCluster(OPTIONS) as cluster,
        session(cluster) as http,
        http.get(MAPS, params=query) as response,
    ):
        (await http.post(MAPS, json=config_map("x"))).release()
        line = await response.content.readline()
        return [msgspec.json.decode(line)["type"], response.headers["Content-Type"]]


def test_verbs_warnings_and_tokens_work_over_https() -> None:
    assert asyncio.run(verbs_over_https()) == [201, '299 - "unknown field \\"odd\\""', 401]


def test_a_watch_streams_over_https() -> None:
    assert asyncio.run(watch_over_https()) == ["ADDED", "application/json"]


def test_a_client_that_goes_away_leaves_no_watcher() -> None:
    async def main() -> int:
        async with EmbeddedCluster(OPTIONS) as cluster:
            table = cluster.store.table(("", "configmaps"))
            async with session(cluster) as http, http.get(MAPS, params={"watch": "true"}):
                assert len(table.watchers) == 1
            async with asyncio.timeout(5):
                while table.watchers:  # noqa: ASYNC110 - the server has no event for "a client left"
                    await asyncio.sleep(0)
            return len(table.watchers)

    assert asyncio.run(main()) == 0


def test_a_lost_connection_is_a_broken_connection() -> None:
    async def main() -> None:
        async with EmbeddedCluster(OPTIONS) as cluster, session(cluster) as http:
            cluster.faults.add(Fault("lose", verb="create"))
            with pytest.raises(aiohttp.ClientError):
                await http.post(MAPS, json=config_map("x"))
            assert cluster.requests.count(verb="create", resource="configmaps") == 1

    asyncio.run(main())


def test_a_taken_port_is_one_clear_sentence() -> None:
    async def main() -> str:
        async with EmbeddedCluster(OPTIONS) as cluster:
            port = int(cluster.url.rpartition(":")[2])
            with pytest.raises(PortInUse) as caught:
                await EmbeddedCluster(ClusterOptions(actors=False, port=port)).start()
            return str(caught.value)

    assert "choose another port" in asyncio.run(main())


def test_the_kubeconfig_is_private_and_replaces_only_its_own_kind(tmp_path: Path) -> None:
    async def main() -> None:
        async with EmbeddedCluster(OPTIONS) as cluster:
            path = tmp_path / "kube" / "config"
            cluster.kubeconfig(path)
            cluster.kubeconfig(path)
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert yaml.safe_load(path.read_text())["clusters"][0]["cluster"]["server"] == cluster.url
            other = tmp_path / "other"
            other.write_text("clusters: [{name: production}]")
            with pytest.raises(FileExistsError):
                cluster.kubeconfig(other)
            assert "production" in other.read_text()

    asyncio.run(main())
    assert [entry.name for entry in (tmp_path / "kube").iterdir()] == ["config"]


def test_inside_a_real_cluster_it_refuses_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")

    async def main(options: ClusterOptions) -> bool:
        async with EmbeddedCluster(options):
            return True

    with pytest.raises(RefusedToStart):
        asyncio.run(main(ClusterOptions(listen=False, actors=False)))
    assert asyncio.run(main(ClusterOptions(listen=False, actors=False, force=True)))
