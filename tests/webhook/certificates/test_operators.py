"""Whole operators with their webhooks: one that does not lead makes and serves the certificate, too."""

import asyncio
import random
import ssl
from collections.abc import Callable
from datetime import UTC, datetime

from tests.webhook.certificates.clusters import ACCOUNT, NAMESPACE, SECRET

from grove.api import kinds
from grove.api.config import load
from grove.api.crd import definitions
from grove.assembly import Identity, Operator, assemble
from grove.embedded.cluster import ClusterOptions, EmbeddedCluster
from grove.embedded.identity import MASTERS, User
from grove.kube.client import Client
from grove.kube.limiter import Limiter
from grove.meta import Key, Manifest, resource
from grove.runtime.events import EventTarget
from grove.testing.memory import MemoryTransport
from grove.testing.world import CRDS
from grove.webhook.certificates.configurations import CONFIGURATIONS
from grove.webhook.certificates.material import SECRETS, material_of
from grove.webhook.registrations import ServedAt, desired_webhook_configurations

CONFIGURATION = load(f"""
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
leaderElection: {{enabled: true, resourceNamespace: {NAMESPACE}}}
server: {{webhooks: {{enabled: true, bindAddress: 127.0.0.1, port: 0}}}}
""")
NAMESPACES = resource("", "v1", "Namespace", namespaced=False)
EVENTS = resource("", "v1", "Event")


def client_of(cluster: EmbeddedCluster, user: User) -> Client:
    return Client(MemoryTransport(cluster.app, user), limiter=Limiter.off())


async def operator(cluster: EmbeddedCluster, name: str, *, webhooks: bool, user: User) -> Operator:
    pod = EventTarget(kinds.PODS, Key(NAMESPACE, name), "")
    return await assemble(
        client_of(cluster, user),
        CONFIGURATION,
        rng=random.Random(name),
        identity=Identity(name, NAMESPACE, "", pod),
        health=False,
        webhooks=webhooks,
    )


async def until(holds: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(30):
            while not holds():  # noqa: ASYNC110 - about what other tasks do
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"not within 30 s: {what}") from None


async def connect(port: int, authority: bytes) -> None:
    """Whether a client that trusts the authority gets through, by the name of the Service."""
    context = ssl.create_default_context(cadata=authority.decode())
    name = f"grove-operator.{NAMESPACE}.svc"
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    writer.close()
    await writer.wait_closed()


def test_a_standby_makes_the_certificate_serves_by_it_and_is_ready() -> None:
    async def main() -> None:
        cluster = EmbeddedCluster(ClusterOptions(nodes=0, listen=False))
        await cluster.start()
        tasks: list[asyncio.Task[None]] = []
        try:
            admin = client_of(cluster, User("admin", (MASTERS,)))
            await furnish(admin)
            leader = await operator(cluster, "first", webhooks=False, user=User("first", (MASTERS,)))
            tasks.append(asyncio.create_task(leader.manager.run()))
            await leader.manager.working.wait()
            standby = await operator(cluster, "second", webhooks=True, user=User("second", (MASTERS,)))
            assert any(line.startswith("webhooks: ") for line in standby.manager.readiness.missing())
            tasks.append(asyncio.create_task(standby.manager.run()))
            await until(lambda: standby.manager.readiness.missing() == [], "the standby is ready")
            assert not standby.manager.working.is_set()
            found: Manifest = await admin.get(SECRETS, SECRET, type=dict)
            assert standby.webhooks is not None
            await connect(standby.webhooks.port, material_of(found).ca)
            ends = standby.metrics.value("grove_webhook_certificate_expiry_seconds", certificate="server")
            assert 364 < (ends - datetime.now(UTC).timestamp()) / 86400 < 366
        finally:
            await end(tasks, cluster)

    asyncio.run(main())


def test_what_is_in_the_way_is_told_on_the_pod_and_keeps_the_operator_from_being_ready() -> None:
    async def main() -> None:
        cluster = EmbeddedCluster(ClusterOptions(nodes=0, listen=False))
        await cluster.start()
        tasks: list[asyncio.Task[None]] = []
        try:
            admin = client_of(cluster, User("admin", (MASTERS,)))
            await furnish(admin)
            await may_do_all_but_read_secrets(admin)
            one = await operator(cluster, "first", webhooks=True, user=ACCOUNT)
            tasks.append(asyncio.create_task(one.manager.run()))
            want = f"webhooks: Secret {SECRET} cannot be read or written: "
            await until(
                lambda: any(line.startswith(want) for line in one.manager.readiness.missing()), "it is said"
            )
            await one.own_events.flush()
            events = await admin.list_all(EVENTS, type=dict, namespace=NAMESPACE)
            told = [each for each in events if each["reason"] == "WebhookCertificateProblem"]
            assert [each["involvedObject"]["name"] for each in told] == ["first"]
            assert told[0]["message"].startswith(want.removeprefix("webhooks: "))
        finally:
            await end(tasks, cluster)

    asyncio.run(main())


async def furnish(admin: Client) -> None:
    for crd in definitions():
        await admin.create(CRDS, crd)
    await admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for each in desired_webhook_configurations(ServedAt(NAMESPACE)):
        await admin.create(CONFIGURATIONS[each["kind"]], each)


async def may_do_all_but_read_secrets(admin: Client) -> None:
    group = "rbac.authorization.k8s.io"
    head = {"apiVersion": f"{group}/v1", "metadata": {"name": "almost-all"}}
    groups = ["grove.io", "scheduler.grove.io", "apps", "autoscaling", "policy", "coordination.k8s.io"]
    rules = [
        {"apiGroups": [*groups, group, "resource.k8s.io"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["pods", "services", "events", "serviceaccounts"], "verbs": ["*"]},
    ]
    of = resource(group, "v1", "ClusterRole", namespaced=False)
    await admin.create(of, {**head, "kind": "ClusterRole", "rules": rules})
    binding = {
        **head,
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "almost-all"},
        "subjects": [{"kind": "ServiceAccount", "name": "grove-operator", "namespace": NAMESPACE}],
    }
    await admin.create(resource(group, "v1", "ClusterRoleBinding", namespaced=False), binding)


async def end(tasks: list[asyncio.Task[None]], cluster: EmbeddedCluster) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
    await cluster.stop()
