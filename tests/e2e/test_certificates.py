"""A real API server asks webhooks without a pause while their certificates and authorities are exchanged.

Two replicas keep one certificate, with the permissions that they ask for. Every question is a connection of its
own, so that every one is verified; not one may fail.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from aiohttp import web
from tests.e2e.conftest import Plane
from tests.e2e.plane import CONFIG_MAPS, OPERATOR, OPERATOR_GROUPS, SYSTEM, Act
from tests.webhook.certificates.clusters import certificate_needs, rule_for
from tests.webhook.certificates.handshakes import load

from grove.errors import ApiError, NotFound
from grove.kube import config
from grove.kube.client import Client
from grove.kube.limiter import Limiter
from grove.kube.transport import HttpTransport
from grove.meta import Key, Manifest, resource
from grove.runtime.clock import SystemClock
from grove.webhook.certificates.configurations import CONFIGURATIONS
from grove.webhook.certificates.inspection import certificates_in, fingerprint
from grove.webhook.certificates.material import SECRETS, Material, desired_secret
from grove.webhook.certificates.own import OwnAuthority
from grove.webhook.certificates.periods import Periods
from grove.webhook.certificates.plan import Situation, plan_material
from grove.webhook.serving import ServingCertificate

pytestmark = pytest.mark.real

SECRET: Final = Key(SYSTEM, "grove-webhook-server-cert")
NAMES: Final = ("127.0.0.1",)
PERIODS: Final = Periods(trusted=timedelta(seconds=3), retired=timedelta(seconds=6))
VALIDATING: Final = CONFIGURATIONS["ValidatingWebhookConfiguration"]
#: One configuration for each replica, so that every question goes to both.
ASKED: Final = {
    "podcliqueset-validating-webhook": "pcs.validating.webhooks.grove.io",
    "clustertopology-validating-webhook": "clustertopology.validating.webhooks.grove.io",
}
_RBAC: Final = "rbac.authorization.k8s.io"
_SUBJECT: Final = {"kind": "User", "apiGroup": _RBAC, "name": OPERATOR}


@dataclass
class Replica:
    """An operator, as far as its webhooks go: it allows everything, each time on a connection of its own."""

    client: Client
    seed: int
    served: list[ServingCertificate] = field(default_factory=list)
    questions: int = 0
    port: int = 0

    def __post_init__(self) -> None:
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.source = OwnAuthority(
            self.client,
            SECRET,
            NAMES,
            clock=SystemClock(),
            rng=random.Random(self.seed),
            watcher=self.client,
            periods=PERIODS,
            look_seconds=1.0,
        )
        self.source.subscribe(self._renewed)

    def _renewed(self, certificate: ServingCertificate) -> None:
        load(self._tls, certificate.chain, certificate.key)
        self.served.append(certificate)

    async def _answer(self, request: web.Request) -> web.Response:
        self.questions += 1
        review = json.loads(await request.read())
        answer = web.json_response(
            {
                "apiVersion": review["apiVersion"],
                "kind": review["kind"],
                "response": {"uid": review["request"]["uid"], "allowed": True},
            }
        )
        answer.force_close()
        return answer

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_post("/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._tls).start()
        self.port = int(runner.addresses[0][1])
        task = asyncio.create_task(self.source.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})
            await runner.cleanup()


@dataclass
class Load:
    """Objects that are created all the time, as dry runs; what was refused, and why."""

    admin: Client
    namespace: str
    passed: int = 0
    refused: list[str] = field(default_factory=list)

    async def run(self) -> None:
        name = {"namespace": self.namespace, "generateName": "any-"}
        while True:
            try:
                await self.admin.create(
                    CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": name}, dry_run=True
                )
                self.passed += 1
            except ApiError as error:
                self.refused.append(f"{datetime.now(UTC)}: {error}")
            await asyncio.sleep(0.05)


def webhook_configuration(name: str, webhook: str, port: int, namespace: str) -> Manifest:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    return {
        "apiVersion": VALIDATING.api_version,
        "kind": VALIDATING.kind,
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": webhook,
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": f"https://127.0.0.1:{port}/any"},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "rules": [rule],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            }
        ],
    }


def roles() -> list[Manifest]:
    """What the operator asks for on account of its certificate, and nothing else."""
    made = []
    for kind, namespace in (("ClusterRole", ""), ("Role", SYSTEM)):
        meta = {"name": "e2e-certificates", **({"namespace": namespace} if namespace else {})}
        rules = [rule_for(each) for each in certificate_needs() if each.namespace == namespace]
        ref = {"apiGroup": _RBAC, "kind": kind, "name": meta["name"]}
        head = {"apiVersion": f"{_RBAC}/v1", "metadata": meta}
        made.append({**head, "kind": kind, "rules": rules})
        made.append({**head, "kind": f"{kind}Binding", "roleRef": ref, "subjects": [_SUBJECT]})
    return made


async def remove(admin: Client) -> None:
    for of, key in [(SECRETS, SECRET), *((VALIDATING, Key("", name)) for name in ASKED)]:
        with suppress(NotFound):
            await admin.delete(of, key)
    for each in roles():
        of = resource(_RBAC, "v1", each["kind"], namespaced="namespace" in each["metadata"])
        with suppress(NotFound):
            await admin.delete(of, Key(each["metadata"].get("namespace", ""), each["metadata"]["name"]))


async def until(holds: Callable[[], bool], what: str, seconds: float = 60) -> None:
    try:
        async with asyncio.timeout(seconds):
            while not holds():  # noqa: ASYNC110 - about what other tasks do
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"not within {seconds} s: {what}") from None


async def expire_the_authority(admin: Client) -> None:
    """As if this Secret had been made almost ten years ago."""
    now = datetime.now(UTC)
    begin = plan_material(Situation(now - timedelta(days=3650 - 89), NAMES, None)).material
    aged = plan_material(Situation(now - timedelta(days=2), NAMES, begin)).material
    await replace_secret(admin, aged)


async def replace_secret(admin: Client, material: Material) -> None:
    found: Manifest = await admin.get(SECRETS, SECRET, type=dict)
    await admin.replace(SECRETS, desired_secret(SECRET, material, found))


async def empty_the_secret(admin: Client) -> None:
    await replace_secret(admin, Material())


async def delete_the_secret(admin: Client) -> None:
    await admin.delete(SECRETS, SECRET)


def test_no_admission_fails_while_certificates_and_authorities_are_exchanged(plane: Plane) -> None:
    async def story(act: Act) -> None:
        world, namespace = act.world, act.scene.namespace
        kubeconfig = world.control.kubeconfig_for(OPERATOR, OPERATOR_GROUPS)
        client = Client(HttpTransport(config.load(str(kubeconfig))), limiter=Limiter.off())
        replicas = [Replica(client, seed) for seed in range(2)]
        for each in roles():
            await world.create(each)
        try:
            async with replicas[0].running(), replicas[1].running():
                for (name, webhook), replica in zip(ASKED.items(), replicas, strict=True):
                    await world.create(webhook_configuration(name, webhook, replica.port, namespace))
                await until(lambda: all(each.source.lacking() is None for each in replicas), "both are ready")
                await exchange_under_load(world.admin, replicas, namespace)
        finally:
            await remove(world.admin)
            await client.close()

    plane.play("certificates", story, operator=False)


async def exchange_under_load(admin: Client, replicas: list[Replica], namespace: str) -> None:
    load = Load(admin, namespace)
    await until_asked(load)
    load.refused.clear()
    running = [asyncio.create_task(load.run()) for _ in range(3)]
    accidents: list[Callable[[Client], Awaitable[None]]] = [
        expire_the_authority,
        delete_the_secret,
        empty_the_secret,
    ]
    try:
        for accident in accidents:
            before = authorities(replicas)
            await accident(admin)
            await until(
                lambda before=before: len(now := authorities(replicas)) == 1 and not now & before,  # type: ignore[misc]
                f"after {accident.__name__} there is one authority, and another one",
            )
            passed = load.passed
            await until(lambda passed=passed: load.passed > passed + 20, "admission goes on")  # type: ignore[misc]
    finally:
        for task in running:
            task.cancel()
        await asyncio.wait(running)
    assert load.refused == []
    assert load.passed > 200
    assert min(each.questions for each in replicas) >= load.passed
    assert len({each.chain for replica in replicas for each in replica.served}) >= 4
    assert [each.source.lacking() for each in replicas] == [None, None]


async def until_asked(load: Load) -> None:
    """Until the API server has read the first caBundles."""
    first = asyncio.create_task(load.run())
    await until(lambda: load.passed > 3, "the API server gets through")
    first.cancel()
    await asyncio.wait({first})


def authorities(replicas: list[Replica]) -> set[str]:
    """By which authorities the two are verified."""
    return {
        fingerprint(each)
        for replica in replicas
        if replica.served
        for each in certificates_in(replica.served[-1].ca)
    }
