"""`python -m bench.verbs`: what each write of a gang's life costs a real API server, in CPU.

Programs of `make real`: etcd and the API server alone, no scheduler, controllers or operator. Each kind of
write is sent a thousand times by a bare loop; what the processes used of a core meanwhile, divided by their
number, is its cost, which other work on the machine changes by little. Where a write can be sent in two
ways, both are measured in one run: with and without a record of who manages which field, strict or not,
server-side apply or POST.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import typer

from bench.cases import NAMESPACE, PAIRS, cliqueset
from bench.floor import OPEN, each
from bench.gangs import Gangs
from bench.usage import usage_of
from grove.api import kinds
from grove.api.cliqueset import PodCliqueSet
from grove.cli.local import install_crds
from grove.cli.loop import run_loop
from grove.kube.client import Client
from grove.kube.config import load
from grove.kube.limiter import Limiter
from grove.kube.transport import HttpTransport
from grove.meta import Key, Manifest, Resource, manifest_key
from grove.plan.changes import CLEARED_MANAGERS, present
from grove.plan.children import CliqueSetState
from grove.plan.children.cliques import Cliques
from grove.plan.children.gangs import Gangs as GangRows
from grove.real import Options, RealControlPlane
from grove.testing.make import view

#: A new kind is created slowly for so long after it was established.
_NEW_KIND_SECONDS: Final = 2.0
#: Beginnings of names, another one for each kind of write.
_FAMILIES: Final = (f"k{number}" for number in count())
_CLEAR: Final = {"op": "add", "path": "/metadata/managedFields", "value": CLEARED_MANAGERS}

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@dataclass(frozen=True, slots=True)
class Taken:
    """One kind of write: CPU of the API server and of etcd for one of them, and how many went in a second."""

    what: str
    server_ms: float
    etcd_ms: float
    per_second: float

    def __str__(self) -> str:
        return f"{self.what:<58} {self.server_ms:>9.2f} {self.etcd_ms:>9.2f} {self.per_second:>10.0f}"


class Costs:
    """Sends so many writes of each kind and notes what they cost."""

    def __init__(self, plane: RealControlPlane, transport: HttpTransport, many: int) -> None:
        self._pids = {"server": plane.pids["kube-apiserver"], "etcd": plane.pids["etcd"]}
        self.transport = transport
        self.client = Client(transport, limiter=Limiter.off(), field_manager="grove")
        self.many = many

    async def of(self, what: str, write: Callable[[int], Awaitable[object]]) -> None:
        """Measure one kind of write; it is told which one it is, from 0."""
        before, began = self._used(), time.monotonic()
        await each(range(self.many), write)
        seconds, used = time.monotonic() - began, self._used()
        server, etcd = (1000 * (used[name] - before[name]) / self.many for name in ("server", "etcd"))
        print(Taken(what, server, etcd, self.many / seconds), flush=True)

    def _used(self) -> dict[str, float]:
        return {name: usage_of(pid).cpu for name, pid in self._pids.items()}


def pods_of(many: int) -> list[Manifest]:
    """As many pods of gangs of two."""
    gangs = Gangs("1.36", PAIRS)
    return [pod for number in range(many // 2) for pod in gangs.pods(number)]


def renamed(manifest: Manifest, name: str) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "name": name}}


async def pods(costs: Costs, *, strict: bool, clear: bool) -> None:
    """A pod's life: created, its gate opened, bound, running."""
    family, made = next(_FAMILIES), pods_of(costs.many)
    made = [renamed(pod, f"{family}-{index}") for index, pod in enumerate(made)]
    keys = [manifest_key(pod) for pod in made]
    record = "no record of managers" if clear else "managers recorded"
    client, path = costs.client, f"/api/v1/namespaces/{NAMESPACE}/pods"
    ways = "strict" if strict else "unknown fields dropped"
    trusted = client if strict else client.trusted()
    await costs.of(
        f"pod: create, {ways}", lambda index: trusted.create(kinds.PODS, made[index], strict=strict)
    )
    opening: list[Manifest] = [*OPEN, _CLEAR] if clear else [*OPEN]
    await costs.of(
        f"pod: open its gate, {record}", lambda index: client.json_patch(kinds.PODS, keys[index], opening)
    )

    async def bind(index: int) -> None:
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": keys[index].name}}
        body["target"] = {"kind": "Node", "name": "node-0"}
        answer = await costs.transport.send(
            "POST",
            f"{path}/{keys[index].name}/binding",
            headers={"Content-Type": "application/json"},
            body=json.dumps(body).encode(),
        )
        assert answer.status < 300, answer

    await costs.of(f"pod: bind, {record}", bind)
    running = {"status": {"phase": "Running", "podIP": "10.1.1.1", "conditions": READY}}
    await costs.of(
        f"pod: status, {record}",
        lambda index: client.merge_patch(kinds.PODS, keys[index], running, subresource="status"),
    )


