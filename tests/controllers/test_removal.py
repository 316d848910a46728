"""What is deleted with its owner, and what is not: the API server is asked before anything goes."""

import asyncio

import pytest
from tests.controllers.steps import Steps, run_steps

from grove.api import kinds, labels
from grove.api.clique import PodClique
from grove.api.cliqueset import PodCliqueSet
from grove.api.scaling_group import PodCliqueScalingGroup
from grove.controllers.apply import NO_BARRIER
from grove.controllers.cliqueset import CliqueSetReconciler
from grove.controllers.memory.endings import MANY_PODS, PAUSE_SECONDS
from grove.controllers.removal import PODS_END, Removal
from grove.errors import Conflict, Forbidden
from grove.meta import Key, Manifest, Resource
from grove.plan.changes import Change, Delete
from grove.runtime.outcome import DONE, After, Outcome
from grove.testing import make

SET, CLIQUE, GANG = Key("default", "train"), Key("default", "train-0-worker"), "train-0"
WORKERS = make.cliqueset_manifest("train", {"worker": 2})
GROUPED = make.cliqueset_manifest(
    "train", {"leader": 1, "worker": 1}, groups=[make.scaling_group("decode", ["worker"])]
)
KEPT_FIELDS = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


def removal(steps: Steps) -> Removal:
    return steps.deps.removal


async def children(steps: Steps) -> None:
    """Let the children of the set go that must, as the set's reconciler asks for it."""
    await steps.watched()
    seen = steps.reconciler(CliqueSetReconciler).observe(SET)
    await removal(steps).children(SET, seen, NO_BARRIER)
    await steps.watched()


async def pods_left(steps: Steps) -> None:
    await steps.watched()
    await removal(steps).pods_left(CLIQUE, NO_BARRIER)
    await steps.watched()


async def clique(steps: Steps) -> PodClique:
    await steps.watched()
    found = steps.deps.cache.store(PodClique).get(CLIQUE)
    assert found is not None
    return found


async def again(steps: Steps, resource: Resource, name: str) -> None:
    """Delete an object and create another of the same name."""
    manifest = await steps.get(resource, name)
    await steps.delete(resource, name)
    metadata = {key: value for key, value in manifest["metadata"].items() if key not in KEPT_FIELDS}
    await steps.create(resource, {**manifest, "metadata": metadata, "status": {}})


async def foreground(steps: Steps, resource: Resource, key: Key) -> None:
    await steps.world.user.delete(resource, key, propagation="Foreground")


# The children of a set --------------------------------------------------------------------------------


def test_with_a_set_its_pods_cliques_and_gangs_go() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        await steps.delete(kinds.CLIQUESETS, "train")
        await children(steps)
        for resource in (kinds.PODS, kinds.CLIQUES, kinds.GANGS, kinds.SERVICES):
            assert await steps.names(resource) == [], resource

    run_steps(story)


def test_pods_go_before_their_clique_so_that_none_is_made_again_for_it() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        await steps.delete(kinds.CLIQUESETS, "train")
        await children(steps)
        written = steps.writes()
        assert written[:2] == ["delete pods", "delete pods"]
        assert "delete podcliques" in written[2:]

    run_steps(story)


def test_roles_of_pods_that_wait_are_left_to_the_garbage_collector_because_the_pods_still_use_them() -> None:
    async def story(steps: Steps) -> None:
        ordered = make.cliqueset_manifest(
            "train",
            {"leader": 1, "worker": 1},
            template={"cliqueStartupType": "CliqueStartupTypeInOrder"},
        )
        await steps.gang_with_pods(ordered)
        before = await steps.names(kinds.ROLES)
        await steps.delete(kinds.CLIQUESETS, "train")
        await children(steps)
        assert await steps.names(kinds.PODS) == []
        assert await steps.names(kinds.ROLES) == before
        assert before

    run_steps(story)


def test_nothing_goes_while_the_set_is_there() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(GROUPED)
        await children(steps)
        assert steps.writes() == []

    run_steps(story)


def test_nothing_goes_with_a_set_that_only_the_cache_believes_to_be_gone() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        manifest = await steps.get(kinds.CLIQUESETS, "train")
        await steps.stop_watching()
        steps.deps.cache.store(PodCliqueSet).discard(SET)
        await removal(steps).children(SET, None, NO_BARRIER)
        assert steps.writes() == []
        assert await steps.get(kinds.CLIQUESETS, "train") == manifest

    run_steps(story)


