"""How one set is kept, a look at a time: whether it is accepted, its children, and what it says of them."""

import asyncio

import pytest
from tests.controllers.steps import Steps, condition, run_steps

from grove.api import conditions, kinds, labels
from grove.api.gang import PodGang
from grove.controllers.apply import NameTaken
from grove.controllers.clique import CliqueReconciler
from grove.controllers.cliqueset import CliqueSetReconciler
from grove.controllers.pacing import MOVING_SECONDS
from grove.embedded.faults import Fault
from grove.errors import Conflict, Forbidden
from grove.meta import Key, Manifest
from grove.runtime.outcome import DONE, After, Outcome
from grove.testing import make

SET, GANG, CLIQUE = "train", "train-0", "train-0-worker"
WORKERS = make.cliqueset_manifest(SET, {"worker": 2})
FIRST = ["create controllerrevisions", "create services", "create podgangs", "create podcliques"]


def replicas(number: int, pods: int = 2) -> Manifest:
    return make.cliqueset_manifest(SET, {"worker": pods}, replicas=number)


async def look(steps: Steps) -> Outcome:
    return await steps.look(CliqueSetReconciler, SET)


async def told(steps: Steps, type_: str) -> tuple[str, str]:
    found = condition(await steps.get(kinds.CLIQUESETS, SET), type_)
    return found.get("status", ""), found.get("reason", "")


# Children that are made -----------------------------------------------------------------------------------


def test_an_accepted_set_gets_its_children_and_makes_no_pods() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(WORKERS)
        await steps.rest(CliqueSetReconciler, SET)
        assert steps.writes() == [*FIRST, "patch podcliquesets/status"]
        assert await told(steps, conditions.ACCEPTED) == ("True", "Valid")
        uid = (await steps.get(kinds.CLIQUESETS, SET))["metadata"]["uid"]
        for resource, name in ((kinds.GANGS, GANG), (kinds.CLIQUES, CLIQUE)):
            (owner,) = (await steps.get(resource, name))["metadata"]["ownerReferences"]
            assert owner["uid"] == uid
        assert await steps.names(kinds.PODS) == []
        assert await steps.events() == ["Created"]

    run_steps(story)


def test_when_everything_is_in_order_nothing_is_written() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(WORKERS)
        await steps.rest(CliqueSetReconciler, SET)
        steps.writes()
        assert await look(steps) == DONE
        assert steps.writes() == []

    run_steps(story)


def test_a_child_that_somebody_deleted_is_made_again() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(WORKERS)
        await steps.rest(CliqueSetReconciler, SET)
        await steps.delete(kinds.GANGS, GANG)
        await look(steps)
        assert await steps.names(kinds.GANGS) == [GANG]

    run_steps(story)


def test_a_field_of_a_child_that_somebody_changed_is_put_back() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(WORKERS)
        await steps.rest(CliqueSetReconciler, SET)
        await steps.patch(kinds.CLIQUES, CLIQUE, {"metadata": {"labels": {labels.POD_GANG: "another"}}})
        await look(steps)
        there = await steps.get(kinds.CLIQUES, CLIQUE)
        assert there["metadata"]["labels"][labels.POD_GANG] == GANG

    run_steps(story)


def test_nothing_is_made_again_for_a_set_that_only_the_cache_still_shows() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(WORKERS)
        await steps.rest(CliqueSetReconciler, SET)
        await steps.delete(kinds.GANGS, GANG)
        await steps.stop_watching()
        await steps.delete(kinds.CLIQUESETS, SET)
        assert await look(steps) == DONE
        assert await steps.names(kinds.GANGS) == []

    run_steps(story)


def test_a_child_without_an_owner_is_not_given_back_to_a_set_that_only_the_cache_still_shows() -> None:
    """It may have been orphaned: the garbage collector would take it along with its pods."""

    async def story(steps: Steps) -> None:
        await steps.world.apply(WORKERS)
        await steps.rest(CliqueSetReconciler, SET)
        await steps.patch(kinds.CLIQUES, CLIQUE, {"metadata": {"ownerReferences": None}})
        await steps.stop_watching()
        await steps.delete(kinds.CLIQUESETS, SET)
        await look(steps)
        assert "ownerReferences" not in (await steps.get(kinds.CLIQUES, CLIQUE))["metadata"]

    run_steps(story)


def test_a_child_that_lost_its_owner_is_given_back_to_the_set_that_lives() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(WORKERS)
        await steps.rest(CliqueSetReconciler, SET)
        await steps.patch(kinds.CLIQUES, CLIQUE, {"metadata": {"ownerReferences": None}})
        await look(steps)
        (owner,) = (await steps.get(kinds.CLIQUES, CLIQUE))["metadata"]["ownerReferences"]
        assert owner["name"] == SET

    run_steps(story)


