"""What people, other tenants and bad luck do to an update in its middle: it ends, or says why not."""

import asyncio
import copy
from typing import Any

import pytest
from tests.scenarios.kstatus import CURRENT, IN_PROGRESS, kstatus, waited_for
from tests.scenarios.stories import condition_of
from tests.scenarios.updating import (
    NAME,
    ON_DELETE,
    REVISIONS,
    ROLLING,
    Rollout,
    clique_of,
    is_ready,
    play,
    shape,
    version_of,
    wl1,
    wl_od,
)

from grove.api import kinds, labels
from grove.meta import Key, Manifest

PAUSED = {"grove.io/update-paused": "true"}


def small(replicas: int, **strategy: Any) -> Manifest:
    """Three pods, each of a clique of its own, of which nothing may be missing."""
    made = shape((1, 1), (1, 1), (1, 1), replicas=replicas)
    if strategy:
        made["spec"]["updateStrategy"] = {**ROLLING, "rollingRecreate": strategy}
    return made


def down(rollout: Rollout, pods: list[Manifest], *, replicas: int, size: int = 3) -> set[int]:
    """The replicas of which something is missing."""
    ready = dict.fromkeys(range(replicas), 0)
    for pod in pods:
        index = int(clique_of(pod).split("-")[1])
        if index in ready:
            ready[index] += is_ready(pod)
    return {index for index, number in ready.items() if number < size}


def test_a_pod_of_a_template_that_was_given_up_under_on_delete_is_replaced_once_the_set_rolls_again() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(wl_od(), 10)
        await rollout.change("pc-a")
        await rollout.until(rollout.is_observed, "the set has seen it")
        await rollout.lose(f"{NAME}-0-pc-a")
        await rollout.until_ready(10)
        assert sorted(rollout.versions("pc-a")) == ["", "2"]
        await rollout.change("pc-a", to="")
        await rollout.until(rollout.is_observed, "the set has seen it")
        await asyncio.sleep(10)
        await rollout.change("pc-a", to="", updateStrategy=ROLLING)
        await rollout.finish(10, to="", roles=("pc-a",))

    play(story)


def test_a_template_that_was_given_up_under_on_delete_costs_no_pod_when_the_set_rolls_again() -> None:
    """Replicas get the first template back in their turns, and until then their cliques ask for the second."""

    async def story(rollout: Rollout) -> None:
        await rollout.start(wl_od(), 10)
        before = rollout.uids()
        await rollout.change()
        await rollout.until(rollout.is_observed, "the set has seen it")
        await asyncio.sleep(10)
        await rollout.change(to="", updateStrategy=ROLLING)
        await rollout.finish(10, to="")
        assert rollout.uids() == before

    play(story)


def test_an_update_that_waits_for_a_surplus_replica_says_so() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(small(2, maxUnavailable=0, maxSurge=1), 6)
        before = rollout.uids()
        await rollout.change()

        def said_why() -> bool:
            why = rollout.scene.said(f"{NAME}-2")
            return "0/6 nodes" in why and why in rollout.told.get("message", "")

        await rollout.until(said_why, "the set says that its surplus replica has no room")
        await rollout.stays(lambda: before <= rollout.uids())
        # Whoever waits for the update must not take the pods that it has not reached for its end.
        (stalled,) = rollout.scene.ledger.all(kinds.CLIQUESETS)
        assert kstatus(stalled) == IN_PROGRESS
        assert not waited_for(stalled)
        assert waited_for(stalled, "Available")
        await rollout.scene.nodes(0)
        for index in range(6, 9):
            await rollout.scene.node(f"node-{index}")
        await rollout.finish(6)
        (done,) = rollout.scene.ledger.all(kinds.CLIQUESETS)
        assert kstatus(done) == CURRENT

    play(story)


def test_no_more_surplus_replicas_are_made_than_can_be_of_use() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(small(2, maxSurge=500), 6, nodes=18)
        await rollout.change()
        await rollout.finish(6)
        made = {clique_of(seen.object).split("-")[1] for seen in rollout.history()}
        assert made == {"0", "1", "2", "3"}

    play(story)


