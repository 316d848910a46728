"""Where many pods go, the API server has its time for them first, and nothing waits for that which need not.

The garbage collector of these worlds gets through twenty objects a second, as a real one does with default settings.
"""

import asyncio
from dataclasses import replace
from functools import partial

import msgspec
import pytest
from tests.scenarios.stories import key, uid_of
from tests.scenarios.test_going import (
    PACE,
    deleted_pods,
    none_left_but,
    options,
    running,
    seconds_until,
    workload,
)

from grove.api import kinds
from grove.api.config import Controllers, SetController
from grove.controllers import cliqueset
from grove.controllers.apply import Batch, first_batch
from grove.controllers.memory.endings import PAUSE_SECONDS
from grove.embedded.faults import Fault
from grove.meta import Key, Manifest
from grove.plan.children import Plan
from grove.plan.slices import Work
from grove.testing import make
from grove.testing.world import OPERATOR, World, run_world

#: Pods of one role end a while after those of the role before, so that they all go within three seconds.
STAGES = 10
STAGE_SECONDS = 0.3


def ending_in_turn(replicas: int) -> Manifest:
    """Ten pods a replica."""
    roles = [
        make.template(f"r{stage}", annotations={"embedded.grove.io/shutdown": f"{stage * STAGE_SECONDS}s"})
        for stage in range(STAGES)
    ]
    return make.cliqueset_manifest("train", roles, replicas=replicas)


async def others_at_the_last_pod(world: World, leave: int = 0) -> tuple[int, int]:
    """How many cliques and gangs were there when the last pod that goes was seen."""
    seen = 0, 0
    while len(await world.pods()) > leave:
        seen = len(await world.all(kinds.CLIQUES)), len(await world.all(kinds.GANGS))
        await asyncio.sleep(0.05)
    return seen


@pytest.mark.parametrize("act", ["scaled to nothing", "Background"])
def test_where_many_pods_end_one_after_the_other_the_api_server_has_its_time_for_them(act: str) -> None:
    async def story(world: World) -> None:
        await world.apply(ending_in_turn(8))
        await world.settle()
        assert len(await world.pods()) == 80
        if act == "scaled to nothing":
            await world.scale("train", 0)
        else:
            await world.user.delete(kinds.CLIQUESETS, key("train"), propagation=act)
        cliques, gangs = await others_at_the_last_pod(world)
        # The garbage collector does not wait for them where the set is gone: twenty objects a second.
        collected = 0 if act == "scaled to nothing" else STAGES * STAGE_SECONDS * PACE
        assert cliques + gangs >= 80 + 8 - collected
        await world.settle()
        assert await world.all(kinds.CLIQUES) == await world.all(kinds.GANGS) == []

    run_world(story, options())


@pytest.mark.parametrize("act", ["scaled to nothing", "Background"])
def test_pods_that_take_their_time_to_stop_keep_nothing_else(act: str) -> None:
    async def story(world: World) -> None:
        await running(world, 50)
        if act == "scaled to nothing":
            await world.scale("train", 0)
        else:
            await world.user.delete(kinds.CLIQUESETS, key("train"), propagation=act)

        async def only_pods() -> bool:
            return not [*await world.all(kinds.CLIQUES), *await world.all(kinds.GANGS)]

        assert await seconds_until(world, only_pods, "cliques and gangs are gone") < 2.0
        assert len(await world.pods()) == 100

    run_world(story, options(30.0))


def test_who_scales_out_again_does_not_wait_for_the_pods_that_still_end() -> None:
    async def story(world: World) -> None:
        await world.apply(ending_in_turn(8))
        await world.settle()
        await world.scale("train", 0)
        await asyncio.sleep(1.0)
        before = {uid_of(each) for each in await world.all(kinds.GANGS)}
        assert len(before) == 8
        await world.scale("train", 8)

        async def gangs_go() -> bool:
            return not before & {uid_of(each) for each in await world.all(kinds.GANGS)}

        assert await seconds_until(world, gangs_go, "what was scaled in goes") < 0.5
        await world.settle()
        assert [each["status"]["phase"] for each in await world.pods()] == ["Running"] * 80

    run_world(story, options())


async def deleted_elsewhere(world: World, act: str) -> None:
    """In two namespaces as many sets as the operator looks at at once go; their pods end in turn."""
    for namespace in ("alpha", "beta"):
        await world.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        manifest = ending_in_turn(8)
        await world.apply({**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}})
    await world.settle()
    assert len(await world.all(kinds.PODS)) == 160
    for namespace in ("alpha", "beta"):
        if act == "scaled to nothing":
            await world.user.merge_patch(kinds.CLIQUESETS, Key(namespace, "train"), {"spec": {"replicas": 0}})
        else:
            await world.user.delete(kinds.CLIQUESETS, Key(namespace, "train"), propagation=act)


