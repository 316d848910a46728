"""What people do to a set and to everything that belongs to it, as a table of 34 disturbances.

Each is done at one moment of the gang's life: while it is `pending` for lack of room, when its gates have just
been `open`ed, or while it is `running`. Then `play` gives it room, takes one pod of every role after another,
and says what is not right in the end (see `judging`).
"""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec
from tests.scenarios.judging import Expected, Sampler, faults, is_leaving, owner_uid, watched_faults
from tests.scenarios.stories import (
    KOORDINATOR_RACKS,
    Stage,
    gates_of,
    gpu_role,
    key,
    pass_time,
    rack_binding,
    scheduler_objects,
    uid_of,
    until_gone,
)

from grove.api import kinds, labels
from grove.backends.koordinator_topology import TOPOLOGIES
from grove.errors import Invalid, NotFound
from grove.meta import Manifest, Resource
from grove.testing.virtual_time import virtual_loop
from grove.testing.world import NODES, PLACEHOLDER, World

SHUTDOWN: Final = "embedded.grove.io/shutdown"
#: Within so many seconds a disturbed set must be right again.
PATIENCE: Final = 300.0
#: How long nothing may be written before a set counts as settled.
QUIET: Final = 60.0
ROLES: Final[Mapping[str, int]] = {"worker": 2, "leader": 1}


@dataclass(slots=True)
class Scene:
    """One set in one world, and what must become of it."""

    world: World
    stage: Stage
    manifest: Manifest
    expected: Expected
    cordoned: list[str] = field(default_factory=list)

    async def apply(self) -> None:
        """Apply the set as it is meant now; a refusal by the API server leaves the stored one as it was."""
        await self.world.apply(self.manifest)

    async def edit(self, change: Callable[[Manifest], None], *, refusable: str = "") -> None:
        """Change the set's template as `kubectl apply` of a changed file does."""
        self.expected.may_be_refused = refusable
        before = copy.deepcopy(self.manifest)
        change(self.manifest["spec"]["template"])
        try:
            await self.apply()
        except Invalid:
            if not refusable:
                raise
            self.manifest = before
            self.expected.may_be_refused = ""
            if self.expected.refused_roles is not None:
                self.expected.roles = self.expected.refused_roles

    async def delete(self, resource: Resource, name: str, *, orphan: bool = False) -> None:
        await self.world.user.delete(resource, key(name), propagation="Orphan" if orphan else "Background")

    async def patch(self, resource: Resource, name: str, patch: Manifest, *, subresource: str = "") -> None:
        """Change an object as `kubectl edit` does."""
        path = resource.path("default", name) + (f"/{subresource}" if subresource else "")
        await self.world.user.raw(
            "PATCH",
            path,
            query=[("fieldManager", "kubectl-edit")],
            body=msgspec.json.encode(patch),
            content_type="application/merge-patch+json",
        )

    async def pods(self, role: str = "") -> list[Manifest]:
        """The living pods of the first gang's present cliques, of one role or of all."""
        found = []
        for each in [role] if role else self.expected.roles:
            clique = await self.world.get(kinds.CLIQUES, f"train-0-{each}")
            found += [
                pod
                for pod in await self.world.pods()
                if clique and owner_uid(pod) == uid_of(clique) and not is_leaving(pod)
            ]
        return found

    async def remove(self, pods: list[Manifest], grace: int | None = None) -> None:
        for pod in pods:
            try:
                await self.world.user.delete(
                    kinds.PODS, key(pod["metadata"]["name"]), grace_seconds=grace, uid=uid_of(pod)
                )
            except NotFound:
                continue

    async def objects(self) -> list[tuple[Resource, Manifest]]:
        """What the scheduler goes by: its objects or, where it has none, the pods that hold places."""
        if not self.stage.objects:
            held = [pod for pod in await self.world.all(kinds.PODS) if _is_placeholder(pod)]
            return [(kinds.PODS, pod) for pod in held]
        found = await scheduler_objects(self.world, self.stage)
        return [(next(r for r in self.stage.objects if r.kind == each["kind"]), each) for each in found]