def test_a_replica_that_lost_all_of_its_pods_counts_as_down() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(small(3), 9)
        # The three nodes of replica 0 are gone for good.
        for pod in rollout.pods(f"{NAME}-0-"):
            await rollout.cordon_one(pod["spec"]["nodeName"])
        for pod in rollout.pods(f"{NAME}-0-"):
            await rollout.scene.delete(kinds.PODS, pod["metadata"]["name"])
        await rollout.until(lambda: rollout.scene.waiting(f"{NAME}-0"), "replica 0 waits for nodes")
        await rollout.change()
        await rollout.until(lambda: "replica 0 must be" in rollout.told.get("message", ""), "it says so")
        await rollout.stays(lambda: down(rollout, rollout.pods(), replicas=3) == {0})
        await rollout.cordon(usable=True)
        await rollout.finish(9)

    play(story)


def test_a_template_that_fits_nowhere_takes_one_replica_down_whatever_the_strategy_was_in_between() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(small(3), 9)
        await rollout.cordon()
        await rollout.change()
        await rollout.until(lambda: not any(map(is_ready, rollout.pods(f"{NAME}-0-"))), "replica 0 is down")
        await rollout.change(updateStrategy=ON_DELETE)
        await rollout.until(rollout.is_observed, "the set has seen it")
        await asyncio.sleep(10)
        await rollout.change(updateStrategy=ROLLING)
        await rollout.until(rollout.is_observed, "the set has seen it")
        await rollout.stays(lambda: down(rollout, rollout.pods(), replicas=3) == {0})
        await rollout.cordon(usable=True)
        await rollout.finish(9)

    play(story)


def test_a_gang_that_is_deleted_before_its_replica_has_its_turn_stays_on_its_template() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(small(2), 6)
        await rollout.cordon()
        await rollout.change()
        await rollout.until_touched(0)
        await rollout.scene.delete(kinds.GANGS, f"{NAME}-1")
        await rollout.until(lambda: rollout.scene.phase(f"{NAME}-1") == "Running", "the gang is back")
        await rollout.lose(f"{NAME}-1-pc-a")
        await rollout.until(lambda: len(rollout.pods(f"{NAME}-1-")) == 3, "the pod is replaced")
        await rollout.stays(lambda: set(map(version_of, rollout.pods(f"{NAME}-1-"))) == {""})
        await rollout.cordon(usable=True)
        await rollout.finish(6)

    play(story)


def foreign_revision(rollout: Rollout, name: str, **fields: Any) -> Manifest:
    marks = {**labels.owned_by(NAME), labels.COMPONENT: labels.COMPONENT_TEMPLATE_REVISION}
    metadata = {"name": name, "namespace": rollout.scene.namespace, "labels": marks}
    return {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata, **fields}


@pytest.mark.parametrize("number", [7, 2**63 - 1])
def test_a_record_that_somebody_else_made_does_not_keep_a_set_from_being_updated(number: int) -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(small(2), 6)
        made = foreign_revision(rollout, f"{NAME}-zzz", revision=number, data={"spec": {}})
        await rollout.scene.user.create(REVISIONS, made)
        await rollout.change()
        await rollout.finish(6)

    play(story)


def test_a_record_that_somebody_replaces_under_its_name_is_not_believed() -> None:
    """Who may write ControllerRevisions, and neither sets nor pods, must not decide what pods run."""

    async def story(rollout: Rollout) -> None:
        await rollout.start(small(2), 6)
        scene, image = rollout.scene, {each["spec"]["containers"][0]["image"] for each in rollout.pods()}
        (old,) = scene.ledger.all(REVISIONS)
        key = Key(scene.namespace, NAME)
        await scene.user.merge_patch(kinds.CLIQUESETS, key, {"metadata": {"annotations": PAUSED}})
        await rollout.change()
        await asyncio.sleep(10)
        name = old["metadata"]["name"]
        await scene.delete(REVISIONS, name)
        forged = foreign_revision(rollout, name, revision=old["revision"], data=copy.deepcopy(old["data"]))
        for role in forged["data"]["spec"]["template"]["cliques"]:
            role["spec"]["podSpec"]["containers"][0]["image"] = "registry.example/forged:1"
        await scene.user.create(REVISIONS, forged)
        await rollout.restart()
        await asyncio.sleep(15)
        told = condition_of(rollout.cliqueset, "Degraded").get("message", "")
        assert told.startswith(f"ControllerRevision {name} does not hold the template that it is named for")
        await rollout.lose(f"{NAME}-1-pc-a")
        await rollout.until(lambda: len(rollout.pods()) == 6, "the pod is replaced")
        assert {each["spec"]["containers"][0]["image"] for each in rollout.pods()} == image
        resumed = {"metadata": {"annotations": {labels.UPDATE_PAUSED: None}}}
        await scene.user.merge_patch(kinds.CLIQUESETS, key, resumed)
        await rollout.finish(6)
        assert "Degraded" not in {each["type"] for each in rollout.status["conditions"]}

    play(story)


