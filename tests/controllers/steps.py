"""An operator of which nothing runs but its cache: a test lets one reconciler look at one object at a time.

The API server is the embedded one, without schedulers, kubelets, garbage collector or any other controller:
what happens in it was done by the reconciler that was called, or by the test.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from grove.api import kinds, labels
from grove.api.config import OperatorConfiguration
from grove.api.crd import definitions
from grove.assembly import Operator, assemble
from grove.controllers.apply import NO_BARRIER
from grove.controllers.clique import CliqueReconciler
from grove.controllers.cliqueset import CliqueSetReconciler
from grove.controllers.dependencies import Dependencies
from grove.controllers.gang import GangReconciler
from grove.controllers.scaling_group import ScalingGroupReconciler
from grove.controllers.topology import TopologyReconciler
from grove.embedded.actors.schedulers.simulators import SIMULATORS
from grove.embedded.clock import LoopClock
from grove.embedded.cluster import ClusterOptions, EmbeddedCluster
from grove.embedded.server.app import App
from grove.kube.client import Client
from grove.kube.limiter import Limiter
from grove.kube.transport import Response
from grove.meta import Key, Manifest, Resource
from grove.runtime.events import EVENTS
from grove.runtime.outcome import DONE, After, Outcome
from grove.testing.memory import MemoryTransport
from grove.testing.virtual_time import EPOCH, run_virtual, virtual_clock
from grove.testing.world import CRDS, OPERATOR, World, WorldOptions

Reconciler = (
    CliqueSetReconciler | CliqueReconciler | ScalingGroupReconciler | GangReconciler | TopologyReconciler
)
R = TypeVar("R", bound=Reconciler)

#: Long enough for a watch to show what was written, and too short for anything to become due.
_WATCHED_SECONDS = 0.05


class _Transport(MemoryTransport):
    """The operator's way to the API server, on which a test may stand."""

    def __init__(self, app: App) -> None:
        super().__init__(app, OPERATOR)
        #: By method and the end of the path, what happens before the next request of that kind.
        self.meanwhile: dict[tuple[str, str], Callable[[], Awaitable[object]]] = {}
        #: Methods and ends of paths that are answered with 403.
        self.forbidden: set[tuple[str, str]] = set()

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout: float | None = None,
        guard: Callable[[], None] | None = None,
    ) -> Response:
        for asked in list(self.meanwhile):
            if method == asked[0] and path.endswith(asked[1]):
                await self.meanwhile.pop(asked)()
        if any(method == verb and path.endswith(end) for verb, end in self.forbidden):
            status = (
                b'{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"a policy"}'
            )
            return Response(403, {"content-type": "application/json"}, status)
        return await super().send(
            method, path, query=query, headers=headers, body=body, timeout=timeout, guard=guard
        )