Do = Callable[[Scene], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Disturbance:
    name: str
    when: str
    do: Do
    #: Changes the set before it is first applied.
    begin: Callable[[Manifest], None] = lambda _: None
    #: The minima that the set begins with.
    roles: Mapping[str, int] = field(default_factory=lambda: dict(ROLES))


def _is_placeholder(pod: Manifest) -> bool:
    return PLACEHOLDER in (pod["metadata"].get("annotations") or {})


def role_of(template: Manifest, name: str) -> Manifest:
    found: Manifest = next(each for each in template["cliques"] if each["name"] == name)
    return found


# The set ------------------------------------------------------------------------------------------


async def delete_and_apply_at_once(scene: Scene) -> None:
    await scene.delete(kinds.CLIQUESETS, "train")
    await scene.apply()


async def delete_wait_and_apply(scene: Scene) -> None:
    await scene.delete(kinds.CLIQUESETS, "train")
    await until_gone(scene.world, kinds.CLIQUESETS, "train")
    await pass_time(3)
    await scene.apply()


async def orphan_the_children_and_apply(scene: Scene) -> None:
    await scene.delete(kinds.CLIQUESETS, "train", orphan=True)
    await until_gone(scene.world, kinds.CLIQUESETS, "train")
    await pass_time(2)
    await scene.apply()


async def scale_to_zero_and_back(scene: Scene) -> None:
    await scene.world.scale("train", 0)
    await scene.world.scale("train", 1)


async def scale_to_zero_wait_and_back(scene: Scene) -> None:
    await scene.world.scale("train", 0)
    await pass_time(1)
    await scene.world.scale("train", 1)


async def scale_to_and_fro(scene: Scene) -> None:
    for replicas in (0, 4, 1, 3, 0, 2):
        await scene.world.scale("train", replicas)
        await pass_time(0.15)
    scene.manifest["spec"]["replicas"] = 2
    scene.expected.replicas = 2


# The template -------------------------------------------------------------------------------------


async def edit_image_environment_and_labels(scene: Scene) -> None:
    def change(template: Manifest) -> None:
        worker = role_of(template, "worker")
        worker["labels"] = {"team": "blue"}
        container = worker["spec"]["podSpec"]["containers"][0]
        container |= {"image": "registry.example/serve:2", "env": [{"name": "LEVEL", "value": "2"}]}

    await scene.edit(change)


def leave_minimum_open(template: Manifest) -> None:
    worker = role_of(template, "worker")
    worker["spec"].pop("minAvailable")
    worker["spec"]["replicas"] = 2


async def raise_replicas_of_a_role(scene: Scene) -> None:
    def change(template: Manifest) -> None:
        role_of(template, "worker")["spec"]["replicas"] = 3

    await scene.edit(change)


def _minimum(scene: Scene, minimum: int) -> Awaitable[None]:
    def change(template: Manifest) -> None:
        role_of(template, "worker")["spec"]["minAvailable"] = minimum

    scene.expected.refused_roles = dict(scene.expected.roles)
    scene.expected.roles = {**scene.expected.roles, "worker": minimum}
    return scene.edit(change, refusable="minAvailable")


async def lower_the_minimum(scene: Scene) -> None:
    await _minimum(scene, 1)


async def raise_the_minimum(scene: Scene) -> None:
    await _minimum(scene, 3)


async def add_a_priority(scene: Scene) -> None:
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 1000,
    }
    await scene.world.apply(urgent)
    await scene.edit(
        lambda template: template.update(priorityClassName="urgent"), refusable="priorityClassName"
    )


async def change_and_remove_the_priority(scene: Scene) -> None:
    await add_a_priority(scene)
    await pass_time(2)
    await scene.edit(lambda template: template.pop("priorityClassName", None), refusable="priorityClassName")


def require_a_rack(template: Manifest) -> None:
    template["topologyConstraint"] = {"topologyName": "cluster", "pack": {"required": "rack"}}


