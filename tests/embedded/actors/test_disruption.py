"""The disruption controller: what a budget's status says of the pods that it covers."""

from datetime import timedelta

import pytest
from tests.embedded.actors.cluster_objects import pod
from tests.embedded.actors.fake_server import passes
from tests.embedded.actors.test_actors_in_the_cluster import PODS, inside

from grove.embedded.actors.disruption import find_status
from grove.embedded.clock import rfc3339
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import LocalClient
from grove.testing.virtual_time import EPOCH

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def member(name: str, *, ready: bool = True, deleting: bool = False, app: str = "x") -> Manifest:
    made = pod(name)
    made["metadata"]["labels"] = {"app": app}
    if deleting:
        made["metadata"]["deletionTimestamp"] = rfc3339(EPOCH)
    made["status"] = {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    return made


def budget(**spec: object) -> Manifest:
    selector = {"matchLabels": {"app": "x"}}
    return {
        "metadata": {"name": "b", "namespace": "default", "generation": 3},
        "spec": {"selector": selector, **spec},
    }


THREE = [member("a"), member("b"), member("c", ready=False)]


@pytest.mark.parametrize(
    ("spec", "pods", "healthy", "needed", "left"),
    [
        ({"minAvailable": 1}, THREE, 2, 1, 1),
        ({"minAvailable": 2}, THREE, 2, 2, 0),
        ({"minAvailable": 5}, THREE, 2, 5, 0),
        ({"minAvailable": 0}, THREE, 2, 0, 2),
        ({"minAvailable": 0}, [], 0, 0, 0),
        ({"minAvailable": "50%"}, THREE, 2, 2, 0),
        ({"maxUnavailable": 2}, THREE, 2, 1, 1),
        ({"maxUnavailable": "34%"}, THREE, 2, 1, 1),
        ({"maxUnavailable": 7}, THREE, 2, 0, 2),
        ({"minAvailable": 1}, [*THREE, member("d", deleting=True)], 2, 1, 1),
    ],
)
def test_a_budget_counts_ready_pods_that_are_not_being_deleted(
    spec: Manifest, pods: list[Manifest], healthy: int, needed: int, left: int
) -> None:
    status, again = find_status(budget(**spec), pods, EPOCH)
    assert (status["currentHealthy"], status["desiredHealthy"]) == (healthy, needed)
    assert (status["expectedPods"], status["disruptionsAllowed"]) == (len(pods), left)
    assert status["observedGeneration"] == 3
    (said,) = status["conditions"]
    expected = ("True", "SufficientPods") if left else ("False", "InsufficientPods")
    assert (said["type"], said["status"], said["reason"]) == ("DisruptionAllowed", *expected)
    assert again is None


def test_a_pod_whose_eviction_was_allowed_counts_no_more_for_two_minutes_unless_it_goes() -> None:
    taken = {
        **budget(minAvailable=1),
        "status": {"disruptedPods": {"a": rfc3339(EPOCH), "z": rfc3339(EPOCH)}},
    }
    status, again = find_status(taken, THREE, EPOCH + timedelta(seconds=30))
    assert (status["currentHealthy"], status["disruptionsAllowed"]) == (1, 0)
    assert list(status["disruptedPods"]) == ["a"], "z does not exist any more"
    assert again == 90

    going = [member("a", deleting=True), *THREE[1:]]
    status, again = find_status(taken, going, EPOCH + timedelta(seconds=30))
    assert ("disruptedPods" in status, again) == (False, None)

    status, again = find_status(taken, THREE, EPOCH + timedelta(seconds=121))
    assert (status["currentHealthy"], "disruptedPods" in status, again) == (2, False, None)


def test_a_status_follows_the_pods_and_the_selector_of_a_budget() -> None:
    async def status(client: LocalClient) -> tuple[int, int, int]:
        await passes(1)
        found = (await client.get(f"{BUDGETS}/b"))["status"]
        assert found["observedGeneration"] == (await client.get(f"{BUDGETS}/b"))["metadata"]["generation"]
        return found["expectedPods"], found["currentHealthy"], found["disruptionsAllowed"]

    async def scenario(client: LocalClient) -> None:
        made = budget(minAvailable=1)
        made["metadata"].pop("generation")
        await client.create(BUDGETS, made)
        assert await status(client) == (0, 0, 0)
        for name, app in (("a", "x"), ("b", "x"), ("c", "y")):
            each = pod(name)
            each["metadata"]["labels"] = {"app": app}
            await client.create(PODS, each)
        assert await status(client) == (2, 2, 1)
        await client.patch(f"{PODS}/c", {"metadata": {"labels": {"app": "x"}}})
        assert await status(client) == (3, 3, 2)
        await client.delete(f"{PODS}/a")
        assert await status(client) == (2, 2, 1)
        await client.patch(f"{BUDGETS}/b", {"spec": {"selector": {"matchLabels": {"app": "y"}}}})
        assert await status(client) == (0, 0, 0)
        await client.patch(f"{BUDGETS}/b", {"spec": {"selector": {"matchLabels": None}}})
        assert await status(client) == (2, 2, 1), "an empty selector covers the namespace"
        await client.delete(f"{BUDGETS}/b")
        await passes(1)

    inside(scenario)


def test_two_evictions_at_once_do_not_both_get_the_last_disruption() -> None:
    async def scenario(client: LocalClient) -> None:
        await client.create(BUDGETS, budget(minAvailable=2))
        for name in ("a", "b", "c"):
            each = pod(name)
            each["metadata"]["labels"] = {"app": "x"}
            await client.create(PODS, each)
        await passes(1)
        answers = []
        for name in ("a", "b"):
            try:
                await client.create(f"{PODS}/{name}/eviction", {"metadata": {"name": name}})
                answers.append(201)
            except ApiError as error:
                answers.append(error.status)
        assert answers == [201, 429]
        await passes(5)
        ready = [each for each in (await client.list(PODS))["items"] if each["status"]["phase"] == "Running"]
        assert len(ready) == 2

    inside(scenario)
