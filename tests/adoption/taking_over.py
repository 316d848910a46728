"""A world in which the Go operator has run, and what a user sees of it before and after it is taken over."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

import pytest
from tests.adoption.go_sets import PRIORITY_CLASSES, is_ready
from tests.scenarios.nvlink import DEFINITION

from grove.api import kinds
from grove.api.config import load
from grove.meta import Manifest, Resource
from grove.testing.world import CRDS, World, WorldOptions, configuration_for, run_world

CONFIGURATION: Final = load(f"{configuration_for('kai', 'volcano')}\nnetwork: {{autoMNNVLEnabled: true}}\n")
OPTIONS: Final = WorldOptions(nodes=6, configuration=CONFIGURATION)


async def prepare(world: World) -> None:
    """What the sets need of their cluster besides the Go operator."""
    await world.user.create(CRDS, DEFINITION)
    urgent = {
        "apiVersion": PRIORITY_CLASSES.api_version,
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 1000,
    }
    await world.user.create(PRIORITY_CLASSES, urgent)


async def by_name(world: World, resource: Resource) -> dict[str, Manifest]:
    return {each["metadata"]["name"]: each for each in await world.all(resource)}


async def identities(world: World) -> dict[str, tuple[str, str]]:
    """By the name of each pod, its UID and its node; those of pods that go are missing."""
    return {
        pod["metadata"]["name"]: (pod["metadata"]["uid"], pod["spec"].get("nodeName", ""))
        for pod in await world.all(kinds.PODS)
        if "deletionTimestamp" not in pod["metadata"]
    }


async def templates(world: World) -> dict[str, tuple[Any, ...]]:
    """By the name of each clique, everything from which its pods are made."""
    hash_label = "grove.io/pod-template-hash"
    return {
        name: (
            each["metadata"]["generation"],
            each["metadata"]["labels"],
            each["metadata"]["labels"][hash_label],
            each["spec"],
        )
        for name, each in (await by_name(world, kinds.CLIQUES)).items()
    }


def pod_deletions(world: World) -> list[str]:
    """The pods that anybody asked to delete."""
    return [
        entry.path
        for entry in world.cluster.requests
        if entry.is_write and entry.resource == "pods" and entry.verb.startswith("delete")
    ]


def take_over(story: Callable[[World], Awaitable[None]], options: WorldOptions = OPTIONS) -> None:
    """Run a story in a world in which no operator runs yet."""

    async def prepared(world: World) -> None:
        await prepare(world)
        await story(world)

    run_world(prepared, options, operator=False)


async def finalizers(world: World) -> dict[str, list[str]]:
    """What has finalizers, by kind and name."""
    found = {}
    for resource in (kinds.CLIQUESETS, kinds.CLIQUES, kinds.SCALING_GROUPS, kinds.COMPUTE_DOMAINS):
        for name, each in (await by_name(world, resource)).items():
            if each["metadata"].get("finalizers"):
                found[f"{resource} {name}"] = each["metadata"]["finalizers"]
    return found


CLUSTERS: Final = {
    "1.35": ("default-scheduler", replace(OPTIONS, kubernetes="1.35")),
    "1.36": ("default-scheduler", OPTIONS),
    "1.37": ("default-scheduler", replace(OPTIONS, kubernetes="1.37")),
    "no gang API": ("default-scheduler", replace(OPTIONS, features=frozenset())),
    "kai": ("kai-scheduler", replace(OPTIONS, schedulers=("kai",))),
    "volcano": ("volcano", replace(OPTIONS, schedulers=("volcano",))),
}
on_every_scheduler = pytest.mark.parametrize("cluster", CLUSTERS)


async def is_whole(world: World) -> bool:
    """Whether the set `train` has all of its pods, and each of them is ready."""
    pods = await world.all(kinds.PODS)
    return len(pods) == 8 and all(map(is_ready, pods))