async def relax_the_topology(scene: Scene) -> None:
    def change(template: Manifest) -> None:
        template["topologyConstraint"]["pack"] = {"preferred": "rack"}

    await scene.edit(change, refusable="topologyConstraint")


async def add_a_topology(scene: Scene) -> None:
    await scene.edit(
        lambda template: template.update(
            topologyConstraint={"topologyName": "cluster", "pack": {"preferred": "rack"}}
        ),
        refusable="topologyConstraint",
    )


# Cliques ------------------------------------------------------------------------------------------


async def _scale_clique(scene: Scene, replicas: int, role: str = "worker") -> None:
    await scene.world.scale(f"train-0-{role}", replicas, kinds.CLIQUES)


async def scale_a_clique_up_and_down(scene: Scene) -> None:
    for replicas in (5, 2, 4):
        await _scale_clique(scene, replicas)
        await pass_time(2)


async def scale_a_clique_to_zero_and_back(scene: Scene) -> None:
    await _scale_clique(scene, 0)
    await _scale_clique(scene, 3)


async def let_a_clique_sleep(scene: Scene) -> None:
    await _scale_clique(scene, 0)
    await pass_time(30)
    await _scale_clique(scene, 3)


async def delete_a_clique(scene: Scene) -> None:
    await scene.delete(kinds.CLIQUES, "train-0-worker")


async def delete_a_clique_and_keep_its_pods(scene: Scene) -> None:
    scene.expected.allowed |= {uid_of(pod) for pod in await scene.pods("worker")}
    await scene.delete(kinds.CLIQUES, "train-0-worker", orphan=True)


async def relabel_and_disown_clique_and_gang(scene: Scene) -> None:
    """First other labels under the same owner, then no owner under the same labels."""
    relabelled = {"labels": {labels.PART_OF: "other", labels.MANAGED_BY: None, labels.SET_REPLICA_INDEX: "7"}}
    for change in (relabelled, {"ownerReferences": None}):
        await scene.patch(kinds.CLIQUES, "train-0-worker", {"metadata": change})
        await scene.patch(kinds.GANGS, "train-0", {"metadata": change})
        await pass_time(5)


# Gangs --------------------------------------------------------------------------------------------


async def delete_the_gang(scene: Scene) -> None:
    await scene.delete(kinds.GANGS, "train-0")


async def delete_the_gang_and_keep_its_objects(scene: Scene) -> None:
    scene.expected.allowed |= {uid_of(each) for _, each in await scene.objects()}
    await scene.delete(kinds.GANGS, "train-0", orphan=True)


async def _podgroups(scene: Scene) -> list[Manifest]:
    gang = await scene.world.gang("train-0")
    assert gang is not None
    groups: list[Manifest] = gang["spec"]["podgroups"]
    return groups


async def take_a_podgroup_from_the_gang(scene: Scene) -> None:
    kept = [group for group in await _podgroups(scene) if not group["name"].endswith("leader")]
    await scene.patch(kinds.GANGS, "train-0", {"spec": {"podgroups": kept}})


async def weaken_the_gang(scene: Scene) -> None:
    weak = [{**group, "minReplicas": 1, "podReferences": []} for group in await _podgroups(scene)]
    await scene.patch(kinds.GANGS, "train-0", {"spec": {"podgroups": weak}})


# Scheduler objects --------------------------------------------------------------------------------


async def delete_the_objects(scene: Scene) -> None:
    for resource, each in await scene.objects():
        await scene.delete(resource, each["metadata"]["name"])


async def make_the_objects_by_hand(scene: Scene) -> None:
    """Delete each one and create it again from what `kubectl get -o yaml` printed."""
    for resource, each in await scene.objects():
        name = each["metadata"]["name"]
        await scene.delete(resource, name)
        if await scene.world.get(resource, name) is not None or not scene.stage.objects:
            continue
        stamped = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "finalizers")
        meta = {field: value for field, value in each["metadata"].items() if field not in stamped}
        made = {**{field: value for field, value in each.items() if field != "status"}, "metadata": meta}
        await scene.world.user.create(resource, made)


