"""Roles that have done their work: no update runs them again, and none waits for them."""

import copy
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

import pytest
from tests.scenarios.stories import STAGES, gpu_role

from grove.api import kinds, labels
from grove.meta import Key, Manifest
from grove.testing import make
from grove.testing.world import World, run_world

DONE = {"embedded.grove.io/exit-code": "0", "embedded.grove.io/fail-after": "1s"}
NEW = "example.com/server:2"


def of_two(replicas: int = 2, *, pods: int = 2, grouped: bool = False, **strategy: Any) -> Manifest:
    """Sets of one role of two pods that end for good, alone or in a scaling group of two replicas."""
    groups = [make.scaling_group("dec", ["worker"], replicas=2, minAvailable=1)] if grouped else []
    made = make.cliqueset_manifest("train", {"worker": pods}, replicas=replicas, groups=groups)
    made["spec"]["updateStrategy"] = {"type": "RollingRecreate", "rollingRecreate": strategy}
    (role,) = made["spec"]["template"]["cliques"]
    role["spec"]["podSpec"]["restartPolicy"] = "Never"
    return made


def with_image(manifest: Manifest, image: str) -> Manifest:
    (role,) = manifest["spec"]["template"]["cliques"]
    role["spec"]["podSpec"]["containers"][0]["image"] = image
    return manifest


async def complete(world: World, names: Collection[str]) -> set[str]:
    """Let these pods end well; their UIDs."""
    for name in names:
        await world.user.merge_patch(kinds.PODS, Key("default", name), {"metadata": {"annotations": DONE}})
    await world.settle()
    ended = [pod for pod in await world.pods() if pod["metadata"]["name"] in names]
    assert {pod["status"]["phase"] for pod in ended} == {"Succeeded"}
    return {pod["metadata"]["uid"] for pod in ended}


def named(pods: Iterable[Manifest], clique: str) -> list[str]:
    marks = ((pod["metadata"]["name"], pod["metadata"]["labels"][labels.POD_CLIQUE]) for pod in pods)
    return sorted(name for name, of in marks if of == clique)


async def images(world: World) -> dict[str, list[str]]:
    """By clique, the images of its pods."""
    found: dict[str, list[str]] = {}
    for pod in await world.pods():
        clique = pod["metadata"]["labels"][labels.POD_CLIQUE]
        found.setdefault(clique, []).append(pod["spec"]["containers"][0]["image"])
    return {clique: sorted(each) for clique, each in found.items()}


async def progress(world: World) -> Manifest:
    found = await world.get(kinds.CLIQUESETS, "train") or {}
    told: Manifest = found["status"].get("updateProgress") or {}
    return told


OLD = "example.com/server:1"
CASES: dict[str, tuple[Manifest, str, int, dict[str, list[str]]]] = {
    "a replica that has completed": (
        of_two(),
        "train-0-worker",
        2,
        {"train-0-worker": [OLD, OLD], "train-1-worker": [NEW, NEW]},
    ),
    "a replica of a scaling group that has completed": (
        of_two(1, grouped=True),
        "train-0-dec-0-worker",
        2,
        {"train-0-dec-0-worker": [OLD, OLD], "train-0-dec-1-worker": [NEW, NEW]},
    ),
    "a completed replica where none may be missing": (
        of_two(maxUnavailable=0, maxSurge=1),
        "train-0-worker",
        2,
        {"train-0-worker": [OLD, OLD], "train-1-worker": [NEW, NEW]},
    ),
}


@pytest.mark.parametrize(("manifest", "clique", "number", "want"), CASES.values(), ids=CASES)
def test_an_update_passes_over(
    manifest: Manifest, clique: str, number: int, want: dict[str, list[str]]
) -> None:
    async def story(world: World) -> None:
        await world.apply(with_image(manifest, OLD))
        await world.settle()
        completed = await complete(world, named(await world.pods(), clique)[:number])
        await world.apply(with_image(manifest, NEW))
        await world.settle(quiet=20)
        assert await images(world) == want, await world.describe()
        assert (await progress(world)).get("updateEndedAt")
        assert completed <= {pod["metadata"]["uid"] for pod in await world.pods()}

    run_world(story)