def test_children_of_an_earlier_set_of_the_same_name_go_and_those_of_the_present_one_stay() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        before = await steps.names(kinds.PODS)
        await again(steps, kinds.CLIQUESETS, "train")
        await children(steps)
        assert await steps.names(kinds.CLIQUES) == []
        assert await steps.names(kinds.PODS) == []
        await steps.gang_with_pods(WORKERS)
        await children(steps)
        assert await steps.names(kinds.CLIQUES) == [CLIQUE.name]
        assert len(await steps.names(kinds.PODS)) == len(before)

    run_steps(story)


@pytest.mark.parametrize("owners", [[], ["other"]], ids=["none", "another one too"])
def test_a_clique_stays_that_the_set_is_not_the_only_owner_of(owners: list[str]) -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        there = (await steps.get(kinds.CLIQUES, CLIQUE.name))["metadata"]["ownerReferences"]
        others = [
            {**each, "name": name, "uid": name, "controller": False} for name in owners for each in there
        ]
        references = [*there, *others] if others else []
        await steps.patch(kinds.CLIQUES, CLIQUE.name, {"metadata": {"ownerReferences": references}})
        await steps.delete(kinds.CLIQUESETS, "train")
        await children(steps)
        assert await steps.names(kinds.CLIQUES) == [CLIQUE.name]
        assert len(await steps.names(kinds.PODS)) == 2
        assert await steps.names(kinds.GANGS) == []

    run_steps(story)


def test_one_that_lost_its_owner_while_nobody_watched_stays_with_its_pods() -> None:
    """Whoever orphans takes the references off first; the cache may still show them."""

    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        await steps.delete(kinds.CLIQUESETS, "train")
        await steps.stop_watching()
        await steps.patch(kinds.CLIQUES, CLIQUE.name, {"metadata": {"ownerReferences": None}})
        await removal(steps).children(SET, None, NO_BARRIER)
        assert await steps.names(kinds.CLIQUES) == [CLIQUE.name]
        assert len(await steps.names(kinds.PODS)) == 2

    run_steps(story)


def test_one_that_was_given_to_another_set_while_nobody_watched_stays_with_its_pods() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        await steps.world.apply(make.cliqueset_manifest("other", {"worker": 2}))
        other = (await steps.get(kinds.CLIQUESETS, "other"))["metadata"]["uid"]
        (owner,) = (await steps.get(kinds.CLIQUES, CLIQUE.name))["metadata"]["ownerReferences"]
        await steps.delete(kinds.CLIQUESETS, "train")
        await steps.stop_watching()
        theirs = [{**owner, "name": "other", "uid": other}]
        await steps.patch(kinds.CLIQUES, CLIQUE.name, {"metadata": {"ownerReferences": theirs}})
        await removal(steps).children(SET, None, NO_BARRIER)
        assert await steps.names(kinds.CLIQUES) == [CLIQUE.name]
        assert len(await steps.names(kinds.PODS)) == 2

    run_steps(story)


def test_a_pod_that_somebody_changed_meanwhile_is_not_deleted_on_old_knowledge() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        await steps.delete(kinds.CLIQUESETS, "train")
        await steps.stop_watching()
        orphan, *_ = await steps.names(kinds.PODS)
        await steps.patch(kinds.PODS, orphan, {"metadata": {"ownerReferences": None}})
        with pytest.raises(Conflict):
            await removal(steps).children(SET, None, NO_BARRIER)
        assert await steps.names(kinds.PODS) == [orphan]

    run_steps(story)


def test_a_pod_that_has_another_owner_too_stays_when_its_clique_goes() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        first, _ = await steps.names(kinds.PODS)
        (owner,) = (await steps.get(kinds.PODS, first))["metadata"]["ownerReferences"]
        owners = [owner, {**owner, "name": "other", "uid": "other", "controller": False}]
        await steps.patch(kinds.PODS, first, {"metadata": {"ownerReferences": owners}})
        await steps.delete(kinds.CLIQUESETS, "train")
        await children(steps)
        assert await steps.names(kinds.CLIQUES) == []
        assert await steps.names(kinds.PODS) == [first]

    run_steps(story)


def test_a_set_that_is_deleted_in_the_foreground_keeps_its_cliques_until_their_pods_are_gone() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        await foreground(steps, kinds.CLIQUESETS, SET)
        await children(steps)
        assert await steps.names(kinds.PODS) == []
        assert await steps.names(kinds.CLIQUES) == [CLIQUE.name], "they go from the leaves up"

    run_steps(story)


