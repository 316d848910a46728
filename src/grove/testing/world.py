"""A whole world for tests: an embedded cluster, an operator on it and a user, on virtual time.

    def test_a_gang_that_fits_runs() -> None:
        async def story(world: World) -> None:
            await world.apply(make.cliqueset_manifest("train", {"worker": 2}))
            await world.until(lambda: world.phase("train-0") == "Running")

        run_world(story)

The operator is the real one on its real client; only the sockets are missing. The test sees the world as a
user does, through the API, and can break it: faults, dropped watches, a killed operator.
"""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from grove.api import kinds
from grove.api.config import OperatorConfiguration, load
from grove.api.crd import definitions
from grove.assembly import Operator, assemble
from grove.embedded.actors.kubelet import KubeletOptions
from grove.embedded.actors.schedulers.simulators import BESIDE_REAL, PLACEHOLDERS
from grove.embedded.clock import LoopClock
from grove.embedded.cluster import ClusterOptions, EmbeddedCluster
from grove.embedded.identity import MASTERS, User
from grove.errors import GroveError, NotFound
from grove.kube.client import Client
from grove.kube.limiter import Limiter
from grove.kube.retry import RetryPolicy
from grove.meta import Key, Manifest, Resource, resource
from grove.testing.memory import MemoryTransport
from grove.testing.virtual_time import EPOCH, run_virtual, virtual_clock, virtual_loop

OPERATOR: Final = User("system:serviceaccount:grove-system:grove-operator", (MASTERS,))
USER: Final = User("alice", (MASTERS,))
CRDS: Final = resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", namespaced=False)
NODES: Final = resource("", "v1", "Node", namespaced=False)
#: How long a kubelet waits for a program that it has asked to stop.
GRACE_SECONDS: Final = 30.0


def configuration_for(*schedulers: str) -> str:
    """The text of a configuration that enables Kubernetes' own scheduler and these."""
    profiles = json.dumps([{"name": name} for name in ("default", *schedulers)])
    return f"""
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
topologyAwareScheduling: {{enabled: true}}
scheduler:
  profiles: {profiles}
"""


CONFIGURATION: Final = configuration_for(*BESIDE_REAL)


@dataclass(frozen=True)
class WorldOptions:
    """What the world is like; the seed decides everything that chance would."""

    seed: int = 0
    kubernetes: str = "1.36"
    nodes: int = 4
    gpus: int = 8
    #: Which simulated schedulers run besides kube-scheduler, each with what it needs in the cluster.
    schedulers: tuple[str, ...] = ()
    #: How long pods take to start and stop, and whether that differs from pod to pod.
    kubelet: KubeletOptions = field(default_factory=KubeletOptions)
    #: The feature gates of the native gang API; None for all, an empty set for a cluster without gangs.
    features: frozenset[str] | None = None
    #: How many objects the garbage collector gets through in a second; 0 for as many as it can.
    collected_per_second: float = 0.0
    #: Whether the API server records who manages which field of every object; else only of applied ones.
    records_managers: bool = False
    #: Who the operator is; may do anything unless told otherwise.
    operator_user: User = OPERATOR
    configuration: OperatorConfiguration = field(default_factory=lambda: load(CONFIGURATION))


