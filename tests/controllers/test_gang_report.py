"""What a gang says of itself once, which events go with it, and from when its milestones count."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.controllers.steps import Steps, condition, run_steps
from tests.plan.gang.states import PLAIN, ROLE, PlainBackend, state

from grove.api import conditions, kinds, labels
from grove.api.gang import PodGang
from grove.api.pod import Pod
from grove.backends.base import Capability, Context, Fidelity, Reading, Translation, Treatment, Verdict
from grove.controllers.apply import NO_BARRIER
from grove.controllers.gang_report import GangReporter, GangReportResult
from grove.errors import Waiting
from grove.meta import Key, Manifest
from grove.plan.gang.reading import Problems
from grove.plan.gang.state import GangState, Translated
from grove.runtime.events import EVENTS
from grove.runtime.outcome import DONE, After
from grove.testing import make

GANG = "train-0"
KEY = Key("default", GANG)
PODS = ("p0", "p1")


class Saying(PlainBackend):
    """Says what it is told to say."""

    def __init__(self, *said: Reading | Exception) -> None:
        self.said = list(said)

    def read(
        self, gang: PodGang, objects: Sequence[Manifest], pods: Sequence[Pod], context: Context
    ) -> Reading:
        said = self.said[0] if len(self.said) == 1 else self.said.pop(0)
        if isinstance(said, Exception):
            raise said
        return said


PLACED = Reading(Verdict.SCHEDULED, "Placed", "2 of 2 pods are placed.", placement_score=0.5)
TOO_FEW = Reading(Verdict.UNSCHEDULABLE, "TooFewNodes", "0 of 4 nodes fit.")


async def create(steps: Steps) -> None:
    """A gang that lists its pods and says nothing yet."""
    group = make.podgroup(ROLE, 2)
    group["podReferences"] = [{"namespace": "default", "name": each, "uid": f"uid-{each}"} for each in PODS]
    marks = {labels.SCHEDULER_BACKEND: "plain"}
    await steps.create(kinds.GANGS, make.gang_manifest(GANG, [group], cliqueset="train", labels=marks))


async def cached(steps: Steps) -> PodGang:
    await steps.watched()
    found = steps.deps.cache.store(PodGang).get(KEY)
    assert found is not None
    return found


async def seen(steps: Steps, *, backend: object = PLAIN, ready: bool | None = None) -> GangState:
    """The gang as it is now; `ready` says whether its pods, which are on nodes, are."""
    gang = await cached(steps)
    pods: list[Pod] = []
    if ready is not None:
        pods = [make.pod(ROLE, 0, name=each, gang=gang, node="n1", ready=ready) for each in PODS]
    clique = make.clique(ROLE, 2)
    return replace(state(gang, pods, backend, cliques=[clique]), now=steps.deps.clock.now())


async def report(
    steps: Steps,
    about: GangState,
    problems: Problems | None = None,
    *,
    listed: bool = True,
    repairs: Sequence[str] = (),
) -> GangReportResult:
    """Report once."""
    return await GangReporter(steps.deps).report(
        about, problems or Problems(), gang=about.gang, listed=listed, repairs=repairs, barrier=NO_BARRIER
    )


async def written(steps: Steps, about: GangState, problems: Problems | None = None) -> GangReportResult:
    """Report until the status is written."""
    for _ in range(5):
        result = await report(steps, about, problems)
        if result.written:
            return result
        assert isinstance(result.outcome, After)
        await asyncio.sleep(result.outcome.seconds)
    raise AssertionError("the status is not written")


async def messages(steps: Steps, reason: str) -> list[str]:
    """What the events of one reason say, each as often as it was told."""
    await steps.operator.recorder.flush()
    found = await steps.world.all(EVENTS)
    return [each["message"] for each in found if each["reason"] == reason for _ in range(each["count"])]


def milestone(steps: Steps, name: str) -> tuple[float, float]:
    """How many gangs reached a milestone, and after how many seconds in all."""
    metric, value = "grove_gang_milestone_seconds", steps.operator.metrics.value
    return (
        value(f"{metric}_count", backend="plain", milestone=name),
        value(f"{metric}_sum", backend="plain", milestone=name),
    )


def play(story: object) -> None:
    async def main(steps: Steps) -> None:
        await create(steps)
        await story(steps)  # type: ignore[operator]

    run_steps(main)


# The status ---------------------------------------------------------------------------------------------


def test_what_is_written_is_what_the_rest_of_the_look_goes_by() -> None:
    async def story(steps: Steps) -> None:
        result = await report(steps, await seen(steps))
        assert (result.written, result.outcome) == (True, DONE), "gates wait for it"
        there = await steps.get(kinds.GANGS, GANG)
        assert condition(there, conditions.INITIALIZED)["status"] == "True"
        assert {each.type: each.status for each in result.gang.status.conditions} == {
            each["type"]: each["status"] for each in there["status"]["conditions"]
        }

    play(story)


def test_a_status_that_says_it_already_is_not_written_and_nothing_is_told_again() -> None:
    async def story(steps: Steps) -> None:
        await written(steps, await seen(steps, backend=Saying(PLACED), ready=True))
        events = await steps.events()
        steps.writes()
        about = await seen(steps, backend=Saying(PLACED), ready=True)
        result = await report(steps, about)
        assert (result.written, result.gang) == (False, about.gang)
        assert (steps.writes(), await steps.events()) == ([], events)

    play(story)


def test_what_is_held_back_is_told_once_it_is_written_and_counts_from_when_it_was_observed() -> None:
    async def story(steps: Steps) -> None:
        await report(steps, await seen(steps))
        await asyncio.sleep(30)
        about = await seen(steps, backend=Saying(PLACED), ready=True)
        created = about.gang.metadata.creation_timestamp
        result = await report(steps, about)
        assert isinstance(result.outcome, After)
        assert (result.written, result.gang, await messages(steps, "Scheduled")) == (False, about.gang, [])
        assert milestone(steps, "scheduled") == (0, 0)
        await asyncio.sleep(300)
        about = await seen(steps, backend=Saying(PLACED), ready=True)
        assert (await report(steps, about)).written
        assert created
        assert await messages(steps, "Scheduled") == ["2 of 2 pods are placed. Placement score: 0.5."]
        for name in ("scheduled", "ready"):
            count, seconds = milestone(steps, name)
            assert count == 1
            assert 29 <= seconds <= 32
        assert milestone(steps, "initialized")[0] == 1
        assert milestone(steps, "initialized")[1] < 2

    play(story)


# Turns --------------------------------------------------------------------------------------------------


def test_that_it_is_placed_is_logged_and_no_milestone_is_reached_before_its_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(steps: Steps) -> None:
        with caplog.at_level(logging.INFO):
            await written(steps, await seen(steps, backend=Saying(PLACED), ready=False))
        (said,) = (each for each in caplog.records if each.message == "gang placed")
        assert said.__dict__["gang"] == str(KEY)
        assert (milestone(steps, "scheduled")[0], milestone(steps, "ready")[0]) == (1, 0)
        await written(steps, await seen(steps, backend=Saying(PLACED), ready=True))
        assert (milestone(steps, "scheduled")[0], milestone(steps, "ready")[0]) == (1, 1)
        assert len(await messages(steps, "Scheduled")) == 1

    play(story)


def test_a_gang_that_lost_its_pods_says_so_once_and_is_placed_again_once() -> None:
    async def story(steps: Steps) -> None:
        await written(steps, await seen(steps, backend=Saying(PLACED), ready=True))
        waiting = Reading(Verdict.WAITING, "WaitingForScheduler", "-")
        await written(steps, await seen(steps, backend=Saying(waiting)))
        assert await messages(steps, "Unhealthy") == [f"{ROLE}: 0 of 2 pods are placed"]
        assert len(await messages(steps, "Scheduled")) == 1, "that it is not placed any more is no placement"
        queued = Reading(Verdict.WAITING, "Queued", "it is third in its queue.")
        await written(steps, await seen(steps, backend=Saying(queued)))
        await written(steps, await seen(steps, backend=Saying(PLACED), ready=True))
        assert len(await messages(steps, "Unhealthy")) == 1
        assert len(await messages(steps, "Scheduled")) == 2

    play(story)


def test_that_it_does_not_fit_is_told_again_only_for_another_reason() -> None:
    async def story(steps: Steps) -> None:
        await written(steps, await seen(steps, backend=Saying(TOO_FEW)))
        assert await messages(steps, "TooFewNodes") == ["0 of 4 nodes fit."]
        other_words = replace(TOO_FEW, message="0 of 5 nodes fit.")
        await written(steps, await seen(steps, backend=Saying(other_words)))
        assert await messages(steps, "TooFewNodes") == ["0 of 4 nodes fit."]
        other_reason = replace(TOO_FEW, reason="NoQuota", message="the quota is used up.")
        await written(steps, await seen(steps, backend=Saying(other_reason)))
        assert await messages(steps, "NoQuota") == ["the quota is used up."]

    play(story)


def test_a_gang_that_only_waits_is_no_warning() -> None:
    async def story(steps: Steps) -> None:
        waiting = Reading(Verdict.WAITING, "Queued", "it is third in its queue.")
        await written(steps, await seen(steps, backend=Saying(waiting)))
        assert await steps.events() == []

    play(story)


LOST = Treatment(Capability.GANG, Fidelity.NOT_EXPRESSIBLE, "this scheduler has no gangs")
WITHOUT_GUARANTEE = Translated(Translation((), (LOST,)))


def test_that_nothing_guarantees_a_gang_is_told_with_its_placement() -> None:
    async def story(steps: Steps) -> None:
        waiting = Saying(Reading(Verdict.WAITING, "Queued", "-"))
        await written(steps, replace(await seen(steps, backend=waiting), translated=WITHOUT_GUARANTEE))
        assert await steps.events() == []
        placed = await seen(steps, backend=Saying(PLACED), ready=True)
        await written(steps, replace(placed, translated=WITHOUT_GUARANTEE))
        assert await messages(steps, "NoGangGuarantee") == []
        (said,) = await messages(steps, "Scheduled")
        assert said.endswith(f" Not guaranteed: {LOST.reason}")

    play(story)


def test_that_a_placed_gang_lost_its_guarantee_is_told_once() -> None:
    async def story(steps: Steps) -> None:
        await written(steps, await seen(steps, backend=Saying(PLACED), ready=True))
        without = replace(await seen(steps, backend=Saying(PLACED), ready=True), translated=WITHOUT_GUARANTEE)
        await written(steps, without)
        worse = replace(await seen(steps, backend=Saying(PLACED), ready=False), translated=WITHOUT_GUARANTEE)
        await written(steps, worse)
        assert await messages(steps, "NoGangGuarantee") == [LOST.reason]

    play(story)


def test_that_its_set_asks_for_another_scheduler_is_told_while_its_pods_run() -> None:
    async def story(steps: Steps) -> None:
        about = replace(await seen(steps, backend=Saying(PLACED), ready=True), asked_backend="another")
        await written(steps, about)
        (said,) = await messages(steps, "BackendChangePending")
        assert "another" in said

    play(story)


def test_pods_that_do_not_go_are_told() -> None:
    async def story(steps: Steps) -> None:
        about = await seen(steps, backend=Saying(PLACED), ready=True)
        stuck = make.pod(ROLE, 1, name="old", gang=about.gang, node="n1", deleted=True)
        await written(steps, replace(about, pods=[*about.pods, stuck]))
        (said,) = await messages(steps, "PodsStuck")
        assert "old" in said

    play(story)


# What is told whether or not the status is written ------------------------------------------------------


async def quiet(steps: Steps) -> GangState:
    """A gang whose status needs no write."""
    waiting = Saying(Reading(Verdict.WAITING, "Queued", "-"))
    await written(steps, await seen(steps, backend=waiting))
    return await seen(steps, backend=waiting)


def test_what_was_put_back_is_told_also_by_a_gang_that_says_what_it_said() -> None:
    async def story(steps: Steps) -> None:
        about = await quiet(steps)
        result = await report(steps, about, repairs=["PodGroup a", "Queue b"])
        assert not result.written
        assert await messages(steps, "Repaired") == ["put back PodGroup a, Queue b"]
        await report(steps, about)
        assert len(await messages(steps, "Repaired")) == 1

    play(story)


def test_a_failure_is_told_and_counted_each_time_and_then_nothing_was_put_back() -> None:
    async def story(steps: Steps) -> None:
        failure = Problems(Waiting("install the scheduler"))
        for _ in range(2):
            await report(steps, await seen(steps), failure, listed=False, repairs=["PodGroup a"])
        assert await messages(steps, conditions.PRECONDITION_MISSING) == ["install the scheduler"] * 2
        assert await messages(steps, "Repaired") == []
        total = "grove_backend_sync_errors_total"
        assert steps.operator.metrics.value(total, backend="plain", code=Waiting.code) == 2

    play(story)


def test_a_failure_of_a_gang_without_a_backend_counts_for_none() -> None:
    async def story(steps: Steps) -> None:
        about = replace(await seen(steps), backend=None)
        await report(steps, about, Problems(Waiting("nobody acts")), listed=False)
        total = "grove_backend_sync_errors_total"
        assert steps.operator.metrics.value(total, backend="none", code=Waiting.code) == 1

    play(story)


def test_what_pods_of_somebody_else_lack_is_told() -> None:
    async def story(steps: Steps) -> None:
        await report(steps, await quiet(steps), Problems(unready=("pod a: no gate", "pod b: no gate")))
        assert await messages(steps, "PodsNotPrepared") == ["pod a: no gate; pod b: no gate"]

    play(story)


def test_pods_that_were_taken_away_are_told_once() -> None:
    async def story(steps: Steps) -> None:
        about = await quiet(steps)
        lost = make.pod_manifest(ROLE, 0, gang=about.gang, name="lost", node="n1")
        marks = {"type": conditions.DISRUPTION_TARGET, "status": "True", "reason": "EvictionByEvictionAPI"}
        lost["status"]["conditions"].append(marks)
        steps.deps.disruptions.saw(None, make.view(Pod, lost))
        await report(steps, about)
        await report(steps, about)
        (said,) = await messages(steps, "Disrupted")
        assert "lost" in said

    play(story)


def test_a_backend_that_cannot_read_is_logged_with_its_name_and_the_gang_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(steps: Steps) -> None:
        await report(steps, await seen(steps, backend=Saying(KeyError("spec"))))
        (said,) = (each for each in caplog.records if each.message == "scheduler backend failed")
        assert (said.__dict__["backend"], said.levelno) == ("plain", logging.ERROR)
        assert said.exc_info
        there = condition(await steps.get(kinds.GANGS, GANG), conditions.SCHEDULED)
        assert there["reason"] == conditions.SYNC_FAILED

    play(story)