def test_with_a_scaling_group_its_cliques_go_and_not_those_of_the_others() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(GROUPED)
        await steps.delete(kinds.SCALING_GROUPS, "train-0-decode")
        await children(steps)
        assert await steps.names(kinds.CLIQUES) == ["train-0-leader"]
        (pod,) = await steps.world.pods()
        assert pod["metadata"]["labels"][labels.POD_CLIQUE] == "train-0-leader"

    run_steps(story)


def test_a_group_that_lost_its_labels_is_there_all_the_same() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(GROUPED)
        await steps.patch(kinds.SCALING_GROUPS, "train-0-decode", {"metadata": {"labels": None}})
        await steps.stop_watching()
        steps.deps.cache.store(PodCliqueScalingGroup).discard(Key("default", "train-0-decode"))
        await removal(steps).children(SET, None, NO_BARRIER)
        assert steps.writes() == []
        assert "train-0-decode-0-worker" in await steps.names(kinds.CLIQUES)

    run_steps(story)


def test_a_refused_deletion_is_raised_once_everything_else_was_tried() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        await steps.delete(kinds.CLIQUESETS, "train")
        steps.forbid("DELETE", f"/podgangs/{GANG}")
        with pytest.raises(Forbidden):
            await children(steps)
        assert await steps.names(kinds.GANGS) == [GANG]
        assert await steps.names(kinds.PODS) == []
        assert await steps.names(kinds.CLIQUES) == []

    run_steps(story)


def test_what_goes_with_its_set_is_doomed_and_what_stays_is_not() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        assert not removal(steps).is_doomed(await clique(steps))
        await steps.delete(kinds.CLIQUESETS, "train")
        assert removal(steps).is_doomed(await clique(steps))

    run_steps(story)


# The pods of a clique that is gone ----------------------------------------------------------------------


def test_with_a_clique_its_pods_go() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        await steps.delete(kinds.CLIQUES, CLIQUE.name)
        await pods_left(steps)
        assert await steps.names(kinds.PODS) == []

    run_steps(story)


def test_pods_of_a_clique_stay_that_only_the_cache_believes_to_be_gone() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        await steps.stop_watching()
        steps.deps.cache.store(PodClique).discard(CLIQUE)
        await removal(steps).pods_left(CLIQUE, NO_BARRIER)
        assert len(await steps.names(kinds.PODS)) == 2

    run_steps(story)


def test_pods_of_an_earlier_clique_of_the_same_name_go() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        await again(steps, kinds.CLIQUES, CLIQUE.name)
        await pods_left(steps)
        assert await steps.names(kinds.PODS) == []
        assert await steps.names(kinds.CLIQUES) == [CLIQUE.name]

    run_steps(story)


def test_pods_without_an_owner_stay_whatever_their_labels_say() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        first, _ = await steps.names(kinds.PODS)
        await steps.patch(kinds.PODS, first, {"metadata": {"ownerReferences": None}})
        await steps.delete(kinds.CLIQUES, CLIQUE.name)
        await pods_left(steps)
        assert await steps.names(kinds.PODS) == [first]

    run_steps(story)


def test_pods_of_a_clique_that_goes_in_the_background_are_left_to_its_end() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        await steps.keep(kinds.CLIQUES, CLIQUE.name)
        await steps.delete(kinds.CLIQUES, CLIQUE.name)
        await pods_left(steps)
        assert len(await steps.names(kinds.PODS)) == 2
        await steps.patch(kinds.CLIQUES, CLIQUE.name, {"metadata": {"finalizers": None}})
        await pods_left(steps)
        assert await steps.names(kinds.PODS) == []

    run_steps(story)


def test_pods_of_a_clique_that_goes_in_the_foreground_go_first() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        await foreground(steps, kinds.CLIQUES, CLIQUE)
        await pods_left(steps)
        assert await steps.names(kinds.PODS) == []

    run_steps(story)


def test_a_deletion_that_was_sent_is_not_sent_again_while_the_pod_takes_its_time() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        await steps.run_pods()
        await steps.delete(kinds.CLIQUES, CLIQUE.name)
        await steps.stop_watching()
        await removal(steps).pods_left(CLIQUE, NO_BARRIER)
        await removal(steps).pods_left(CLIQUE, NO_BARRIER)
        assert steps.world.cluster.requests.count(verb="delete", resource="pods") == 2

    run_steps(story)


