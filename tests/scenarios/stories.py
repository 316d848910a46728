"""What the scenarios share: the clusters to play in, what a user reads off the API, and the order of events.

Everything here looks through the API, as kubectl and dashboards do; nothing looks into the operator.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec
from tests.raw import raw

from grove.api import kinds, labels
from grove.api.config import load
from grove.backends.kai.backend import PODGROUPS as KAI_PODGROUPS
from grove.meta import Key, Manifest, Resource, resource
from grove.testing import make
from grove.testing.virtual_time import virtual_loop
from grove.testing.world import World, WorldOptions

EVENTS: Final = resource("", "v1", "Event")
QUOTAS: Final = resource("", "v1", "ResourceQuota")
NAMESPACES: Final = resource("", "v1", "Namespace", namespaced=False)
WORKLOADS_135: Final = resource("scheduling.k8s.io", "v1alpha1", "Workload")
PODGROUPS_136: Final = resource("scheduling.k8s.io", "v1alpha2", "PodGroup")
PODGROUPS_137: Final = resource("scheduling.k8s.io", "v1beta1", "PodGroup")
WORKLOADS_137: Final = resource("scheduling.k8s.io", "v1beta1", "Workload")
KOORDINATOR_PODGROUPS: Final = resource("scheduling.sigs.k8s.io", "v1alpha1", "PodGroup")
VOLCANO_PODGROUPS: Final = resource("scheduling.volcano.sh", "v1beta1", "PodGroup")
COMPOSITES_137: Final = resource("scheduling.k8s.io", "v1alpha3", "CompositePodGroup")

GPU: Final = "nvidia.com/gpu"
RACK: Final = "topology.kubernetes.io/rack"


@dataclass(frozen=True)
class Stage:
    """A cluster with one way of scheduling gangs."""

    options: WorldOptions
    backend: str
    gate: str
    scheduler_name: str
    #: What the backend writes here; empty where the cluster knows no gangs.
    objects: tuple[Resource, ...]
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def guarantees(self) -> bool:
        """Whether the scheduler places gangs all or nothing; YuniKorn does it without any objects."""
        return bool(self.objects) or self.backend == "yunikorn"

    def cliqueset(self, name: str = "train", **fields: object) -> Manifest:
        """A set for this stage's backend."""
        marks = {**self.annotations, **fields.pop("annotations", {})}  # type: ignore[dict-item]
        return make.cliqueset_manifest(name, annotations=marks, **fields)  # type: ignore[arg-type]


