"""A real control plane with everything that a cluster has besides: CRDs, permissions, nodes that play, operators.

One per scheduler, started once; each story gets a namespace of its own and leaves nothing behind. The
operator comes over HTTPS as the service account of `grove install`, with what that allows.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tests.e2e.audit import Audit
from tests.e2e.containers import Processes
from tests.e2e.judges import JUDGES, Judge
from tests.e2e.ledger import Ledger
from tests.e2e.scene import NAMESPACES, NODES, Scene

from grove.api import kinds
from grove.api.config import OperatorConfiguration, load
from grove.api.crd import definitions
from grove.assembly import Identity, Operator, assemble
from grove.cli.manifests.access import desired_access
from grove.cli.manifests.installation import desired_namespace
from grove.cli.manifests.values import values_from
from grove.embedded.actors.kubelet import Kubelet
from grove.embedded.actors.nodes import NodeKeeper, NodeOptions
from grove.embedded.clock import SystemClock
from grove.embedded.remote import RemoteClient, address_from
from grove.errors import ApiError, NotFound
from grove.kube import config
from grove.kube.client import Client
from grove.kube.limiter import Limiter
from grove.kube.transport import HttpTransport
from grove.meta import Key, Manifest, Resource, resource
from grove.real import Options, RealControlPlane
from grove.real.versions import APISERVER, CONTROLLER_MANAGER

CRDS: Final = resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", namespaced=False)
ACCOUNTS: Final = resource("", "v1", "ServiceAccount")
CONFIG_MAPS: Final = resource("", "v1", "ConfigMap")
LEASES: Final = resource("coordination.k8s.io", "v1", "Lease")
DEPLOY: Final = Path(__file__).resolve().parents[2] / "deploy"
SYSTEM: Final = "grove-system"
OPERATOR: Final = f"system:serviceaccount:{SYSTEM}:grove-operator"
OPERATOR_GROUPS: Final = (
    "system:serviceaccounts",
    f"system:serviceaccounts:{SYSTEM}",
    "system:authenticated",
)

#: As on OpenShift: whoever names an owner must be allowed to hold back its deletion.
STRICT: Final = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"

#: Autoscalers look every second, and take seconds for what usually takes minutes.
HURRIED: Final = (
    "--horizontal-pod-autoscaler-sync-period=1s",
    "--horizontal-pod-autoscaler-downscale-stabilization=3s",
    "--horizontal-pod-autoscaler-initial-readiness-delay=1s",
    "--horizontal-pod-autoscaler-cpu-initialization-period=1s",
)

#: What single stories switch on needs permissions too.
ALL_SETTINGS: Final = values_from({"config": {"network": {"autoMNNVLEnabled": True}}})

CONFIGURATION: Final = JUDGES["1.36"].configuration
LEADING: Final = (
    CONFIGURATION
    + f"""