class World:
    """An embedded cluster with a user; operators come and go."""

    def __init__(self, cluster: EmbeddedCluster, options: WorldOptions) -> None:
        self.cluster = cluster
        self.options = options
        self.rng = random.Random(options.seed)
        self.user = self._client(USER)
        self.operator: Operator | None = None
        self._running: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._transport: MemoryTransport | None = None

    # The operator ---------------------------------------------------------------------------------

    async def start_operator(self, *, dies_with_a_request: bool = False) -> Operator:
        """Start an operator; returns when its controllers work.

        It may be told to die with the first request whose answer is lost (see the fault `lose`).
        """
        while True:
            transport = MemoryTransport(
                self.cluster.app, self.options.operator_user, dies_with_a_request=dies_with_a_request
            )
            client = Client(transport, limiter=Limiter.off(), retries=RetryPolicy(rng=self.rng))
            try:
                operator = await assemble(
                    client,
                    self.options.configuration,
                    clock=virtual_clock(),
                    rng=random.Random(self.rng.getrandbits(64)),
                    health=False,
                )
                break
            except GroveError:
                # A process that cannot start is started again, as a kubelet does.
                if not self.cluster.faults.active:
                    raise
                await asyncio.sleep(1)
        self.operator, self._transport = operator, transport
        self._stop = asyncio.Event()
        self._running = asyncio.create_task(operator.manager.run(self._stop), name="operator")
        signs = [
            asyncio.create_task(operator.manager.working.wait()),
            asyncio.create_task(transport.closed.wait()),
        ]
        await asyncio.wait({self._running, *signs}, return_when=asyncio.FIRST_COMPLETED)
        for sign in signs:
            sign.cancel()
        if self._running.done():
            self._running.result()
        return operator

    @property
    def operator_died(self) -> bool:
        """Whether the operator died with a request."""
        return self._transport is not None and self._transport.closed.is_set()

    async def stop_operator(self) -> None:
        """End the operator as a kubelet does: it is asked to stop, and killed if that takes too long."""
        self._stop.set()
        if self._running is not None:
            await asyncio.wait({self._running}, timeout=GRACE_SECONDS)
        await self.kill_operator()

    async def kill_operator(self) -> None:
        """End the operator as SIGKILL does: nothing of it reaches the API from this moment on."""
        if self._running is None or self._transport is None:
            return
        await self._transport.close()
        if self.operator is not None:
            for controller in self.operator.controllers.values():
                controller.hurry()
        self._running.cancel()
        await asyncio.wait({self._running})
        if not self._running.cancelled():
            self._running.exception()
        self._running = None

    # The scheduler --------------------------------------------------------------------------------

    async def stop_scheduler(self, name: str) -> None:
        """End a simulated scheduler in the middle of whatever it does; `default` is kube-scheduler."""
        await self.cluster.stop_actor("scheduler" if name == "default" else name)

    def start_scheduler(self, name: str) -> None:
        """Start it again, without any memory."""
        self.cluster.start_actor("scheduler" if name == "default" else name)

    # The user -------------------------------------------------------------------------------------

    async def apply(self, *manifests: Manifest) -> None:
        """Server-side apply, as `kubectl apply --server-side` does."""
        for manifest in manifests:
            group, _, version = str(manifest["apiVersion"]).rpartition("/")
            served = resource(group, version, str(manifest["kind"]))
            namespaced = served.kind not in (
                "ClusterTopologyBinding",
                "Namespace",
                "Node",
                "Queue",
                "Topology",
                "PriorityClass",
            )
            plural = "priorityclasses" if served.kind == "PriorityClass" else served.plural
            if served.kind == "Topology":
                plural = "topologies"
            metadata = {**manifest["metadata"]}
            for stamped in ("uid", "generation", "creationTimestamp", "resourceVersion"):
                metadata.pop(stamped, None)
            if namespaced:
                metadata.setdefault("namespace", "default")
            await self.user.apply(
                Resource(served.gvk, plural, namespaced),
                {**manifest, "metadata": metadata},
                field_manager="kubectl",
            )

    async def get(self, resource: Resource, name: str, namespace: str = "default") -> Manifest | None:
        """One object, or None."""
        key = Key(namespace if resource.namespaced else "", name)
        try:
            found: Manifest = await self.user.get(resource, key, type=dict)
        except NotFound:
            return None
        return found

    async def all(self, resource: Resource, labels: str = "") -> list[Manifest]:
        """All objects of a kind."""
        return await self.user.list_all(resource, type=dict, labels=labels)

    async def pods(self) -> list[Manifest]:
        """All pods, without those that only hold places for them."""
        found = await self.all(kinds.PODS)
        return [each for each in found if not holds_place(each)]

    async def gang(self, name: str) -> Manifest | None:
        return await self.get(kinds.GANGS, name)

    async def phase(self, gang: str) -> str:
        found = await self.gang(gang)
        return str((found or {}).get("status", {}).get("phase", "")) if found else "missing"

    async def condition(self, gang: str, type: str) -> Manifest:
        """A condition of a gang; empty when it has none of this type."""
        found = await self.gang(gang) or {}
        listed = (found.get("status") or {}).get("conditions") or ()
        return next((each for each in listed if each["type"] == type), {})

    async def scale(self, name: str, replicas: int, of: Resource = kinds.CLIQUESETS) -> None:
        await self.user.merge_patch(
            of, Key("default", name), {"spec": {"replicas": replicas}}, subresource="scale"
        )

    async def add_node(self, name: str, gpus: int = 8, labels: dict[str, str] | None = None) -> None:
        """A node as a user creates it with kubectl; the simulated kubelet plays it."""
        size = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
        marks = {"kubernetes.io/hostname": name, **(labels or {})}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": marks},
            "status": {"capacity": size, "allocatable": size},
        }
        await self.user.create(NODES, node)

    # Time -----------------------------------------------------------------------------------------

    async def until(self, holds: Callable[[], Awaitable[bool]], what: str, *, seconds: float = 120) -> None:
        """Let time pass until something holds; fail with `what` and the state of the gangs otherwise."""
        loop = virtual_loop()
        deadline = loop.time() + seconds
        while not await holds():
            if loop.time() >= deadline:
                raise AssertionError(f"not within {seconds} s: {what}\n{await self.describe()}")
            await asyncio.sleep(0.05)

    async def settle(self, *, quiet: float = 3.0, seconds: float = 900) -> None:
        """Let time pass until nothing has been written for a while; events and heartbeats do not count."""
        loop = virtual_loop()
        deadline, last, since = loop.time() + seconds, -1, loop.time()
        while loop.time() - since < quiet:
            if loop.time() >= deadline:
                raise AssertionError(f"still writing after {seconds} s\n{await self.describe()}")
            count = self.writes(succeeded_only=True, everybody=True)
            if count != last:
                last, since = count, loop.time()
            await asyncio.sleep(quiet / 30)

    def writes(self, *, succeeded_only: bool = False, everybody: bool = False) -> int:
        """How many writes the operator (or everybody) made, events, leases and heartbeats aside."""
        ignored = ("events", "leases", "nodes")
        return sum(
            1
            for entry in self.cluster.requests
            if entry.is_write
            and (everybody or entry.user == self.options.operator_user.name)
            and (not succeeded_only or entry.status < 400)
            and not entry.resource.startswith(ignored)
        )

    async def describe(self) -> str:
        """The gangs and pods as a person would look at them when a test fails."""
        lines = []
        for each in await self.all(kinds.GANGS):
            status = each.get("status") or {}
            told = [
                f"{c['type']}={c['status']} {c.get('message', '')}" for c in status.get("conditions") or ()
            ]
            lines.append(f"gang {each['metadata']['name']} {status.get('phase')}: {' | '.join(told)}")
        for each in await self.pods():
            spec = each["spec"]
            gates = [gate["name"] for gate in spec.get("schedulingGates") or ()]
            where = spec.get("nodeName", "-")
            lines.append(
                f"pod {each['metadata']['name']} on {where} {each['status'].get('phase')} gates {gates}"
            )
        return "\n".join(lines)

    def _client(self, user: User) -> Client:
        return Client(MemoryTransport(self.cluster.app, user), limiter=Limiter.off())


