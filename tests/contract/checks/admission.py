"""What is decided about a write before it is stored: priority, quota, limits, budgets, webhooks."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable

from tests.contract.contract import Contract, Observation, Unavailable
from tests.contract.hooks import serving
from tests.contract.objects import Manifest, config_map, pod, pod_asking

PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
HOOKS = "/apis/admissionregistration.k8s.io/v1"


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


# --- webhooks


def _webhook(url: str, authority: bytes, api: Contract, **more: object) -> Manifest:
    rule = {
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["configmaps"],
    }
    return {
        "name": "hook.example.com",
        "clientConfig": {"url": url, "caBundle": base64.b64encode(authority).decode()},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": api.namespace}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 5,
        **more,
    }


def _configuration(kind: str, api: Contract, webhook: Manifest) -> Manifest:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": api.namespace},
        "webhooks": [webhook],
    }


async def _with_hook(
    api: Contract,
    kind: str,
    answer: Manifest,
    body: Callable[[list[Manifest]], Awaitable[Observation]],
    **more: object,
) -> Observation:
    """Runs a body while a webhook is asked about this namespace's config maps."""
    if not api.server.on_loopback:
        raise Unavailable("the server cannot call a webhook on this machine")
    plural = f"{HOOKS}/{kind.lower()}webhookconfigurations"
    async with serving(answer) as hook:
        made = _configuration(kind, api, _webhook(hook.url, hook.authority, api, **more))
        answered = await api.create(plural, made)
        if answered.status != 201:
            raise Unavailable(f"the webhook cannot be configured: {answered.told}")
        try:
            await _in_force(api, hook.asked)
            return await body(hook.asked)
        finally:
            await api.delete(f"{plural}/{api.namespace}")


async def _in_force(api: Contract, asked: list[Manifest]) -> None:
    """A real server reads its webhooks a moment later; dry runs find out without leaving a trace."""
    async with asyncio.timeout(10):
        while not asked:
            await api.create(api.maps, config_map("probe"), dryRun="All")
    asked.clear()


async def check_a_webhook_changes_an_object(api: Contract) -> Observation:
    patch = [{"op": "add", "path": "/data/hooked", "value": "yes"}]
    answer = {
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": base64.b64encode(json.dumps(patch).encode()).decode(),
        "warnings": ["mind the gap"],
    }

    async def body(asked: list[Manifest]) -> Observation:
        made = await api.create(api.maps, config_map("m"))
        question = asked[-1]
        about = [question["operation"], question["resource"], question["name"], question["dryRun"]]
        return [made.body["data"], made.headers.get("Warning"), about]

    return await _with_hook(api, "Mutating", answer, body)


async def check_a_webhook_refuses(api: Contract) -> Observation:
    answer = {"allowed": False, "status": {"message": "not today", "code": 403}}

    async def body(asked: list[Manifest]) -> Observation:
        return (await api.create(api.maps, config_map("m"))).told

    return await _with_hook(api, "Validating", answer, body)


async def check_a_webhook_is_asked_about_deletions(api: Contract) -> Observation:
    async def body(asked: list[Manifest]) -> Observation:
        await api.create(api.maps, config_map("m"))
        await api.delete(f"{api.maps}/m")
        last = asked[-1]
        return [last["operation"], last["object"] is None, last["oldObject"]["metadata"]["name"]]

    return await _with_hook(api, "Validating", {"allowed": True}, body)


async def check_a_webhook_selects_objects_by_label(api: Contract) -> Observation:
    async def body(asked: list[Manifest]) -> Observation:
        await api.create(api.maps, config_map("plain", labels={"hook": "no"}))
        await api.create(api.maps, config_map("chosen"))
        return [question["name"] for question in asked]

    selector = {"matchExpressions": [{"key": "hook", "operator": "DoesNotExist"}]}
    return await _with_hook(api, "Validating", {"allowed": True}, body, objectSelector=selector)


async def check_a_webhook_that_cannot_be_reached(api: Contract) -> Observation:
    """Refuses by default; is passed over when its policy says so."""
    observed = []
    plural = f"{HOOKS}/validatingwebhookconfigurations"
    for policy in ("Fail", "Ignore"):
        webhook = _webhook("https://127.0.0.1:1/x", b"", api, failurePolicy=policy)
        del webhook["clientConfig"]["caBundle"]
        await api.create(plural, _configuration("Validating", api, webhook))
        answer = await api.create(api.maps, config_map("m"), dryRun="All")
        if policy == "Fail":
            async with asyncio.timeout(10):
                while answer.status == 201:
                    answer = await api.create(api.maps, config_map("m"), dryRun="All")
        observed.append(answer.refused)
        await api.delete(f"{plural}/{api.namespace}")
    return observed


async def check_a_webhook_configuration_without_review_versions(api: Contract) -> Observation:
    webhook = {"name": "a.b.c", "clientConfig": {"url": "https://127.0.0.1:1/x"}}
    plural = f"{HOOKS}/validatingwebhookconfigurations"
    return (await api.create(plural, _configuration("Validating", api, webhook))).refused
