"""No set, however large or mistyped, gets more pods than the configuration allows."""

import asyncio

import pytest

from grove.api import kinds
from grove.api.config import load
from grove.errors import Invalid
from grove.meta import Key, Manifest
from grove.testing import make
from grove.testing.world import CONFIGURATION, CRDS, World, WorldOptions, run_world

SMALL_LIMIT = WorldOptions(configuration=load(f"{CONFIGURATION}\nlimits: {{podsPerSet: 10}}"))


async def accepted(world: World, name: str) -> Manifest:
    found = await world.get(kinds.CLIQUESETS, name) or {}
    listed = (found.get("status") or {}).get("conditions") or ()
    return next((each for each in listed if each["type"] == "Accepted"), {})


async def without_maxima(world: World) -> None:
    """As on a cluster with the CRDs of an earlier release."""
    for plural in ("podcliquesets", "podcliques"):
        name = f"{plural}.grove.io"
        crd: Manifest = await world.user.get(CRDS, Key("", name), type=dict)
        _forget_maxima(crd["spec"]["versions"])
        patch = {"spec": {"versions": crd["spec"]["versions"]}}
        await world.user.merge_patch(CRDS, Key("", name), patch)


def _forget_maxima(node: object) -> None:
    if isinstance(node, dict):
        node.pop("maximum", None)
        for value in node.values():
            _forget_maxima(value)
    elif isinstance(node, list):
        for value in node:
            _forget_maxima(value)


def test_the_api_server_refuses_a_number_of_replicas_that_no_cluster_can_run() -> None:
    async def story(world: World) -> None:
        with pytest.raises(Invalid, match=r"spec\.replicas"):
            await world.apply(make.cliqueset_manifest("huge", {"w": 1}, replicas=3_000_000))
        await world.apply(make.cliqueset_manifest("train", {"w": 1}))
        await world.settle()
        with pytest.raises(Invalid, match=r"spec\.replicas"):
            await world.scale("train-0-w", 5_000_000, of=kinds.CLIQUES)

    run_world(story)


def test_three_million_replicas_are_refused_with_the_numbers_and_disturb_nobody() -> None:
    async def story(world: World) -> None:
        await without_maxima(world)
        await world.apply(make.cliqueset_manifest("huge", {"w": 1}, replicas=3_000_000))
        await world.apply(make.cliqueset_manifest("small", {"w": 2}))

        async def runs() -> bool:
            return await world.phase("small-0") == "Running"

        await world.until(runs, "the small set runs", seconds=5)
        told = await accepted(world, "huge")
        assert (told["status"], told["reason"]) == ("False", "LimitExceeded")
        assert "3000000 replicas" in told["message"]
        assert "10000 pods" in told["message"]
        assert await world.gang("huge-0") is None

    run_world(story)


def test_a_set_that_grows_beyond_the_limit_keeps_what_runs() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"w": 2}, replicas=2))
        await world.settle()
        before = {pod["metadata"]["uid"] for pod in await world.pods()}
        await world.scale("train", 60)
        await world.settle()
        assert (await accepted(world, "train"))["reason"] == "LimitExceeded"
        assert {pod["metadata"]["uid"] for pod in await world.pods()} == before
        await world.user.delete(kinds.PODS, Key("default", (await world.pods())[0]["metadata"]["name"]))
        await world.settle()
        assert len(await world.pods()) == 4, "what runs is still looked after"
        await world.scale("train", 5)
        await world.settle()
        assert (await accepted(world, "train"))["status"] == "True"
        assert len(await world.pods()) == 10

    run_world(story, SMALL_LIMIT)


def test_a_clique_scaled_beyond_the_limit_gets_what_there_is_room_for_and_says_so() -> None:
    async def story(world: World) -> None:
        await without_maxima(world)
        await world.apply(make.cliqueset_manifest("train", {"w": 2}, replicas=2))
        await world.settle()
        await world.scale("train-0-w", 5_000_000, of=kinds.CLIQUES)
        await asyncio.sleep(60)
        assert len(await world.pods()) == 10
        clique = await world.get(kinds.CLIQUES, "train-0-w") or {}
        (error,) = clique["status"]["lastErrors"]
        assert error["code"] == "ERR_POD_LIMIT"
        assert "5000000 pods are asked for and 8 may exist" in error["description"]
        gang = await world.gang("train-0") or {}
        told = [each.get("message", "") for each in gang["status"]["conditions"]]
        assert any("this operator allows 10 pods in one set" in each for each in told), told
        await world.scale("train-0-w", 3, of=kinds.CLIQUES)
        await world.settle()
        assert len(await world.pods()) == 5
        clique = await world.get(kinds.CLIQUES, "train-0-w") or {}
        assert not clique["status"].get("lastErrors")

    run_world(story, SMALL_LIMIT)


def test_cliques_that_are_scaled_at_the_same_time_share_the_room() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"w": 1}, replicas=4))
        await world.settle()
        for replica in range(4):
            await world.scale(f"train-{replica}-w", 50, of=kinds.CLIQUES)
        most = 0
        for _ in range(200):
            await asyncio.sleep(0.1)
            most = max(most, len(await world.pods()))
        assert most == 10

    run_world(story, SMALL_LIMIT)


def test_a_scaling_group_grows_only_to_the_limit_of_its_set_and_the_set_says_so() -> None:
    async def story(world: World) -> None:
        group = make.scaling_group("dec", ["lead", "work"])
        await world.apply(make.cliqueset_manifest("train", {"lead": 1, "work": 1}, groups=[group]))
        await world.settle()
        await world.scale("train-0-dec", 90_000, of=kinds.SCALING_GROUPS)
        await world.settle()
        assert len(await world.pods()) == 10
        found = await world.get(kinds.CLIQUESETS, "train") or {}
        told = {each["type"]: each["message"] for each in found["status"]["conditions"]}
        assert "90000 replicas are asked for and 5 may exist" in told["Degraded"]
        await world.scale("train-0-dec", 2, of=kinds.SCALING_GROUPS)
        await world.settle()
        assert len(await world.pods()) == 4
        found = await world.get(kinds.CLIQUESETS, "train") or {}
        assert "Degraded" not in {each["type"] for each in found["status"]["conditions"]}

    run_world(story, SMALL_LIMIT)
