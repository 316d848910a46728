"""What `maxUnavailable` and `maxSurge` allow, when templates and limits change in the middle of an update."""

import asyncio
import copy
from collections.abc import Iterator

import pytest
from tests.scenarios.test_update_attacks import down
from tests.scenarios.updating import ROLLING, Rollout, play, shape

from grove.meta import Manifest

SURGE = {**ROLLING, "rollingRecreate": {"maxUnavailable": 0, "maxSurge": 1}}


def limited(most: int) -> Manifest:
    return {**ROLLING, "rollingRecreate": {"maxUnavailable": most}}


def never_ready(manifest: Manifest, version: str) -> Manifest:
    """The set with a template whose pods never become ready."""
    changed = copy.deepcopy(manifest)
    for role in changed["spec"]["template"]["cliques"]:
        role["annotations"] = {"embedded.grove.io/startup": "1s", "embedded.grove.io/not-ready": "true"}
        role["spec"]["podSpec"]["containers"][0]["env"] = [{"name": "UPDATE_TRIGGER", "value": version}]
    return changed


def turns(rollout: Rollout) -> list[int]:
    return [each["replicaIndex"] for each in rollout.progress.get("currentlyUpdating") or ()]


@pytest.mark.parametrize("then", ["corrected", "taken back"])
def test_a_surplus_replica_that_never_got_ready_takes_the_next_template_and_the_update_ends(
    then: str,
) -> None:
    async def story(rollout: Rollout) -> None:
        first = shape((1, 1), (1, 1), (1, 1), replicas=2, strategy=SURGE)
        await rollout.start(first, 6, nodes=12)
        before = rollout.uids()
        rollout.manifest = never_ready(first, "2")
        await rollout.apply()
        await rollout.until(lambda: len(rollout.pods("wl-2-")) == 3, "there is a surplus replica")
        await rollout.stays(lambda: before <= rollout.uids())
        rollout.manifest = first
        if then == "taken back":
            await rollout.apply()
            await rollout.until(lambda: rollout.uids() == before, "the surplus replica is gone")
            return
        await rollout.change(to="3")
        await rollout.finish(6, to="3")

    play(story)


def worst(rollout: Rollout, replicas: int, size: int, after: int) -> int:
    """The most replicas that were down at once since a version of the cluster."""

    def numbers() -> Iterator[int]:
        for pods in rollout.moments():
            newest = max((int(pod["metadata"]["resourceVersion"]) for pod in pods), default=0)
            if newest > after:
                yield len(down(rollout, pods, replicas=replicas, size=size))

    return max(numbers(), default=0)


def test_turns_beyond_a_limit_that_was_lowered_are_put_off_until_others_are_over() -> None:
    async def story(rollout: Rollout) -> None:
        first = shape((3, 3), (1, 1), (1, 1), replicas=3, strategy=limited(3))
        for role in first["spec"]["template"]["cliques"]:
            role["annotations"] = {"embedded.grove.io/startup": "20s"}
        await rollout.start(first, 15, nodes=24)
        await rollout.change("pc-a")
        await rollout.until(lambda: len(turns(rollout)) == 3, "three replicas have their turn")
        await rollout.until_touched(0)
        await rollout.change("pc-a", updateStrategy=limited(1))
        # What was down when the limit was lowered is back after that time.
        await asyncio.sleep(25)
        since = max(seen.version for seen in rollout.scene.ledger.history)
        await rollout.finish(15, roles=("pc-a",))
        assert worst(rollout, 3, 5, since) == 1

    play(story)