async def weaken_the_objects(scene: Scene) -> None:
    for resource, each in await scene.objects():
        if patch := _weaker(each["spec"]):
            try:
                await scene.patch(resource, each["metadata"]["name"], {"spec": patch})
            except Invalid:
                continue  # what cannot be changed in place is safe from this


def _weaker(spec: object) -> Manifest:
    """A patch that turns every minimum in mappings below into 1; lists are left alone."""
    if not isinstance(spec, dict):
        return {}
    found: Manifest = {}
    for name, value in spec.items():
        if name in ("minMember", "minCount") and isinstance(value, int) and value > 1:
            found[name] = 1
        elif below := _weaker(value):
            found[name] = below
    return found


# Pods ---------------------------------------------------------------------------------------------


async def delete_all_pods(scene: Scene) -> None:
    await scene.remove(await scene.pods())


async def delete_a_role_by_force(scene: Scene) -> None:
    await scene.remove(await scene.pods("worker"), grace=0)


async def relabel_pods(scene: Scene) -> None:
    """Each worker loses another of the labels by which it was found."""
    changes = ({labels.POD_GANG: None}, {labels.POD_CLIQUE: "elsewhere"}, {labels.MANAGED_BY: None})
    for pod, change in zip(await scene.pods("worker"), changes, strict=False):
        await scene.patch(kinds.PODS, pod["metadata"]["name"], {"metadata": {"labels": change}})


async def disown_a_pod(scene: Scene) -> None:
    pod = (await scene.pods("worker"))[0]
    scene.expected.allowed.add(uid_of(pod))
    await scene.patch(kinds.PODS, pod["metadata"]["name"], {"metadata": {"ownerReferences": None}})


async def put_strangers_among_them(scene: Scene) -> None:
    """Pods of somebody else with all of our labels, one without any owner and one with a foreign one."""
    pods = await scene.pods("worker")
    marks = pods[0]["metadata"]["labels"]
    service = {"metadata": {"name": "theirs", "namespace": "default"}, "spec": {"ports": [{"port": 80}]}}
    theirs: Manifest = await scene.world.user.create(kinds.SERVICES, service, type=dict)
    foreign = {
        "apiVersion": "v1",
        "kind": "Service",
        "name": "theirs",
        "uid": uid_of(theirs),
        "controller": True,
    }
    for name, owners in (("stranger", []), ("guest", [foreign])):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": marks, "ownerReferences": owners},
            "spec": {"containers": [{"name": "main", "image": "registry.example/other:1"}]},
        }
        made: Manifest = await scene.world.user.create(kinds.PODS, pod, type=dict)
        scene.expected.allowed.add(uid_of(made))


async def fail_a_pod(scene: Scene) -> None:
    pod = (await scene.pods("worker"))[0]
    await scene.patch(
        kinds.PODS, pod["metadata"]["name"], {"status": {"phase": "Failed"}}, subresource="status"
    )


# Nodes and services -------------------------------------------------------------------------------


async def delete_a_node(scene: Scene) -> None:
    pod = (await scene.pods("leader"))[0]
    await scene.world.user.delete(NODES, key(pod["spec"]["nodeName"], ""))


async def drain_a_node(scene: Scene) -> None:
    pods = await scene.pods()
    node = pods[0]["spec"]["nodeName"]
    await cordon(scene.world, node, True)
    await scene.remove([pod for pod in pods if pod["spec"].get("nodeName") == node])


async def delete_and_bend_services(scene: Scene) -> None:
    await scene.patch(kinds.SERVICES, "train-0", {"spec": {"selector": {"app": "elsewhere"}}})
    await pass_time(1)
    await scene.delete(kinds.SERVICES, "train-0")


