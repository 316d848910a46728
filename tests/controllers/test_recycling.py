"""What gang termination deletes, when, and that it does so once."""

import asyncio
from datetime import timedelta

import pytest
from tests.controllers.steps import Steps, condition, run_steps

from grove.api import conditions, kinds, labels
from grove.api.pod import Pod
from grove.controllers.apply import NO_BARRIER
from grove.controllers.clique import CliqueReconciler
from grove.controllers.cliqueset import CliqueSetReconciler
from grove.controllers.recycling import Recycling
from grove.errors import Forbidden
from grove.meta import Key, Manifest
from grove.plan.children import CliqueSetState
from grove.plan.termination import Termination
from grove.runtime.outcome import DONE, After, Outcome
from grove.testing import make

SET = Key("default", "train")
DELAY = 60.0
WORKLOAD = {"terminationDelay": f"{DELAY:.0f}s"}
WORKERS = make.cliqueset_manifest("train", {"leader": 1, "worker": 2}, template=WORKLOAD)
#: Two replicas of which one suffices: the other is recycled alone.
GROUPED = make.cliqueset_manifest(
    "train",
    {"leader": 1, "worker": 1},
    groups=[make.scaling_group("decode", ["worker"], replicas=2)],
    template=WORKLOAD,
)


def recycling(steps: Steps) -> Recycling:
    return steps.reconciler(CliqueSetReconciler).recycling


async def seen(steps: Steps) -> CliqueSetState:
    await steps.watched()
    found = steps.reconciler(CliqueSetReconciler).observe(SET)
    assert found is not None
    return found


async def pending(steps: Steps) -> list[Termination]:
    return recycling(steps).pending(await seen(steps))


async def recycle(steps: Steps) -> Outcome:
    state = await seen(steps)
    outcome = await recycling(steps).recycle(state, recycling(steps).pending(state), NO_BARRIER)
    await steps.watched()
    return outcome


async def clique_statuses(steps: Steps) -> None:
    for clique in await steps.names(kinds.CLIQUES):
        await steps.rest(CliqueReconciler, clique)


async def running(steps: Steps, manifest: Manifest) -> None:
    """A set whose pods all ran, which its cliques say."""
    await steps.gang_with_pods(manifest)
    await steps.run_pods()
    await clique_statuses(steps)
    steps.writes()


async def ready(steps: Steps, pod: str, status: str) -> None:
    listed = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": status}]
    main = {"name": "main", "started": True, "ready": status == "True"}
    main |= {"image": "", "imageID": "", "restartCount": 0}
    told = {"phase": "Running", "conditions": listed, "containerStatuses": [main]}
    await steps.status(kinds.PODS, pod, told)


async def pods_of(steps: Steps, clique: str) -> list[str]:
    return [
        each["metadata"]["name"]
        for each in await steps.world.pods()
        if each["metadata"]["labels"][labels.POD_CLIQUE] == clique
        and "deletionTimestamp" not in each["metadata"]
    ]


async def break_(steps: Steps, clique: str) -> None:
    """Let a clique fall below its minimum; a pod that was started and is not ready is broken."""
    name, *_ = await pods_of(steps, clique)
    await ready(steps, name, "False")
    breach = {
        "type": conditions.MIN_AVAILABLE_BREACHED,
        "status": "True",
        "reason": "InsufficientReadyPods",
        "message": "",
        "lastTransitionTime": _stamp(steps),
    }
    there = (await steps.get(kinds.CLIQUES, clique))["status"]["conditions"]
    others = [each for each in there if each["type"] != breach["type"]]
    await steps.status(kinds.CLIQUES, clique, {"conditions": [*others, breach]})


