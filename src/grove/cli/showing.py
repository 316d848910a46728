"""The demonstration: what is applied in which order, and what must be seen before the next step.

Everything shown was read back through the API server by watches. A step that is not seen within its limit
ends the demonstration with the reason.
"""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Final

from grove.api import kinds, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.default import DefaultBackend
from grove.backends.sample import sample_of
from grove.cli.connect import connected
from grove.cli.documents import Document, parse
from grove.cli.finding import find, scheduler_resources
from grove.cli.local import configuration, install_crds, require_embedded
from grove.cli.loop import stop_on_signals, unless_stopped
from grove.cli.narrator import Narrator
from grove.cli.operating import operator_for, working
from grove.cli.planes import Plane, RealRequest, embedded_plane, first, real_plane
from grove.cli.talk import Failed, emit
from grove.cli.tree import drawn
from grove.kube.client import Client
from grove.meta import Key, Manifest, Resource, UntypedObject, resource
from grove.runtime.cache import Cache
from grove.view.forest import forest
from grove.view.world import GPU, RACK, ZONE, node_view
from grove.words import counted

NODES: Final = resource("", "v1", "Node", namespaced=False)
NAMESPACE: Final = "default"
MILESTONES: Final = ("gang", "objects", "gated", "complete", "released", "bound", "running")
#: How long any step may take; on an idle machine each takes well under a second.
LIMIT_SECONDS: Final = 20.0


async def show(minor: str, *, real: bool = False, force: bool = False) -> None:
    """The whole demonstration; raises Failed with the reason if a step does not happen."""
    require_embedded()
    with stop_on_signals() as stop, tempfile.TemporaryDirectory(prefix="grove-demo-") as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        plane = _plane(minor, kubeconfig, real=real, force=force)
        await unless_stopped(_show(plane, minor, real=real), stop)


def _plane(minor: str, kubeconfig: Path, *, real: bool, force: bool) -> AbstractAsyncContextManager[Plane]:
    from grove.embedded.cluster import ClusterOptions

    options = ClusterOptions(kubernetes=minor, nodes=8, gpus=8, zones=2, racks=3, force=force)
    if real:
        from grove.embedded.actors.schedulers.simulators import BESIDE_REAL

        return real_plane(RealRequest(minor, options.shape, simulated=BESIDE_REAL, force=force), kubeconfig)
    return embedded_plane(options, kubeconfig)


async def _show(plane: AbstractAsyncContextManager[Plane], minor: str, *, real: bool) -> None:
    async with contextlib.AsyncExitStack() as stack:
        stage = Stage()
        cluster = await stack.enter_async_context(plane)
        kubeconfig = cluster.kubeconfig
        operator_side = await stack.enter_async_context(connected(kubeconfig, None, manager="grove-operator"))
        audience = await stack.enter_async_context(connected(kubeconfig, None, manager="grove-demo"))
        await install_crds(audience.client)
        await stage.introduce(audience.client, cluster)
        operator = await operator_for(operator_side, configuration(real=real))
        stage.operator = await stack.enter_async_context(working(operator))
        await stage.until("the operator is ready", operator.manager.working.is_set)
        stage.backends = tuple(backend.name for backend in operator.scheduling.registry.enabled)
        *others, last = stage.backends
        named = f"{', '.join(others)} and {last}"
        stage.tell("operator", f"works through {cluster.url} for the schedulers {named}")
        await stack.enter_async_context(stage.watching(audience.client))
        await first(cluster.failed(), _play(stage, audience.client, topology=minor != "1.35"))
        await stage.until("every set that was accepted is available", stage.seen.settled)
        found = forest(await find(audience.client, NAMESPACE), now=datetime.now(UTC))
    emit(f"\n{drawn(found)}")
    emit(f"\nDone in {stage.elapsed:.1f} s; nothing is left behind. Try it yourself: grove up")