def device(name: str) -> Manifest:
    """What a claim for one device of a class asks for."""
    return {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": f"{name}.example.com"}}]}}


def sharing_devices(cliqueset: Manifest, *, within_gangs: bool = True) -> Manifest:
    """The set with claims of every scope, shared by all of its pods, of its groups and of its last role.

    Or with claims that no two pods of a gang share: one for each pod of its last role.
    """
    template = cliqueset["spec"]["template"]
    shared = [{"name": "t", "scope": "AllReplicas"}, {"name": "u", "scope": "PerReplica"}]
    template["resourceClaimTemplates"] = [
        {"name": each["name"], "templateSpec": {"spec": device(each["name"])}} for each in shared
    ]
    if not within_gangs:
        template["cliques"][-1]["resourceSharing"] = shared[1:]
        return cliqueset
    for each in (template, template["cliques"][-1], *template.get("podCliqueScalingGroups", ())):
        each["resourceSharing"] = shared
    return cliqueset


YUNIKORN: Final = """
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
topologyAwareScheduling: {enabled: true}
scheduler:
  profiles: [{name: default-scheduler}, {name: yunikorn}]
"""

KOORDINATOR: Final = """
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
topologyAwareScheduling: {enabled: true}
scheduler:
  profiles:
    - name: default-scheduler
    - name: koord-scheduler
      config: {networkTopologyEnabled: true}
"""

VOLCANO: Final = """
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
topologyAwareScheduling: {enabled: true}
scheduler:
  profiles: [{name: default-scheduler}, {name: volcano}]
"""

_NATIVE = ("default", "scheduling.k8s.io/workload", "default-scheduler")

STAGES: Final[Mapping[str, Stage]] = {
    "1.35": Stage(WorldOptions(kubernetes="1.35"), *_NATIVE, (WORKLOADS_135,)),
    "1.36": Stage(WorldOptions(kubernetes="1.36"), *_NATIVE, (PODGROUPS_136,)),
    "1.37": Stage(WorldOptions(kubernetes="1.37"), *_NATIVE, (WORKLOADS_137, COMPOSITES_137, PODGROUPS_137)),
    "no gang API": Stage(WorldOptions(features=frozenset()), *_NATIVE, ()),
    "kai": Stage(
        WorldOptions(schedulers=("kai",)),
        "kai",
        "grove.io/podgang",
        "kai-scheduler",
        (KAI_PODGROUPS,),
        {labels.SCHEDULER_BACKEND: "kai"},
    ),
    "koordinator": Stage(
        WorldOptions(schedulers=("koordinator",), configuration=load(KOORDINATOR)),
        "koordinator",
        "scheduling.koordinator.sh/gang",
        "koord-scheduler",
        (KOORDINATOR_PODGROUPS,),
        {labels.SCHEDULER_BACKEND: "koordinator"},
    ),
    "volcano": Stage(
        WorldOptions(schedulers=("volcano",), configuration=load(VOLCANO)),
        "volcano",
        "scheduling.volcano.sh/podgroup",
        "volcano",
        (VOLCANO_PODGROUPS,),
        {labels.SCHEDULER_BACKEND: "volcano"},
    ),
    "yunikorn": Stage(
        WorldOptions(schedulers=("yunikorn",), configuration=load(YUNIKORN)),
        "yunikorn",
        "yunikorn.apache.org/gang",
        "yunikorn",
        (),
        {labels.SCHEDULER_BACKEND: "yunikorn"},
    ),
}
#: The stages whose scheduler places gangs all or nothing.
GANG_STAGES: Final = {name: stage for name, stage in STAGES.items() if stage.guarantees}
#: Those where it needs objects for that.
OBJECT_STAGES: Final = {name: stage for name, stage in STAGES.items() if stage.objects}


def gpu_role(name: str, replicas: int, gpus: int = 8, **fields: object) -> Manifest:
    """A role whose pods take so many GPUs each; `fields` go into its spec, `topologyConstraint` beside it."""
    beside = {
        key: fields.pop(key) for key in ("topologyConstraint", "labels", "annotations") if key in fields
    }
    pod = fields.pop("pod", {})
    container = {
        "name": "main",
        "image": "registry.example/serve:1",
        "resources": {"limits": {GPU: str(gpus)}},
    }
    role = make.template(name, replicas, pod={"containers": [container], **pod}, **beside)  # type: ignore[dict-item]
    role["spec"].update(fields)
    return role


def rack_binding(name: str = "cluster") -> Manifest:
    """A topology with one level: racks."""
    return make.object_manifest(kinds.TOPOLOGY_BINDINGS, name, {"levels": [{"domain": "rack", "key": RACK}]})


#: What Koordinator must be told of racks before a gang may ask for one.
KOORDINATOR_RACKS: Final[Manifest] = {
    "apiVersion": "scheduling.koordinator.sh/v1alpha1",
    "kind": "ClusterNetworkTopology",
    "metadata": {"name": "default"},
    "spec": {
        "networkTopologySpec": [
            {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "RackLayer"},
            {"topologyLayer": "RackLayer", "labelKey": [RACK]},
        ]
    },
}


# What a user reads --------------------------------------------------------------------------------


def condition_of(obj: Manifest | None, type_: str) -> Manifest:
    """A condition of any object; empty when it has none of this type."""
    listed = ((obj or {}).get("status") or {}).get("conditions") or ()
    return next((each for each in listed if each["type"] == type_), {})


async def set_condition(world: World, name: str, type_: str) -> Manifest:
    return condition_of(await world.get(kinds.CLIQUESETS, name), type_)


async def refusal(world: World, name: str) -> Manifest:
    """The condition `Accepted` of a set that was judged; waits for the verdict."""
    await world.until(lambda: _has(set_condition(world, name, "Accepted")), f"{name} is judged", seconds=10)
    return await set_condition(world, name, "Accepted")


async def _has(found: Awaitable[Manifest]) -> bool:
    return bool(await found)


async def events_about(world: World, kind: str, name: str) -> list[Manifest]:
    """The events on one object."""
    return [
        each
        for each in await world.all(EVENTS)
        if each["involvedObject"]["kind"] == kind and each["involvedObject"]["name"] == name
    ]


async def reasons_about(world: World, kind: str, name: str) -> list[str]:
    return sorted(each["reason"] for each in await events_about(world, kind, name))


async def table(world: World, resource: Resource) -> list[dict[str, object]]:
    """What `kubectl get -o wide` prints: a mapping from column to cell for each row."""
    answer = await raw(
        world.user, "GET", resource.path("default"), accept="application/json;as=Table;v=v1;g=meta.k8s.io"
    )
    body = msgspec.json.decode(answer.body, type=Manifest)
    columns = [column["name"] for column in body["columnDefinitions"]]
    return [dict(zip(columns, row["cells"], strict=True)) for row in body["rows"]]


async def everything_of(world: World, name: str) -> dict[str, list[str]]:
    """Whatever in the cluster carries the labels of a set, by kind."""
    found: dict[str, list[str]] = {}
    discovery = await world.user.discover()
    for api_version, plurals in discovery.served.items():
        group, _, version = api_version.rpartition("/")
        for plural in plurals:
            if "/" in plural or group.startswith(("authorization", "authentication")) or plural == "bindings":
                continue
            listed = await world.user.list_all(
                Resource(resource(group, version, plural).gvk, plural),
                type=dict,
                labels=f"{labels.PART_OF}={name}",
            )
            if listed:
                found[f"{plural}.{group}"] = sorted(each["metadata"]["name"] for each in listed)
    return found


async def scheduler_objects(world: World, stage: Stage) -> list[Manifest]:
    """All objects of the stage's scheduler, of every kind that the backend writes."""
    return [item for each in stage.objects for item in await world.all(each)]


def base_name(obj: Manifest) -> str:
    """The name of a scheduler object without the revision of its gang, which is the end of it."""
    base, _, revision = str(obj["metadata"]["name"]).rpartition("-")
    assert len(revision) == 10, f"{obj['metadata']['name']} does not end in a revision"
    return base


async def object_of(world: World, resource: Resource, base: str) -> Manifest:
    """The one object with this name before its revision; fails when there is none, or that of an earlier start."""
    (found,) = [each for each in await world.all(resource) if base_name(each) == base]
    return found


def revision_of(pod: Manifest) -> str:
    """The start of its gang that a pod was made for."""
    return str(pod["metadata"]["annotations"][labels.GANG_REVISION])


def owner_of(obj: Manifest) -> tuple[str, str, str]:
    """Kind, name and UID of the controlling owner."""
    owner = next(each for each in obj["metadata"]["ownerReferences"] if each.get("controller"))
    return owner["kind"], owner["name"], owner["uid"]


def gates_of(pod: Manifest) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


def uid_of(obj: Manifest | None) -> str:
    return str(obj["metadata"]["uid"]) if obj else ""


# Waiting ------------------------------------------------------------------------------------------


async def until_phase(world: World, gang: str, phase: str, *, seconds: float = 60) -> None:
    async def reached() -> bool:
        return await world.phase(gang) == phase

    await world.until(reached, f"{gang} is {phase}", seconds=seconds)


async def until_running(world: World, *gangs: str, seconds: float = 60) -> None:
    for gang in gangs:
        await until_phase(world, gang, "Running", seconds=seconds)


async def until_gone(world: World, resource: Resource, name: str, *, seconds: float = 60) -> None:
    async def gone() -> bool:
        return await world.get(resource, name) is None

    await world.until(gone, f"{resource.kind} {name} is gone", seconds=seconds)


async def until_reason(world: World, gang: str, type_: str, reason: str, *, seconds: float = 60) -> Manifest:
    async def said() -> bool:
        return (await world.condition(gang, type_)).get("reason") == reason

    await world.until(said, f"{gang} says {type_} {reason}", seconds=seconds)
    return await world.condition(gang, type_)


async def pass_time(seconds: float) -> None:
    """Let virtual time pass and everybody work."""
    arrived = asyncio.Event()
    virtual_loop().call_later(seconds, arrived.set)
    await arrived.wait()


# The order of events ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """One event of a watch."""

    at: float
    version: int
    kind: str
    type: str
    object: Manifest

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])