def _stamp(steps: Steps, seconds: float = 0.0) -> str:
    return (steps.deps.clock.now() + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_what_has_its_minimum_is_not_recycled() -> None:
    async def story(steps: Steps) -> None:
        await running(steps, WORKERS)
        assert await pending(steps) == []
        assert await recycle(steps) == DONE
        assert steps.writes() == []

    run_steps(story)


def test_until_the_delay_is_over_nothing_is_deleted_and_the_next_look_is_when_it_is() -> None:
    async def story(steps: Steps) -> None:
        await running(steps, WORKERS)
        await break_(steps, "train-0-worker")
        outcome = await recycle(steps)
        assert steps.writes() == []
        assert isinstance(outcome, After)
        assert DELAY - 1 <= outcome.seconds <= DELAY + 2
        await asyncio.sleep(outcome.seconds)
        assert await recycle(steps) == DONE
        assert steps.writes() == ["delete pods"] * 3

    run_steps(story)


def test_all_pods_of_the_replica_go_together_and_it_is_told() -> None:
    async def story(steps: Steps) -> None:
        await running(steps, {**WORKERS, "spec": {**WORKERS["spec"], "replicas": 2}})
        await break_(steps, "train-1-worker")
        await asyncio.sleep(DELAY + 2)
        await recycle(steps)
        left = {each["metadata"]["labels"][labels.POD_GANG] for each in await living(steps)}
        assert left == {"train-0"}
        assert "PodCliqueSetReplicaDeleteSuccessful" in await steps.events()

    run_steps(story)


async def living(steps: Steps) -> list[Manifest]:
    return [each for each in await steps.world.pods() if "deletionTimestamp" not in each["metadata"]]


def test_a_clique_that_recovers_in_time_keeps_its_pods() -> None:
    async def story(steps: Steps) -> None:
        await running(steps, WORKERS)
        name, *_ = await pods_of(steps, "train-0-worker")
        await break_(steps, "train-0-worker")
        assert await pending(steps)
        await ready(steps, name, "True")
        await asyncio.sleep(DELAY + 2)
        await recycle(steps)
        assert steps.writes() == [], "whatever the clique still says"

    run_steps(story)


def test_a_clique_that_recovered_keeps_its_pods_though_the_cache_does_not_show_it() -> None:
    async def story(steps: Steps) -> None:
        await running(steps, WORKERS)
        name, *_ = await pods_of(steps, "train-0-worker")
        await break_(steps, "train-0-worker")
        await steps.stop_watching()
        await ready(steps, name, "True")
        await asyncio.sleep(DELAY + 2)
        outcome = await recycle(steps)
        assert isinstance(outcome, After), "it is asked again, because the cache may go on telling nothing"
        assert steps.writes() == []
        await ready(steps, name, "False")
        assert await recycle(steps) == DONE
        assert steps.writes() == ["delete pods"] * 3

    run_steps(story)


def test_the_api_server_is_asked_once_for_each_replica_that_is_recycled_and_not_before() -> None:
    async def story(steps: Steps) -> None:
        await running(steps, WORKERS)
        await break_(steps, "train-0-worker")
        await seen(steps)
        before = len(steps.world.cluster.requests)
        await recycle(steps)
        await asyncio.sleep(DELAY + 2)
        await recycle(steps)
        asked = [(each.verb, each.resource) for each in list(steps.world.cluster.requests)[before:]]
        assert [each for each in asked if each == ("list", "pods")] == [("list", "pods")]

    run_steps(story)


def test_a_clique_that_never_had_its_minimum_is_not_recycled() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        await steps.run_pods(but=3)
        await clique_statuses(steps)
        steps.writes()
        await asyncio.sleep(DELAY + 2)
        assert await pending(steps) == []

    run_steps(story)


def test_pods_of_which_none_is_on_a_node_have_nothing_to_give_back() -> None:
    async def story(steps: Steps) -> None:
        await running(steps, WORKERS)
        await break_(steps, "train-0-worker")
        for name in await steps.names(kinds.PODS):
            await steps.world.user.delete(kinds.PODS, Key("default", name), grace_seconds=0)
        assert await pending(steps) == []

    run_steps(story)


async def recycle_unwatched(steps: Steps) -> None:
    """Recycle with a cache that shows for ever what was there before."""
    await running(steps, WORKERS)
    await break_(steps, "train-0-worker")
    await asyncio.sleep(DELAY + 2)
    await steps.stop_watching()
    await recycle(steps)
    assert steps.writes() == ["delete pods"] * 3


def test_what_was_recycled_is_not_recycled_again_for_the_same_breach_whatever_the_cache_shows() -> None:
    async def story(steps: Steps) -> None:
        await recycle_unwatched(steps)
        assert await pending(steps) == []
        assert await recycle(steps) == DONE
        assert steps.writes() == []

    run_steps(story)


def test_of_a_set_that_is_gone_it_is_not_remembered() -> None:
    async def story(steps: Steps) -> None:
        await recycle_unwatched(steps)
        recycling(steps).forget(SET)
        assert await pending(steps)

    run_steps(story)


def test_a_refused_deletion_is_raised_and_the_part_stays_due() -> None:
    async def story(steps: Steps) -> None:
        await running(steps, WORKERS)
        await break_(steps, "train-0-worker")
        await asyncio.sleep(DELAY + 2)
        first, *_ = await steps.names(kinds.PODS)
        steps.forbid("DELETE", f"/pods/{first}")
        with pytest.raises(Forbidden):
            await recycle(steps)
        assert await pending(steps)
        steps.transport.forbidden.clear()
        await recycle(steps)
        assert await steps.names(kinds.PODS) == []

    run_steps(story)


def test_the_countdown_says_what_goes_when_and_what_would_prevent_it() -> None:
    async def story(steps: Steps) -> None:
        await running(steps, WORKERS)
        assert recycling(steps).condition(await pending(steps)) is None
        await break_(steps, "train-0-worker")
        told = recycling(steps).condition(await pending(steps))
        assert told is not None
        assert (told.type, told.status) == (conditions.GANG_TERMINATION_PENDING, "True")
        assert told.message.startswith("replica 0 is recycled at 2030-01-01T00:0")
        assert told.message.endswith("unless 1 more pod of train-0-worker is ready")

    run_steps(story)


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ({1: 5, 0: 0}, "; and 1 other part later"),
        ({1: 0, 2: 0}, "; and 1 other part at the same time"),
        ({1: 0, 2: 5, 0: 0}, "; and 1 other part at the same time and 1 other part later"),
    ],
)
def test_the_first_of_several_parts_is_told_and_how_many_follow(broken: dict[int, int], told: str) -> None:
    async def story(steps: Steps) -> None:
        await running(steps, {**WORKERS, "spec": {**WORKERS["spec"], "replicas": 3}})
        for replica, seconds in broken.items():
            await break_(steps, f"train-{replica}-worker")
            await asyncio.sleep(seconds)
        condition = recycling(steps).condition(await pending(steps))
        assert condition is not None
        assert condition.message.startswith("replica 1 ")
        assert condition.message.endswith(f"is ready{told}")

    run_steps(story)