async def _play(stage: "Stage", client: Client, *, topology: bool) -> None:
    stage.head("Kubernetes' own scheduler: prefill and decode instances, each with a leader and a worker")
    await stage.run(client, "prefill-decode.yaml", "llm-0", "llm-0-prefill-0")
    for name in stage.backends:
        if name != DefaultBackend.name:
            sample = sample_of(name)
            stage.head(f"{sample.title}: {sample.scene}")
            await stage.run(client, f"leader-workers-{name}.yaml", objects=sample.has_objects)
    stage.head("Topology: all pods in one rack")
    if topology:
        await stage.run(client, "topology.yaml")
        await stage.one_rack(client, Key(NAMESPACE, "packed-0"))
    else:
        await stage.refuse(client, "topology.yaml")
    stage.head("All or nothing: a gang whose tail fits nowhere")
    # Room for the head too: a scheduler places pod after pod, and may put the head there first.
    await stage.wait_and_fit(client, "too-big.yaml", _node("big-node", gpus=24))
    stage.head("Scaled gangs: another replica, whose scaled gang waits for its base gang")
    more = [_node(f"more-{number}", gpus=8) for number in range(4)]
    await stage.wait_for_base(client, Key(NAMESPACE, "llm"), more)


class Stage:
    """Where the demonstration happens: its clock, its lines and what it has seen."""

    def __init__(self) -> None:
        #: Set once the operator works; a step is not waited for when it has ended.
        self.operator: asyncio.Task[None] | None = None
        #: The names of the backends that the operator works for.
        self.backends: tuple[str, ...] = ()
        self._begin = time.monotonic()
        self._changed = asyncio.Event()
        self.seen = Narrator(self.tell, self._changed.set)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._begin

    def tell(self, what: str, text: str) -> None:
        """One line: when, what, and the sentence."""
        emit(f"{self.elapsed:6.2f}s  {what:<10} {text}")

    def head(self, text: str) -> None:
        emit(f"\n{text}")

    async def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait until it has been seen; raises Failed when the limit or the operator ends first."""
        deadline = asyncio.get_running_loop().time() + LIMIT_SECONDS
        while not holds():
            if self.operator is not None and self.operator.done():
                self.operator.result()
                raise Failed("demo: the operator ended unexpectedly")
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                raise Failed(f"demo: expected that {what} within {LIMIT_SECONDS:g} s, but it did not happen")
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), min(left, 0.25))

    async def introduce(self, client: Client, plane: Plane) -> None:
        """Say what cluster this is, as it describes itself, and what of it is simulated."""
        version = await client.version()
        nodes = [node_view(each) for each in await client.list_all(NODES, type=dict)]
        racks = {node.rack for node in nodes}
        zones = {node.zone for node in nodes}
        gpus = sum(node.gpus for node in nodes)
        self.tell("simulated", plane.simulated)
        self.tell("cluster", f"Kubernetes {version.git_version} at {plane.url}")
        where = f"{counted(len(racks), 'rack')} and {counted(len(zones), 'zone')}"
        self.tell("cluster", f"{counted(len(nodes), 'node')} with {counted(gpus, 'GPU')} in {where}")

    @contextlib.asynccontextmanager
    async def watching(self, client: Client) -> AsyncIterator[None]:
        """Watch everything that the story is about."""
        cache = Cache(client)
        ours = f"{labels.MANAGED_BY}={labels.MANAGER}"
        cache.add(kinds.CLIQUESETS, PodCliqueSet).subscribe(self.seen.cliqueset)
        cache.add(kinds.GANGS, PodGang).subscribe(self.seen.gang)
        cache.add(kinds.CLIQUES, PodClique).subscribe(self.seen.clique)
        cache.add(kinds.PODS, Pod, labels=ours).subscribe(self.seen.pod)
        for each in await scheduler_resources(client):
            cache.add(each, UntypedObject, labels=ours).subscribe(_listener(self.seen, each))
        nodes = cache.add(NODES, UntypedObject)
        running = asyncio.create_task(cache.run(), name="watches")
        try:
            await asyncio.wait_for(cache.wait_synced(), LIMIT_SECONDS)
            # Only nodes that come later are news.
            self.seen.known_nodes = {node.name for node in nodes.store}
            nodes.subscribe(self.seen.node)
            yield
        finally:
            running.cancel()
            await asyncio.wait({running})

    # Scenes ---------------------------------------------------------------------------------------

    async def apply(self, client: Client, file: str) -> Key:
        """Apply an example; the key of its set."""
        documents = example(file)
        for document in documents:
            target = kinds.CLIQUESETS if document.kind == kinds.CLIQUESETS.kind else kinds.TOPOLOGY_BINDINGS
            written = await client.apply(target, document.manifest)
            self.tell("apply", f"{document.kind} {written.metadata.name} ({file})")
        return Key(NAMESPACE, str(documents[-1].manifest["metadata"]["name"]))

    async def run(self, client: Client, file: str, *gangs: str, objects: bool = True) -> None:
        """Apply an example and see every milestone of its gangs, of which there is one unless named.

        Not every scheduler needs objects.
        """
        key = await self.apply(client, file)
        awaited = [each for each in MILESTONES if objects or each != "objects"]
        named = gangs or (f"{key.name}-0",)
        await self.reach([Key(key.namespace, each) for each in named], awaited)

    async def reach(self, gangs: Sequence[Key], milestones: Sequence[str] = MILESTONES) -> None:
        """See these milestones of all these gangs."""
        named = " and ".join(gang.name for gang in gangs)
        await self.until(f"{named} run", lambda: all(self.seen.all_told(gang, *milestones) for gang in gangs))

    async def refuse(self, client: Client, file: str) -> None:
        """Apply an example that this cluster cannot honour, and see it refused with the reason."""
        key = await self.apply(client, file)
        await self.until(f"set {key.name} is refused", lambda: bool(self.seen.refusal(key)))

    async def one_rack(self, client: Client, gang: Key) -> None:
        """Check the promise on the nodes themselves."""
        nodes = [node_view(each) for each in await client.list_all(NODES, type=dict)]
        racks = {node.name: node.rack for node in nodes}
        used = sorted({racks[pod.spec.node_name] for pod in self.seen.gangs[gang].pods.values()})
        if len(used) != 1:
            raise Failed(f"demo: the pods of {gang.name} must share a rack, but are in {', '.join(used)}")
        self.tell("topology", f"{gang.name}: all of its pods are in {used[0]}")

    async def wait_and_fit(self, client: Client, file: str, node: Manifest) -> None:
        """A gang that cannot be placed says why; none of its pods is; a node that fits lets all of it run."""
        key = await self.apply(client, file)
        gang = Key(key.namespace, f"{key.name}-0")
        await self.until(f"gang {gang.name} says why it waits", lambda: bool(self.seen.why_not(gang)))
        self.nothing_placed(gang)
        self.tell("waiting", f"{gang.name}: no pod of it is placed, and no GPU is held")
        await client.create(NODES, node)
        await self.reach([gang])

    async def wait_for_base(self, client: Client, key: Key, nodes: Sequence[Manifest]) -> None:
        """A second replica does not fit, and its scaled gang waits for it; with more nodes both run."""
        await client.merge_patch(kinds.CLIQUESETS, key, {"spec": {"replicas": 2}}, subresource="scale")
        self.tell("scale", f"PodCliqueSet {key.name} to 2 replicas")
        gangs = [Key(key.namespace, f"{key.name}-1"), Key(key.namespace, f"{key.name}-1-prefill-0")]
        await self.until("both say why they wait", lambda: all(map(self.seen.why_not, gangs)))
        for gang in gangs:
            self.nothing_placed(gang)
        for node in nodes:
            await client.create(NODES, node)
        await self.reach(gangs)

    def nothing_placed(self, gang: Key) -> None:
        """Raise Failed when a pod of a gang that waits is on a node."""
        placed = [pod.name for pod in self.seen.gangs[gang].pods.values() if pod.bound]
        if placed:
            raise Failed(f"demo: {', '.join(placed)} must not be placed without the rest of {gang.name}")


def example(file: str) -> list[Document]:
    """The objects of an example that ships with the package."""
    folder = resources.files("grove.cli") / "examples"
    return parse((folder / file).read_text(encoding="utf-8"), file)


def _listener(seen: Narrator, each: Resource) -> Callable[[UntypedObject | None, UntypedObject | None], None]:
    return lambda old, new: seen.object(each, old, new)


def _node(name: str, *, gpus: int) -> Manifest:
    capacity = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {ZONE: "zone-0", RACK: "rack-0"}},
        "status": {"capacity": capacity, "allocatable": capacity},
    }
