"""What is in order is left alone: a second look, a restart, a dropped watch write nothing."""

import pytest
from tests.scenarios.stories import (
    GANG_STAGES,
    STAGES,
    Stage,
    pass_time,
    rack_binding,
    refusal,
    until_running,
)

from grove.api import kinds, labels
from grove.meta import Key
from grove.testing import make
from grove.testing.world import OPERATOR, World, run_world

on_every_stage = pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)


def told(world: World) -> int:
    """How many writes the operator made, events included; only its lease does not count."""
    return sum(
        1
        for entry in world.cluster.requests
        if entry.is_write and entry.user == OPERATOR.name and not entry.resource.startswith("leases")
    )


async def everyone(world: World) -> dict[str, list[Key]]:
    """Every key of every controller."""
    resources = {
        "cliqueset": kinds.CLIQUESETS,
        "scaling group": kinds.SCALING_GROUPS,
        "clique": kinds.CLIQUES,
        "gang": kinds.GANGS,
        "topology": kinds.TOPOLOGY_BINDINGS,
    }
    return {
        name: [
            Key(each["metadata"].get("namespace", ""), each["metadata"]["name"])
            for each in await world.all(resource)
        ]
        for name, resource in resources.items()
    }


@on_every_stage
def test_a_second_look_at_every_key_writes_nothing(stage: Stage) -> None:
    async def story(world: World) -> None:
        operator = world.operator
        assert operator is not None
        group = make.scaling_group("dec", ["worker"], replicas=2)
        await world.apply(
            rack_binding(), stage.cliqueset(cliques={"worker": 3, "leader": 1}, groups=[group], replicas=2)
        )
        await until_running(world, "train-0", "train-1", "train-0-dec-0", "train-1-dec-0")
        await world.settle()
        before = told(world)
        keys = await everyone(world)
        assert {name: len(found) for name, found in keys.items()} == {
            "cliqueset": 1,
            "scaling group": 2,
            "clique": 6,
            "gang": 4,
            "topology": 1,
        }
        looked = {
            name: operator.metrics.value("grove_reconciles_total", controller=name, result="done")
            for name in keys
        }
        for name, found in keys.items():
            for each in found:
                operator.controllers[name].enqueue(each)
        await pass_time(20)
        assert told(world) == before
        for name, found in keys.items():
            done = operator.metrics.value("grove_reconciles_total", controller=name, result="done")
            assert done - looked[name] == len(found)

    run_world(story, stage.options)


@on_every_stage
def test_an_operator_that_restarts_over_two_hundred_pods_writes_nothing(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques={"worker": 40}, replicas=5))
        await until_running(world, *(f"train-{index}" for index in range(5)))
        await world.settle()
        assert len(await world.pods()) == 200
        await world.kill_operator()
        before = told(world)
        await world.start_operator()
        await pass_time(60)
        assert told(world) == before

    run_world(story, stage.options)


def test_a_waiting_gang_is_not_written_to_while_it_waits() -> None:
    stage = STAGES["kai"]

    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques={"worker": 2}, labels={"kai.scheduler/queue": "nowhere"}))
        await world.settle()
        before = told(world)
        await pass_time(600)
        assert told(world) == before

    run_world(story, stage.options)


def test_a_refused_set_is_not_written_to_while_it_is_refused() -> None:
    async def story(world: World) -> None:
        marks = {labels.SCHEDULER_BACKEND: "nobody"}
        await world.apply(make.cliqueset_manifest("train", {"a": 1}, annotations=marks))
        await world.settle()
        assert (await refusal(world, "train"))["status"] == "False"
        before = told(world)
        await pass_time(3600)
        assert told(world) == before

    run_world(story)


@pytest.mark.parametrize("stage", GANG_STAGES.values(), ids=GANG_STAGES)
def test_dropped_and_expired_watches_cost_no_write(stage: Stage) -> None:
    async def story(world: World) -> None:
        await world.apply(stage.cliqueset(cliques={"worker": 3}))
        await until_running(world, "train-0")
        await world.settle()
        before = told(world)
        world.cluster.drop_watches()
        await pass_time(30)
        world.cluster.compact()
        await pass_time(30)
        assert told(world) == before
        await world.scale("train", 2)
        await until_running(world, "train-1")

    run_world(story, stage.options)


def test_annotations_and_labels_of_others_on_our_children_cause_no_fight() -> None:
    async def story(world: World) -> None:
        await world.apply(make.cliqueset_manifest("train", {"worker": 2}))
        await until_running(world, "train-0")
        await world.settle()
        for resource, name in ((kinds.SERVICES, "train-0"), (kinds.CLIQUES, "train-0-worker")):
            await world.user.merge_patch(
                resource,
                Key("default", name),
                {"metadata": {"annotations": {"autoscaling.kubernetes.io/x": "1"}}},
            )
        await world.settle()
        before = told(world)
        await pass_time(120)
        assert told(world) == before

    run_world(story)