@dataclass
class Steps:
    """The world, and the reconcilers that a test calls."""

    world: World
    operator: Operator
    transport: _Transport
    _watching: asyncio.Task[None]
    _seen: int = field(default=0)

    # Looks ----------------------------------------------------------------------------------------

    def reconciler(self, type_: type[R]) -> R:
        """The one of this kind."""
        (found,) = (each for each in self.operator.reconcilers.values() if isinstance(each, type_))
        return found

    @property
    def deps(self) -> Dependencies:
        """What all reconcilers share."""
        return self.reconciler(GangReconciler).deps

    async def look(self, type_: type[Reconciler], name: str) -> Outcome:
        """Let a reconciler look once, with a cache that has heard of everything."""
        await self.watched()
        namespace = "" if type_ is TopologyReconciler else "default"
        outcome = await self.reconciler(type_).reconcile(Key(namespace, name))
        await self.watched()
        return outcome

    async def rest(self, type_: type[Reconciler], name: str, looks: int = 20) -> None:
        """Let a reconciler look as often as it asks for, until nothing is left to do."""
        for _ in range(looks):
            outcome = await self.look(type_, name)
            if outcome == DONE:
                return
            assert isinstance(outcome, After)
            await asyncio.sleep(outcome.seconds)
        raise AssertionError(f"{name} is still looked at: {outcome}")

    async def watched(self) -> None:
        """Until the cache shows what was written, if it still watches."""
        await asyncio.sleep(_WATCHED_SECONDS)

    async def stop_watching(self) -> None:
        """From now on the cache shows what is there now, whatever happens."""
        await self.watched()
        self._watching.cancel()
        await asyncio.wait({self._watching})

    # The API server ---------------------------------------------------------------------------------

    def forbid(self, method: str, path: str) -> None:
        """Answer requests of this kind with 403; `path` is how theirs ends."""
        self.transport.forbidden.add((method, path))

    def meanwhile(self, method: str, path: str, happens: Callable[[], Awaitable[object]]) -> None:
        """Let something happen right before the next request of this kind arrives."""
        self.transport.meanwhile[method, path] = happens

    def writes(self) -> list[str]:
        """What reconcilers wrote since this was last asked: `create pods`, `patch podgangs/status`."""
        entries = [
            entry
            for entry in self.world.cluster.requests
            if entry.is_write
            and entry.user == OPERATOR.name
            and entry.status < 400
            and not entry.resource.startswith(("events", "leases"))
        ]
        new, self._seen = entries[self._seen :], len(entries)
        return [f"{entry.verb} {_plural(entry.resource)}" for entry in new]

    async def events(self) -> list[str]:
        """The reasons of all events so far, each as often as it was told."""
        await self.operator.recorder.flush()
        found = await self.world.all(EVENTS)
        return sorted(each["reason"] for each in found for _ in range(each["count"]))

    async def get(self, resource: Resource, name: str) -> Manifest:
        """An object that is there."""
        found = await self.world.get(resource, name)
        assert found is not None, f"{resource.kind} {name} is not there"
        return found

    async def names(self, resource: Resource) -> list[str]:
        """Which objects of a kind are there and not on their way out."""
        found = await self.world.all(resource)
        return sorted(
            each["metadata"]["name"] for each in found if "deletionTimestamp" not in each["metadata"]
        )

    async def create(self, resource: Resource, manifest: Manifest) -> Manifest:
        """Create an object as somebody else, with the status that its manifest has."""
        metadata = {
            name: value
            for name, value in manifest["metadata"].items()
            if name not in ("uid", "generation", "creationTimestamp", "resourceVersion")
        }
        made: Manifest = await self.world.user.create(resource, {**manifest, "metadata": metadata}, type=dict)
        if "status" not in manifest:
            return made
        await self.status(resource, made["metadata"]["name"], manifest["status"])
        return await self.get(resource, made["metadata"]["name"])

    async def status(self, resource: Resource, name: str, status: Manifest) -> None:
        """Write the status of an object as somebody else."""
        key = Key("default" if resource.namespaced else "", name)
        await self.world.user.merge_patch(resource, key, {"status": status}, subresource="status")

    async def patch(self, resource: Resource, name: str, patch: Manifest) -> None:
        """Change an object as somebody else."""
        key = Key("default" if resource.namespaced else "", name)
        await self.world.user.merge_patch(resource, key, patch)

    async def delete(self, resource: Resource, name: str) -> None:
        """Delete an object as somebody else."""
        await self.world.user.delete(resource, Key("default" if resource.namespaced else "", name))

    async def keep(self, resource: Resource, name: str) -> None:
        """Put a finalizer on an object, so that it is not gone when it is deleted."""
        await self.patch(resource, name, {"metadata": {"finalizers": ["example.com/keep"]}})

    # Stories begin with -------------------------------------------------------------------------------

    async def gang_with_pods(self, manifest: Manifest) -> None:
        """A set with its children, objects of its scheduler and pods, which wait behind their gates."""
        await self.world.apply(manifest)
        await self.rest(CliqueSetReconciler, manifest["metadata"]["name"])
        for gang in await self.names(kinds.GANGS):
            await self.look(GangReconciler, gang)
        for clique in await self.names(kinds.CLIQUES):
            await self.look(CliqueReconciler, clique)
        self.writes()

    async def run_pods(self, *, but: int = 0) -> None:
        """Place all pods and let them be ready; some `but`, which are not."""
        for number, each in enumerate(await self.world.pods()):
            name = each["metadata"]["name"]
            await self.patch(kinds.PODS, name, {"spec": {"schedulingGates": None}})
            binding: Manifest = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "node-0"}}
            path = kinds.PODS.path("default", name, "binding")
            await self.world.cluster.client().create(path, binding)
            ready = "False" if number < but else "True"
            listed = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": ready}]
            await self.status(kinds.PODS, name, {"phase": "Running", "conditions": listed})

    async def gates(self) -> dict[str, list[str]]:
        """The gates of every pod."""
        return {
            each["metadata"]["name"]: [gate["name"] for gate in each["spec"].get("schedulingGates") or ()]
            for each in await self.world.pods()
        }


def _plural(resource: str) -> str:
    """`podgangs/status` of `podgangs.scheduler.grove.io/status`."""
    name, _, subresource = resource.partition("/")
    return "/".join(filter(None, (name.partition(".")[0], subresource)))


def condition(manifest: Manifest, type_: str) -> Manifest:
    """A condition of an object; empty where it has none of this type."""
    listed = (manifest.get("status") or {}).get("conditions") or ()
    return next((each for each in listed if each["type"] == type_), {})


def marks(cliqueset: str = "train") -> dict[str, str]:
    """The labels of a child of a set."""
    return labels.owned_by(cliqueset)


def run_steps(
    story: Callable[[Steps], Awaitable[None]],
    *schedulers: str,
    configuration: OperatorConfiguration | None = None,
) -> None:
    """Run a story with an operator that only watches; `schedulers` have their kinds in the cluster."""

    async def main() -> None:
        options = WorldOptions(schedulers=schedulers)
        if configuration is not None:
            options = replace(options, configuration=configuration)
        cluster = EmbeddedCluster(
            ClusterOptions(
                clock=LoopClock(EPOCH),
                listen=False,
                managed_fields="lazy",
                actors=False,
            )
        )
        await cluster.start()
        world = World(cluster, options)
        for crd in definitions():
            await world.user.create(CRDS, crd)
        for name in schedulers:
            await SIMULATORS[name].install(cluster.client())
        transport = _Transport(cluster.app)
        client = Client(transport, limiter=Limiter.off())
        operator = await assemble(
            client, options.configuration, clock=virtual_clock(), rng=random.Random(0), health=False
        )
        for each in operator.reconcilers.values():
            each.barrier = NO_BARRIER
        watching = asyncio.create_task(operator.cache.run())
        await operator.cache.wait_synced()
        try:
            await story(Steps(world, operator, transport, watching))
        finally:
            watching.cancel()
            await asyncio.wait({watching})
            await cluster.stop()

    run_virtual(main)
