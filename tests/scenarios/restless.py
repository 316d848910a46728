"""What a restless user does to a set while the world is on fire, and how it takes back what would hold the set."""

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tests.scenarios.draining import cordon, evict, pods_on
from tests.scenarios.shapes import GROUP_REPLICAS, ROLE_REPLICAS, SHAPES, stage_of, train

from grove.api import kinds, labels
from grove.api.cliqueset import ON_DELETE, ROLLING_RECREATE
from grove.errors import Conflict, Invalid, NotFound
from grove.meta import Key, Manifest, Resource
from grove.testing.world import NODES, World, holds_place

#: A native PodGroup outlives its deletion for as long as pods belong to it; what others have goes at once.
DELETABLE: Final = ("kai", "koordinator", "volcano", "yunikorn")
#: What updates change in templates; every run ends with the first of them.
LEVELS: Final = ("0", "1", "2")
STRATEGIES: Final = (ROLLING_RECREATE, ON_DELETE)
#: How many replicas an update may take down, and add; without either it must be one of them.
UNAVAILABLE: Final = (None, 1, 2, "50%", 0)
SURGE: Final = (None, 0, 1, 2, "50%")
#: For how long a part of a set may be below its minimum: rarely, often and nearly always shorter than a breach.
DELAYS: Final = (None, "30s", "2s")
#: A pod that runs and does not serve.
NOT_READY: Final = "embedded.grove.io/not-ready"
CHANGE_MINIMUM: Final = "change minimum"
CHANGE_SCHEDULER: Final = "change scheduler"
EMPTY_GROUP: Final = "empty group"
ACTS: Final = (
    "scale",
    "delete pod",
    "break pod",
    "delete object",
    "delete and apply",
    "update",
    "revert",
    "pause",
    "resume",
    "change strategy",
    "change limits",
    "change delay",
    CHANGE_MINIMUM,
    CHANGE_SCHEDULER,
    "drain node",
    "close nodes",
)
#: For sets with scaling groups, and for those that are scaled by load.
ON_GROUPS: Final = ("scale group", EMPTY_GROUP, "delete group")
ON_AUTOSCALERS: Final = ("load", "edit autoscaler", "delete autoscaler")


def training(backend: str, shape: str, replicas: int, stop: int, level: str = LEVELS[0]) -> Manifest:
    """A set of one of the shapes; its roles have a level, which updates change, and say their minimum."""
    made = train(backend, shape, replicas, stop)
    for role in made["spec"]["template"]["cliques"]:
        set_level(role, level)
        role["spec"].setdefault("minAvailable", role["spec"]["replicas"])
    return made


def drawn_acts(rng: random.Random, shape: str) -> tuple[list[str], list[str]]:
    """What a user does to a set while things go wrong, and afterwards: one thing at least."""
    groups, scaled = "groups" in SHAPES[shape](), shape == "scaled"
    possible = (*ACTS, *(ON_GROUPS if groups else ()), *(ON_AUTOSCALERS if scaled else ()))
    acts = rng.choices(possible, k=rng.randint(0, 3))
    return acts, rng.choices(possible, k=rng.randint(0 if acts else 1, 2))


def set_level(role: Manifest, level: str) -> None:
    role["spec"]["podSpec"]["containers"][0]["env"] = [{"name": "LEVEL", "value": level}]


def drawn_limits(rng: random.Random) -> Manifest:
    """What an update may do at once; None for what is left to the default."""
    surge = rng.choice(SURGE)
    return {"maxUnavailable": rng.choice(UNAVAILABLE if surge else UNAVAILABLE[:-1]), "maxSurge": surge}