def holds_place(pod: Manifest) -> bool:
    """Whether a scheduler created this pod itself, to hold a place for another."""
    return not PLACEHOLDERS.isdisjoint(pod["metadata"].get("annotations") or {})


def run_world(
    story: Callable[[World], Awaitable[None]], options: WorldOptions | None = None, *, operator: bool = True
) -> None:
    """Run a story in a fresh world, the operator already working unless told otherwise."""
    chosen = options or WorldOptions()

    async def main() -> None:
        world = await _create(chosen)
        try:
            if operator:
                await world.start_operator()
            await story(world)
        finally:
            await world.kill_operator()
            await world.cluster.stop()

    run_virtual(main, seed=chosen.seed)


async def _create(options: WorldOptions) -> World:
    cluster = EmbeddedCluster(
        ClusterOptions(
            kubernetes=options.kubernetes,
            nodes=options.nodes,
            gpus=options.gpus,
            seed=options.seed,
            clock=LoopClock(EPOCH),
            listen=False,
            managed_fields="full" if options.records_managers else "lazy",
            schedulers=("default", *options.schedulers),
            features=options.features,
            kubelet=options.kubelet,
            collected_per_second=options.collected_per_second,
        )
    )
    await cluster.start()
    world = World(cluster, options)
    for crd in definitions():
        await world.user.create(CRDS, crd)
    return world
