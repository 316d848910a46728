"""How one clique is kept, a look at a time: which pods it makes and deletes, and what stops it."""

import pytest
from tests.controllers.steps import Steps, condition, run_steps

from grove.api import conditions, kinds, labels
from grove.api.clique import PodClique
from grove.api.config import load
from grove.controllers.apply import NameTaken
from grove.controllers.clique import CliqueReconciler
from grove.controllers.cliqueset import CliqueSetReconciler
from grove.controllers.gang import GangReconciler
from grove.controllers.pacing import REMOVING_SECONDS
from grove.errors import Conflict, Forbidden
from grove.meta import Key, Manifest
from grove.plan.changes import Create, Delete
from grove.plan.update.pods import NO_UPDATE
from grove.runtime.outcome import DONE, After, Outcome
from grove.testing import make

SET, GANG, CLIQUE = "train", "train-0", "train-0-worker"
FEW_PODS = load("""
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
limits: {podsPerSet: 2}
""")
WORKERS = make.cliqueset_manifest(SET, {"worker": 2})


async def look(steps: Steps) -> Outcome:
    return await steps.look(CliqueReconciler, CLIQUE)


async def prepared(steps: Steps, manifest: Manifest = WORKERS) -> None:
    """A set with its children; its gang was handed to the scheduler, and there are no pods yet."""
    await steps.world.apply(manifest)
    await steps.rest(CliqueSetReconciler, SET)
    await steps.look(GangReconciler, GANG)
    steps.writes()


async def clique(steps: Steps) -> PodClique:
    await steps.watched()
    found = steps.deps.cache.store(PodClique).get(Key("default", CLIQUE))
    assert found is not None
    return found


async def pods(steps: Steps) -> list[str]:
    return await steps.names(kinds.PODS)


def flexible(replicas: int) -> Manifest:
    """A set of which two workers suffice."""
    role = make.template("worker", replicas)
    role["spec"]["minAvailable"] = 2
    return make.cliqueset_manifest(SET, [role])


async def scale(steps: Steps, replicas: int) -> None:
    await steps.patch(kinds.CLIQUES, CLIQUE, {"spec": {"replicas": replicas}})
    await steps.watched()


# Pods that are made ---------------------------------------------------------------------------------------


def test_it_makes_its_pods_behind_gates_and_owns_them() -> None:
    async def story(steps: Steps) -> None:
        await prepared(steps)
        await look(steps)
        assert steps.writes() == ["create pods"] * 2
        uid = (await clique(steps)).uid
        made = await steps.world.pods()
        assert [[each["uid"] for each in pod["metadata"]["ownerReferences"]] for pod in made] == [[uid]] * 2
        assert sorted(pod["metadata"]["labels"][labels.POD_INDEX] for pod in made) == ["0", "1"]
        assert all((await steps.gates()).values())

    run_steps(story)


def test_a_second_look_makes_no_more() -> None:
    async def story(steps: Steps) -> None:
        await prepared(steps)
        await steps.rest(CliqueReconciler, CLIQUE)
        steps.writes()
        assert await look(steps) == DONE
        assert steps.writes() == []

    run_steps(story)


def test_no_pod_is_made_before_its_gang_is_there() -> None:
    async def story(steps: Steps) -> None:
        await prepared(steps)
        await steps.delete(kinds.GANGS, GANG)
        await look(steps)
        assert await pods(steps) == []

    run_steps(story)


def test_no_pod_is_made_for_a_gang_that_goes() -> None:
    async def story(steps: Steps) -> None:
        await prepared(steps)
        await steps.keep(kinds.GANGS, GANG)
        await steps.delete(kinds.GANGS, GANG)
        await look(steps)
        assert await pods(steps) == []

    run_steps(story)


def test_no_pod_is_made_for_a_gang_of_somebody_else_under_the_name_of_ours() -> None:
    async def story(steps: Steps) -> None:
        await prepared(steps)
        there = await steps.get(kinds.GANGS, GANG)
        await steps.delete(kinds.GANGS, GANG)
        (owner,) = there["metadata"]["ownerReferences"]
        metadata = {
            "name": GANG,
            "namespace": "default",
            "labels": there["metadata"]["labels"],
            "ownerReferences": [{**owner, "uid": "of-another-set"}],
        }
        await steps.create(kinds.GANGS, {**there, "metadata": metadata, "status": {}})
        await look(steps)
        assert await pods(steps) == []

    run_steps(story)


