"""RU7 to RU21 of the incumbent's end-to-end tests, and what else a rolling update must and must not do."""

import asyncio
from typing import Any

import pytest
from tests.e2e.judges import JUDGES
from tests.scenarios.stories import condition_of
from tests.scenarios.update_stories import RU
from tests.scenarios.updating import (
    NAME,
    ON_DELETE,
    REVISIONS,
    ROLLING,
    Rollout,
    clique_of,
    edited,
    is_ready,
    play,
    shape,
    version_of,
    wl1,
    wl_od,
)

from grove.api import kinds, labels
from grove.api.event import EVENTS
from grove.meta import Manifest

PAUSED = "grove.io/update-paused"


@pytest.mark.parametrize("name", RU)
def test_a_set_is_updated_step_by_step(name: str) -> None:
    assert RU[name].__doc__
    play(RU[name])


@pytest.mark.parametrize("judge", [judge for judge in JUDGES if judge != "1.36"])
@pytest.mark.parametrize("name", ["RU7", "RU8", "RU9", "RU10"])
def test_so_it_is_with_every_scheduler(name: str, judge: str) -> None:
    assert judge in JUDGES
    play(RU[name], judge)


def small(replicas: int, **strategy: Any) -> Manifest:
    """Two pods and a group of two, of which nothing may be missing."""
    made = shape((1, 1), (1, 1), (1, 1), replicas=replicas)
    if strategy:
        made["spec"]["updateStrategy"] = {**ROLLING, "rollingRecreate": strategy}
    return made


async def annotate(rollout: Rollout, key: str, value: str | None) -> None:
    await rollout.scene.edit(kinds.CLIQUESETS, NAME, {"metadata": {"annotations": {key: value}}})


# Replicas whose turn has not come -------------------------------------------------------------------


def test_a_pod_that_dies_in_a_replica_whose_turn_has_not_come_is_replaced_from_the_old_template() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(wl1(2), 20)
        await rollout.cordon()
        await rollout.change()
        await rollout.until_touched(0)
        await rollout.lose(f"{NAME}-1-pc-a")
        await rollout.until(lambda: len(rollout.pods(f"{NAME}-1-")) == 10, "the pod is replaced")
        await rollout.stays(lambda: set(map(version_of, rollout.pods(f"{NAME}-1-"))) == {""})
        await rollout.cordon(usable=True)
        await rollout.finish(20)

    play(story)


def test_the_templates_that_replicas_follow_are_kept_as_controller_revisions() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(wl1(2), 20)
        first = rollout.scene.ledger.all(REVISIONS)
        assert [each["metadata"]["labels"][labels.PART_OF] for each in first] == [NAME]
        await rollout.cordon()
        await rollout.change()
        await rollout.until_touched(0)
        kept = rollout.scene.ledger.all(REVISIONS)
        assert len(kept) == 2
        newest = max(kept, key=lambda each: each["revision"])
        assert newest["metadata"]["uid"] != first[0]["metadata"]["uid"]
        (variable,) = newest["data"]["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0][
            "env"
        ]
        assert variable["value"] == "2"
        # What was recorded stays as it was.
        assert [each["data"] for each in kept if each != newest] == [first[0]["data"]]

    play(story)


def test_the_operator_may_die_at_any_time_and_the_next_one_goes_on_with_the_same_replica() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(wl1(2), 20)
        await rollout.change()
        await rollout.until_touched(0)
        await rollout.restart()
        await rollout.until_touched(1)
        await rollout.restart()
        await rollout.finish(20)
        rollout.assert_gently()

    play(story)


# Changes of mind ------------------------------------------------------------------------------------


def test_a_second_update_during_the_first_is_followed_and_no_replica_is_left_with_the_first() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(wl1(3), 30)
        began = rollout.began
        await rollout.change()
        await rollout.until_touched(1)
        await rollout.change(to="3")
        await rollout.finish(30, to="3")
        # The last replica never had the template that was given up.
        rollout.began = began
        given_up = [seen.object for seen in rollout.history() if version_of(seen.object) == "2"]
        assert {clique_of(pod).split("-")[1] for pod in given_up} <= {"0", "1"}

    play(story)


