"""Watches over the app: resume, initial state, bookmarks, tables, ends."""

from __future__ import annotations

import asyncio

import msgspec
from tests.embedded.bare_cluster import MAPS, collect, config_map, refusal, send, with_cluster

from grove.embedded.cluster import EmbeddedCluster
from grove.embedded.errors import Manifest
from grove.embedded.local import LocalClient


async def read(
    cluster: EmbeddedCluster, path: str, accept: str = "application/json", **query: str
) -> list[Manifest]:
    """Everything that a watch says until the server ends it."""
    response = await send(cluster, "GET", path, headers={"accept": accept}, query={"watch": "true", **query})
    assert response.status == 200
    assert not isinstance(response.body, bytes)
    return [msgspec.json.decode(line) async for chunk in response.body for line in chunk.splitlines()]


def test_a_watch_goes_on_from_where_a_list_ended() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        start = (await client.list(MAPS))["metadata"]["resourceVersion"]
        await client.create(MAPS, config_map("a"))
        await client.patch(f"{MAPS}/a", {"data": {"b": "2"}})
        await client.delete(f"{MAPS}/a")
        events = await collect(client.watch(MAPS, resourceVersion=start), 3)
        assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]

    with_cluster(body)


def test_events_arrive_while_the_watch_waits() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        start = (await client.list(MAPS))["metadata"]["resourceVersion"]
        waiting = asyncio.create_task(collect(client.watch(MAPS, resourceVersion=start), 1))
        await asyncio.sleep(0)
        await client.create(MAPS, config_map("late"))
        [event] = await waiting
        assert event["object"]["metadata"]["name"] == "late"

    with_cluster(body)


def test_a_watch_ends_at_its_timeout_with_a_bookmark() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(MAPS, config_map("a"))
        events = await read(cluster, MAPS, timeoutSeconds="5", allowWatchBookmarks="true")
        assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
        assert events[-1]["object"]["metadata"]["resourceVersion"] == str(cluster.store.revision)

    with_cluster(body)


def test_bookmarks_come_every_minute() -> None:
    async def body(cluster: EmbeddedCluster, _: LocalClient) -> None:
        events = await read(cluster, MAPS, timeoutSeconds="150", allowWatchBookmarks="true")
        assert [event["type"] for event in events] == ["BOOKMARK"] * 3

    with_cluster(body)


def test_a_watch_list_closes_its_initial_events_with_a_bookmark() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(MAPS, config_map("a"))
        query = {"sendInitialEvents": "true", "allowWatchBookmarks": "true", "timeoutSeconds": "1"}
        events = await read(cluster, MAPS, resourceVersionMatch="NotOlderThan", **query)
        assert [event["type"] for event in events[:2]] == ["ADDED", "BOOKMARK"]
        assert events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}

    with_cluster(body)


def test_a_watch_from_a_forgotten_revision_is_200_with_a_410_inside() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        start = (await client.list(MAPS))["metadata"]["resourceVersion"]
        await client.create(MAPS, config_map("a"))
        cluster.compact()
        [event] = await read(cluster, MAPS, resourceVersion=start)
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)

    with_cluster(body)


def test_compaction_ends_open_watches_with_410() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        start = str(cluster.store.revision)
        waiting = asyncio.create_task(refusal(collect(client.watch(MAPS, resourceVersion=start), 1)))
        await asyncio.sleep(0)
        cluster.compact()
        assert (await waiting).status == 410

    with_cluster(body)


def test_a_watch_by_table_sends_its_columns_once() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        for name in "ab":
            await client.create(MAPS, config_map(name))
        accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
        first, second = await read(cluster, MAPS, accept, timeoutSeconds="1")
        assert [column["name"] for column in first["object"]["columnDefinitions"]] == ["Name", "Data", "Age"]
        assert second["object"]["columnDefinitions"] is None
        assert second["object"]["rows"][0]["cells"][:2] == ["b", 1]

    with_cluster(body)


def test_a_watch_by_name_sees_only_that_object() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        for name in "ab":
            await client.create(MAPS, config_map(name))
        events = await read(cluster, MAPS, fieldSelector="metadata.name=b", timeoutSeconds="1")
        assert [event["object"]["metadata"]["name"] for event in events] == ["b"]

    with_cluster(body)


def test_an_ended_watch_leaves_nothing_behind() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await client.create(MAPS, config_map("a"))
        events = client.watch(MAPS)
        await anext(events)
        await events.aclose()
        await read(cluster, MAPS, timeoutSeconds="1")
        assert cluster.store.table(("", "configmaps")).watchers == set()

    with_cluster(body)


def test_what_happened_before_the_cluster_was_ready_cannot_be_watched() -> None:
    async def body(cluster: EmbeddedCluster, _: LocalClient) -> None:
        [event] = await read(cluster, MAPS, resourceVersion="1")
        assert event["object"]["code"] == 410

    with_cluster(body)