# Children that go -----------------------------------------------------------------------------------------


def test_a_set_that_shrinks_removes_the_last_replicas_their_pods_first() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(replicas(2))
        await steps.world.apply(replicas(1))
        await look(steps)
        written = steps.writes()
        assert written[:2] == ["delete pods"] * 2
        assert await steps.names(kinds.GANGS) == [GANG]
        assert await steps.names(kinds.CLIQUES) == [CLIQUE]
        assert "Removed" in await steps.events()

    run_steps(story)


def test_a_gang_whose_gates_are_being_opened_is_removed_a_moment_later() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(replicas(2))
        await steps.world.apply(replicas(1))
        steps.deps.opening.add(Key("default", "train-1"))
        await look(steps)
        await asyncio.sleep(1)
        await look(steps)
        assert "train-1" in await steps.names(kinds.GANGS)
        assert await look(steps) == After(MOVING_SECONDS, "gates are being opened")
        steps.deps.opening.clear()
        await look(steps)
        assert await steps.names(kinds.GANGS) == [GANG]

    run_steps(story)


def test_while_a_gang_is_being_deleted_nobody_opens_its_gates() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(replicas(2))
        await steps.world.apply(replicas(1))
        going = steps.deps.cache.store(PodGang).get(Key("default", "train-1"))
        assert going is not None
        during: list[bool] = []

        async def asked() -> None:
            during.append(steps.deps.removal.is_removing(going))

        steps.meanwhile("DELETE", "/podgangs/train-1", asked)
        await look(steps)
        assert during == [True]
        assert not steps.deps.removal.is_removing(going)

    run_steps(story)


def test_a_set_that_is_gone_takes_its_children_along() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        await steps.delete(kinds.CLIQUESETS, SET)
        assert await look(steps) == DONE
        for resource in (kinds.PODS, kinds.CLIQUES, kinds.GANGS):
            assert await steps.names(resource) == []

    run_steps(story)


def test_one_that_never_was_needs_nothing() -> None:
    async def story(steps: Steps) -> None:
        assert await look(steps) == DONE
        assert steps.writes() == []

    run_steps(story)


def test_a_set_that_goes_loses_the_finalizer_of_the_go_operator_and_gets_no_children() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(WORKERS)
        finalizers = [labels.CLIQUESET_FINALIZER, "example.com/keep"]
        await steps.patch(kinds.CLIQUESETS, SET, {"metadata": {"finalizers": finalizers}})
        await steps.delete(kinds.CLIQUESETS, SET)
        await look(steps)
        assert (await steps.get(kinds.CLIQUESETS, SET))["metadata"]["finalizers"] == ["example.com/keep"]
        assert await look(steps) == DONE
        assert steps.writes() == ["patch podcliquesets", "patch podcliquesets/status"]
        assert await look(steps) == DONE
        assert steps.writes() == [], "it has said that it is being deleted"

    run_steps(story)


def test_the_finalizer_is_taken_off_a_set_that_stays_too_because_nobody_would_take_it_off_later() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(WORKERS)
        await steps.patch(kinds.CLIQUESETS, SET, {"metadata": {"finalizers": [labels.CLIQUESET_FINALIZER]}})
        assert await look(steps) == After(0.0, "a finalizer of the Go operator was taken off")
        await look(steps)
        assert steps.writes() == ["patch podcliquesets", *FIRST]

    run_steps(story)


# Sets that are refused ------------------------------------------------------------------------------------


def refused() -> Manifest:
    """A set that asks for a scheduler which is not enabled."""
    return make.cliqueset_manifest(SET, [make.template("worker", pod={"schedulerName": "nobody"})])


def test_a_refused_set_gets_no_children_and_says_why_at_once() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(refused())
        await look(steps)
        assert steps.writes() == ["patch podcliquesets/status"]
        assert (await told(steps, conditions.ACCEPTED))[0] == "False"
        assert len(await steps.events()) == 1

    run_steps(story)


def test_what_runs_goes_on_when_the_set_is_refused_after_an_edit() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(replicas(2))
        edited = replicas(2, pods=3)
        edited["metadata"]["annotations"] = {labels.SCHEDULER_BACKEND: "nobody"}
        await steps.world.apply(edited)
        await look(steps)
        assert (await told(steps, conditions.ACCEPTED))[0] == "False"
        assert await steps.names(kinds.GANGS) == [GANG, "train-1"]
        assert len(await steps.names(kinds.PODS)) == 4
        # Fewer replicas are understood whatever else is wrong, and free nodes.
        await steps.world.scale(SET, 1)
        await look(steps)
        assert (await told(steps, conditions.ACCEPTED))[0] == "False"
        assert await steps.names(kinds.GANGS) == [GANG]
        assert len(await steps.names(kinds.PODS)) == 2

    run_steps(story)