def test_a_pod_that_changed_meanwhile_is_no_failure_because_it_wakes_its_clique() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        await steps.delete(kinds.CLIQUES, CLIQUE.name)
        await steps.stop_watching()
        first, _ = await steps.names(kinds.PODS)
        await steps.patch(kinds.PODS, first, {"metadata": {"annotations": {"touched": "yes"}}})
        await removal(steps).pods_left(CLIQUE, NO_BARRIER)
        assert await steps.names(kinds.PODS) == [first]

    run_steps(story)


def test_a_deletion_that_failed_is_sent_again() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        await steps.delete(kinds.CLIQUES, CLIQUE.name)
        first, _ = await steps.names(kinds.PODS)
        steps.forbid("DELETE", f"/pods/{first}")
        with pytest.raises(Forbidden):
            await pods_left(steps)
        assert await steps.names(kinds.PODS) == [first]
        steps.transport.forbidden.clear()
        await pods_left(steps)
        assert await steps.names(kinds.PODS) == []

    run_steps(story)


# Cliques that their set removes -------------------------------------------------------------------------


async def removed(steps: Steps, *changes: Delete) -> tuple[list[Change], Outcome]:
    """What the set may write once the pods of the cliques that it removes are deleted."""
    cliqueset = steps.deps.cache.store(PodCliqueSet).get(SET)
    assert cliqueset is not None
    with removal(steps).removing(SET, changes):
        return await removal(steps).pods_first(cliqueset, changes, NO_BARRIER)


def test_pods_of_a_clique_that_its_set_removes_go_first_and_the_clique_makes_no_others_meanwhile() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        there = await clique(steps)
        changes = [Delete(kinds.CLIQUES, CLIQUE, there.uid)]
        assert not removal(steps).is_removing(there)
        with removal(steps).removing(SET, changes):
            assert removal(steps).is_removing(there)
        assert await removed(steps, *changes) == (changes, DONE)
        assert await steps.names(kinds.PODS) == []
        assert not removal(steps).is_removing(there)

    run_steps(story)


def test_a_clique_is_removed_no_longer_when_that_failed() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        there = await clique(steps)
        changes = [Delete(kinds.CLIQUES, CLIQUE, there.uid)]
        with pytest.raises(ValueError, match="stop"), removal(steps).removing(SET, changes):
            raise ValueError("stop")
        assert not removal(steps).is_removing(there)

    run_steps(story)


def test_the_pods_of_cliques_that_stay_stay() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        gang: Manifest = await steps.get(kinds.GANGS, GANG)
        await removed(steps, Delete(kinds.GANGS, Key("default", GANG), gang["metadata"]["uid"]))
        assert len(await steps.names(kinds.PODS)) == 2

    run_steps(story)


# Many pods that end at once -----------------------------------------------------------------------------

MANY = make.cliqueset_manifest("train", {"worker": MANY_PODS})


async def many_ending(steps: Steps) -> PodClique:
    """A set with as many running pods as other children wait for; they take their time to end."""
    await steps.gang_with_pods(MANY)
    await steps.run_pods()
    return await clique(steps)


def test_while_many_pods_end_the_rest_of_the_removal_waits_and_their_clique_makes_none() -> None:
    async def story(steps: Steps) -> None:
        there = await many_ending(steps)
        due, waits = await removed(steps, Delete(kinds.CLIQUES, CLIQUE, there.uid))
        assert due == []
        assert isinstance(waits, After)
        assert waits.seconds == pytest.approx(PAUSE_SECONDS)
        assert waits.why == PODS_END
        assert removal(steps).is_removing(there)

    run_steps(story)


def test_what_waited_for_pods_goes_at_once_when_their_set_is_edited() -> None:
    async def story(steps: Steps) -> None:
        there = await many_ending(steps)
        await removed(steps, Delete(kinds.CLIQUES, CLIQUE, there.uid))
        await steps.patch(kinds.CLIQUESETS, SET.name, {"spec": {"replicas": 2}})
        await children(steps)
        assert await steps.names(kinds.CLIQUES) == []
        assert not removal(steps).is_removing(there)

    run_steps(story)


def test_of_a_set_that_goes_while_its_pods_end_nothing_is_remembered() -> None:
    async def story(steps: Steps) -> None:
        there = await many_ending(steps)
        await removed(steps, Delete(kinds.CLIQUES, CLIQUE, there.uid))
        await steps.delete(kinds.CLIQUESETS, SET.name)
        await children(steps)
        assert await steps.names(kinds.CLIQUES) == [CLIQUE.name]
        await asyncio.sleep(PAUSE_SECONDS)
        await children(steps)
        assert await steps.names(kinds.CLIQUES) == []
        assert not removal(steps).is_removing(there)

    run_steps(story)
