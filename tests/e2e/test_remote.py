"""The embedded actors' way into another cluster: the same verbs and the same refusals, over HTTPS."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from tests.contract.serving import BARE, served

from grove.embedded.errors import ApiError, Manifest
from grove.embedded.remote import RemoteClient, address_from

MAPS = "/api/v1/namespaces/default/configmaps"


def config_map(name: str, **data: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def over_https(folder: Path, story: Callable[[RemoteClient], Awaitable[None]]) -> None:
    """A story of a client on an embedded cluster that listens."""

    async def told(path: Path) -> None:
        client = RemoteClient(address_from(path))
        try:
            await story(client)
        finally:
            await client.close()

    path = folder / "kubeconfig"
    with served(path, replace(BARE, kubernetes="1.36")):
        asyncio.run(told(path))


def test_the_verbs_of_an_actor_work_over_https(tmp_path: Path) -> None:
    async def story(client: RemoteClient) -> None:
        made = await client.create(MAPS, config_map("one", a="1"))
        assert made["metadata"]["uid"]
        await client.update(f"{MAPS}/one", made | {"data": {"a": "2"}})
        changed = await client.patch(f"{MAPS}/one", {"data": {"b": "3"}})
        assert changed["data"] == {"a": "2", "b": "3"}
        assert (await client.get(f"{MAPS}/one"))["data"] == changed["data"]
        listed = await client.list(MAPS, fieldSelector="metadata.name=one")
        assert [item["metadata"]["name"] for item in listed["items"]] == ["one"]
        await client.delete(f"{MAPS}/one", {"preconditions": {"uid": made["metadata"]["uid"]}})
        with pytest.raises(ApiError) as refused:
            await client.get(f"{MAPS}/one")
        assert (refused.value.status, refused.value.reason) == (404, "NotFound")

    over_https(tmp_path, story)


def test_a_client_of_a_service_account_is_nobody_else(tmp_path: Path) -> None:
    async def story(client: RemoteClient) -> None:
        async with client.account("default", "default") as account:
            with pytest.raises(ApiError) as refused:
                await account.list(MAPS)
        assert refused.value.status == 403
        assert "system:serviceaccount:default:default" in refused.value.message
        assert (await client.list(MAPS))["items"] == []

    over_https(tmp_path, story)


def test_a_watch_tells_changes_in_order_also_when_a_line_is_long(tmp_path: Path) -> None:
    async def story(client: RemoteClient) -> None:
        version = (await client.list(MAPS))["metadata"]["resourceVersion"]
        long = "x" * 500_000
        await client.create(MAPS, config_map("long", text=long))
        await client.create(MAPS, config_map("short"))
        found: list[tuple[str, str, int]] = []
        async with aclosing(client.watch(MAPS, resourceVersion=version)) as events:
            async for event in events:
                obj = event["object"]
                size = len((obj.get("data") or {}).get("text", ""))
                found.append((event["type"], obj["metadata"]["name"], size))
                if len(found) == 2:
                    break
        assert found == [("ADDED", "long", len(long)), ("ADDED", "short", 0)]

    over_https(tmp_path, story)


def test_a_watch_from_a_version_that_cannot_be_is_refused(tmp_path: Path) -> None:
    async def story(client: RemoteClient) -> None:
        with pytest.raises(ApiError) as refused:
            async with aclosing(client.watch(MAPS, resourceVersion="none")) as events:
                await anext(events)
        assert "none" in refused.value.message

    over_https(tmp_path, story)


def test_a_server_that_does_not_answer_is_a_connection_error(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    with served(path):
        address = address_from(path)

    async def ask() -> None:
        client = RemoteClient(address)
        try:
            with pytest.raises(ConnectionError, match=r"GET /api/v1/nodes did not reach the server"):
                await client.get("/api/v1/nodes")
            with pytest.raises(ConnectionError, match="watch /api/v1/nodes"):
                await anext(client.watch("/api/v1/nodes"))
        finally:
            await client.close()

    asyncio.run(ask())
    assert address.server.startswith("https://127.0.0.1")


def test_a_kubeconfig_without_its_context_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump({"current-context": "nowhere", "contexts": []}))
    with pytest.raises(ValueError, match="contexts has no entry named 'nowhere'"):
        address_from(path)
