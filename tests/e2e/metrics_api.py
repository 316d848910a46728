"""A metrics API of our own making, behind a real API server: what pods use and what waits outside, as a test says.

Serves `metrics.k8s.io` and `external.metrics.k8s.io` on the loopback and registers both with the aggregation
layer, as metrics-server and the adapters do. The load of a namespace is shared by the pods that are asked for: more
pods, less load for each.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from aiohttp import web
from tests.e2e.plane import RealWorld, wait_for, wait_gone

from grove.api import kinds
from grove.kube.client import Client
from grove.meta import Key, Manifest, resource
from grove.real.certificates import LOOPBACK, Authority, write_private

API_SERVICES: Final = resource("apiregistration.k8s.io", "v1", "APIService", namespaced=False)
NAMESPACE: Final = "kube-system"
NAME: Final = "grove-metrics"
GROUPS: Final = ("metrics.k8s.io", "external.metrics.k8s.io")
VERSION: Final = "v1beta1"


@dataclass
class MetricsApi:
    """What the metrics APIs tell, by namespace."""

    client: Client
    #: How many thousandths of a CPU the pods of a namespace use together.
    cpu: dict[str, int] = field(default_factory=dict)
    #: How much waits for the workload of a namespace.
    queue: dict[str, int] = field(default_factory=dict)
    #: Who asked, as the API server in front told.
    asked_by: set[str] = field(default_factory=set)

    def routes(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods", self._pods)
        app.router.add_get("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/queue", self._queue)
        for group in GROUPS:
            app.router.add_get(f"/apis/{group}/{VERSION}", self._resources)
        return app

    async def _resources(self, request: web.Request) -> web.Response:
        group = request.path.split("/")[2]
        name, kind = ("pods", "PodMetrics") if group == GROUPS[0] else ("queue", "ExternalMetricValueList")
        served = {
            "name": name,
            "singularName": "",
            "namespaced": True,
            "kind": kind,
            "verbs": ["get", "list"],
        }
        found = {"groupVersion": f"{group}/{VERSION}", "resources": [served]}
        return web.json_response({"kind": "APIResourceList", "apiVersion": "v1", **found})

    async def _pods(self, request: web.Request) -> web.Response:
        self.asked_by.add(request.headers.get("X-Remote-User", ""))
        namespace = request.match_info["namespace"]
        listing = await self.client.list(
            kinds.PODS, type=dict, namespace=namespace, labels=request.query.get("labelSelector", "")
        )
        pods = [pod for pod in listing.items if (pod.get("status") or {}).get("phase") == "Running"]
        each = self.cpu.get(namespace, 0) // max(1, len(pods))
        items = [
            {
                "metadata": {"name": pod["metadata"]["name"], "namespace": namespace},
                "timestamp": _now(),
                "window": "1s",
                "containers": [
                    {"name": one["name"], "usage": {"cpu": f"{each}m", "memory": "1Mi"}}
                    for one in pod["spec"]["containers"]
                ],
            }
            for pod in pods
        ]
        return web.json_response(_listed(GROUPS[0], "PodMetricsList", items))

    async def _queue(self, request: web.Request) -> web.Response:
        self.asked_by.add(request.headers.get("X-Remote-User", ""))
        waiting = self.queue.get(request.match_info["namespace"], 0)
        item = {"metricName": "queue", "metricLabels": {}, "timestamp": _now(), "value": str(waiting)}
        return web.json_response(_listed(GROUPS[1], "ExternalMetricValueList", [item]))


def _listed(group: str, kind: str, items: list[Manifest]) -> Manifest:
    return {"kind": kind, "apiVersion": f"{group}/{VERSION}", "metadata": {}, "items": items}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@asynccontextmanager
async def metrics_api(world: RealWorld) -> AsyncIterator[MetricsApi]:
    """The API, served and known to the API server while the block lasts."""
    api, authority = MetricsApi(world.admin), Authority("grove-metrics-ca")
    runner = web.AppRunner(api.routes())
    await runner.setup()
    try:
        site = web.TCPSite(runner, LOOPBACK, 0, ssl_context=_context(world, authority))
        await site.start()
        (address,) = runner.addresses
        await _register(world, int(address[1]), authority.certificate)
        try:
            yield api
        finally:
            # Before the server goes: while an API is registered and does not answer, no namespace ends.
            await _unregister(world)
    finally:
        await runner.cleanup()


def _context(world: RealWorld, authority: Authority) -> ssl.SSLContext:
    """Serves under the name of a service, and only to the API server in front."""
    asked_as = f"{NAME}.{NAMESPACE}.svc"
    pair = authority.server(asked_as, (asked_as,))
    context = ssl.create_default_context(
        ssl.Purpose.CLIENT_AUTH, cafile=str(world.control.directory / "keys" / "front-proxy-ca.crt")
    )
    context.verify_mode = ssl.CERT_REQUIRED
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder, "crt"), Path(folder, "key")
        write_private(certificate, pair.certificate)
        write_private(key, pair.key)
        context.load_cert_chain(certificate, key)
    return context


async def _register(world: RealWorld, port: int, authority: bytes) -> None:
    """A service that stands for the loopback, and the APIs that are found there."""
    bundle = base64.b64encode(authority).decode()
    await world.create(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        }
    )
    for group in GROUPS:
        spec = {
            "group": group,
            "version": VERSION,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "caBundle": bundle,
            "service": {"name": NAME, "namespace": NAMESPACE, "port": port},
        }
        name = f"{VERSION}.{group}"
        await world.create(
            {
                "apiVersion": "apiregistration.k8s.io/v1",
                "kind": "APIService",
                "metadata": {"name": name},
                "spec": spec,
            }
        )
    await asyncio.gather(
        *(
            wait_for(world.admin, API_SERVICES, Key("", f"{VERSION}.{group}"), _available, seconds=60)
            for group in GROUPS
        )
    )


async def _unregister(world: RealWorld) -> None:
    for group in GROUPS:
        key = Key("", f"{VERSION}.{group}")
        await world.admin.delete(API_SERVICES, key)
        await wait_gone(world.admin, API_SERVICES, key)
    await world.admin.delete(kinds.SERVICES, Key(NAMESPACE, NAME))


def _available(service: Manifest) -> bool:
    conditions = (service.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Available" and each["status"] == "True" for each in conditions)