class History:
    """Everything that watches of some kinds told, in the order of the server's revisions."""

    def __init__(self, world: World, *watched: Resource) -> None:
        self._world = world
        self._watched = watched
        self._seen: list[Seen] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "History":
        for each in self._watched:
            listing = await self._world.user.list(each, type=dict)
            watching = self._watch(each, listing.resource_version)
            self._tasks.append(asyncio.create_task(watching, name=f"history of {each}"))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _watch(self, each: Resource, version: str) -> None:
        async for event in self._world.user.watch(each, type=dict, resource_version=version):
            if event.type != "BOOKMARK":
                now, revision = virtual_loop().time(), int(event.resource_version)
                self._seen.append(Seen(now, revision, each.kind, event.type, event.object))

    def of(self, *watched: str, type_: str = "") -> list[Seen]:
        """What was seen of these kinds (or of all), oldest first."""
        chosen = [each for each in self._seen if not watched or each.kind in watched]
        chosen = [each for each in chosen if not type_ or each.type == type_]
        return sorted(chosen, key=lambda each: each.version)

    def first(self, kind: str, holds: Callable[[Manifest], bool] = lambda _: True) -> Seen:
        """The first state of an object of the kind for which something holds."""
        for each in self.of(kind):
            if each.type != "DELETED" and holds(each.object):
                return each
        raise AssertionError(f"no {kind} was ever like this; seen: {[e.name for e in self.of(kind)]}")


def key(name: str, namespace: str = "default") -> Key:
    return Key(namespace, name)
