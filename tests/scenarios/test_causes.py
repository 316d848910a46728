"""Why a gang waits: it says what its scheduler holds against it, and nothing else, on every scheduler."""

import re

import pytest
from tests.scenarios.stories import GANG_STAGES, STAGES, condition_of, gpu_role, key, until_running
from tests.scenarios.test_yunikorn import QUEUE, set_queues

from grove.embedded.faults import Fault
from grove.meta import Manifest
from grove.testing.world import NODES, OPERATOR, World, run_world

ONLY_GPUS = [{"key": "gpu", "value": "only", "effect": "NoSchedule"}]
SELECTOR, TAINT = "node affinity/selector", "untolerated taint"
SHORT = r"insufficient|not enough|didn't have enough|no share left|no node has room|too few"


async def said(world: World, gang: str = "train-0") -> Manifest:
    return {"message": "", **condition_of(await world.gang(gang), "Scheduled")}


async def until_said(world: World, pattern: str, gang: str = "train-0") -> Manifest:
    """What the gang says once its message is of this kind."""

    async def is_said() -> bool:
        return re.search(pattern, (await said(world, gang))["message"], re.IGNORECASE) is not None

    await world.until(is_said, f"{gang} says {pattern!r}", seconds=20)
    return await said(world, gang)


@pytest.mark.parametrize("name", GANG_STAGES)
def test_a_gang_that_finds_too_little_room_says_that_and_no_other_cause(name: str) -> None:
    async def story(world: World) -> None:
        await world.apply(STAGES[name].cliqueset(cliques=[gpu_role("worker", 5)]))
        await until_said(world, SHORT)
        await world.settle()
        message = (await said(world))["message"]
        assert re.search(SHORT, message, re.IGNORECASE)
        assert SELECTOR not in message
        assert TAINT not in message
        assert not re.search(r"insufficient (cpu|memory)", message)

    run_world(story, STAGES[name].options)


@pytest.mark.parametrize("name", GANG_STAGES)
def test_a_gang_whose_node_selector_matches_no_node_says_that_and_no_other_cause(name: str) -> None:
    async def story(world: World) -> None:
        pod = {"nodeSelector": {"gpu": "h100"}}
        await world.apply(STAGES[name].cliqueset(cliques=[gpu_role("worker", 2, pod=pod)]))
        await until_said(world, SELECTOR)
        await world.settle()
        message = (await said(world))["message"]
        assert SELECTOR in message
        assert TAINT not in message
        assert not re.search(SHORT, message, re.IGNORECASE), message
        await world.add_node("h100-0", labels={"gpu": "h100"})
        await world.add_node("h100-1", labels={"gpu": "h100"})
        await until_running(world, "train-0")

    run_world(story, STAGES[name].options)


@pytest.mark.parametrize("name", GANG_STAGES)
def test_a_gang_that_tolerates_no_taint_of_the_nodes_says_that_and_no_other_cause(name: str) -> None:
    async def story(world: World) -> None:
        for node in await world.all(NODES):
            await world.user.merge_patch(
                NODES, key(node["metadata"]["name"], ""), {"spec": {"taints": ONLY_GPUS}}
            )
        await world.apply(STAGES[name].cliqueset(cliques=[gpu_role("worker", 2)]))
        await until_said(world, TAINT)
        await world.settle()
        message = (await said(world))["message"]
        assert TAINT in message
        assert SELECTOR not in message
        assert not re.search(SHORT, message, re.IGNORECASE), message
        await world.add_node("free-0")
        await world.add_node("free-1")
        await until_running(world, "train-0")

    run_world(story, STAGES[name].options)


# YuniKorn: the cause is in events only -------------------------------------------------------------

YUNIKORN = STAGES["yunikorn"]
SMALL = "{name: small, resources: {max: {nvidia.com/gpu: %d}}}"


def in_small(name: str, workers: int) -> Manifest:
    return YUNIKORN.cliqueset(name, cliques=[gpu_role("worker", workers)], labels={QUEUE: "root.small"})


def test_a_gang_whose_yunikorn_queue_has_no_share_left_names_the_queue_until_it_has_one() -> None:
    async def story(world: World) -> None:
        await set_queues(world, SMALL % 16)
        await world.apply(in_small("first", 2))
        await until_running(world, "first-0")
        await world.apply(in_small("second", 2))
        told = await until_said(world, "queue 'root.small' has not enough", "second-0")
        assert told["reason"] == "SchedulingSkipped"
        assert "has not enough nvidia.com/gpu (8 requested, 0 available) left" in told["message"]
        assert "no node" not in told["message"]
        await set_queues(world, SMALL % 32)
        await until_running(world, "second-0")

    run_world(story, YUNIKORN.options)


def test_a_gang_that_has_a_share_of_its_yunikorn_queue_again_says_what_is_in_its_way_then() -> None:
    async def story(world: World) -> None:
        await set_queues(world, SMALL % 32)
        await world.apply(in_small("first", 4))
        await until_running(world, "first-0")
        await world.apply(in_small("second", 2))
        await until_said(world, "queue 'root.small' has not enough", "second-0")
        await set_queues(world, SMALL % 64)
        told = await until_said(world, "the nodes have not enough nvidia.com/gpu", "second-0")
        assert told["reason"] == "Unschedulable"
        assert "queue" not in told["message"]

    run_world(story, YUNIKORN.options)


def test_the_cause_is_known_after_a_restart_of_the_operator() -> None:
    async def story(world: World) -> None:
        pod = {"nodeSelector": {"gpu": "h100"}}
        await world.apply(YUNIKORN.cliqueset(cliques=[gpu_role("worker", 2, pod=pod)]))
        await until_said(world, SELECTOR)
        await world.settle()
        before = await said(world)
        await world.kill_operator()
        await world.start_operator()
        await world.settle()
        assert (await said(world))["message"] == before["message"]

    run_world(story, YUNIKORN.options)


def test_where_events_cannot_be_read_a_gang_names_all_that_it_may_be() -> None:
    """Nothing waits for the events, and what is not known is not claimed."""

    async def story(world: World) -> None:
        await world.kill_operator()
        world.cluster.faults.add(Fault("error", verb="list", resource="events", user=OPERATOR.name))
        await world.start_operator()
        await world.apply(YUNIKORN.cliqueset(cliques=[gpu_role("worker", 5)]))
        await until_said(world, "for its room, labels or taints: its events say which")
        await world.add_node("more")
        await until_running(world, "train-0")

    run_world(story, YUNIKORN.options)
