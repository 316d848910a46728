"""Webhooks for a check: configured for its namespace, in force, and gone with it."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from tests.contract.contract import Contract, Unavailable
from tests.contract.hooks import Hook, serving

Manifest = dict[str, Any]
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
PROBE = "/probe"


def rule(*resources: str, group: str = "", version: str = "v1", operations: str = "*") -> Manifest:
    return {
        "operations": [operations],
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": list(resources) or ["configmaps"],
    }


def webhook(api: Contract, path: str = "/hook", **more: Any) -> Manifest:
    """One webhook about config maps; `hook_at` says later where it is."""
    return {
        "name": f"{path[1:]}.example.com",
        "clientConfig": {"url": path},
        "rules": [rule()],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": api.namespace}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 5,
        **more,
    }


def configuration(kind: str, api: Contract, *webhooks: Manifest) -> Manifest:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": api.namespace},
        "webhooks": list(webhooks),
    }


def plural(kind: str) -> str:
    return f"{REGISTRATION}/{kind.lower()}webhookconfigurations"


def patching(*operations: Manifest) -> Manifest:
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"patchType": "JSONPatch", "patch": patch}


def adding(path: str, value: object) -> Manifest:
    return patching({"op": "add", "path": path, "value": value})


def distinct(items: Iterable[object]) -> list[object]:
    """Each item once: a real server that read an old state from its cache asks again about the new one."""
    found: list[object] = []
    for item in items:
        if item not in found:
            found.append(item)
    return found


@asynccontextmanager
async def hooked(
    api: Contract,
    kind: str,
    *webhooks: Manifest,
    answers: dict[str, Manifest] | None = None,
    also: tuple[str, Manifest] | None = None,
) -> AsyncIterator[Hook]:
    """A hook that is asked about this namespace while the block runs; `also` is one of another kind."""
    if not api.server.on_loopback:
        raise Unavailable("the server cannot call a webhook on this machine")
    async with serving(answers or {}) as hook:
        wanted = {kind: list(webhooks)}
        if also is not None:
            wanted[also[0]] = [also[1]]
        try:
            for each, found in wanted.items():
                await _configure(api, each, hook, found)
            yield hook
        finally:
            for each in wanted:
                await api.delete(f"{plural(each)}/{api.namespace}")


async def _configure(api: Contract, kind: str, hook: Hook, webhooks: list[Manifest]) -> None:
    """A real server reads its webhooks a moment later: one more is there to find out when."""
    probe = webhook(api, PROBE, rules=[rule("secrets")])
    made = configuration(kind, api, *(_at(found, hook) for found in (*webhooks, probe)))
    answered = await api.create(plural(kind), made)
    if answered.status != 201:
        raise Unavailable(f"the webhook cannot be configured: {answered.told}")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "probe"}}
    async with asyncio.timeout(10):
        while not hook.about(PROBE):
            await api.create(api.path("secrets"), secret, dryRun="All")
    hook.asked.clear()


def _at(webhook: Manifest, hook: Hook) -> Manifest:
    """A webhook that names only a path is at the hook."""
    url = webhook["clientConfig"].get("url", "")
    if not url.startswith("/"):
        return webhook
    authority = base64.b64encode(hook.authority).decode()
    return {**webhook, "clientConfig": {"url": f"{hook.url}{url}", "caBundle": authority}}