def test_no_pod_is_made_while_the_gang_has_another_minimum_in_mind() -> None:
    async def story(steps: Steps) -> None:
        await prepared(steps)
        group = {"name": CLIQUE, "minReplicas": 1, "podReferences": []}
        await steps.patch(kinds.GANGS, GANG, {"spec": {"podgroups": [group]}})
        await look(steps)
        assert await pods(steps) == []

    run_steps(story)


def test_no_pod_is_made_again_for_a_clique_that_only_the_cache_still_shows() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        for name in await pods(steps):
            await steps.delete(kinds.PODS, name)
        await steps.stop_watching()
        await steps.delete(kinds.CLIQUES, CLIQUE)
        assert await look(steps) == DONE
        assert await pods(steps) == []

    run_steps(story)


# Pods that are deleted ------------------------------------------------------------------------------------


def test_of_too_many_pods_the_ones_above_the_size_go() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(flexible(3))
        await scale(steps, 2)
        await look(steps)
        left = {pod["metadata"]["labels"][labels.POD_INDEX] for pod in await steps.world.pods()}
        assert left == {"0", "1"}

    run_steps(story)


def test_a_waiting_pod_that_is_placed_in_this_moment_is_not_deleted_on_old_knowledge() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(flexible(3))
        await scale(steps, 2)
        before = await pods(steps)
        await steps.stop_watching()
        for name in before:
            await steps.patch(kinds.PODS, name, {"metadata": {"annotations": {"touched": "yes"}}})
        with pytest.raises(Conflict):
            await look(steps)
        assert await pods(steps) == before

    run_steps(story)


def test_a_failed_pod_is_replaced_and_that_is_told() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        await steps.run_pods()
        first, second = await pods(steps)
        await steps.status(kinds.PODS, first, {"phase": "Failed", "reason": "Evicted"})
        await look(steps)
        left = await pods(steps)
        assert first not in left
        assert second in left
        assert "PodFailed" in await steps.events()

    run_steps(story)


def test_a_pod_of_somebody_else_with_its_labels_is_neither_counted_nor_deleted() -> None:
    async def story(steps: Steps) -> None:
        await prepared(steps)
        stray = make.pod_manifest(CLIQUE, 0, name="stray", labels={labels.POD_GANG: GANG})
        del stray["status"]
        await steps.create(kinds.PODS, stray)
        await look(steps)
        assert len(await pods(steps)) == 3
        await look(steps)
        assert "stray" in await pods(steps)

    run_steps(story)


def test_a_label_that_a_pod_lost_is_given_back() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        first, _ = await pods(steps)
        await steps.patch(kinds.PODS, first, {"metadata": {"labels": {labels.POD_CLIQUE: "another"}}})
        await look(steps)
        there = await steps.get(kinds.PODS, first)
        assert there["metadata"]["labels"][labels.POD_CLIQUE] == CLIQUE
        assert len(await pods(steps)) == 2

    run_steps(story)


# Writes that fail -----------------------------------------------------------------------------------------


def test_a_refused_pod_is_raised_and_stands_in_the_status_at_once() -> None:
    async def story(steps: Steps) -> None:
        await prepared(steps)
        steps.forbid("POST", "/pods")
        with pytest.raises(Forbidden):
            await look(steps)
        (error,) = (await steps.get(kinds.CLIQUES, CLIQUE))["status"]["lastErrors"]
        assert "a policy" in error["description"]
        assert "PodCreateFailed" in await steps.events()

    run_steps(story)


def test_an_error_that_is_over_is_taken_back() -> None:
    async def story(steps: Steps) -> None:
        await prepared(steps)
        steps.forbid("POST", "/pods")
        with pytest.raises(Forbidden):
            await look(steps)
        steps.transport.forbidden.clear()
        await steps.rest(CliqueReconciler, CLIQUE)
        assert len(await pods(steps)) == 2
        assert not (await steps.get(kinds.CLIQUES, CLIQUE))["status"].get("lastErrors")

    run_steps(story)


def test_a_pod_that_the_api_server_calls_invalid_is_told_too() -> None:
    async def story(steps: Steps) -> None:
        await prepared(steps)
        patch = {"spec": {"podSpec": {"containers": [{"name": "NOT A NAME", "image": "x"}]}}}
        await steps.patch(kinds.CLIQUES, CLIQUE, patch)
        with pytest.raises(Exception, match="invalid"):
            await look(steps)
        (error,) = (await steps.get(kinds.CLIQUES, CLIQUE))["status"]["lastErrors"]
        assert "NOT A NAME" in error["description"]

    run_steps(story)


