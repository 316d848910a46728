"""Evictions: what a disruption budget lets go, and what an evicted pod says."""

from __future__ import annotations

import pytest
from tests.embedded.bare_cluster import PODS, json_of, pod, refusal, send, with_cluster

from grove.embedded.cluster import EmbeddedCluster
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import LocalClient
from grove.embedded.storage.store import encode

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


async def run_pod(client: LocalClient, name: str, *, ready: bool = True) -> None:
    made = pod(name, nodeName="node-0")
    made["metadata"]["labels"] = {"app": "x"}
    await client.create(PODS, made)
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    await client.patch(f"{PODS}/{name}/status", {"status": {"phase": "Running", "conditions": conditions}})


async def set_budget(client: LocalClient, name: str = "b", *, allowed: int = 0, **more: object) -> None:
    """A budget as the disruption controller leaves it: two pods are needed, and so many more may go."""
    spec = {"minAvailable": 2, "selector": {"matchLabels": {"app": "x"}}, **more}
    await client.create(BUDGETS, {"metadata": {"name": name}, "spec": spec})
    status = {
        "observedGeneration": 1,
        "desiredHealthy": 2,
        "currentHealthy": 2 + allowed,
        "expectedPods": 2 + allowed,
        "disruptionsAllowed": allowed,
    }
    await client.patch(f"{BUDGETS}/{name}/status", {"status": status})


async def evict(client: LocalClient, name: str, **more: object) -> Manifest:
    return await client.create(f"{PODS}/{name}/eviction", {"metadata": {"name": name}, **more})


def causes(error: ApiError) -> list[str]:
    assert (error.status, error.reason) == (429, "TooManyRequests")
    assert error.message == "Cannot evict pod as it would violate the pod's disruption budget."
    found = (error.details or {})["causes"]
    assert {each["reason"] for each in found} == {"DisruptionBudget"}
    return [each["message"] for each in found]


async def is_going(client: LocalClient, name: str) -> bool:
    return "deletionTimestamp" in (await client.get(f"{PODS}/{name}"))["metadata"]


def test_an_evicted_pod_terminates_and_says_that_it_was_evicted() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await run_pod(client, "a")
        assert (await evict(client, "a"))["status"] == "Success"
        found = await client.get(f"{PODS}/a")
        assert "deletionTimestamp" in found["metadata"]
        (said,) = [each for each in found["status"]["conditions"] if each["type"] == "DisruptionTarget"]
        assert (said["status"], said["reason"]) == ("True", "EvictionByEvictionAPI")
        assert said["message"] == "Eviction API: evicting"

    with_cluster(body)


def test_each_eviction_takes_one_disruption_from_the_budget_and_the_next_one_is_refused() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        for name in ("a", "b", "c"):
            await run_pod(client, name)
        await set_budget(client, allowed=1)
        await evict(client, "a")
        status = (await client.get(f"{BUDGETS}/b"))["status"]
        assert status["disruptionsAllowed"] == 0
        assert list(status["disruptedPods"]) == ["a"]
        assert [each["reason"] for each in status["conditions"]] == ["InsufficientPods"]
        # Nobody has counted again since, so that the server still has the numbers of before.
        refused = causes(await refusal(evict(client, "b")))
        assert refused == ["The disruption budget b does not allow evicting pods currently"]
        assert not await is_going(client, "b")

    with_cluster(body)


def test_a_budget_without_room_refuses_and_says_how_many_pods_it_needs() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await run_pod(client, "a")
        await set_budget(client)
        refused = causes(await refusal(evict(client, "a")))
        assert refused == ["The disruption budget b needs 2 healthy pods and has 2 currently"]
        assert not await is_going(client, "a")

    with_cluster(body)


def test_a_budget_that_nobody_has_counted_refuses_and_names_a_time_to_come_back() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        await run_pod(client, "a")
        spec = {"minAvailable": 0, "selector": {"matchLabels": {"app": "x"}}}
        await client.create(BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
        answer = await send(cluster, "POST", f"{PODS}/a/eviction", encode({"metadata": {"name": "a"}}))
        details = json_of(answer)["details"]
        assert (answer.status, answer.headers["Retry-After"]) == (429, "10")
        assert details["causes"][0]["message"] == (
            "The disruption budget b is still being processed by the server."
        )

    with_cluster(body)


def test_a_pod_of_two_budgets_cannot_be_evicted() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await run_pod(client, "a")
        await set_budget(client, "b", allowed=1)
        await set_budget(client, "c", allowed=1)
        answer = await evict(client, "a")
        assert (answer["status"], answer["code"]) == ("Failure", 500)
        assert "more than one PodDisruptionBudget" in answer["message"]
        assert not await is_going(client, "a")

    with_cluster(body)


@pytest.mark.parametrize(
    ("policy", "healthy", "goes"),
    [("AlwaysAllow", 1, True), ("IfHealthyBudget", 1, False), ("IfHealthyBudget", 2, True)],
)
def test_an_unready_pod_goes_if_the_policy_says_so_or_enough_others_are_healthy(
    policy: str, healthy: int, goes: bool
) -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await run_pod(client, "a", ready=False)
        await set_budget(client, unhealthyPodEvictionPolicy=policy)
        await client.patch(f"{BUDGETS}/b/status", {"status": {"currentHealthy": healthy}})
        if goes:
            await evict(client, "a")
        else:
            causes(await refusal(evict(client, "a")))
        assert await is_going(client, "a") is goes

    with_cluster(body)


def test_a_pod_that_does_not_run_yet_needs_no_budget() -> None:
    async def body(cluster: EmbeddedCluster, client: LocalClient) -> None:
        waiting = pod("a")
        waiting["metadata"]["labels"] = {"app": "x"}
        await client.create(PODS, waiting)
        await set_budget(client)
        await evict(client, "a")
        assert (await send(cluster, "GET", f"{PODS}/a")).status == 404

    with_cluster(body)


def test_a_dry_run_takes_nothing_from_the_budget_and_leaves_the_pod() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await run_pod(client, "a")
        await set_budget(client, allowed=1)
        before = await client.get(f"{BUDGETS}/b"), await client.get(f"{PODS}/a")
        await evict(client, "a", deleteOptions={"dryRun": ["All"]})
        assert (await client.get(f"{BUDGETS}/b"), await client.get(f"{PODS}/a")) == before

    with_cluster(body)


def test_an_eviction_that_names_another_version_of_the_pod_changes_nothing() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await run_pod(client, "a")
        await set_budget(client, allowed=1)
        stale = {"preconditions": {"resourceVersion": "1"}}
        assert (await refusal(evict(client, "a", deleteOptions=stale))).status == 409
        assert (await client.get(f"{BUDGETS}/b"))["status"]["disruptionsAllowed"] == 1
        assert not await is_going(client, "a")
        present = (await client.get(f"{PODS}/a"))["metadata"]["resourceVersion"]
        await evict(client, "a", deleteOptions={"preconditions": {"resourceVersion": present}})
        assert await is_going(client, "a")

    with_cluster(body)


def test_an_eviction_of_another_name_than_the_path_is_refused() -> None:
    async def body(_: EmbeddedCluster, client: LocalClient) -> None:
        await run_pod(client, "a")
        error = await refusal(client.create(f"{PODS}/a/eviction", {"metadata": {"name": "b"}}))
        assert error.status == 400
        assert not await is_going(client, "a")

    with_cluster(body)
