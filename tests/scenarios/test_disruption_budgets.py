"""Sets that ask for disruption budgets: a drain waits for them, and never takes a gang below its minimum."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from tests.scenarios.crashing import REACHED, Story
from tests.scenarios.draining import Lowest, cordon, drain, evict, pods_on
from tests.scenarios.stories import (
    STAGES,
    Stage,
    gpu_role,
    key,
    pass_time,
    reasons_about,
    refusal,
    set_condition,
    uid_of,
    until_gone,
    until_running,
)

from grove.api import kinds, labels
from grove.meta import Manifest
from grove.testing import make
from grove.testing.portrait import Guard
from grove.testing.world import World, run_world

on_every_stage = pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
ASKED = {labels.DISRUPTION_BUDGET: "MinAvailable"}
#: Pods that take a while to be of use and a while to stop, as models that are loaded and saved.
SLOW = {"embedded.grove.io/startup": "20s", "embedded.grove.io/shutdown": "4s"}


def pair(stage: Stage, *, workers: int = 4, needed: int = 3, asked: bool = True) -> Manifest:
    """A leader, of which one is spare, and workers of two to a node."""
    roles = [
        gpu_role("worker", workers, 4, minAvailable=needed, annotations=SLOW),
        gpu_role("leader", 2, 2, minAvailable=1, annotations=SLOW),
    ]
    return stage.cliqueset(cliques=roles, annotations=ASKED if asked else {})


def clique_of(pod: Manifest) -> str:
    return str((pod["metadata"].get("labels") or {}).get(labels.POD_CLIQUE, ""))


async def minima(world: World) -> dict[str, int]:
    found = await world.all(kinds.DISRUPTION_BUDGETS)
    return {each["metadata"]["name"]: each["spec"]["minAvailable"] for each in found}


async def annotate(world: World, value: str | None) -> None:
    patch = {"metadata": {"annotations": {labels.DISRUPTION_BUDGET: value}}}
    await world.user.merge_patch(kinds.CLIQUESETS, key("train"), patch)


async def drain_all(world: World) -> list[str]:
    """Drain one node after the other, each of which is given back afterwards; what was refused."""
    refused: list[str] = []
    for node in sorted({pod["spec"]["nodeName"] for pod in await world.pods()}):
        there = await pods_on(world, node)
        done = await drain(world, node)
        assert sorted(done.evicted) == sorted(pod["spec"]["hostname"] for pod in there)
        assert await pods_on(world, node) == []
        refused += done.refused
        await cordon(world, node, closed=False)
    return refused


@on_every_stage
def test_a_drain_waits_for_replacements_and_leaves_every_role_its_minimum(stage: Stage) -> None:
    async def story(world: World) -> None:
        guard = Guard(world.cluster)
        await world.apply(pair(stage))
        await until_running(world, "train-0", seconds=120)
        await world.settle(quiet=30)
        assert len({pod["spec"]["nodeName"] for pod in await world.pods()}) > 1
        hosts = sorted(pod["spec"]["hostname"] for pod in await world.pods())
        lowest = Lowest(world, clique_of)
        watching = asyncio.create_task(lowest.watch({"train-0-worker", "train-0-leader"}))
        refused = await drain_all(world)
        await until_running(world, "train-0", seconds=120)
        await world.settle(quiet=30)
        watching.cancel()
        assert lowest.seen == {"train-0-worker": 3, "train-0-leader": 1}
        assert any("train-0-worker needs 3 healthy pods" in each for each in refused), refused
        assert sorted(pod["spec"]["hostname"] for pod in await world.pods()) == hosts
        assert guard.broken == []
        assert "GaveBack" not in await reasons_about(world, "PodGang", "train-0")

    run_world(story, replace(stage.options, nodes=5))


def test_without_budgets_the_same_drain_takes_the_gang_below_its_minimum() -> None:
    stage = STAGES["1.36"]

    async def story(world: World) -> None:
        await world.apply(pair(stage, asked=False))
        await until_running(world, "train-0", seconds=120)
        await world.settle(quiet=30)
        lowest = Lowest(world, clique_of)
        watching = asyncio.create_task(lowest.watch({"train-0-worker"}))
        assert await drain_all(world) == []
        await world.settle(quiet=30)
        watching.cancel()
        assert lowest.seen["train-0-worker"] < 3

    run_world(story, replace(stage.options, nodes=5))


def whole(stage: Stage, pods: int = 2) -> Manifest:
    return stage.cliqueset(cliques=[gpu_role("worker", pods, 8)], annotations=ASKED)


def test_a_gang_that_needs_all_of_its_pods_lets_none_go_and_says_so_before_anybody_drains() -> None:
    stage = STAGES["1.36"]

    async def story(world: World) -> None:
        await world.apply(whole(stage))
        await until_running(world, "train-0")
        await world.settle()
        accepted = await set_condition(world, "train", "Accepted")
        assert accepted["status"] == "True"
        assert "all pods of role worker (minAvailable equals replicas)" in accepted["message"]
        before = {uid_of(pod) for pod in await world.pods()}
        node = (await world.pods())[0]["spec"]["nodeName"]
        done = await drain(world, node, seconds=600)
        assert done.evicted == []
        assert set(done.refused) == {
            "The disruption budget train-0-worker needs 2 healthy pods and has 2 currently"
        }
        assert {uid_of(pod) for pod in await world.pods()} == before

    run_world(story, stage.options)


async def by_removing_the_annotation(world: World) -> None:
    await annotate(world, None)


async def by_scaling_the_clique_up(world: World) -> None:
    await world.scale("train-0-worker", 3, of=kinds.CLIQUES)
    await pass_time(10)


async def by_lowering_the_minimum(world: World) -> None:
    edited = whole(STAGES["1.36"], 3)
    edited["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] = 2
    await world.apply(edited)
    await pass_time(10)


@pytest.mark.parametrize(
    "way_out",
    [by_removing_the_annotation, by_scaling_the_clique_up, by_lowering_the_minimum],
    ids=lambda each: each.__name__,
)
def test_a_drain_that_waits_goes_on(way_out: Callable[[World], Awaitable[None]]) -> None:
    stage = STAGES["1.36"]

    async def story(world: World) -> None:
        await world.apply(whole(stage))
        await until_running(world, "train-0")
        await world.settle()
        node = (await world.pods())[0]["spec"]["nodeName"]
        draining = asyncio.create_task(drain(world, node))
        await pass_time(60)
        assert not draining.done()
        await way_out(world)
        done = await asyncio.wait_for(draining, 120)
        assert len(done.evicted) == 1
        await until_running(world, "train-0")
        assert await pods_on(world, node) == []

    run_world(story, stage.options)


def test_a_pod_that_is_not_ready_may_always_go() -> None:
    """A broken gang holds up no drain with pods that are of no use to it."""
    stage = STAGES["1.36"]

    async def story(world: World) -> None:
        broken = gpu_role("worker", 2, 8, annotations={"embedded.grove.io/not-ready": "true"})
        await world.apply(stage.cliqueset(cliques=[broken], annotations=ASKED))
        await pass_time(20)
        pod = (await world.pods())[0]
        assert pod["status"]["phase"] == "Running"
        assert await evict(world, pod) == ""

    run_world(story, stage.options)


def scaled(replicas: int = 2, **marks: str) -> Manifest:
    group = make.scaling_group("g", ["lead", "work"], replicas=replicas, minAvailable=1)
    worker = make.template("work", 3)
    worker["spec"]["minAvailable"] = 2
    roles = [make.template("front"), make.template("lead"), worker]
    return make.cliqueset_manifest("train", roles, groups=[group], annotations={**ASKED, **marks})


BASE = {"train-0-front": 1, "train-0-g-0-lead": 1, "train-0-g-0-work": 2}
FURTHER = {"train-0-g-1-lead": 1, "train-0-g-1-work": 2}


def test_budgets_come_and_go_with_gangs_cliques_and_the_annotation() -> None:
    async def story(world: World) -> None:
        await world.apply(scaled())
        await until_running(world, "train-0", "train-0-g-0")
        await world.settle()
        assert await minima(world) == {**BASE, **FURTHER}
        await world.scale("train-0-g", 1, of=kinds.SCALING_GROUPS)
        await world.settle()
        assert await minima(world) == BASE
        await world.scale("train-0-g-0-work", 0, of=kinds.CLIQUES)
        await world.settle()
        assert await minima(world) == {**BASE, "train-0-g-0-work": 0}
        await world.scale("train-0-g-0-work", 3, of=kinds.CLIQUES)
        await world.settle()
        assert await minima(world) == BASE
        await annotate(world, None)
        await world.settle()
        assert await minima(world) == {}
        await annotate(world, "MinAvailable")
        await world.settle()
        assert await minima(world) == BASE
        await world.user.delete(kinds.CLIQUESETS, key("train"))
        await until_gone(world, kinds.CLIQUESETS, "train")
        await world.settle()
        assert await minima(world) == {}

    run_world(story)


def test_exactly_one_budget_covers_each_pod_and_counts_it() -> None:
    async def story(world: World) -> None:
        await world.apply(scaled())
        await until_running(world, "train-0", "train-0-g-0")
        await world.settle()
        for pod in await world.pods():
            mine = pod["metadata"]["labels"]
            covering = [
                each["metadata"]["name"]
                for each in await world.all(kinds.DISRUPTION_BUDGETS)
                if each["spec"]["selector"]["matchLabels"].items() <= mine.items()
            ]
            assert covering == [mine[labels.POD_CLIQUE]]
        statuses = {
            each["metadata"]["name"]: each["status"] for each in await world.all(kinds.DISRUPTION_BUDGETS)
        }
        work = statuses["train-0-g-1-work"]
        assert (work["expectedPods"], work["currentHealthy"]) == (3, 3)
        assert (work["desiredHealthy"], work["disruptionsAllowed"]) == (2, 1)
        assert statuses["train-0-front"]["disruptionsAllowed"] == 0

    run_world(story)


def test_a_budget_that_somebody_edits_or_deletes_is_put_back() -> None:
    async def story(world: World) -> None:
        await world.apply(scaled(1))
        await until_running(world, "train-0")
        await world.settle()
        name = "train-0-g-0-work"
        before = await world.get(kinds.DISRUPTION_BUDGETS, name) or {}
        edits: list[Manifest] = [
            {"spec": {"minAvailable": None, "maxUnavailable": 3}},
            {"spec": {"selector": {"matchLabels": {"app": "other"}}}},
            {"metadata": {"labels": {labels.POD_GANG: "other"}}},
            {"metadata": {"ownerReferences": None}},
        ]
        for patch in edits:
            await world.user.merge_patch(kinds.DISRUPTION_BUDGETS, key(name), patch)
            await world.settle()
            after = await world.get(kinds.DISRUPTION_BUDGETS, name) or {}
            assert after["spec"] == before["spec"], patch
            assert after["metadata"]["labels"] == before["metadata"]["labels"]
            assert after["metadata"]["ownerReferences"] == before["metadata"]["ownerReferences"]
        await world.user.delete(kinds.DISRUPTION_BUDGETS, key(name))
        await world.settle()
        again = await world.get(kinds.DISRUPTION_BUDGETS, name) or {}
        assert (again["spec"], uid_of(again) == uid_of(before)) == (before["spec"], False)

    run_world(story)


def test_the_statuses_of_budgets_make_the_operator_write_nothing() -> None:
    async def story(world: World) -> None:
        await world.apply(scaled(1))
        await until_running(world, "train-0")
        await world.settle()
        before = world.writes()
        (budget,) = [
            each
            for each in await world.all(kinds.DISRUPTION_BUDGETS)
            if each["metadata"]["name"] == "train-0-g-0-work"
        ]
        forged = {"status": {"disruptionsAllowed": 0, "currentHealthy": 0}}
        await world.user.merge_patch(
            kinds.DISRUPTION_BUDGETS, key(budget["metadata"]["name"]), forged, subresource="status"
        )
        await world.settle()
        assert world.writes() == before

    run_world(story)


@pytest.mark.parametrize("value", ["true", "", "PerGang"])
def test_another_value_is_refused_with_the_field(value: str) -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", annotations={labels.DISRUPTION_BUDGET: value}))
        said = await refusal(world, "train")
        assert said["reason"] == "Invalid"
        assert "metadata.annotations[grove.io/disruption-budget]: must be 'MinAvailable'" in said["message"]
        assert await world.pods() == []

    run_world(story)


def test_a_budget_of_somebody_else_under_the_name_is_left_alone_and_told() -> None:
    async def story(world: World) -> None:
        theirs = make.object_manifest(
            kinds.DISRUPTION_BUDGETS,
            "train-0-worker",
            {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "theirs"}}},
        )
        await world.apply(theirs, make.cliqueset_manifest("train", {"worker": 2}, annotations=ASKED))
        await until_running(world, "train-0")
        await world.settle()
        degraded = await set_condition(world, "train", "Degraded")
        assert (degraded["status"], degraded["reason"]) == ("True", "NameTaken")
        found = await world.get(kinds.DISRUPTION_BUDGETS, "train-0-worker") or {}
        assert found["spec"]["maxUnavailable"] == 1
        await world.user.delete(kinds.DISRUPTION_BUDGETS, key("train-0-worker"))
        await pass_time(60)
        assert await minima(world) == {"train-0-worker": 2}

    run_world(story)


MOST_WRITES = 44


async def life(world: World, settled: Callable[[], Awaitable[None]]) -> None:
    """A set with budgets that is scaled, stops asking for them and asks again."""
    await world.apply(make.cliqueset_manifest("train", {"worker": 2}, annotations=ASKED))
    await settled()
    await world.scale("train-0-worker", 0, of=kinds.CLIQUES)
    await settled()
    await annotate(world, None)
    await settled()
    await world.scale("train-0-worker", 2, of=kinds.CLIQUES)
    await annotate(world, "MinAvailable")
    await settled()


STORY = Story(life)


def test_the_story_is_short_enough_that_every_write_of_it_is_crashed() -> None:
    end, writes = STORY.undisturbed
    assert 10 < writes <= MOST_WRITES
    assert [each["spec"]["minAvailable"] for each in end[str(kinds.DISRUPTION_BUDGETS)]] == [2]


@REACHED
@pytest.mark.parametrize("number", range(1, MOST_WRITES + 1))
def test_dying_at_a_write_leaves_the_budgets_that_were_asked_for(number: int, reached: bool) -> None:
    STORY.dies_at(number, reached=reached)