leaderElection: {{enabled: true, resourceNamespace: {SYSTEM}, leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 500ms}}
"""
)


@dataclass
class Running:
    """An operator at work in this process."""

    operator: Operator
    transport: HttpTransport
    task: asyncio.Task[None]

    @classmethod
    def of(cls, operator: Operator, transport: HttpTransport) -> Running:
        return cls(operator, transport, asyncio.create_task(operator.manager.run(), name="operator"))

    async def kill(self) -> None:
        """End it as SIGKILL does: its connections break first, so nothing of it reaches the API any more."""
        await self.transport.close()
        for controller in self.operator.controllers.values():
            controller.hurry()
        self.task.cancel()
        await asyncio.wait({self.task})
        if not self.task.cancelled():
            self.task.exception()


class RealWorld:
    """The control plane of one judge, prepared."""

    def __init__(self, judge: Judge, options: Options | None = None) -> None:
        self.judge = judge
        self._folder = tempfile.TemporaryDirectory(prefix="grove-e2e-")
        self.audit = Audit(Path(self._folder.name))
        arguments = {APISERVER: (STRICT, *self.audit.arguments()), CONTROLLER_MANAGER: HURRIED}
        chosen = replace(
            options or Options(),
            minor=judge.minor,
            third_party=judge.third_party,
            kinds=definitions(),
            arguments=arguments,
            say=lambda _: None,
        )
        self.control = RealControlPlane(chosen)
        self._count = 0

    async def start(self) -> None:
        await self.control.start()
        try:
            self.admin = self.client(self.control.kubeconfig())
            await self._prepare()
            address = address_from(self.control.kubeconfig())
            self._actors = RemoteClient(address, agent="nodes")
            clock = SystemClock()
            # Init containers run too: the program that waits is a process with its pod's account.
            self.processes = Processes(self._actors, address.server)
            self.kubelet = Kubelet(self._actors, clock, wait=self.processes.wait)
            keeper = NodeKeeper(self._actors, clock, options=NodeOptions(heartbeat_seconds=0))
            self._tasks = [
                asyncio.create_task(self.kubelet.run(), name="kubelets"),
                asyncio.create_task(keeper.run(), name="nodes"),
            ]
        except BaseException:
            await self.control.stop()
            raise

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._actors.close()
        await self.admin.close()
        await self.control.stop()
        self._folder.cleanup()

    def client(self, kubeconfig: Path) -> Client:
        transport = HttpTransport(config.load(str(kubeconfig)))
        return Client(transport, limiter=Limiter.off(), field_manager="kubectl-edit")

    async def _prepare(self) -> None:
        """Our CRDs, which a real API server must have established; then the shipped permissions."""
        for crd in definitions():
            await wait_for(self.admin, CRDS, Key("", crd["metadata"]["name"]), _established)
        for manifest in (desired_namespace(SYSTEM), *desired_access(ALL_SETTINGS, SYSTEM)):
            await self.create(manifest)

    async def create(self, manifest: Manifest) -> None:
        """Any object, as the administrator."""
        group, _, version = str(manifest["apiVersion"]).rpartition("/")
        namespaced = "namespace" in manifest["metadata"]
        await self.admin.create(
            resource(group, version, str(manifest["kind"]), namespaced=namespaced), manifest
        )

    async def operator(
        self,
        configuration: str = "",
        *,
        user: str = OPERATOR,
        groups: Sequence[str] = OPERATOR_GROUPS,
        identity: str = "one",
        wait: bool = True,
    ) -> Running:
        """An operator over HTTPS; returns when its controllers work, or with `wait=False` when it is wired."""
        transport = HttpTransport(config.load(str(self.control.kubeconfig_for(user, groups))))
        operator = await assemble(
            Client(transport, limiter=Limiter.off()),
            loaded(configuration or self.judge.configuration),
            rng=random.Random(1),
            identity=Identity(identity, SYSTEM),
            health=False,
        )
        running = Running.of(operator, transport)
        if wait:
            await working(running)
        return running

    @asynccontextmanager
    async def act(
        self, name: str, *, operator: bool = True, patience: float = 20.0, also: Sequence[Resource] = ()
    ) -> AsyncIterator[Act]:
        """A namespace with an operator; both gone, with all that was made, when the block is left.

        `also` are kinds that the story follows besides those that every set leads to.
        """
        self._count += 1
        namespace = f"{name}-{self._count}"
        await self.admin.create(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        )
        # Pods can be created once their service account is there.
        await wait_for(self.admin, ACCOUNTS, Key(namespace, "default"), lambda _: True)
        # And volumes with tokens be filled once the cluster has published its authority.
        await wait_for(self.admin, CONFIG_MAPS, Key(namespace, "kube-root-ca.crt"), lambda _: True)
        served = (await self.admin.discover()).served
        wanted = (*self.judge.resources, *also)
        followed = [each for each in wanted if each.plural in served.get(each.api_version, ())]
        async with Ledger(self.admin, *followed, namespace=namespace) as ledger:
            scene = Scene(self.judge, namespace, self.admin, ledger, patience)
            act = Act(self, scene)
            try:
                if operator:
                    await act.start_operator()
                yield act
            except BaseException:
                with suppress(AssertionError, ApiError):
                    await self._clear(act)
                raise
            await self._clear(act)

    async def _clear(self, act: Act) -> None:
        scene = act.scene
        for each in scene.ledger.all(kinds.CLIQUESETS):
            await scene.delete(kinds.CLIQUESETS, each["metadata"]["name"])
        try:
            if act.operators:
                await scene.until(lambda: not scene.ledger.all(kinds.PODS), "the pods are gone")
        finally:
            for running in act.operators:
                await running.kill()
            for of, name in scene.made:
                await scene.delete(of, name)
            await scene.delete(NAMESPACES, scene.namespace)
        for of, name in scene.made:
            if of == NODES:
                await wait_gone(self.admin, of, Key("", name))
            if of == kinds.TOPOLOGY_BINDINGS and self.judge.topologies is not None:
                await wait_gone(self.admin, self.judge.topologies, Key("", name))


@dataclass
class Act:
    """One story on a real control plane: the scene, and operators that come and go."""

    world: RealWorld
    scene: Scene
    operators: list[Running] = field(default_factory=list)

    async def start_operator(self, configuration: str = "", *, identity: str = "one") -> Running:
        running = await self.world.operator(configuration, identity=identity)
        self.operators.append(running)
        return running

    async def kill_operator(self) -> None:
        await self.operators.pop(0).kill()


def loaded(configuration: str) -> OperatorConfiguration:
    return load(configuration)


async def working(running: Running) -> None:
    """Returns when the controllers work; raises why they never will."""
    sign = asyncio.create_task(running.operator.manager.working.wait())
    async with asyncio.timeout(30):
        await asyncio.wait({running.task, sign}, return_when=asyncio.FIRST_COMPLETED)
    sign.cancel()
    if running.task.done():
        running.task.result()


async def wait_for(
    client: Client, of: Resource, key: Key, holds: Callable[[Manifest], bool], *, seconds: float = 20
) -> None:
    """Returns when an object exists and something holds of it, told by a watch."""
    async with asyncio.timeout(seconds):
        fields = f"metadata.name={key.name}"
        listing = await client.list(of, type=dict, namespace=key.namespace, fields=fields)
        if any(holds(item) for item in listing.items):
            return
        version = listing.resource_version
        async for event in client.watch(
            of, type=dict, namespace=key.namespace, fields=fields, resource_version=version
        ):
            if event.type in ("ADDED", "MODIFIED") and holds(event.object):
                return


async def wait_gone(client: Client, of: Resource, key: Key, *, seconds: float = 20) -> None:
    """Returns when an object does not exist (any more)."""
    async with asyncio.timeout(seconds):
        try:
            found = await client.get(of, key, type=dict)
        except NotFound:
            return
        with suppress(ApiError):
            async for event in client.watch(
                of,
                type=dict,
                namespace=key.namespace,
                fields=f"metadata.name={key.name}",
                resource_version=found["metadata"]["resourceVersion"],
            ):
                if event.type == "DELETED":
                    return


def _established(crd: Manifest) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