def test_an_update_whose_template_cannot_be_recorded_says_why_it_does_not_begin() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(small(2), 6)
        await rollout.change()
        await rollout.finish(6)
        wanted = next(
            each["metadata"]["name"]
            for each in rollout.scene.ledger.all(REVISIONS)
            if each["metadata"]["name"].endswith(rollout.status["currentGenerationHash"])
        )
        await rollout.change(to="")
        await rollout.finish(6, to="")
        # Somebody else takes the name of the record that is needed next.
        await rollout.scene.delete(REVISIONS, wanted)
        foreign = foreign_revision(rollout, wanted, revision=1)
        foreign["metadata"]["labels"] = {}
        await rollout.scene.user.create(REVISIONS, foreign)
        before = rollout.uids()
        await rollout.change()
        await rollout.until(
            lambda: wanted in rollout.told.get("message", ""), "the set says what is in the way"
        )
        await rollout.stays(lambda: rollout.uids() == before)
        await rollout.scene.delete(REVISIONS, wanted)
        await rollout.finish(6)

    play(story)


def test_a_set_with_a_clique_below_its_minimum_says_why_its_update_does_not_go_on() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(shape((2, 2), (1, 1), (1, 1), replicas=1), 4)
        await rollout.scale_role(1, count=1)
        await rollout.until(lambda: len(rollout.pods(f"{NAME}-0-pc-a")) == 1, "the clique is scaled in")
        await rollout.change("pc-a")
        said = (
            "0 of 1 replica updated, 0 of them available; replica 0 is being updated: "
            "gang wl-0: clique wl-0-pc-a is scaled to 1, the gang needs 2"
        )
        await rollout.until(lambda: rollout.told.get("message") == said, "it says why", seconds=60)
        await rollout.stays(lambda: rollout.told["message"] == said)
        await rollout.scale_role(2, count=1)
        await rollout.finish(4, roles=("pc-a",))

    play(story)


def test_a_template_whose_pods_never_become_ready_stops_at_one_pod_and_is_undone_there() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(small(3), 9)
        before = rollout.uids()
        for role in rollout.manifest["spec"]["template"]["cliques"]:
            role["annotations"]["embedded.grove.io/startup"] = "100h"
        await rollout.change("pc-a", "pc-b", "pc-c")
        await rollout.until_touched(0)
        await rollout.stays(lambda: down(rollout, rollout.pods(), replicas=3) <= {0})
        assert "replica 0 is being updated: " in rollout.told["message"]
        for role in rollout.manifest["spec"]["template"]["cliques"]:
            role["annotations"]["embedded.grove.io/startup"] = "1s"
        await rollout.change("pc-a", "pc-b", "pc-c", to="")
        await rollout.finish(9, to="")
        kept = [pod for pod in rollout.pods() if clique_of(pod).split("-")[1] != "0"]
        assert {pod["metadata"]["uid"] for pod in kept} <= before

    play(story)


def test_a_set_that_is_scaled_to_zero_is_updated_at_once_and_comes_back_new() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(small(2), 6)
        await rollout.scale_set(0)
        await rollout.until(lambda: rollout.pods() == [], "there are no pods")
        await rollout.change()
        await rollout.until(rollout.is_finished, "the update is over")
        await rollout.change(to="3")
        await rollout.until(rollout.is_finished, "the update is over")
        await rollout.scale_set(2)
        await rollout.finish(6, to="3")

    play(story)