async def take_a_name(scene: Scene) -> None:
    """Somebody's clique has the name that a new replica needs; later it goes."""
    theirs = {
        "apiVersion": kinds.CLIQUES.api_version,
        "kind": "PodClique",
        "metadata": {"name": "train-1-worker", "namespace": "default", "labels": {"team": "red"}},
        "spec": {
            "roleName": "worker",
            "replicas": 0,
            "podSpec": {"containers": [{"name": "a", "image": "b"}]},
        },
    }
    made: Manifest = await scene.world.user.create(kinds.CLIQUES, theirs, type=dict)
    await scene.world.scale("train", 2)
    scene.manifest["spec"]["replicas"] = 2
    scene.expected.replicas = 2
    await pass_time(5)
    left = await scene.world.get(kinds.CLIQUES, "train-1-worker")
    assert uid_of(left) == uid_of(made), "the stranger's clique was deleted"
    assert left is not None
    assert left["metadata"]["labels"] == {"team": "red"}, "the stranger's clique was taken over"
    await scene.delete(kinds.CLIQUES, "train-1-worker")


DISTURBANCES: Final = (
    Disturbance("set deleted and applied at once", "running", delete_and_apply_at_once),
    Disturbance("set deleted and applied at once", "pending", delete_and_apply_at_once),
    Disturbance("set deleted and applied at once", "open", delete_and_apply_at_once),
    Disturbance("set deleted, gone, applied", "running", delete_wait_and_apply),
    Disturbance("set deleted, children orphaned, applied", "running", orphan_the_children_and_apply),
    Disturbance("set scaled to 0 and back", "running", scale_to_zero_wait_and_back),
    Disturbance("set scaled 0,4,1,3,0,2 in a second", "running", scale_to_and_fro),
    Disturbance("image, environment and labels edited", "running", edit_image_environment_and_labels),
    Disturbance(
        "role's replicas raised, minimum never written",
        "running",
        raise_replicas_of_a_role,
        leave_minimum_open,
    ),
    Disturbance("minimum lowered", "pending", lower_the_minimum),
    Disturbance("minimum raised", "running", raise_the_minimum),
    Disturbance("priority added", "running", add_a_priority),
    Disturbance("priority added and removed", "pending", change_and_remove_the_priority),
    Disturbance("topology relaxed", "pending", relax_the_topology, require_a_rack),
    Disturbance("topology added", "running", add_a_topology),
    Disturbance("clique scaled up and down", "running", scale_a_clique_up_and_down),
    Disturbance("clique asleep for a while", "running", let_a_clique_sleep),
    Disturbance("clique deleted", "running", delete_a_clique),
    Disturbance("clique deleted, pods orphaned", "running", delete_a_clique_and_keep_its_pods),
    Disturbance("clique and gang relabelled and disowned", "running", relabel_and_disown_clique_and_gang),
    Disturbance("gang deleted", "running", delete_the_gang),
    Disturbance("gang deleted, objects orphaned", "pending", delete_the_gang_and_keep_its_objects),
    Disturbance("podgroup taken from the gang", "pending", take_a_podgroup_from_the_gang),
    Disturbance("gang's minimum and references weakened", "running", weaken_the_gang),
    Disturbance("scheduler objects deleted", "running", delete_the_objects),
    Disturbance("scheduler objects made by hand", "pending", make_the_objects_by_hand),
    Disturbance("scheduler objects weakened", "pending", weaken_the_objects),
    Disturbance("all pods deleted", "open", delete_all_pods),
    Disturbance("a role's pods deleted by force", "running", delete_a_role_by_force),
    Disturbance("pods relabelled", "running", relabel_pods),
    Disturbance("strangers with our labels", "pending", put_strangers_among_them),
    Disturbance(
        "a pod fails and another is disowned", "running", lambda scene: _both(scene, fail_a_pod, disown_a_pod)
    ),
    Disturbance(
        "node drained and another deleted", "running", lambda scene: _both(scene, drain_a_node, delete_a_node)
    ),
    Disturbance(
        "service bent and deleted, name taken",
        "running",
        lambda scene: _both(scene, delete_and_bend_services, take_a_name),
    ),
)


