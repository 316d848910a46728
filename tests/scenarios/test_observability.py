"""What a person sees: columns, events, metrics and the chain of ownership tell the whole story."""

import pytest
from tests.scenarios.stories import (
    EVENTS,
    STAGES,
    Stage,
    events_about,
    gpu_role,
    pass_time,
    reasons_about,
    table,
    until_running,
)

from grove.api import kinds
from grove.meta import Key, Manifest
from grove.testing import make
from grove.testing.world import World, WorldOptions, run_world

on_every_stage = pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)


@on_every_stage
def test_kubectl_get_podgang_tells_a_running_gang_at_a_glance(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques={"worker": 2}))
        await until_running(world, "train-0")
        await pass_time(90)
        (row,) = await table(world, kinds.GANGS)
        shown = {
            name: row[name] for name in ("Name", "Phase", "Scheduled", "Ready", "Backend", "Initialized")
        }
        assert shown == {
            "Name": "train-0",
            "Phase": "Running",
            "Scheduled": "True",
            "Ready": "True",
            "Backend": stage.backend,
            "Initialized": "True",
        }
        assert row["Guarantee"] == (None if stage.guarantees else "False")
        assert row["Reason"] == "2 of 2 pods placed."
        assert str(row["Age"]).startswith("9")

    run_world(story, stage.options)


def test_kubectl_get_tells_how_sets_and_cliques_stand() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 3}, replicas=2))
        await until_running(world, "train-0", "train-1")
        await world.settle()
        (of_set,) = await table(world, kinds.CLIQUESETS)
        cliques = await table(world, kinds.CLIQUES)
        assert of_set["Name"] == "train"
        assert 2 in of_set.values()
        assert [row["Name"] for row in cliques] == ["train-0-worker", "train-1-worker"]
        assert all(list(row.values()).count(3) >= 2 for row in cliques)

    run_world(story)


@on_every_stage
def test_the_events_of_a_set_that_runs_are_few_and_on_the_right_objects(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques={"worker": 3, "leader": 1}))
        await until_running(world, "train-0")
        await world.settle()
        assert await reasons_about(world, "PodCliqueSet", "train") == ["Created"]
        (created,) = await events_about(world, "PodCliqueSet", "train")
        assert created["message"] == "created 1 PodGang, 2 PodCliques, 1 Service and 1 ControllerRevision"
        (placed,) = await events_about(world, "PodGang", "train-0")
        assert placed["reason"] == "Scheduled"
        guarantee = await world.condition("train-0", "GangGuarantee")
        assert bool(guarantee) is not stage.guarantees
        without = f" Not guaranteed: {guarantee['message']}" if guarantee else ""
        assert placed["message"] == f"4 of 4 pods placed.{without}"
        assert all(each["source"]["component"] == "grove-operator" for each in await ours(world))

    run_world(story, stage.options)


async def ours(world: World) -> list[Manifest]:
    """The events that Grove wrote."""
    return [each for each in await world.all(EVENTS) if each["source"].get("component") == "grove-operator"]


@on_every_stage
def test_grove_says_nothing_about_pods_so_that_the_schedulers_word_stays_the_newest(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques=[gpu_role("worker", 5)]))
        await world.settle()
        kinds_told = {each["involvedObject"]["kind"] for each in await ours(world)}
        assert kinds_told <= {"PodCliqueSet", "PodGang", "PodClique"}
        assert await ours(world)

    run_world(story, stage.options)


@on_every_stage
def test_metrics_tell_the_milestones_of_a_gang_in_their_order(stage: Stage) -> None:
    async def story(world: World) -> None:
        operator = world.operator
        assert operator is not None
        slow = stage.cliqueset(cliques={"worker": 2, "leader": 1})
        for role in slow["spec"]["template"]["cliques"]:
            role["annotations"] = {"embedded.grove.io/startup": "7s"}
        await world.apply(slow)
        await until_running(world, "train-0")
        seconds = []
        for milestone in ("initialized", "gates_open", "scheduled", "ready"):
            marks = {"backend": stage.backend, "milestone": milestone}
            assert operator.metrics.value("grove_gang_milestone_seconds_count", **marks) == 1
            seconds.append(operator.metrics.value("grove_gang_milestone_seconds_sum", **marks))
        assert seconds == sorted(seconds)
        assert seconds[0] < 1
        assert 7 <= seconds[3] < 9

    run_world(story, stage.options)


def test_selections_and_sync_errors_are_counted_by_backend() -> None:
    async def story(world: World) -> None:
        operator = world.operator
        assert operator is not None
        await world.apply(make.cliqueset_manifest("one", {"worker": 1}))
        await world.apply(STAGES["kai"].cliqueset("two", cliques={"worker": 1}))
        await until_running(world, "one-0")
        await pass_time(5)
        chosen = {
            (backend, source): operator.metrics.value(
                "grove_backend_selections_total", backend=backend, source=source
            )
            for backend, source in (("default", "default"), ("kai", "annotation"))
        }
        assert chosen == {("default", "default"): 1, ("kai", "annotation"): 1}
        rendered = operator.metrics.render().decode()
        assert 'grove_backend_sync_errors_total{backend="kai"' in rendered
        assert 'grove_backend_sync_errors_total{backend="default"' not in rendered

    run_world(story, WorldOptions())


def test_a_failure_that_lasts_is_one_event_that_counts() -> None:
    async def story(world: World) -> None:
        await world.apply(STAGES["kai"].cliqueset(cliques={"worker": 1}))
        await pass_time(300)
        told = await events_about(world, "PodGang", "train-0")
        assert [each["reason"] for each in told] == ["PreconditionMissing"]
        assert told[0]["count"] > 1

    run_world(story)


def test_every_reconcile_is_counted_by_how_it_ended() -> None:
    async def story(world: World) -> None:
        operator = world.operator
        assert operator is not None
        await world.apply(make.cliqueset_manifest("train", {"worker": 1}))
        await until_running(world, "train-0")
        await world.settle()
        for name in ("cliqueset", "clique", "gang"):
            assert operator.metrics.value("grove_reconciles_total", controller=name, result="done") > 0
            assert operator.metrics.value("grove_reconciles_total", controller=name, result="error") == 0
            assert operator.metrics.value("grove_queue_depth", controller=name) == 0
        await world.user.delete(kinds.CLIQUESETS, Key("default", "train"))
        await world.settle()
        assert operator.metrics.value("grove_reconciles_running", controller="gang") == 0

    run_world(story)
