"""When a status is written: at once if somebody waits for it, after it settled, or as soon as it is quiet."""

import asyncio
from typing import cast

from grove.api import kinds
from grove.controllers.apply import Applier
from grove.controllers.pacing import (
    BUSY_SECONDS,
    BUSY_WRITES,
    DEFERRED_SECONDS,
    IDLE_SECONDS,
    REWORDED_BURST,
    REWORDED_SECONDS,
    SETTLE_SECONDS,
    STARTING_SECONDS_LEAST,
    TRAFFIC_SECONDS,
    TRAFFIC_STEPS,
    PodTraffic,
    StatusThrottle,
    WriteLoad,
)
from grove.controllers.report import Reporter, ReportResult
from grove.kube.client import Client, Written
from grove.meta import Key, Manifest, ObjectMeta, Resource
from grove.plan.changes import Create
from grove.plan.urgency import Urgency
from grove.runtime.outcome import After
from grove.testing import make
from grove.testing.virtual_time import run_virtual, virtual_clock

CLIQUE = make.clique("train-0-worker", 2)
WAITING = make.pod()
PLACED = make.pod(node="node-0")
READY = make.pod(node="node-0", phase="Running", ready=True)
STATUS: Manifest = {"readyReplicas": 1}


class Server:
    """Takes every write and remembers the statuses."""

    def __init__(self) -> None:
        self.statuses: list[Manifest] = []

    async def merge_patch(
        self, resource: Resource, key: Key, patch: Manifest, *, subresource: str = ""
    ) -> Written:
        self.statuses.append(patch["status"])
        return Written(metadata=ObjectMeta(resource_version="2"))

    async def create(self, resource: Resource, manifest: Manifest, *, strict: bool = False) -> Written:
        return Written(metadata=ObjectMeta(resource_version="1"))


class Loop:
    """Stands where a controller's barrier is; remembers who was called."""

    def __init__(self) -> None:
        self.called: list[Key] = []

    def wrote(self, key: Key, resource: Resource, resource_version: str, *, about: Key | None = None) -> None:
        """Nobody waits."""

    def deleted(self, key: Key, resource: Resource, object_key: Key, uid: str) -> None:
        """Nobody waits."""

    def wake(self, key: Key) -> None:
        self.called.append(key)


class Stage:
    """A reporter on a server that takes everything, and the flow of pods around it."""

    def __init__(self) -> None:
        self.server, self.loop = Server(), Loop()
        self.load, self.traffic = WriteLoad(), PodTraffic(virtual_clock())
        self.applier = Applier(cast(Client, self.server), self.load)
        self.reporter = Reporter(self.applier, StatusThrottle(virtual_clock(), self.traffic, self.load))

    async def report(self, urgency: Urgency = Urgency.SETTLED) -> ReportResult:
        return await self.reporter.report(kinds.CLIQUES, CLIQUE, STATUS, barrier=self.loop, urgency=urgency)

    def busy(self, writes: int = BUSY_WRITES) -> None:
        for _ in range(writes):
            self.load.began()

    def pods_are_placed(self) -> None:
        self.traffic.saw(None, WAITING)
        for _ in range(TRAFFIC_STEPS):
            self.traffic.saw(WAITING, PLACED)

    def the_last_pod_is_ready(self) -> None:
        while self.traffic.goes_on(CLIQUE.namespace):
            self.traffic.saw(PLACED, READY)


def held(seconds: float) -> ReportResult:
    return ReportResult(False, After(seconds, "the status is debounced"))


def test_a_status_that_somebody_waits_for_is_written_at_once() -> None:
    async def story() -> None:
        stage = Stage()
        assert (await stage.report(Urgency.IMMEDIATE)).written
        assert stage.server.statuses == [STATUS]

    run_virtual(story)


def test_a_status_that_nobody_waits_for_settles_first() -> None:
    async def story() -> None:
        stage = Stage()
        assert await stage.report() == held(SETTLE_SECONDS)
        await asyncio.sleep(SETTLE_SECONDS)
        assert (await stage.report()).written

    run_virtual(story)


def test_what_was_held_back_for_more_important_work_is_called_when_it_is_quiet() -> None:
    async def story() -> None:
        stage = Stage()
        stage.busy()
        assert await stage.report() == held(BUSY_SECONDS)
        stage.load.ended()
        work = Create(kinds.PODS, make.pod_manifest())
        await stage.applier.apply([work], barrier=stage.loop, key=CLIQUE.key)
        assert stage.loop.called == []
        await asyncio.sleep(IDLE_SECONDS)
        assert stage.loop.called == [CLIQUE.key]
        assert (await stage.report()).written

    run_virtual(story)


def test_why_something_does_not_go_on_is_told_soon_however_busy_it_is() -> None:
    async def story() -> None:
        stage = Stage()
        stage.busy()
        stage.pods_are_placed()
        assert await stage.report(Urgency.SOON) == held(SETTLE_SECONDS)
        await asyncio.sleep(SETTLE_SECONDS)
        assert (await stage.report(Urgency.SOON)).written

    run_virtual(story)