def test_a_pod_template_that_the_api_server_calls_invalid_is_refused_before_anything_is_made() -> None:
    async def story(steps: Steps) -> None:
        bad = [
            {"name": "main", "image": "x", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}
        ]
        await steps.world.apply(
            make.cliqueset_manifest(SET, [make.template("worker", pod={"containers": bad})])
        )
        await look(steps)
        assert (await told(steps, conditions.ACCEPTED))[0] == "False"
        assert await steps.names(kinds.CLIQUES) == []

    run_steps(story)


# Writes that fail -----------------------------------------------------------------------------------------


def test_a_refused_child_is_raised_and_stands_in_the_status_at_once() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(WORKERS)
        steps.forbid("POST", "/podgangs")
        with pytest.raises(Forbidden):
            await look(steps)
        (error,) = (await steps.get(kinds.CLIQUESETS, SET))["status"]["lastErrors"]
        assert "a policy" in error["description"]
        assert any("Failed" in reason for reason in await steps.events())
        steps.transport.forbidden.clear()
        await look(steps)
        assert await steps.names(kinds.GANGS) == [GANG]

    run_steps(story)


def test_a_child_of_somebody_else_under_our_name_stays_as_it_is_and_the_set_waits() -> None:
    async def story(steps: Steps) -> None:
        theirs = await steps.create(kinds.CLIQUES, make.clique_manifest(CLIQUE, 7))
        await steps.world.apply(WORKERS)
        with pytest.raises(NameTaken):
            await look(steps)
        there = await steps.get(kinds.CLIQUES, CLIQUE)
        assert there == theirs
        (error,) = (await steps.get(kinds.CLIQUESETS, SET))["status"]["lastErrors"]
        assert error["code"] == "ERR_NAME_TAKEN"
        assert await told(steps, conditions.DEGRADED) == ("True", conditions.NAME_TAKEN)
        assert (await told(steps, conditions.STALLED))[0] == "True"

    run_steps(story)


def test_a_race_is_raised_to_be_tried_again_and_is_no_error_of_the_set() -> None:
    async def story(steps: Steps) -> None:
        await steps.world.apply(WORKERS)
        await steps.rest(CliqueSetReconciler, SET)
        await steps.patch(kinds.CLIQUES, CLIQUE, {"metadata": {"labels": {labels.POD_GANG: "another"}}})
        steps.world.cluster.faults.add(Fault("conflict", verb="patch", resource="podcliques.*", times=1))
        with pytest.raises(Conflict):
            await look(steps)
        await asyncio.sleep(1)
        await steps.rest(CliqueSetReconciler, SET)
        assert not (await steps.get(kinds.CLIQUESETS, SET))["status"].get("lastErrors")
        there = await steps.get(kinds.CLIQUES, CLIQUE)
        assert there["metadata"]["labels"][labels.POD_GANG] == GANG

    run_steps(story)


# What it says ---------------------------------------------------------------------------------------------


def test_a_replica_counts_as_available_once_its_cliques_say_that_their_pods_are_ready() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(WORKERS)
        await steps.rest(CliqueSetReconciler, SET)
        assert (await steps.get(kinds.CLIQUESETS, SET))["status"]["availableReplicas"] == 0
        await steps.run_pods()
        await steps.rest(CliqueReconciler, CLIQUE)
        await steps.rest(CliqueSetReconciler, SET)
        assert (await steps.get(kinds.CLIQUESETS, SET))["status"]["availableReplicas"] == 1

    run_steps(story)


def test_pods_of_a_replica_below_its_minimum_for_too_long_are_deleted_and_the_countdown_is_said() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(
            make.cliqueset_manifest(SET, {"worker": 2}, template={"terminationDelay": "60s"})
        )
        await steps.run_pods()
        await steps.rest(CliqueReconciler, CLIQUE)
        first, *_ = await steps.names(kinds.PODS)
        main = {
            "name": "main",
            "started": True,
            "ready": False,
            "image": "",
            "imageID": "",
            "restartCount": 0,
        }
        broken = {"conditions": [{"type": "Ready", "status": "False"}], "containerStatuses": [main]}
        await steps.status(kinds.PODS, first, broken)
        await steps.rest(CliqueReconciler, CLIQUE)
        outcome = await look(steps)
        assert isinstance(outcome, After)
        await asyncio.sleep(outcome.seconds)
        outcome = await look(steps)
        assert isinstance(outcome, After)
        assert (await told(steps, conditions.GANG_TERMINATION_PENDING))[0] == "True"
        assert len(await steps.names(kinds.PODS)) == 2
        await asyncio.sleep(outcome.seconds)
        await look(steps)
        assert await steps.names(kinds.PODS) == []

    run_steps(story)