def test_a_name_that_turned_out_to_be_taken_is_avoided_by_the_next_look() -> None:
    async def story(steps: Steps) -> None:
        await prepared(steps)
        seen = steps.reconciler(CliqueReconciler).observe(Key("default", CLIQUE))
        assert seen is not None
        reconciler = steps.reconciler(CliqueReconciler)
        first, *_ = await reconciler.plan(seen, NO_UPDATE)
        assert isinstance(first, Create)
        taken = first.manifest["metadata"]["name"]
        theirs = make.pod_manifest("other", 0, name=taken)
        del theirs["status"]
        await steps.create(kinds.PODS, theirs)
        with pytest.raises(NameTaken):
            await look(steps)
        await steps.rest(CliqueReconciler, CLIQUE)
        assert len([pod for pod in await steps.world.pods() if pod["metadata"].get("ownerReferences")]) == 2

    run_steps(story)


# Cliques that go ------------------------------------------------------------------------------------------


def test_one_that_is_gone_takes_its_pods_along_and_needs_nothing_more() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        await steps.delete(kinds.CLIQUES, CLIQUE)
        assert await look(steps) == DONE
        assert steps.writes() == ["delete pods"] * 2
        assert await look(steps) == DONE
        assert steps.writes() == []

    run_steps(story)


def test_a_clique_that_carries_no_label_of_a_set_is_left_alone() -> None:
    async def story(steps: Steps) -> None:
        manifest = make.clique_manifest(CLIQUE, 2, labels={labels.POD_GANG: GANG})
        await steps.create(kinds.CLIQUES, manifest)
        assert await look(steps) == DONE
        assert steps.writes() == []

    run_steps(story)


def test_nothing_is_made_for_a_clique_whose_set_is_gone() -> None:
    async def story(steps: Steps) -> None:
        await prepared(steps)
        await steps.delete(kinds.CLIQUESETS, SET)
        assert await look(steps) == DONE
        assert steps.writes() == []

    run_steps(story)


def test_one_that_its_set_removes_makes_no_pods_meanwhile() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        there = await clique(steps)
        changes = [Delete(kinds.CLIQUES, there.key, there.uid)]
        before = await pods(steps)
        await steps.delete(kinds.PODS, before[0])
        with steps.deps.removal.removing(Key("default", SET), changes):
            assert await look(steps) == After(REMOVING_SECONDS, "its set removes it")
            assert await pods(steps) == before[1:]

    run_steps(story)


def test_one_that_goes_loses_the_finalizer_of_the_go_operator_and_makes_nothing() -> None:
    async def story(steps: Steps) -> None:
        await prepared(steps)
        finalizers = [labels.CLIQUE_FINALIZER, "example.com/keep"]
        await steps.patch(kinds.CLIQUES, CLIQUE, {"metadata": {"finalizers": finalizers}})
        await steps.delete(kinds.CLIQUES, CLIQUE)
        await look(steps)
        left = await steps.get(kinds.CLIQUES, CLIQUE)
        assert left["metadata"]["finalizers"] == ["example.com/keep"]
        assert steps.writes() == ["patch podcliques"]
        await steps.rest(CliqueReconciler, CLIQUE)
        assert steps.writes() == [], "nothing is said of one that goes"

    run_steps(story)


# What it says ---------------------------------------------------------------------------------------------


def test_it_says_how_many_of_its_pods_are_placed_and_ready() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        await steps.run_pods(but=1)
        await steps.rest(CliqueReconciler, CLIQUE)
        there = await steps.get(kinds.CLIQUES, CLIQUE)
        status = there["status"]
        assert [status[name] for name in ("replicas", "scheduledReplicas", "readyReplicas")] == [2, 2, 1]
        assert condition(there, conditions.CLIQUE_SCHEDULED)["status"] == "True"

    run_steps(story)


def test_a_set_beyond_its_limit_of_pods_gets_no_more_and_says_so() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(flexible(2))
        await scale(steps, 4)
        await look(steps)
        assert len(await pods(steps)) == 2
        (error,) = (await steps.get(kinds.CLIQUES, CLIQUE))["status"]["lastErrors"]
        assert error["code"] == "ERR_POD_LIMIT"

    run_steps(story, configuration=FEW_PODS)
