"""How one scaling group is kept: it says how far its replicas are, and makes nothing."""

import pytest
from tests.controllers.steps import Steps, condition, run_steps

from grove.api import conditions, kinds, labels
from grove.controllers.clique import CliqueReconciler
from grove.controllers.cliqueset import CliqueSetReconciler
from grove.controllers.scaling_group import ScalingGroupReconciler
from grove.errors import Conflict, Forbidden
from grove.meta import Manifest
from grove.runtime.outcome import DONE, After
from grove.testing import make

GROUP = "train-0-decode"
SET = make.cliqueset_manifest(
    "train", {"worker": 1}, groups=[make.scaling_group("decode", ["worker"], replicas=2)]
)


def group(**metadata: object) -> Manifest:
    """A scaling group that no set made."""
    return {
        "apiVersion": kinds.SCALING_GROUPS.api_version,
        "kind": kinds.SCALING_GROUPS.kind,
        "metadata": {"name": GROUP, "namespace": "default", **metadata},
        "spec": {"replicas": 1, "minAvailable": 1, "cliqueNames": ["worker"]},
    }


async def status(steps: Steps) -> Manifest:
    found: Manifest = (await steps.get(kinds.SCALING_GROUPS, GROUP)).get("status") or {}
    return found


async def running(steps: Steps) -> None:
    """Both replicas run, and their cliques say so."""
    await steps.gang_with_pods(SET)
    await steps.run_pods()
    for clique in await steps.names(kinds.CLIQUES):
        await steps.rest(CliqueReconciler, clique)
    steps.writes()


def test_it_counts_the_replicas_whose_cliques_are_placed_and_ready() -> None:
    async def story(steps: Steps) -> None:
        await running(steps)
        await steps.rest(ScalingGroupReconciler, GROUP)
        told = await status(steps)
        assert [told[name] for name in ("replicas", "scheduledReplicas", "availableReplicas")] == [2, 2, 2]
        assert condition(await steps.get(kinds.SCALING_GROUPS, GROUP), "Ready")["status"] == "True"

    run_steps(story)


def test_it_writes_nothing_but_its_status_and_that_once() -> None:
    async def story(steps: Steps) -> None:
        await running(steps)
        await steps.rest(ScalingGroupReconciler, GROUP)
        assert steps.writes() == ["patch podcliquescalinggroups/status"]
        assert await steps.look(ScalingGroupReconciler, GROUP) == DONE
        assert steps.writes() == []

    run_steps(story)


def test_cliques_that_another_group_of_its_name_owned_are_not_counted() -> None:
    async def story(steps: Steps) -> None:
        await running(steps)
        await steps.delete(kinds.SCALING_GROUPS, GROUP)
        set_uid = (await steps.get(kinds.CLIQUESETS, "train"))["metadata"]["uid"]
        owner = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "train", "uid": set_uid}
        marks = {**labels.owned_by("train"), labels.SET_REPLICA_INDEX: "0"}
        await steps.create(kinds.SCALING_GROUPS, group(labels=marks, ownerReferences=[owner]))
        await steps.rest(ScalingGroupReconciler, GROUP)
        told = await status(steps)
        assert (told["scheduledReplicas"], told["availableReplicas"]) == (0, 0)

    run_steps(story)


def test_while_none_of_its_replicas_is_placed_the_status_may_wait_for_those_of_its_pods() -> None:
    async def story(steps: Steps) -> None:
        await steps.gang_with_pods(SET)
        outcome = await steps.look(ScalingGroupReconciler, GROUP)
        assert isinstance(outcome, After)
        assert await status(steps) == {}

    run_steps(story)


def test_a_group_that_carries_no_label_of_a_set_is_left_alone() -> None:
    async def story(steps: Steps) -> None:
        await steps.create(kinds.SCALING_GROUPS, group())
        assert await steps.look(ScalingGroupReconciler, GROUP) == DONE
        assert steps.writes() == []

    run_steps(story)


def test_one_whose_set_is_gone_still_says_how_far_it_is() -> None:
    async def story(steps: Steps) -> None:
        await steps.create(kinds.SCALING_GROUPS, group(labels=labels.owned_by("train")))
        await steps.rest(ScalingGroupReconciler, GROUP)
        assert (await status(steps))["replicas"] == 1

    run_steps(story)


def test_one_that_is_gone_needs_nothing() -> None:
    async def story(steps: Steps) -> None:
        assert await steps.look(ScalingGroupReconciler, GROUP) == DONE
        assert steps.writes() == []

    run_steps(story)


