"""Replicas that keep their certificate on the embedded cluster, with the permissions that they ask for and no others."""

import asyncio
import base64
import random
from typing import Final

from tests.webhook.certificates.handshakes import refusal

from grove.api.config import OperatorConfiguration, load
from grove.cli.permissions import Need, needed
from grove.embedded.access.authentication import service_account_user
from grove.kube.client import Client
from grove.kube.limiter import Limiter
from grove.kube.retry import RetryPolicy
from grove.meta import Key, Manifest, resource
from grove.testing.memory import MemoryTransport
from grove.testing.virtual_time import virtual_clock
from grove.testing.world import World
from grove.webhook.certificates.configurations import CONFIGURATIONS, registrations
from grove.webhook.certificates.material import SECRETS
from grove.webhook.certificates.own import OwnAuthority
from grove.webhook.certificates.periods import Periods
from grove.webhook.certificates.provision import server_names
from grove.webhook.registrations import ServedAt, desired_webhook_configurations
from grove.webhook.serving import ServingCertificate

NAMESPACE: Final = "grove-system"
SECRET: Final = Key(NAMESPACE, "grove-webhook-server-cert")
NAMES: Final = server_names(NAMESPACE)
ACCOUNT: Final = service_account_user(NAMESPACE, "grove-operator")
VALIDATING: Final = CONFIGURATIONS["ValidatingWebhookConfiguration"]
MUTATING: Final = CONFIGURATIONS["MutatingWebhookConfiguration"]
CLIQUESETS: Final = Key("", "podcliqueset-validating-webhook")
_RBAC: Final = "rbac.authorization.k8s.io"
_NAMESPACES: Final = resource("", "v1", "Namespace", namespaced=False)


def configuration() -> OperatorConfiguration:
    return load(
        "{apiVersion: operator.config.grove.io/v1alpha1, kind: OperatorConfiguration, server: {webhooks: {enabled: true}}}"
    )


def certificate_needs() -> list[Need]:
    """What an operator needs for its certificate: what it does not need without webhooks."""
    with_them = needed(configuration(), [], namespace=NAMESPACE)
    without = set(needed(load(""), [], namespace=NAMESPACE))
    return [each for each in with_them if each not in without]


async def install(world: World, *, allowed: list[Need] | None = None) -> None:
    """Namespace, webhook configurations without caBundles, and roles with one rule for each need."""
    await world.user.create(
        _NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    )
    for each in desired_webhook_configurations(ServedAt(NAMESPACE), authorizer=True):
        await world.user.create(CONFIGURATIONS[each["kind"]], each)
    needs = certificate_needs() if allowed is None else allowed
    for kind, namespace in (("ClusterRole", ""), ("Role", NAMESPACE)):
        rules = [rule_for(each) for each in needs if each.namespace == namespace]
        meta: Manifest = {"name": "certificates", **({"namespace": namespace} if namespace else {})}
        for suffix, body in (
            ("", {"rules": rules}),
            (
                "Binding",
                {
                    "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": "certificates"},
                    "subjects": [_SUBJECT],
                },
            ),
        ):
            of = resource(_RBAC, "v1", kind + suffix, namespaced=bool(namespace))
            manifest = {"apiVersion": of.api_version, "kind": of.kind, "metadata": meta, **body}
            await world.user.create(of, manifest)


_SUBJECT: Final = {"kind": "ServiceAccount", "name": "grove-operator", "namespace": NAMESPACE}


def rule_for(need: Need) -> Manifest:
    group = need.resource.gvk.group
    rule: Manifest = {"apiGroups": [group], "resources": [need.resource.plural], "verbs": [need.verb]}
    return {**rule, "resourceNames": [need.name]} if need.name else rule


class Replica:
    """One operator process, as far as its certificate goes."""

    def __init__(self, world: World, seed: int = 0, *, dies_with_a_request: bool = False) -> None:
        self.world = world
        self.served: ServingCertificate | None = None
        self.told: list[str] = []
        self.transport = MemoryTransport(world.cluster.app, ACCOUNT, dies_with_a_request=dies_with_a_request)
        rng = random.Random(seed)
        client = Client(self.transport, limiter=Limiter.off(), retries=RetryPolicy(rng=rng))
        self.source = OwnAuthority(
            client,
            SECRET,
            NAMES,
            clock=virtual_clock(),
            rng=rng,
            watcher=client,
            periods=Periods(retired=Periods().trusted * 3),
        )
        self.source.subscribe(self._changed)
        self.source.report_to(self.told.append)
        self._task = asyncio.create_task(self.source.run(), name=f"replica {seed}")

    def _changed(self, certificate: ServingCertificate) -> None:
        self.served = certificate

    async def kill(self) -> None:
        await self.transport.close()
        self._task.cancel()
        await asyncio.wait({self._task})

    async def refusals(self) -> list[str]:
        """Why an API server with the caBundles of this moment does not get through; none if nothing is served."""
        if self.served is None:
            return []
        answers = [refusal(self.served, each, virtual_clock().now()) for each in await bundles(self.world)]
        return [each for each in answers if each is not None]


async def ready(world: World, *replicas: Replica) -> None:
    async def all_are() -> bool:
        return all(each.source.lacking() is None for each in replicas)

    await world.until(all_are, "every replica is ready")


async def secret(world: World) -> dict[str, bytes]:
    found = await world.get(SECRETS, SECRET.name, SECRET.namespace)
    return {name: base64.b64decode(text) for name, text in ((found or {}).get("data") or {}).items()}


async def bundles(world: World) -> set[bytes]:
    """What our webhooks are verified by."""
    found = set()
    for each in registrations():
        configuration = await world.get(each.resource, each.name) or {}
        for webhook in configuration.get("webhooks", ()):
            if webhook["name"] in each.webhooks:
                found.add(base64.b64decode(webhook["clientConfig"].get("caBundle", "")))
    return found


async def put_secret(world: World, data: dict[str, bytes]) -> None:
    """The Secret with this content, as `kubectl apply` or a restored backup would put it there."""
    encoded = {name: base64.b64encode(text).decode() for name, text in data.items()}
    found = await world.get(SECRETS, SECRET.name, SECRET.namespace)
    if found is not None:
        await world.user.replace(SECRETS, {**found, "data": encoded})
        return
    meta = {"name": SECRET.name, "namespace": SECRET.namespace}
    await world.user.create(
        SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque", "data": encoded}
    )