# Replicas of scaling groups -----------------------------------------------------------------------------


def test_a_replica_of_a_group_goes_alone_while_enough_others_work() -> None:
    async def story(steps: Steps) -> None:
        await running(steps, GROUPED)
        await break_(steps, "train-0-decode-1-worker")
        await asyncio.sleep(DELAY + 2)
        await recycle(steps)
        left = {each["metadata"]["labels"][labels.POD_CLIQUE] for each in await living(steps)}
        assert left == {"train-0-leader", "train-0-decode-0-worker"}

    run_steps(story)


def test_one_that_was_recycled_alone_is_left_alone_until_it_was_whole_again() -> None:
    async def story(steps: Steps) -> None:
        await running(steps, GROUPED)
        clique = "train-0-decode-1-worker"
        await break_(steps, clique)
        await asyncio.sleep(DELAY + 2)
        await recycle(steps)
        await another_pod(steps, clique, "False")
        await break_later(steps, clique)
        assert await pending(steps) == [], "it begins again, and its gang runs on"
        await another_pod(steps, clique, "True")
        await pending(steps)
        await another_pod(steps, clique, "False")
        await break_later(steps, clique)
        assert [each.group_replica for each in await pending(steps)] == ["train-0-decode-1"]

    run_steps(story)


def test_a_pod_that_was_recycled_and_is_still_shown_as_ready_makes_nothing_whole_again() -> None:
    async def story(steps: Steps) -> None:
        await running(steps, GROUPED)
        clique = "train-0-decode-1-worker"
        await break_(steps, clique)
        await asyncio.sleep(DELAY + 2)
        (name,) = await pods_of(steps, clique)

        async def recovers() -> None:
            await ready(steps, name, "True")
            await steps.watched()

        steps.meanwhile("DELETE", f"/pods/{name}", recovers)
        store, key = steps.deps.cache.store(Pod), Key("default", name)
        state = await seen(steps)
        waiting = recycling(steps).pending(state)
        await recycling(steps).recycle(state, waiting, NO_BARRIER)
        shown = store.get(key)
        assert shown is not None
        assert shown.ready
        assert not shown.terminating, "the deletion is not watched yet"
        lagging = steps.reconciler(CliqueSetReconciler).observe(SET)
        assert lagging is not None
        assert recycling(steps).pending(lagging) == []
        await another_pod(steps, clique, "False")
        await break_later(steps, clique)
        assert await pending(steps) == [], "it was never whole since"

    run_steps(story)


def test_of_a_breach_that_is_over_it_is_not_remembered_that_its_pods_were_deleted() -> None:
    async def story(steps: Steps) -> None:
        await running(steps, WORKERS)
        await break_(steps, "train-0-worker")
        await asyncio.sleep(DELAY + 2)
        await recycle(steps)
        await pending(steps)
        assert len(recycling(steps)._done[SET]) == 1
        await steps.status(kinds.CLIQUES, "train-0-worker", {"conditions": []})
        await pending(steps)
        assert recycling(steps)._done[SET] == set()

    run_steps(story)


async def break_later(steps: Steps, clique: str) -> None:
    """Let a clique say that it is breached since now, which is another breach than the one before."""
    await asyncio.sleep(DELAY)
    there = (await steps.get(kinds.CLIQUES, clique))["status"]["conditions"]
    changed = [
        {**each, "status": "True", "lastTransitionTime": _stamp(steps, -5)}
        if each["type"] == conditions.MIN_AVAILABLE_BREACHED
        else each
        for each in there
    ]
    await steps.status(kinds.CLIQUES, clique, {"conditions": changed})


async def another_pod(steps: Steps, clique: str, ready_: str) -> None:
    """A pod of a clique that is placed, instead of those that it has."""
    owner = await steps.get(kinds.CLIQUES, clique)
    for name in await pods_of(steps, clique):
        await steps.world.user.delete(kinds.PODS, Key("default", name), grace_seconds=0)
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": clique,
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    pod = make.pod_manifest(clique, 0, name=f"{clique}-{ready_.lower()}", node="node-0", phase="Running")
    marks = {**owner["metadata"]["labels"], **pod["metadata"]["labels"]}
    pod["metadata"] = {**pod["metadata"], "labels": marks, "ownerReferences": [reference]}
    made = await steps.create(kinds.PODS, pod)
    await ready(steps, made["metadata"]["name"], ready_)
    assert condition(await steps.get(kinds.PODS, made["metadata"]["name"]), "Ready")["status"] == ready_
