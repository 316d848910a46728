"""What a set says of its update, checked in every version that a watch told: clients of the incumbent rely on it."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from tests.scenarios.updating import NAME, ROLLING, Rollout, clique_of, is_going, play, wl1, wl_od

from grove.api import kinds, labels
from grove.embedded.faults import Fault
from grove.meta import Manifest
from grove.testing.world import OPERATOR

#: How long a status may speak of pods that have changed since; the throttle of status writes.
LATE = 2.0


def statuses(rollout: Rollout) -> Iterator[tuple[Manifest, list[Manifest], list[Manifest]]]:
    """Each status of the set since the change, with the cliques and the pods as they were then."""
    there: dict[object, dict[str, Manifest]] = {kinds.PODS: {}, kinds.CLIQUES: {}}
    for seen in sorted(rollout.scene.ledger.history, key=lambda each: each.version):
        if seen.resource in there:
            if seen.type == "DELETED":
                there[seen.resource].pop(seen.object["metadata"]["uid"], None)
            else:
                there[seen.resource][seen.object["metadata"]["uid"]] = seen.object
        elif seen.resource == kinds.CLIQUESETS and seen.version > rollout.began:
            progress = (seen.object.get("status") or {}).get("updateProgress")
            if progress:
                cliques, pods = (list(there[each].values()) for each in (kinds.CLIQUES, kinds.PODS))
                yield seen.object["status"], cliques, [pod for pod in pods if not is_going(pod)]


def outdated_replicas(cliques: list[Manifest], pods: list[Manifest]) -> set[int]:
    """The replicas of the set that have a pod of another template than that of its clique."""
    wanted = {
        each["metadata"]["name"]: each["metadata"]["labels"][labels.POD_TEMPLATE_HASH] for each in cliques
    }
    return {
        int(clique_of(pod).split("-")[1])
        for pod in pods
        if pod["metadata"]["labels"][labels.POD_TEMPLATE_HASH] != wanted.get(clique_of(pod))
    }


def counts(progress: Manifest) -> tuple[int, int]:
    return progress["updatedPodCliquesCount"], progress["updatedPodCliqueScalingGroupsCount"]


def test_every_status_of_a_rolling_update_is_true() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(wl1(2), 20)
        assert "updateProgress" not in rollout.status
        await rollout.change()
        await rollout.finish(20)
        told = list(statuses(rollout))
        assert len(told) > 4
        assert len({status["updateProgress"]["updateStartedAt"] for status, _, _ in told}) == 1
        at_work = [[each["replicaIndex"] for each in updating(status)] for status, _, _ in told]
        # One at a time, the first before the second, and none when it is over.
        assert max(map(len, at_work)) == 1
        assert [each for each in dict.fromkeys(map(tuple, at_work)) if each] == [(0,), (1,)]
        for status, cliques, pods in told:
            progress = status["updateProgress"]
            totals = progress["totalPodCliquesCount"], progress["totalPodCliqueScalingGroupsCount"]
            assert totals == (2, 2)
            assert all(done <= total for done, total in zip(counts(progress), totals, strict=True))
            if progress.get("updateEndedAt"):
                assert not updating(status)
                assert outdated_replicas(cliques, pods) == set()
            # Clients take both together for the end.
            assert ended(status) == (status["updatedReplicas"] == 2)
        assert (rollout.status["updatedReplicas"], counts(rollout.progress)) == (2, (2, 2))
        for (before, _, _), (after, _, _) in pairwise(told):
            pairs = zip(counts(before["updateProgress"]), counts(after["updateProgress"]), strict=True)
            assert all(earlier <= later for earlier, later in pairs)
            assert before["updatedReplicas"] <= after["updatedReplicas"]
            assert not (ended(before) and not ended(after)), "what has ended does not begin again"

    play(story)


@pytest.mark.parametrize("limits", [{}, {"maxUnavailable": 2}, {"maxUnavailable": 0, "maxSurge": 1}], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_the_end_and_the_last_replica_are_told_in_one_write(limits: Manifest, seed: int) -> None:
    """Also where the statuses of cliques are written late."""

    async def story(rollout: Rollout) -> None:
        await rollout.start(wl1(2, strategy={**ROLLING, "rollingRecreate": limits}), 20, nodes=30)
        await rollout.change()
        await rollout.until(rollout.is_finished, "the update ends")
        told = [status for status, _, _ in statuses(rollout)]
        assert told
        for status in told:
            assert ended(status) == (status["updatedReplicas"] == 2)

    late = Fault("error", verb="write", resource="podcliques.*/status", user=OPERATOR.name, probability=0.7)
    play(story, options={"seed": seed}, faults=[late])


def updating(status: Manifest) -> list[Manifest]:
    return list(status["updateProgress"].get("currentlyUpdating") or ())


def ended(status: Manifest) -> bool:
    return bool(status["updateProgress"].get("updateEndedAt"))


def test_no_status_counts_a_replica_that_has_an_outdated_pod() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(wl1(3), 30)
        target = ""
        await rollout.change()
        await rollout.finish(30)
        target = rollout.status["currentGenerationHash"]
        new = {
            role: next(hash_of(pod) for pod in rollout.pods() if clique_of(pod).endswith(role))
            for role in ROLES
        }
        for status, _, pods in statuses(rollout):
            assert status["currentGenerationHash"] == target
            behind = {
                int(clique_of(pod).split("-")[1]) for pod in pods if hash_of(pod) != new[clique_of(pod)[-4:]]
            }
            assert status["updatedReplicas"] <= 3 - len(behind)

    play(story)


ROLES = ("pc-a", "pc-b", "pc-c")


def hash_of(pod: Manifest) -> str:
    return str(pod["metadata"]["labels"][labels.POD_TEMPLATE_HASH])


def test_a_replica_that_is_there_only_for_the_update_is_not_counted() -> None:
    async def story(rollout: Rollout) -> None:
        limits = {"maxUnavailable": 0, "maxSurge": 1}
        await rollout.start(wl1(2, strategy={**ROLLING, "rollingRecreate": limits}), 20, nodes=30)
        await rollout.change()
        await rollout.until(rollout.is_finished, "the update ends")
        for status, _, _ in statuses(rollout):
            progress = status["updateProgress"]
            totals = progress["totalPodCliquesCount"], progress["totalPodCliqueScalingGroupsCount"]
            assert totals == (2, 2)
            assert all(done <= total for done, total in zip(counts(progress), totals, strict=True))
            assert max(status.get(field, 0) for field in ("updatedReplicas", "availableReplicas")) <= 2

    play(story)


def test_every_turn_says_when_it_began() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(wl1(2), 20)
        await rollout.change()
        await rollout.finish(20)
        began: dict[int, set[str]] = {}
        for status, _, _ in statuses(rollout):
            for each in updating(status):
                began.setdefault(each["replicaIndex"], set()).add(each["updateStartedAt"])
        assert {index: len(times) for index, times in began.items()} == {0: 1, 1: 1}
        (first,), (second,) = began[0], began[1]
        assert rollout.progress["updateStartedAt"] <= first < second <= rollout.progress["updateEndedAt"]

    play(story)


@pytest.mark.parametrize("replicas", [1, 2])
def test_every_status_of_an_update_on_deletion_is_true(replicas: int) -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(wl_od(replicas), 10 * replicas)
        await rollout.change()
        await rollout.until(lambda: bool(rollout.progress), "the set tells of its update")
        for index in range(replicas):
            for name in (f"{NAME}-{index}-pc-a", *(f"{NAME}-{index}-sg-x-{number}" for number in range(2))):
                for pod in rollout.pods(name):
                    await rollout.scene.delete(kinds.PODS, pod["metadata"]["name"])
                await rollout.until_ready(10 * replicas)
                await rollout.stays(lambda: True)
        await rollout.until(rollout.is_finished, "everything was replaced by hand")
        told = list(statuses(rollout))
        for status, cliques, pods in told:
            progress = status["updateProgress"]
            assert ended(status)
            assert not updating(status)
            totals = progress["totalPodCliquesCount"], progress["totalPodCliqueScalingGroupsCount"]
            assert totals == (replicas, replicas)
            assert all(done <= total for done, total in zip(counts(progress), totals, strict=True))
            assert status["updatedReplicas"] <= replicas - len(outdated_replicas(cliques, pods))
        assert counts(rollout.progress) == (replicas, replicas)
        assert (
            len(
                {
                    (s["updateProgress"]["updateStartedAt"], s["updateProgress"]["updateEndedAt"])
                    for s, _, _ in told
                }
            )
            == 1
        )

    play(story)


def test_a_clique_counts_its_new_pod_as_soon_as_that_is_there() -> None:
    async def story(rollout: Rollout) -> None:
        await rollout.start(wl_od(), 10)
        await rollout.change("pc-a")
        await rollout.until(lambda: bool(rollout.progress), "the set tells of its update")
        await rollout.lose(f"{NAME}-0-pc-a")
        await rollout.until_ready(10)
        name = f"{NAME}-0-pc-a"
        await rollout.until(lambda: rollout.clique(name)["status"]["updatedReplicas"] == 1, "it is counted")
        born = min(seen.at for seen in rollout.history() if seen.type == "ADDED")
        told = min(
            seen.at
            for seen in rollout.scene.ledger.of(kinds.CLIQUES)
            if seen.version > rollout.began
            and seen.name == name
            and seen.object["status"].get("updatedReplicas") == 1
        )
        assert told - born < LATE

    play(story)