@pytest.mark.parametrize("act", ["scaled to nothing", "Background"])
def test_a_set_of_another_tenant_does_not_wait_for_the_pods_of_sets_that_go(act: str) -> None:
    async def story(world: World) -> None:
        await deleted_elsewhere(world, act)
        await asyncio.sleep(0.5)
        await world.apply(workload(1))

        async def gang_is_there() -> bool:
            return await world.gang("train-0") is not None

        assert await seconds_until(world, gang_is_there, "the gang is there") < 0.5
        assert len(await world.all(kinds.PODS)) > 2, "pods of the others still end"
        await world.settle()
        assert len(await world.all(kinds.PODS)) == 2

    one_at_once = msgspec.structs.replace(
        options().configuration, controllers=Controllers(pod_clique_set=SetController(concurrent_syncs=1))
    )
    run_world(story, replace(options(), nodes=16, configuration=one_at_once))


@pytest.mark.parametrize("stage", [0.5, 1.5])
def test_a_set_that_is_deleted_while_its_scale_in_still_ends_gives_all_other_nodes_back_at_once(
    stage: float,
) -> None:
    async def story(world: World) -> None:
        await world.apply(ending_in_turn(12))
        await world.settle()
        await world.scale("train", 4)
        await asyncio.sleep(stage)
        await world.user.delete(kinds.CLIQUESETS, key("train"), propagation="Background")
        assert (
            await seconds_until(world, partial(none_left_but, world, terminating=True), "every pod ends")
            < 0.5
        )
        assert deleted_pods(world) == 120

    run_world(story, options())


@pytest.mark.parametrize("act", ["scaled to nothing", "Background"])
def test_pods_whose_deletion_failed_do_not_wait_for_those_that_end(act: str) -> None:
    async def story(world: World) -> None:
        await world.apply(ending_in_turn(12))
        await world.settle()
        refused = Fault("conflict", verb="delete", resource="pods", user=OPERATOR.name, skip=100, times=20)
        world.cluster.faults.add(refused)
        if act == "scaled to nothing":
            await world.scale("train", 0)
        else:
            await world.user.delete(kinds.CLIQUESETS, key("train"), propagation=act)
        taken = await seconds_until(world, partial(none_left_but, world, terminating=True), "every pod ends")
        assert refused.happened == 20
        assert taken <= (PAUSE_SECONDS + 0.2 if act == "scaled to nothing" else 0.3)
        assert deleted_pods(world) == 120

    run_world(story, options())


def test_what_waits_for_pods_waits_no_longer_because_something_else_fails() -> None:
    async def story(world: World) -> None:
        await running(world, 50)
        broken = Fault("error", verb="create", resource="services", user=OPERATOR.name)
        world.cluster.faults.add(broken)
        service, *_ = await world.all(kinds.SERVICES)
        await world.user.delete(kinds.SERVICES, key(service["metadata"]["name"]))
        await asyncio.sleep(20.0)
        assert broken.happened > 1
        await world.scale("train", 10)

        async def only_pods() -> bool:
            return len(await world.all(kinds.CLIQUES)) == len(await world.all(kinds.GANGS)) == 10

        assert await seconds_until(world, only_pods, "cliques and gangs are gone") < 2.0
        assert len(await world.pods()) == 100

    run_world(story, options(30.0))


def test_a_plan_of_removals_that_all_wait_is_not_made_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plans = 0

    def few_at_once(plan: Plan) -> Work[Batch]:
        # More removals than are sent at once, as ten thousand are of a set that is large enough.
        nonlocal plans
        plans += 1
        assert plans < 100, "time would stand still"
        return first_batch(plan, most_removed=88)

    monkeypatch.setattr(cliqueset, "first_batch", few_at_once)

    async def story(world: World) -> None:
        await world.apply(ending_in_turn(8))
        await world.settle()
        before = plans
        await world.scale("train", 0)
        await seconds_until(world, partial(none_left_but, world), "no pod is left")
        # One for each pause of the pods, and a few when the last is gone; not as many as there is time for.
        assert plans - before < 40
        await world.settle()
        assert await world.all(kinds.CLIQUES) == await world.all(kinds.GANGS) == []

    run_world(story, options())
