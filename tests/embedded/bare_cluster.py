"""An embedded cluster for one test, in virtual time and without sockets, and short ways to ask it things."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime

import msgspec

from grove.embedded.clock import LoopClock
from grove.embedded.cluster import ClusterOptions, EmbeddedCluster
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.identity import ADMIN, User
from grove.embedded.local import LocalClient
from grove.embedded.server.app import Request, Response
from grove.testing.virtual_time import run_virtual

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GANGS = "/apis/sched.example.com/v1/namespaces/default/gangs"
BARE = ClusterOptions(listen=False, actors=False, nodes=2)

Body = Callable[[EmbeddedCluster, LocalClient], Coroutine[object, object, None]]


def with_cluster(body: Body, options: ClusterOptions = BARE) -> None:
    """Runs a test body against a fresh cluster."""

    async def main() -> None:
        cluster = EmbeddedCluster(replace(options, clock=LoopClock(EPOCH)))
        async with cluster:
            await body(cluster, cluster.client())
            assert_nothing_was_changed_in_place(cluster)

    run_virtual(main)


def assert_nothing_was_changed_in_place(cluster: EmbeddedCluster) -> None:
    """Stored objects are immutable: what was serialised when they were written still is what they are."""
    for key, table in cluster.store.tables():
        entries = [*table.entries.values(), *(event.entry for event in table.ring)]
        for entry in entries:
            assert msgspec.json.decode(entry.raw) == entry.obj, f"an object of {key} was changed in place"


async def send(
    cluster: EmbeddedCluster,
    method: str,
    path: str,
    body: bytes = b"",
    *,
    user: User | None = ADMIN,
    headers: dict[str, str] | None = None,
    query: dict[str, str] | None = None,
) -> Response:
    """One raw request, for tests about status codes and headers."""
    named = {"content-type": "application/json", "user-agent": "test", **(headers or {})}
    return await cluster.app.handle(Request(method, path, query or {}, named, body, user))


def json_of(response: Response) -> Manifest:
    assert isinstance(response.body, bytes)
    decoded: Manifest = msgspec.json.decode(response.body)
    return decoded


async def refusal(action: Coroutine[object, object, object]) -> ApiError:
    """The error that an action must end with."""
    try:
        await action
    except ApiError as error:
        return error
    raise AssertionError("the server accepted what it should have refused")


async def collect(events: AsyncIterator[Manifest], count: int) -> list[Manifest]:
    """The next events of a watch."""
    async with asyncio.timeout(60):
        return [await anext(events) for _ in range(count)]


def pod(name: str, **spec: object) -> Manifest:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "busybox:1"}], **spec}}


def config_map(name: str, **labels: str) -> Manifest:
    return {"metadata": {"name": name, "labels": labels}, "data": {"a": "1"}}


def gang(name: str, **spec: object) -> Manifest:
    return {"metadata": {"name": name}, "spec": {"minMember": 2, **spec}}


def gang_crd(**changes: object) -> Manifest:
    """A custom kind with defaults, status, scale, columns and a selectable field."""
    spec = {
        "type": "object",
        "required": ["minMember"],
        "properties": {
            "minMember": {"type": "integer", "minimum": 1},
            "queue": {"type": "string", "default": "main"},
            "replicas": {"type": "integer", "default": 1},
        },
    }
    status = {
        "type": "object",
        "default": {},
        "properties": {
            "phase": {"type": "string", "default": "New"},
            "replicas": {"type": "integer"},
            "conditions": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
                },
            },
        },
    }
    ready = '.status.conditions[?(@.type=="Ready")].status'
    version: Manifest = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
        "selectableFields": [{"jsonPath": ".spec.queue"}],
        "additionalPrinterColumns": [
            {"name": "Min", "type": "integer", "jsonPath": ".spec.minMember"},
            {"name": "Ready", "type": "string", "jsonPath": ready},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
        **changes,
    }
    return {
        "metadata": {"name": "gangs.sched.example.com"},
        "spec": {
            "group": "sched.example.com",
            "scope": "Namespaced",
            "names": {"plural": "gangs", "kind": "Gang", "shortNames": ["gg"], "categories": ["all"]},
            "versions": [version],
        },
    }
