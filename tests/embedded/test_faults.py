"""Scripted misfortune happens where the script says, and only there."""

from __future__ import annotations

import asyncio

import pytest
from tests.embedded.bare_cluster import MAPS, PODS, collect, config_map, pod, refusal, with_cluster

from grove.embedded.cluster import EmbeddedCluster
from grove.embedded.faults import ConnectionLost, Fault
from grove.embedded.local import LocalClient

ANSWERS = {"conflict": 409, "gone": 410, "throttle": 429, "error": 500}


@pytest.mark.parametrize("action", ANSWERS)
def test_a_fault_answers_in_place_of_the_server(action: str) -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        cluster.faults.add(Fault(action, verb="create", resource="configmaps", times=1))
        assert (await refusal(client.create(MAPS, config_map("x")))).status == ANSWERS[action]
        assert (await client.list(MAPS))["items"] == []
        await client.create(MAPS, config_map("x"))

    with_cluster(body)


def test_a_fault_strikes_the_chosen_resource_user_and_name_only() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        cluster.faults.add(
            Fault("error", verb="write", resource="configmaps", user="kubernetes-*", name="bad*")
        )
        await client.create(MAPS, config_map("good"))
        await client.create(PODS, pod("bad"))
        await client.create(MAPS, config_map("bad"))
        assert (await refusal(client.delete(f"{MAPS}/bad"))).status == 500

    with_cluster(body)


def test_the_nth_write_is_lost_before_it_takes_effect() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        cluster.faults.add(Fault("lose", verb="write", skip=1, times=1))
        await client.create(MAPS, config_map("a"))
        with pytest.raises(ConnectionLost):
            await client.create(MAPS, config_map("b"))
        assert [item["metadata"]["name"] for item in (await client.list(MAPS))["items"]] == ["a"]

    with_cluster(body)


def test_the_answer_to_a_write_is_lost_after_it_took_effect() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        cluster.faults.add(Fault("lose", verb="create", after=True, times=1))
        with pytest.raises(ConnectionLost):
            await client.create(MAPS, config_map("a"))
        assert (await refusal(client.create(MAPS, config_map("a")))).reason == "AlreadyExists"

    with_cluster(body)


def test_the_same_seed_fails_the_same_requests() -> None:
    runs: list[list[int]] = []

    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        cluster.faults.add(Fault("error", verb="create", probability=0.5))
        cluster.requests.clear()
        for number in range(20):
            try:
                await client.create(MAPS, config_map(f"m{number}"))
            except Exception:
                continue
        runs.append([entry.status for entry in cluster.requests])

    with_cluster(body)
    with_cluster(body)
    assert runs[0] == runs[1]
    assert {201, 500} == set(runs[0])


def test_a_dropped_watch_ends_after_the_events_it_may_send() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        since = str(cluster.store.revision)
        for name in "abc":
            await client.create(MAPS, config_map(name))
        cluster.faults.add(Fault("drop", verb="watch", resource="configmaps", events=2, times=1))
        first = [event async for event in client.watch(MAPS, resourceVersion=since)]
        assert len(first) == 2
        second = await collect(client.watch(MAPS, resourceVersion=since), 3)
        assert len(second) == 3

    with_cluster(body)


def test_a_stalled_watch_is_silent_until_its_timeout() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        cluster.faults.add(Fault("stall", verb="watch"))
        start = asyncio.get_running_loop().time()
        since = str(cluster.store.revision)
        await client.create(MAPS, config_map("a"))
        events = [e async for e in client.watch(MAPS, resourceVersion=since, timeoutSeconds="300")]
        assert events == []
        assert asyncio.get_running_loop().time() - start == pytest.approx(300)

    with_cluster(body)


def test_delayed_events_arrive_late_but_arrive() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        cluster.faults.add(Fault("delay", verb="watch", seconds=7))
        since = str(cluster.store.revision)
        await client.create(MAPS, config_map("a"))
        start = asyncio.get_running_loop().time()
        [event] = await collect(client.watch(MAPS, resourceVersion=since), 1)
        assert event["object"]["metadata"]["name"] == "a"
        assert asyncio.get_running_loop().time() - start == pytest.approx(7)

    with_cluster(body)


def test_an_unknown_fault_says_what_may_be_chosen() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        cluster.faults.add(Fault("explode", times=1))
        error = await refusal(client.list(MAPS))
        assert error.status == 500
        assert "choose conflict" in error.message

    with_cluster(body)