async def _both(scene: Scene, *parts: Do) -> None:
    for each in parts:
        await each(scene)
        await pass_time(2)


# The play -----------------------------------------------------------------------------------------


async def cordon(world: World, node: str, closed: bool) -> None:
    await world.user.merge_patch(NODES, key(node, ""), {"spec": {"unschedulable": closed or None}})


def manifest_for(stage: Stage, stop: float) -> Manifest:
    """Three workers of which two are needed, and a leader; each takes half a node."""
    marks = {"annotations": {SHUTDOWN: f"{stop:g}s"}} if stop else {}
    worker = gpu_role("worker", 3, 4, minAvailable=2, **marks)
    leader = gpu_role("leader", 1, 4, minAvailable=1, **marks)
    return stage.cliqueset(cliques=[worker, leader])


async def begin(world: World, stage: Stage, disturbance: Disturbance, stop: float) -> Scene:
    """The set at the moment at which it is to be disturbed."""
    manifest = manifest_for(stage, stop)
    disturbance.begin(manifest["spec"]["template"])
    scene = Scene(world, stage, manifest, Expected("train", disturbance.roles))
    await world.apply(rack_binding())
    if stage.backend == "koordinator":
        await world.user.create(TOPOLOGIES, KOORDINATOR_RACKS)
    if disturbance.when == "pending":
        # Room for two of the three pods that it needs at least.
        for node in sorted(each["metadata"]["name"] for each in await world.all(NODES))[1:]:
            await cordon(world, node, True)
            scene.cordoned.append(node)
    opened = asyncio.create_task(_first_open_pod(world))
    await scene.apply()
    if disturbance.when == "open":
        await asyncio.wait_for(opened, 60)
        return scene
    opened.cancel()
    if disturbance.when == "pending":
        await pass_time(5)
        return scene
    await until_right(scene, "before the disturbance")
    return scene


async def _first_open_pod(world: World) -> None:
    async for event in world.user.watch(kinds.PODS, type=dict, resource_version="0"):
        if event.type != "BOOKMARK" and not gates_of(event.object):
            return


async def until_right(scene: Scene, moment: str, *, seconds: float = PATIENCE) -> None:
    """Let time pass until nothing is wrong; fail with what is."""
    loop = virtual_loop()
    deadline = loop.time() + seconds
    while wrong := await faults(scene.world, scene.stage, scene.expected):
        if loop.time() >= deadline:
            raise AssertionError(f"{moment}, after {seconds:g} s:\n  " + "\n  ".join(wrong))
        await asyncio.sleep(0.5)


async def play(world: World, stage: Stage, disturbance: Disturbance, stop: float) -> list[str]:
    """Disturb a set, give it room, lose a pod of each role; return everything that was not right."""
    async with Sampler(world) as sampler:
        scene = await begin(world, stage, disturbance, stop)
        wrong: list[str] = []
        try:
            await _disturb_and_lose(scene, disturbance)
        except AssertionError as error:
            wrong.append(str(error))
        before = scene.expected.refused_roles or {}
        least = {
            role: min(count, before.get(role, count), disturbance.roles[role])
            for role, count in scene.expected.roles.items()
        }
        watched = watched_faults(sampler.record(), least, end=virtual_loop().time())
    if watched:
        wrong.append("on the way:\n  " + "\n  ".join(watched))
    return wrong


async def _disturb_and_lose(scene: Scene, disturbance: Disturbance) -> None:
    await disturbance.do(scene)
    await pass_time(12 if scene.cordoned else 1)
    for node in scene.cordoned:
        await cordon(scene.world, node, False)
    await until_right(scene, "after the disturbance")
    for role in scene.expected.roles:
        await scene.remove((await scene.pods(role))[:1])
        await pass_time(0.5)
        await until_right(scene, f"after a {role} was lost")
    await scene.world.settle(quiet=QUIET, seconds=PATIENCE)
    await until_right(scene, "after it had settled", seconds=0)
