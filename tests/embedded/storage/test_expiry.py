"""Events are gone an hour after they were last written; nothing else is."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from tests.embedded.bare_cluster import BARE, MAPS, config_map, with_cluster

from grove.embedded.cluster import EmbeddedCluster
from grove.embedded.errors import Manifest
from grove.embedded.local import LocalClient

EVENTS = "/api/v1/namespaces/default/events"
HOUR = 3600.0


def event(name: str) -> Manifest:
    return {
        "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Tested",
        "message": "x",
        "type": "Normal",
    }


async def names(client: LocalClient) -> list[str]:
    return [each["metadata"]["name"] for each in (await client.list(EVENTS))["items"]]


def test_an_event_lives_for_an_hour_after_its_last_write() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(EVENTS, event("once"))
        await client.create(EVENTS, event("again"))
        await client.create(MAPS, config_map("kept"))
        await asyncio.sleep(HOUR / 2)
        await client.patch(f"{EVENTS}/again", {"count": 2})
        await asyncio.sleep(HOUR / 2 - 1)
        assert await names(client) == ["again", "once"]
        await asyncio.sleep(2)
        assert await names(client) == ["again"]
        await asyncio.sleep(HOUR / 2)
        assert await names(client) == []
        assert (await client.list(MAPS))["items"]

    with_cluster(body)


def test_a_watch_sees_an_event_expire_as_deleted() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        made = await client.create(EVENTS, event("e"))
        version = made["metadata"]["resourceVersion"]
        watch = client.watch(EVENTS, resourceVersion=version, timeoutSeconds="7200")
        assert (await anext(watch))["type"] == "DELETED"
        await watch.aclose()

    with_cluster(body)


def test_an_event_that_was_deleted_and_made_again_has_a_whole_life() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(EVENTS, event("e"))
        await asyncio.sleep(HOUR / 2)
        await client.delete(f"{EVENTS}/e")
        await client.create(EVENTS, event("e"))
        await asyncio.sleep(HOUR / 2 + 1)
        assert await names(client) == ["e"]
        await asyncio.sleep(HOUR / 2)
        assert await names(client) == []

    with_cluster(body)


def test_kept_events_expire_after_a_restart_too(tmp_path: Path) -> None:
    options = replace(BARE, data_dir=tmp_path / "data")

    async def before(_: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(EVENTS, event("e"))

    async def after(_: EmbeddedCluster, client: LocalClient) -> None:
        assert await names(client) == ["e"]
        await asyncio.sleep(HOUR + 1)
        assert await names(client) == []

    with_cluster(before, options)
    with_cluster(after, options)