def test_a_revert_restarts_only_what_was_restarted_for_the_change() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(wl1(3), 30)
        before = rollout.uids()
        await rollout.change()
        await rollout.until_touched(0)
        await rollout.until(lambda: "2" in rollout.versions(), "pods are replaced")
        renewed = {pod["spec"]["hostname"] for pod in rollout.pods() if version_of(pod) == "2"}
        await rollout.change(to="")
        await rollout.finish(30, to="")
        assert renewed
        restarted = {
            pod["spec"]["hostname"] for pod in rollout.pods() if pod["metadata"]["uid"] not in before
        }
        assert renewed <= restarted
        untouched = {
            pod["metadata"]["uid"] for pod in rollout.pods() if not clique_of(pod).startswith(f"{NAME}-0-")
        }
        assert untouched <= before
        assert len(untouched) == 20

    play(story)


def test_on_delete_stops_an_update_at_once_and_rolling_recreate_goes_on_with_it() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(wl1(2), 20)
        await rollout.change()
        await rollout.until_touched(0)
        await rollout.change(updateStrategy=ON_DELETE)
        await rollout.until(rollout.is_observed, "the set has seen it")
        await rollout.until_ready(20)
        stopped = rollout.uids()
        assert "" in rollout.versions()
        assert rollout.progress["updateEndedAt"]
        assert not rollout.progress.get("currentlyUpdating")
        await rollout.stays(lambda: rollout.uids() == stopped)
        await rollout.change(updateStrategy=ROLLING)
        await rollout.finish(20)
        rollout.assert_gently()

    play(story)


def test_pods_that_are_outdated_under_on_delete_are_replaced_when_the_strategy_changes() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(wl_od(), 10)
        before = rollout.uids()
        await rollout.change("pc-a")
        await rollout.until(rollout.is_observed, "the set has seen it")
        await rollout.stays(lambda: rollout.uids() == before)
        others = rollout.uids_of("pc-b", "pc-c")
        await rollout.change("pc-a", updateStrategy=ROLLING)
        await rollout.finish(10, roles=("pc-a",))
        assert rollout.uids() & before == others
        rollout.assert_gently()

    play(story)


def test_a_pause_takes_nothing_more_down_until_it_ends() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(wl1(2), 20)
        await rollout.change()
        await rollout.until_touched(0)
        await annotate(rollout, PAUSED, "true")
        await rollout.until(lambda: rollout.told.get("reason") == "Paused", "the set says that it is paused")
        await rollout.until_ready(20)
        paused = rollout.uids()
        assert "" in rollout.versions()
        assert not rollout.is_touched(1)
        assert PAUSED in rollout.told["message"]
        await rollout.stays(lambda: rollout.uids() == paused)
        assert not rollout.is_finished()
        await annotate(rollout, PAUSED, None)
        await rollout.finish(20)
        rollout.assert_gently()

    play(story)


def test_an_update_that_was_paused_before_it_began_begins_when_the_pause_ends() -> None:
    async def story(rollout: Rollout) -> None:
        manifest = wl1()
        manifest["metadata"]["annotations"] = {PAUSED: "true"}
        await rollout.start(manifest, 10)
        before = rollout.uids()
        await rollout.change()
        await rollout.until(lambda: rollout.told.get("reason") == "Paused", "the set says that it is paused")
        await rollout.stays(lambda: rollout.uids() == before)
        await annotate(rollout, PAUSED, "false")
        await rollout.finish(10)

    play(story)


# How many at a time ---------------------------------------------------------------------------------


def whole(rollout: Rollout, pods: list[Manifest], size: int = 3) -> set[str]:
    """The replicas of the set of which nothing is missing."""
    found: dict[str, int] = {}
    for pod in pods:
        replica = clique_of(pod).split("-")[1]
        found[replica] = found.get(replica, 0) + is_ready(pod)
    return {replica for replica, number in found.items() if number >= size}


UNAVAILABLE = {"two": (2, 2), "half": ("50%", 2), "less than one is one": ("10%", 1), "all": ("100%", 4)}


@pytest.mark.parametrize(("limit", "number"), UNAVAILABLE.values(), ids=UNAVAILABLE)
def test_so_many_replicas_are_updated_at_a_time(limit: int | str, number: int) -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(small(4, maxUnavailable=limit), 12)
        await rollout.change()
        await rollout.finish(12)
        fewest = min(len(whole(rollout, pods)) for pods in rollout.moments())
        assert fewest == 4 - number
        at_once = [
            len((seen.object["status"].get("updateProgress") or {}).get("currentlyUpdating", ()))
            for seen in rollout.scene.ledger.of(kinds.CLIQUESETS)
            if "status" in seen.object
        ]
        assert max(at_once) == number

    play(story)


