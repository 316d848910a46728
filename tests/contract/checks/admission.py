"""What is decided about a write before it is stored: priority, quota, limits, budgets."""

from __future__ import annotations

from tests.contract.contract import Contract, Observation
from tests.contract.objects import Manifest, pod, pod_asking

PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"


async def check_a_priority_class_that_does_not_exist(api: Contract) -> Observation:
    return (await api.create(api.pods, pod("pp1", priorityClassName="nope"))).refused


async def check_a_priority_class_gives_its_value(api: Contract) -> Observation:
    level = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": api.namespace},
        "value": 7,
        "preemptionPolicy": "Never",
    }
    await api.create(PRIORITIES, level)
    spec = (await api.create(api.pods, pod("pp2", priorityClassName=api.namespace))).body["spec"]
    changed = await api.merge(f"{PRIORITIES}/{api.namespace}", {"value": 8})
    await api.delete(f"{PRIORITIES}/{api.namespace}")
    return [spec["priority"], spec["preemptionPolicy"], changed.refused]


async def check_a_priority_that_contradicts_its_class(api: Contract) -> Observation:
    sent = pod("pp3", priorityClassName="system-cluster-critical", priority=5)
    return (await api.create(api.pods, sent)).refused


async def check_a_priority_of_the_systems_range(api: Contract) -> Observation:
    level = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": api.namespace},
        "value": 2_000_000_000,
    }
    return (await api.create(PRIORITIES, level)).refused


async def _quota(api: Contract, **hard: str) -> None:
    named = {name.replace("__", "/").replace("_", "."): value for name, value in hard.items()}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": named},
    }
    path = api.path("resourcequotas")
    await api.create(path, quota)
    await api.until(
        path, "q", lambda found: found is not None and (found.get("status") or {}).get("hard") == named
    )


async def check_a_quota_of_objects(api: Contract) -> Observation:
    await _quota(api, pods="1")
    first = await api.create(api.pods, pod("a"))
    second = await api.create(api.pods, pod("b"))
    return [first.status, second.told]


async def check_a_quota_of_devices(api: Contract) -> Observation:
    path = api.path("resourcequotas")
    hard = {"requests.nvidia.com/gpu": "8"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}
    await api.create(path, quota)
    await api.until(
        path, "q", lambda found: found is not None and (found.get("status") or {}).get("hard") == hard
    )
    first = await api.create(api.pods, pod_asking("a", limits={"nvidia.com/gpu": "6"}))
    second = await api.create(api.pods, pod_asking("b", limits={"nvidia.com/gpu": "4"}))
    return [first.status, second.told]


async def check_a_quota_that_wants_requests(api: Contract) -> Observation:
    await _quota(api, requests_cpu="4")
    return (await api.create(api.pods, pod("a"))).told


async def check_limit_ranges_fill_in_and_refuse(api: Contract) -> Observation:
    limit = {
        "type": "Container",
        "default": {"cpu": "500m"},
        "defaultRequest": {"cpu": "250m"},
        "max": {"cpu": "1"},
    }
    made = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "l"},
        "spec": {"limits": [limit]},
    }
    path = api.path("limitranges")
    await api.create(path, made)
    await api.until(path, "l", lambda found: found is not None)
    plain = await api.create(api.pods, pod("a"))
    big = await api.create(api.pods, pod_asking("b", limits={"cpu": "2"}, requests={"cpu": "1"}))
    return [plain.body["spec"]["containers"][0]["resources"], big.told]


async def check_eviction(api: Contract) -> Observation:
    await api.create(api.pods, pod("ev1"))
    evicted = await api.create(f"{api.pods}/ev1/eviction", _eviction("ev1"))
    return [evicted.status, (await api.get(f"{api.pods}/ev1")).status]


async def check_a_budget_refuses_eviction(api: Contract) -> Observation:
    budgets = api.path("poddisruptionbudgets", "policy/v1")
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": spec,
    }
    await api.create(budgets, budget)
    await api.create(api.pods, pod("ev2", {"labels": {"app": "x"}}, nodeName="nx"))
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await api.merge(f"{api.pods}/ev2/status", {"status": ready})
    answer = await api.create(f"{api.pods}/ev2/eviction", _eviction("ev2"))
    await api.delete(f"{api.pods}/ev2", gracePeriodSeconds=0)
    return answer.refused


def _eviction(name: str) -> Manifest:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