def test_a_group_that_is_scaled_to_zero_is_updated_with_its_replica_and_comes_back_new() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(small(2), 6)
        await rollout.scale_groups(0)
        await rollout.until_ready(2)
        await rollout.change()
        await rollout.finish(2)
        await rollout.scale_groups(1)
        await rollout.finish(6)

    play(story)


def test_records_that_are_deleted_in_the_middle_of_an_update_restart_nothing_more() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(small(3), 9)
        await rollout.change()
        await rollout.until_touched(0)
        for each in rollout.scene.ledger.all(REVISIONS):
            await rollout.scene.delete(REVISIONS, each["metadata"]["name"])
        await rollout.finish(9)
        rollout.assert_gently()

    play(story)


def test_scaling_in_and_out_with_a_surge_ends_with_the_new_template_everywhere() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(small(3, maxUnavailable=0, maxSurge=1), 9, nodes=15)

        def whole() -> list[int]:
            """How many replicas served at each moment, the surplus one too."""
            return [5 - len(down(rollout, pods, replicas=5)) for pods in rollout.moments()]

        await rollout.change()
        await rollout.until_touched(0)
        scaled_in = len(whole())
        await rollout.scale_set(2)
        await rollout.until(rollout.is_observed, "the set has seen it")
        scaled_out = len(whole())
        await rollout.scale_set(4)
        await rollout.finish(12)
        assert min(whole()[:scaled_in]) == 3
        assert min(whole()[scaled_in:]) == 2
        grown = whole()[scaled_out:]
        assert min(grown[grown.index(4) :]) == 4

    play(story)


@pytest.mark.parametrize("again", [False, True], ids=["one update", "a second one meanwhile"])
def test_an_update_goes_on_when_the_replica_of_a_group_that_it_has_chosen_is_scaled_away(again: bool) -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(wl1(2, group=(3, 2)), 28)
        group = f"{NAME}-0-sg-x"

        def chosen() -> int | None:
            found = rollout.scene.ledger.get(kinds.SCALING_GROUPS, group) or {}
            progress = found.get("status", {}).get("updateProgress") or {}
            selected = progress.get("readyReplicaIndicesSelectedToUpdate") or {}
            return None if progress.get("updateEndedAt") else selected.get("current")

        await rollout.change()
        await rollout.until(
            lambda: chosen() == 2 and not any(map(is_ready, rollout.pods(f"{group}-2-"))),
            "the last replica of the group was chosen, and is down",
        )
        await rollout.cordon()
        if again:
            await rollout.change(to="3")
            await rollout.until(rollout.is_observed, "the set has seen it")
        assert chosen() == 2
        await rollout.scale_groups(2)
        await rollout.until(lambda: not rollout.pods(f"{group}-2-"), "the replica is scaled away")
        await rollout.cordon(usable=True)
        await rollout.finish(20, to="3" if again else "2")
        rollout.assert_gently()

    play(story)


@pytest.mark.parametrize("role", ["pc-a", "pc-b"])
def test_a_gang_below_its_minimum_is_recycled_while_its_update_is_paused(role: str) -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(shape((2, 2), (1, 1), (2, 2), replicas=1, terminationDelay="60s"), 6)
        await rollout.change(role)
        await rollout.until(lambda: len(set(rollout.versions(role))) == 2, "half of its pods are new")
        await rollout.scene.edit(kinds.CLIQUESETS, NAME, {"metadata": {"annotations": PAUSED}})
        await rollout.until_ready(6)
        await rollout.cordon()
        clique = f"{NAME}-0-pc-a" if role == "pc-a" else f"{NAME}-0-sg-x-1-pc-c"
        lost = await rollout.lose(clique)
        survivors = rollout.uids() - {lost["metadata"]["uid"]}
        await rollout.until(
            lambda: bool(condition_of(rollout.cliqueset, "GangTerminationPending")), "it counts down"
        )
        await rollout.until(lambda: not survivors & rollout.uids(), "the replica is recycled", seconds=90)

    play(story)