READY: Final = [
    {"type": name, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    for name in ("Ready", "ContainersReady", "Initialized", "PodScheduled")
]


def seen() -> CliqueSetState:
    manifest = present(cliqueset(PAIRS))
    manifest["metadata"]["uid"] = "uid"
    return CliqueSetState(view(PodCliqueSet, manifest), backend="default")


def ownerless(manifest: Manifest) -> Manifest:
    metadata = {name: value for name, value in manifest["metadata"].items() if name != "ownerReferences"}
    return {**manifest, "metadata": metadata}


STATUS: Final = {
    "status": {
        "phase": "Running",
        "message": "2 of 2 pods placed.",
        "observedGeneration": 2,
        "conditions": [
            {
                "type": name,
                "status": "True",
                "reason": name,
                "message": "2 of 2 pods placed.",
                "observedGeneration": 2,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            for name in ("Initialized", "Scheduled", "Ready", "Available", "GangGuarantee")
        ],
    }
}


async def objects(costs: Costs, resource: Resource, rows: list[Manifest], *, clear: bool) -> None:
    """A gang or a clique: created, its pods listed (gangs), its status written twice."""
    family = next(_FAMILIES)
    made = [ownerless(renamed(row, f"{family}-{index}")) for index, row in enumerate(rows)]
    keys = [manifest_key(each) for each in made]
    name, client = resource.kind, costs.client.trusted()
    record = "no record of managers" if clear else "managers recorded"
    await costs.of(f"{name}: create", lambda index: client.create(resource, made[index]))
    if resource == kinds.GANGS:
        (group,) = made[0]["spec"]["podgroups"]
        pods = [{"namespace": NAMESPACE, "name": f"bench-0-worker-{n}", "uid": "u" * 36} for n in range(2)]
        patch: Manifest = {"spec": {"podgroups": [{**group, "podReferences": pods}]}}
        if clear:
            patch["metadata"] = {"managedFields": CLEARED_MANAGERS}
        await costs.of(
            f"{name}: list its pods, {record}",
            lambda index: client.merge_patch(resource, keys[index], patch),
        )
    for turn in ("first", "second"):
        status = json.loads(json.dumps(STATUS).replace("2 of 2", turn))
        await costs.of(
            f"{name}: {turn} status, {record}",
            lambda index, status=status: client.merge_patch(  # type: ignore[misc]
                resource, keys[index], status, subresource="status"
            ),
        )


async def scheduler_objects(costs: Costs, *, apply: bool) -> None:
    """A native PodGroup made by apply or by POST, and the scheduler's status of it."""
    family = next(_FAMILIES)
    ((resource, first),) = Gangs("1.36", PAIRS).objects(0)
    made = [renamed(first, f"{family}-{index}") for index in range(costs.many)]
    keys = [Key(NAMESPACE, each["metadata"]["name"]) for each in made]
    client, way = costs.client.trusted(), "apply" if apply else "POST"
    if apply:
        await costs.of(f"{resource.kind}: {way}", lambda index: client.apply(resource, made[index]))
    else:
        await costs.of(f"{resource.kind}: {way}", lambda index: client.create(resource, made[index]))
    condition = {**STATUS["status"]["conditions"][0], "type": "PodGroupScheduled"}  # type: ignore[index]
    condition.pop("observedGeneration")
    await costs.of(
        f"{resource.kind}: status after {way}",
        lambda index: client.merge_patch(
            resource, keys[index], {"status": {"conditions": [condition]}}, subresource="status"
        ),
    )


async def services(costs: Costs) -> None:
    gangs, family = Gangs("1.36", PAIRS), next(_FAMILIES)
    made = [renamed(gangs.service(0), f"{family}-{index}") for index in range(costs.many)]
    client = costs.client.trusted()
    await costs.of("Service: create", lambda index: client.create(kinds.SERVICES, made[index]))


async def measure(many: int) -> None:
    """Everything, on one control plane."""
    options = Options(scheduler=False, controller_manager=False, say=lambda _: None)
    with TemporaryDirectory() as folder:
        async with RealControlPlane(options) as plane:
            plane.kubeconfig(Path(folder) / "kubeconfig")
            costs = Costs(plane, HttpTransport(load(str(Path(folder) / "kubeconfig"))), many)
            try:
                await install_crds(costs.client)
                await asyncio.sleep(_NEW_KIND_SECONDS)
                await everything(costs)
            finally:
                await costs.client.close()


async def everything(costs: Costs) -> None:
    print(f"{'':<58} {'server ms':>9} {'etcd ms':>9} {'a second':>10}")
    numbers = range(costs.many)
    state = seen()
    gang = next(GangRows(state).rows(0)).manifest()
    (clique,) = (row.manifest() for row in Cliques(state).rows(0))
    for clear in (False, True):
        await pods(costs, strict=not clear, clear=clear)
    for clear in (False, True):
        await objects(costs, kinds.GANGS, [gang for _ in numbers], clear=clear)
    await objects(costs, kinds.CLIQUES, [clique for _ in numbers], clear=False)
    for apply in (True, False):
        await scheduler_objects(costs, apply=apply)
    await services(costs)


@app.command()
def verbs(
    many: Annotated[int, typer.Option(min=10, help="How many writes of each kind.")] = 1000,
) -> None:
    """What each write of a gang's life costs a real API server."""
    run_loop(measure(many))


if __name__ == "__main__":
    app(prog_name="python -m bench.verbs")
