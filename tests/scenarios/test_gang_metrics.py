"""What a pager reads off the operator's metrics while gangs run, wait and go."""

from tests.scenarios.stories import gpu_role, pass_time, until_running

from grove.api import kinds
from grove.meta import Key
from grove.testing import make
from grove.testing.world import World, run_world


def test_a_gang_that_waits_is_told_with_its_reason_and_age_until_it_goes() -> None:
    async def story(world: World) -> None:
        operator = world.operator
        assert operator is not None
        value = operator.metrics.value
        await world.apply(make.cliqueset_manifest("small", {"worker": 2}))
        await world.apply(make.cliqueset_manifest("huge", [gpu_role("worker", 500)]))
        await until_running(world, "small-0")
        await pass_time(600)
        running = {"phase": "Running", "backend": "default", "reason": "AllPodsReady"}
        waiting = {"backend": "default", "reason": "Unschedulable"}
        assert value("grove_gangs", **running) == 1
        assert value("grove_gangs", phase="Pending", **waiting) == 1
        assert 590 < value("grove_gang_oldest_pending_seconds", **waiting) < 610
        assert value("grove_cliquesets", reason="AllGangsReady") == 1
        assert value("grove_cliquesets", reason="GangsNotReady") == 1
        assert value("grove_gang_held_gpus", backend="default") == 0, "it waits without holding anything"
        await world.user.delete(kinds.CLIQUESETS, Key("default", "huge"))
        await pass_time(60)
        assert value("grove_gangs", phase="Pending", **waiting) == 0
        assert value("grove_gang_oldest_pending_seconds", **waiting) == 0

    run_world(story)


def test_requests_watches_and_statuses_are_counted() -> None:
    async def story(world: World) -> None:
        operator = world.operator
        assert operator is not None
        value = operator.metrics.value
        await world.apply(make.cliqueset_manifest("train", {"worker": 3}))
        await until_running(world, "train-0")
        await pass_time(300)
        assert value("grove_api_requests_total", verb="create", resource="pods", code="201") == 3
        assert value("grove_api_requests_total", verb="create", resource="podgangs", code="201") == 1
        assert value("grove_cache_objects", resource="pods") == 3
        assert value("grove_watch_age_seconds", resource="pods") <= 60, "there is a bookmark each minute"
        assert value("grove_status_lag_seconds_count", resource="podgangs.scheduler.grove.io") > 0
        assert value("grove_status_oldest_unwritten_seconds") == 0
        assert value("grove_queue_wait_seconds_count", controller="gang") > 0
        assert value("grove_leader", lease="") == 1

    run_world(story)
