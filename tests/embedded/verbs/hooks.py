"""Webhooks inside the test's own process: answers by path, and memory of what was asked."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import dataclass, field
from typing import Any

from grove.embedded.cluster import EmbeddedCluster
from grove.embedded.local import LocalClient

Manifest = dict[str, Any]
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
RULE = {
    "operations": ["CREATE", "UPDATE", "DELETE"],
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["configmaps"],
}
SERVICE = ("hooks", "hook")


@dataclass
class Hooks:
    """One program that answers for all webhooks of a test."""

    answers: dict[str, Manifest] = field(default_factory=dict)
    asked: list[Manifest] = field(default_factory=list)

    async def __call__(self, path: str, body: bytes) -> tuple[int, bytes]:
        review = json.loads(body)
        place = path.partition("?")[0]
        self.asked.append({"path": place, **review["request"]})
        answer = self.answers.get(place, {})
        if "raw" in answer:
            return answer.get("http", 200), answer["raw"]
        await asyncio.sleep(answer.pop("after", 0))
        response = {"uid": review["request"]["uid"], "allowed": True, **answer}
        return 200, json.dumps({**review, "request": None, "response": response}).encode()

    @property
    def paths(self) -> list[str]:
        return [asked["path"] for asked in self.asked]

    def last(self) -> Manifest:
        return self.asked[-1]


def webhook(path: str, **more: Any) -> Manifest:
    return {
        "name": f"{path[1:]}.example.com",
        "clientConfig": {"service": {"namespace": SERVICE[0], "name": SERVICE[1], "path": path}},
        "rules": [RULE],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        **more,
    }


def about(*resources: str, group: str = "", version: str = "v1", operations: str = "*") -> list[Manifest]:
    """Rules for other resources than config maps."""
    return [
        {
            "operations": [operations],
            "apiGroups": [group],
            "apiVersions": [version],
            "resources": list(resources),
        }
    ]


async def configure(client: LocalClient, kind: str, name: str, *webhooks: Manifest) -> Manifest:
    path = f"{CONFIGURATIONS}/{kind.lower()}webhookconfigurations"
    return await client.create(path, {"metadata": {"name": name}, "webhooks": list(webhooks)})


def serve(cluster: EmbeddedCluster, answers: dict[str, Manifest] | None = None) -> Hooks:
    """Hooks that this cluster reaches by their Service."""
    hooks = Hooks(answers or {})
    cluster.services[SERVICE] = hooks
    return hooks


def patching(*operations: Manifest) -> Manifest:
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"patchType": "JSONPatch", "patch": patch}


def adding(path: str, value: object) -> Manifest:
    return patching({"op": "add", "path": path, "value": value})