def test_a_replica_is_whole_again_before_the_next_one_is_taken_down() -> None:
    async def story(rollout: Rollout) -> None:
        # Half of everything is enough for the gang, and not for going on.
        await rollout.start(shape((2, 1), (3, 1), (2, 1), replicas=2), 20)
        await rollout.change()
        await rollout.finish(20)
        rollout.assert_gently()

    play(story)


def test_a_law_about_updates_that_is_broken_is_found() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(small(4, maxUnavailable=2), 12)
        await rollout.change()
        await rollout.finish(12)
        with pytest.raises(AssertionError, match="more than one replica of the set was down"):
            rollout.assert_gently()
        # Seen from before, every pod was replaced twice.
        await rollout.change(to="3")
        await rollout.finish(12, to="3")
        await rollout.change(to="2")
        await rollout.finish(12)
        rollout.began = 0
        with pytest.raises(AssertionError, match="replaced more than once"):
            rollout.assert_deleted_first()

    play(story)


def test_a_surge_keeps_every_replica_available_and_leaves_none_behind() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(small(2, maxUnavailable=0, maxSurge=1), 6, nodes=9)
        await rollout.change()
        await rollout.finish(6)
        assert min(len(whole(rollout, pods)) for pods in rollout.moments()) == 2
        most = max(len({clique_of(pod).split("-")[1] for pod in pods}) for pods in rollout.moments())
        assert most == 3
        assert {clique_of(pod).split("-")[1] for pod in rollout.pods()} == {"0", "1"}

    play(story)


def test_a_replica_that_is_broken_already_has_its_turn_first() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(small(3), 9)
        # Replica 2 lost a node for good.
        lost = next(pod for pod in rollout.pods(f"{NAME}-2-pc-a"))
        await rollout.cordon_one(lost["spec"]["nodeName"])
        await rollout.lose(f"{NAME}-2-pc-a")
        await rollout.until(lambda: len(rollout.pods()) == 9, "the pod is replaced and waits")
        await rollout.change()
        await rollout.until_touched(2)
        assert not rollout.is_touched(0)
        assert not rollout.is_touched(1)
        await rollout.cordon(usable=True)
        await rollout.finish(9)

    play(story)


# What is said meanwhile -----------------------------------------------------------------------------


def test_the_set_says_which_replica_is_updated_and_how_far_it_is() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(wl1(2), 20)
        assert rollout.told == {}
        await rollout.change()
        messages: dict[str, None] = {}

        def ended() -> bool:
            if rollout.told.get("status") == "True":
                assert rollout.told["reason"] == "RollingRecreate"
                messages[rollout.told["message"]] = None
            return rollout.is_finished()

        await rollout.until(ended, "the update ends")
        assert any("replica 0" in each and "0 of 2" in each for each in messages)
        assert any("replica 1" in each and "1 of 2" in each for each in messages)
        await rollout.finish(20)

    play(story)


def test_an_update_is_no_breach_and_ends_no_gang() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(wl1(terminationDelay="5s"), 10)
        survivors = rollout.uids_of("pc-b", "pc-c")
        await rollout.cordon()
        await rollout.change("pc-a")
        await rollout.until_touched(0)
        breached = ("Unknown", "UpdateInProgress")

        def unknown() -> bool:
            told = condition_of(rollout.clique(f"{NAME}-0-pc-a"), "MinAvailableBreached")
            return (told.get("status"), told.get("reason")) == breached

        await rollout.until(unknown, "the clique says that it is being updated")
        # The replacement waits for much longer than a loss may last.
        await rollout.stays(lambda: survivors <= rollout.uids())
        await rollout.cordon(usable=True)
        await rollout.finish(10, roles=("pc-a",))
        reasons = {each["reason"] for each in await rollout.scene.user.list_all(EVENTS, type=dict)}
        assert not {each for each in reasons if each.endswith("DeleteSuccessful")}

    play(story)


def test_an_edit_that_changes_no_template_starts_no_update() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(wl1(), 10)
        before = rollout.uids()
        rollout.manifest["spec"]["template"]["terminationDelay"] = "1h"
        await rollout.change(to="")
        await rollout.until(rollout.is_observed, "the set has seen it")
        await rollout.stays(lambda: rollout.uids() == before)
        assert rollout.told == {}
        assert rollout.status["updatedReplicas"] == 1

    play(story)


def test_quick_changes_end_with_the_last() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(wl1(), 10)
        for number in range(2, 12):
            rollout.manifest = edited(rollout.manifest, ("pc-a", "pc-b", "pc-c"), str(number))
            await rollout.apply()
            await asyncio.sleep(0.3)
        await rollout.finish(10, to="11")

    play(story)