@pytest.mark.parametrize("pods", [2, 3])
def test_pods_that_completed_beside_others_of_their_role_that_run_are_replaced_with_those(pods: int) -> None:
    """A pod that completed is no member for a scheduler: the updated ones would wait for it for ever."""

    async def story(world: World) -> None:
        await world.apply(with_image(of_two(1, pods=pods), OLD))
        await world.settle()
        await complete(world, named(await world.pods(), "train-0-worker")[:1])
        await world.apply(with_image(of_two(1, pods=pods), NEW))
        await world.settle(quiet=20)
        assert await images(world) == {"train-0-worker": [NEW] * pods}
        assert (await progress(world)).get("updateEndedAt")
        assert await world.phase("train-0") == "Running"

    run_world(story)


def one_shot_beside_a_server(backend: str) -> Manifest:
    marks = {"embedded.grove.io/fail-after": "5s", "embedded.grove.io/exit-code": "0"}
    setup = gpu_role("setup", 1, 1, annotations=marks, pod={"restartPolicy": "Never"})
    return STAGES[backend].cliqueset(cliques=[setup, gpu_role("server", 2, 1)], replicas=2)


async def with_another_server(world: World, manifest: Manifest) -> None:
    changed = copy.deepcopy(manifest)
    changed["spec"]["template"]["cliques"][1]["spec"]["podSpec"]["containers"][0]["image"] = NEW
    await world.apply(changed)
    await world.settle(quiet=30)


@pytest.mark.parametrize("backend", ["koordinator", "yunikorn"])
def test_a_role_that_has_completed_holds_no_update_of_another_role_up(backend: str) -> None:
    async def story(world: World) -> None:
        manifest = one_shot_beside_a_server(backend)
        await world.apply(manifest)
        await world.settle(quiet=15)
        await with_another_server(world, manifest)
        found = await images(world)
        assert [found[f"train-{number}-server"] for number in (0, 1)] == [[NEW, NEW], [NEW, NEW]]
        assert (await progress(world)).get("updateEndedAt")

    run_world(story, replace(STAGES[backend].options, nodes=8))


def test_where_the_scheduler_does_not_count_what_completed_the_update_says_so_and_how_to_go_on() -> None:
    async def story(world: World) -> None:
        manifest = one_shot_beside_a_server("1.36")
        await world.apply(manifest)
        await world.settle(quiet=15)
        await with_another_server(world, manifest)
        told = {
            each["type"]: each
            for each in (await world.get(kinds.CLIQUESETS, "train") or {})["status"]["conditions"]
        }
        assert told["UpdateInProgress"]["message"].endswith(
            "gang train-0: 2 of 3 pods placed; the scheduler has not decided yet; "
            "1 completed pod may not count for it: if it stays so, delete all pods of the gang."
        )
        for replica in (0, 1):
            for pod in await world.pods():
                if pod["metadata"]["labels"][labels.POD_GANG] == f"train-{replica}":
                    await world.user.delete(kinds.PODS, Key("default", pod["metadata"]["name"]))
            await world.settle(quiet=30)
        found = await images(world)
        assert [found[f"train-{number}-server"] for number in (0, 1)] == [[NEW, NEW], [NEW, NEW]]

    run_world(story, replace(STAGES["1.36"].options, nodes=8))


def test_a_completed_pod_that_is_deleted_runs_again_with_the_new_template() -> None:
    async def story(world: World) -> None:
        manifest = of_two()
        await world.apply(with_image(manifest, OLD))
        await world.settle()
        names = named(await world.pods(), "train-0-worker")
        await complete(world, names)
        await world.apply(with_image(manifest, NEW))
        await world.settle(quiet=20)
        for name in names:
            await world.user.delete(kinds.PODS, Key("default", name))
        await world.settle(quiet=20)
        assert await images(world) == {"train-0-worker": [NEW, NEW], "train-1-worker": [NEW, NEW]}
        assert await world.phase("train-0") == "Running"

    run_world(story)
