"""How a set is disturbed and judged: the scene, the moment, and the play that every disturbance has in common."""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec
from tests.raw import raw
from tests.scenarios.group_truth import untruths
from tests.scenarios.judging import WAY_OUT, Expected, faults, is_leaving, owner_uid
from tests.scenarios.sampling import Sampler, watched_faults
from tests.scenarios.stories import (
    KOORDINATOR_RACKS,
    Stage,
    condition_of,
    gates_of,
    gpu_role,
    key,
    pass_time,
    rack_binding,
    scheduler_objects,
    uid_of,
    until_gone,
)

from grove.api import kinds
from grove.backends.koordinator.topology import TOPOLOGIES
from grove.errors import Invalid, NotFound
from grove.meta import Manifest, Resource
from grove.testing import make
from grove.testing.portrait import Guard
from grove.testing.virtual_time import virtual_loop
from grove.testing.world import NODES, World, holds_place

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
    meant: Manifest = field(default_factory=dict)
    """The set as it was last edited, also when that was refused."""
    grouped: bool = False
    """Whether the set has a scaling group besides its roles."""

    async def apply(self) -> None:
        """Apply the set as it was last accepted."""
        await self.world.apply(self.manifest)

    async def edit(self, change: Callable[[Manifest], None], *, refusable: str = "") -> bool:
        """Change the set's template as `kubectl apply` of a changed file does; tells whether it was refused.

        What may be refused is named by `refusable`: by the API server at once, or in the set's status.
        """
        self.meant = copy.deepcopy(self.manifest)
        change(self.meant["spec"]["template"])
        try:
            await self.world.apply(self.meant)
        except Invalid as error:
            if not refusable:
                raise
            if not WAY_OUT.search(str(error)):
                raise AssertionError(f"the API server's refusal names no way out: {error}") from error
            self.expected.roles = self.expected.refused_roles or self.expected.roles
            return True
        self.manifest = self.meant
        self.expected.may_be_refused = refusable
        await pass_time(3)
        accepted = condition_of(await self.world.get(kinds.CLIQUESETS, "train"), "Accepted")
        return accepted.get("status") == "False"

    async def take_the_way_out(self, roles: Mapping[str, int] | None = None) -> None:
        """Where an edit is refused, the set is recreated as it was meant."""
        self.manifest, self.expected.may_be_refused = self.meant, ""
        self.expected.roles = roles or self.expected.roles
        await self.delete(kinds.CLIQUESETS, "train")
        await until_gone(self.world, kinds.CLIQUESETS, "train")
        await pass_time(3)
        await self.apply()

    async def delete(self, resource: Resource, name: str, *, orphan: bool = False) -> None:
        await self.world.user.delete(resource, key(name), propagation="Orphan" if orphan else "Background")

    async def patch(self, resource: Resource, name: str, patch: Manifest, *, subresource: str = "") -> None:
        """Change an object as `kubectl edit` does."""
        path = resource.path("default", name) + (f"/{subresource}" if subresource else "")
        await raw(
            self.world.user,
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
            held = [pod for pod in await self.world.all(kinds.PODS) if holds_place(pod)]
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


# The play -----------------------------------------------------------------------------------------


async def cordon(world: World, node: str, closed: bool) -> None:
    await world.user.merge_patch(NODES, key(node, ""), {"spec": {"unschedulable": closed or None}})


def manifest_for(stage: Stage, stop: float, *, grouped: bool = False) -> Manifest:
    """Three workers of which two are needed, and a leader; each takes half a node.

    With a group of two roles, one replica of which is in the base gang and one a scaled gang; its pods take no
    room, so that there is as much for the others as without it.
    """
    marks = {"annotations": {SHUTDOWN: f"{stop:g}s"}} if stop else {}
    worker = gpu_role("worker", 3, 4, minAvailable=2, **marks)
    leader = gpu_role("leader", 1, 4, minAvailable=1, **marks)
    if not grouped:
        return stage.cliqueset(cliques=[worker, leader])
    members = [
        gpu_role("lead", 1, 0, minAvailable=1, **marks),
        gpu_role("work", 2, 0, minAvailable=1, **marks),
    ]
    group = make.scaling_group("dec", ["lead", "work"], replicas=2, minAvailable=1)
    return stage.cliqueset(cliques=[worker, leader, *members], groups=[group])


async def begin(
    world: World, stage: Stage, disturbance: Disturbance, stop: float, *, grouped: bool = False
) -> Scene:
    """The set at the moment at which it is to be disturbed."""
    manifest = manifest_for(stage, stop, grouped=grouped)
    disturbance.begin(manifest["spec"]["template"])
    scene = Scene(world, stage, manifest, Expected("train", disturbance.roles), grouped=grouped)
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


async def found_wrong(scene: Scene) -> list[str]:
    """What is wrong with the set now, one sentence each."""
    if not scene.grouped:
        return await faults(scene.world, scene.stage, scene.expected)
    allowed = frozenset(scene.expected.allowed)
    return await untruths(scene.world, scene.stage, scene.expected.name, allowed=allowed)


async def until_right(scene: Scene, moment: str, *, seconds: float = PATIENCE) -> None:
    """Let time pass until nothing is wrong; fail with what is."""
    loop = virtual_loop()
    deadline = loop.time() + seconds
    while wrong := await found_wrong(scene):
        if loop.time() >= deadline:
            raise AssertionError(f"{moment}, after {seconds:g} s:\n  " + "\n  ".join(wrong))
        await asyncio.sleep(0.5)


async def play(
    world: World, stage: Stage, disturbance: Disturbance, stop: float, *, grouped: bool = False
) -> list[str]:
    """Disturb a set, give it room, lose a pod of each role; return everything that was not right."""
    guard = Guard(world.cluster)
    async with Sampler(world) as sampler:
        scene = await begin(world, stage, disturbance, stop, grouped=grouped)
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
    if guard.broken:
        wrong.append("promises broken:\n  " + "\n  ".join(dict.fromkeys(guard.broken)))
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
    for host in ("train-0-dec-0-lead-0", "train-0-dec-1-work-0") if scene.grouped else ():
        await scene.remove([pod for pod in await scene.world.pods() if pod["spec"].get("hostname") == host])
        await pass_time(0.5)
        await until_right(scene, f"after {host} was lost")
    await scene.world.settle(quiet=QUIET, seconds=PATIENCE)
    await until_right(scene, "after it had settled", seconds=0)