@dataclass(frozen=True)
class RestlessUser:
    """Acts on the one set of a world, and on whatever belongs to it."""

    world: World
    rng: random.Random
    #: The set as it was applied first.
    cliqueset: Manifest
    #: By which backend it is to be placed in the end, and another to which it may be moved.
    backend: str
    other: str

    async def act(self, *acts: str) -> None:
        """Do some things, one after the other."""
        for act in acts:
            await asyncio.sleep(self.rng.choice([0.0, 0.05, 0.7, 5.0]))
            # What was listed may be gone by now: then nothing happens.
            with suppress(NotFound):
                await self._once(act)

    async def _once(self, act: str) -> None:
        world, rng = self.world, self.rng
        match act:
            case "scale":
                await world.scale("train", rng.randint(0, 3))
            case "update" | "revert":
                await self._update(LEVELS[0] if act == "revert" else rng.choice(LEVELS))
            case "pause" | "resume":
                await self._pause(paused=act == "pause")
            case "change strategy":
                await self.edit({"spec": {"updateStrategy": {"type": rng.choice(STRATEGIES)}}})
            case "change limits":
                await self.edit({"spec": {"updateStrategy": {"rollingRecreate": drawn_limits(rng)}}})
            case "change delay":
                await self.edit({"spec": {"template": {"terminationDelay": rng.choice(DELAYS)}}})
            case "change minimum":
                await self._change_minimum()
            case "change scheduler":
                await self._move(rng.choice((self.backend, self.other, self.other)))
            case "drain node":
                await self._drain()
            case "close nodes":
                await self._close_nodes()
            case "delete and apply":
                await world.user.delete(kinds.CLIQUESETS, Key("default", "train"), propagation="Background")
                await world.apply(self.cliqueset)
            case _:
                await self._to_a_child(act)

    async def _to_a_child(self, act: str) -> None:
        """One thing that is done to something that belongs to the set."""
        world, rng = self.world, self.rng
        match act:
            case "scale group" if groups := await world.all(kinds.SCALING_GROUPS):
                name = rng.choice(groups)["metadata"]["name"]
                await world.scale(name, rng.randint(1, 3), kinds.SCALING_GROUPS)
            case "empty group" if groups := await world.all(kinds.SCALING_GROUPS):
                await self._empty(rng.choice(groups)["metadata"]["name"])
            case "delete group" if groups := await world.all(kinds.SCALING_GROUPS):
                name = rng.choice(groups)["metadata"]["name"]
                await world.user.delete(kinds.SCALING_GROUPS, Key("default", name))
            case "load" if autoscalers := await world.all(kinds.AUTOSCALERS):
                spec = rng.choice(autoscalers)["spec"]
                await scale_target(world, spec, rng.randint(spec["minReplicas"], spec["maxReplicas"]))
            case "edit autoscaler" if autoscalers := await world.all(kinds.AUTOSCALERS):
                key = Key("default", rng.choice(autoscalers)["metadata"]["name"])
                await world.user.merge_patch(kinds.AUTOSCALERS, key, {"spec": {"maxReplicas": 9}})
            case "delete autoscaler" if autoscalers := await world.all(kinds.AUTOSCALERS):
                key = Key("default", rng.choice(autoscalers)["metadata"]["name"])
                await world.user.delete(kinds.AUTOSCALERS, key)
            case "delete pod" if pods := await world.pods():
                await self._delete(rng.choice(pods))
            case "break pod" if pods := await world.pods():
                key = Key("default", rng.choice(pods)["metadata"]["name"])
                await world.user.merge_patch(
                    kinds.PODS, key, {"metadata": {"annotations": {NOT_READY: "true"}}}
                )
            case "delete object":
                backend = rng.choice((self.backend, self.other))
                if backend in DELETABLE and (objects := await objects_of(world, backend)):
                    of, name = rng.choice(objects)
                    await world.user.delete(of, Key("default", name))
            case _:
                pass

    async def edit(self, patch: Manifest) -> None:
        await self.world.user.merge_patch(kinds.CLIQUESETS, Key("default", "train"), patch)

    async def _roles(self) -> list[Manifest]:
        """The roles of the set as they are now."""
        found = await self.world.get(kinds.CLIQUESETS, "train")
        assert found is not None
        return list(found["spec"]["template"]["cliques"])

    async def _update(self, level: str) -> None:
        """Change the template of one role, or of all."""
        there = await self._roles()
        for role in there if self.rng.random() < 0.5 else [self.rng.choice(there)]:
            set_level(role, level)
        await self.edit({"spec": {"template": {"cliques": there}}})

    async def _pause(self, *, paused: bool) -> None:
        await self.edit({"metadata": {"annotations": {labels.UPDATE_PAUSED: "true" if paused else None}}})

    async def _move(self, to: str) -> None:
        await self.edit({"metadata": {"annotations": {labels.SCHEDULER_BACKEND: to}}})

    async def _change_minimum(self) -> None:
        there = await self._roles()
        spec = self.rng.choice(there)["spec"]
        spec["minAvailable"] = self.rng.randint(1, spec["replicas"])
        # One above the lower bound of the role's autoscaler is refused, and nothing changes.
        with suppress(Invalid):
            await self.edit({"spec": {"template": {"cliques": there}}})

    async def _empty(self, group: str) -> None:
        """Scale a group to zero, and mostly back after a while; else it stays so until the end."""
        await self.world.scale(group, 0, kinds.SCALING_GROUPS)
        await asyncio.sleep(self.rng.choice([0.0, 0.7, 5.0, 45.0]))
        if self.rng.random() < 0.7:
            await self.world.scale(group, self.rng.randint(1, 3), kinds.SCALING_GROUPS)

    async def _delete(self, pod: Manifest) -> None:
        metadata = pod["metadata"]
        with suppress(NotFound, Conflict):
            await self.world.user.delete(kinds.PODS, Key("default", metadata["name"]), uid=metadata["uid"])

    async def _drain(self) -> None:
        """Cordon a node and take its pods away; it may be open again at once, or only in the end."""
        rng, world = self.rng, self.world
        node = rng.choice(await world.all(NODES))["metadata"]["name"]
        await cordon(world, node)
        politely = rng.random() < 0.5
        for pod in await pods_on(world, node):
            if politely:
                await evict(world, pod)
            else:
                await self._delete(pod)
        await asyncio.sleep(rng.choice([0.0, 0.5, 3.0]))
        if rng.random() < 0.7:
            await cordon(world, node, closed=False)

    async def _close_nodes(self) -> None:
        """Cordon all nodes and take a pod away, which finds no other place for some time."""
        rng, world = self.rng, self.world
        nodes = [node["metadata"]["name"] for node in await world.all(NODES)]
        for node in nodes:
            await cordon(world, node)
        if pods := await world.pods():
            await self._delete(rng.choice(pods))
        await asyncio.sleep(rng.choice([0.5, 5.0, 45.0]))
        if rng.random() < 0.7:
            for node in nodes:
                await cordon(world, node, closed=False)

    # The end ----------------------------------------------------------------------------------------

    async def let_go(self, wanted: Manifest) -> None:
        """What holds updates, pods and nodes is let go, and the set is edited to be as it is compared.

        But for the limits of its updates, which hold for the last one, too.
        """
        world = self.world
        for node in await world.all(NODES):
            if node["spec"].get("unschedulable"):
                await cordon(world, node["metadata"]["name"], closed=False)
        for pod in await world.pods():
            if NOT_READY in (pod["metadata"].get("annotations") or {}):
                key = Key("default", pod["metadata"]["name"])
                with suppress(NotFound):
                    await world.user.merge_patch(
                        kinds.PODS, key, {"metadata": {"annotations": {NOT_READY: None}}}
                    )
        await self._pause(paused=False)
        await self._move(self.backend)
        template = {"cliques": wanted["spec"]["template"]["cliques"], "terminationDelay": None}
        await self.edit({"spec": {"updateStrategy": {"type": ROLLING_RECREATE}, "template": template}})
        for group in await world.all(kinds.SCALING_GROUPS):
            # One of a replica that is too much may just have gone.
            with suppress(NotFound):
                await world.scale(group["metadata"]["name"], GROUP_REPLICAS, kinds.SCALING_GROUPS)
        for autoscaler in await world.all(kinds.AUTOSCALERS):
            if autoscaler["spec"]["scaleTargetRef"]["kind"] == kinds.CLIQUES.kind:
                await scale_target(world, autoscaler["spec"], ROLE_REPLICAS)

    async def place_again(self) -> None:
        """What a set asks its user to do with an edit that its scheduler cannot be told of, and with a move.

        Pods that were made while the minimum was another keep their link to the scheduler's objects, or have
        none; and gangs that run stay with their scheduler until none of their pods is left.
        """
        for gang in await self.world.all(kinds.GANGS):
            selector = f"{labels.POD_GANG}={gang['metadata']['name']}"
            await self.world.user.delete_collection(kinds.PODS, namespace="default", labels=selector)
        await self.world.settle(quiet=12)


async def objects_of(world: World, backend: str) -> list[tuple[Resource, str]]:
    """What a scheduler has beside the pods of gangs, by name: objects, or pods by which it holds places."""
    if backend == "yunikorn":
        return [
            (kinds.PODS, each["metadata"]["name"])
            for each in await world.all(kinds.PODS)
            if holds_place(each)
        ]
    found = stage_of(backend).objects
    return [(of, each["metadata"]["name"]) for of in found for each in await world.all(of)]


async def scale_target(world: World, autoscaler: Manifest, replicas: int) -> None:
    """What an autoscaler does; its target may just have gone."""
    target = autoscaler["scaleTargetRef"]
    of = kinds.CLIQUES if target["kind"] == kinds.CLIQUES.kind else kinds.SCALING_GROUPS
    with suppress(NotFound):
        await world.scale(target["name"], replicas, of)