# One that goes --------------------------------------------------------------------------------------


async def going(steps: Steps, *finalizers: str) -> None:
    await steps.create(
        kinds.SCALING_GROUPS, group(labels=labels.owned_by("train"), finalizers=list(finalizers))
    )
    await steps.delete(kinds.SCALING_GROUPS, GROUP)


def test_a_group_that_goes_loses_the_finalizer_of_the_go_operator_and_nothing_else() -> None:
    async def story(steps: Steps) -> None:
        await going(steps, labels.SCALING_GROUP_FINALIZER, "example.com/keep")
        assert await steps.look(ScalingGroupReconciler, GROUP) == DONE
        left = await steps.get(kinds.SCALING_GROUPS, GROUP)
        assert left["metadata"]["finalizers"] == ["example.com/keep"]
        assert "status" not in left
        steps.writes()
        await steps.look(ScalingGroupReconciler, GROUP)
        assert steps.writes() == []

    run_steps(story)


def test_its_finalizer_stays_while_it_does_not_go() -> None:
    async def story(steps: Steps) -> None:
        marks, finalizers = labels.owned_by("train"), [labels.SCALING_GROUP_FINALIZER]
        await steps.create(kinds.SCALING_GROUPS, group(labels=marks, finalizers=finalizers))
        await steps.rest(ScalingGroupReconciler, GROUP)
        assert (await steps.get(kinds.SCALING_GROUPS, GROUP))["metadata"]["finalizers"] == finalizers

    run_steps(story)


def test_a_group_that_somebody_changed_meanwhile_is_not_written_on_old_knowledge() -> None:
    async def story(steps: Steps) -> None:
        await going(steps, labels.SCALING_GROUP_FINALIZER, "example.com/keep")

        async def another() -> None:
            patch = {"metadata": {"annotations": {"touched": "yes"}}}
            await steps.patch(kinds.SCALING_GROUPS, GROUP, patch)

        steps.meanwhile("PATCH", f"/{GROUP}", another)
        with pytest.raises(Conflict):
            await steps.look(ScalingGroupReconciler, GROUP)
        finalizers = (await steps.get(kinds.SCALING_GROUPS, GROUP))["metadata"]["finalizers"]
        assert labels.SCALING_GROUP_FINALIZER in finalizers, "it is taken off by the next look"

    run_steps(story)


def test_a_refused_write_is_raised_so_that_it_is_tried_again() -> None:
    async def story(steps: Steps) -> None:
        await going(steps, labels.SCALING_GROUP_FINALIZER)
        steps.forbid("PATCH", f"/{GROUP}")
        with pytest.raises(Forbidden):
            await steps.look(ScalingGroupReconciler, GROUP)

    run_steps(story)


def test_a_replica_that_has_its_turn_in_an_update_is_told_at_once() -> None:
    async def story(steps: Steps) -> None:
        await running(steps)
        await steps.rest(ScalingGroupReconciler, GROUP)
        await steps.rest(CliqueSetReconciler, "train")
        edited = make.cliqueset_manifest(
            "train",
            [make.template("worker", pod={"priorityClassName": "system-cluster-critical"})],
            groups=[make.scaling_group("decode", ["worker"], replicas=2)],
        )
        await steps.world.apply(edited)
        await steps.rest(CliqueSetReconciler, "train")
        steps.writes()
        await steps.look(ScalingGroupReconciler, GROUP)
        told = await status(steps)
        assert told["updateProgress"]
        assert steps.writes() == ["patch podcliquescalinggroups/status"], "the next replica waits for it"

    run_steps(story)


def test_errors_of_its_cliques_are_its_own() -> None:
    async def story(steps: Steps) -> None:
        await running(steps)
        error = {
            "code": "ERR_FORBIDDEN",
            "description": "exceeded quota",
            "observedAt": "2030-01-01T00:00:00Z",
        }
        (first, _) = await steps.names(kinds.CLIQUES)
        await steps.status(kinds.CLIQUES, first, {"lastErrors": [error]})
        await steps.rest(ScalingGroupReconciler, GROUP)
        told = await steps.get(kinds.SCALING_GROUPS, GROUP)
        assert "exceeded quota" in told["status"]["lastErrors"][0]["description"]
        assert condition(told, conditions.STALLED)["status"] == "True"

    run_steps(story)