def test_what_is_on_its_way_is_told_when_pods_are_no_longer_being_placed() -> None:
    async def story() -> None:
        stage = Stage()
        stage.pods_are_placed()
        assert await stage.report(Urgency.DEFERRED) == held(DEFERRED_SECONDS)
        await asyncio.sleep(TRAFFIC_SECONDS)
        stage.pods_are_placed()
        await asyncio.sleep(TRAFFIC_SECONDS)
        assert stage.loop.called == []
        await asyncio.sleep(2 * IDLE_SECONDS)
        assert stage.loop.called == [CLIQUE.key]
        assert (await stage.report(Urgency.DEFERRED)).written

    run_virtual(story)


def test_what_is_on_its_way_is_told_as_ever_when_nothing_else_is() -> None:
    async def story() -> None:
        assert await Stage().report(Urgency.DEFERRED) == held(SETTLE_SECONDS)

    run_virtual(story)


def test_what_was_on_its_way_settles_once_it_has_arrived() -> None:
    async def story() -> None:
        stage = Stage()
        stage.pods_are_placed()
        await stage.report(Urgency.DEFERRED)
        await asyncio.sleep(SETTLE_SECONDS)
        assert await stage.report() == held(SETTLE_SECONDS)
        await asyncio.sleep(SETTLE_SECONDS)
        assert (await stage.report()).written
        await asyncio.sleep(10 * IDLE_SECONDS)
        assert stage.loop.called == []

    run_virtual(story)


def test_what_begins_to_work_is_told_when_the_last_pod_is_ready() -> None:
    async def story() -> None:
        stage = Stage()
        stage.pods_are_placed()
        assert await stage.report(Urgency.STARTING) == held(STARTING_SECONDS_LEAST)
        await asyncio.sleep(SETTLE_SECONDS)
        stage.the_last_pod_is_ready()
        await asyncio.sleep(IDLE_SECONDS)
        assert stage.loop.called == [CLIQUE.key]
        assert (await stage.report(Urgency.STARTING)).written

    run_virtual(story)


def test_what_begins_to_work_is_told_after_a_while_however_many_pods_are_placed() -> None:
    async def story() -> None:
        stage = Stage()
        for _ in range(int(STARTING_SECONDS_LEAST)):
            stage.pods_are_placed()
            assert not (await stage.report(Urgency.STARTING)).written
            await asyncio.sleep(1)
        stage.pods_are_placed()
        assert (await stage.report(Urgency.STARTING)).written

    run_virtual(story)


def test_what_begins_to_work_is_told_as_progress_while_few_pods_are_placed() -> None:
    async def story() -> None:
        assert await Stage().report(Urgency.STARTING) == held(SETTLE_SECONDS)

    run_virtual(story)


def scheduled(status: str, at: str) -> Manifest:
    return {"conditions": [{"type": "Scheduled", "status": status, "lastTransitionTime": at}]}


async def told(stage: Stage, status: Manifest) -> ReportResult:
    return await stage.reporter.report(kinds.CLIQUES, CLIQUE, status, barrier=stage.loop)


def test_a_condition_turned_when_that_was_observed_and_not_when_it_was_written() -> None:
    async def story() -> None:
        stage = Stage()
        await told(stage, scheduled("True", "12:00:00"))
        await asyncio.sleep(SETTLE_SECONDS)
        assert (await told(stage, scheduled("True", "12:00:30"))).written
        assert stage.server.statuses == [scheduled("True", "12:00:00")]

    run_virtual(story)


def test_a_condition_that_turned_again_while_it_was_held_back_has_the_time_of_the_last_turn() -> None:
    async def story() -> None:
        stage = Stage()
        await told(stage, scheduled("True", "12:00:00"))
        await told(stage, scheduled("False", "12:00:10"))
        await asyncio.sleep(SETTLE_SECONDS)
        assert (await told(stage, scheduled("False", "12:00:30"))).written
        assert stage.server.statuses == [scheduled("False", "12:00:10")]

    run_virtual(story)


def test_of_an_object_that_is_gone_no_transition_is_remembered() -> None:
    async def story() -> None:
        stage = Stage()
        await told(stage, scheduled("True", "12:00:00"))
        stage.reporter.forget(kinds.CLIQUES, CLIQUE.key)
        await told(stage, scheduled("True", "13:00:00"))
        await asyncio.sleep(SETTLE_SECONDS)
        await told(stage, scheduled("True", "13:00:30"))
        assert stage.server.statuses == [scheduled("True", "13:00:00")]

    run_virtual(story)


def test_a_status_that_is_reworded_again_and_again_is_written_less_often() -> None:
    async def story() -> None:
        stage, start = Stage(), virtual_clock().monotonic()
        while virtual_clock().monotonic() - start < 20 * REWORDED_SECONDS:
            outcome = (await told(stage, {"message": f"try {virtual_clock().monotonic()}"})).outcome
            await asyncio.sleep(outcome.seconds if isinstance(outcome, After) else 0.01)
        assert REWORDED_BURST + 19 <= len(stage.server.statuses) <= REWORDED_BURST + 21
        assert (await stage.report()).written, "news is not held back with the words"

    run_virtual(story)
