"""When a status is written: at once if somebody waits for it, after it settled, or as soon as it is quiet."""

import asyncio
from typing import cast

from grove.api import kinds
from grove.controllers.apply import BUSY, Applier
from grove.controllers.flow import FLOW_SECONDS, FLOW_STEPS, Flow
from grove.controllers.report import (
    HOLD_SECONDS,
    HOLD_WHILE_BUSY_SECONDS,
    HOLD_WHILE_MOVING_SECONDS,
    QUIET_SECONDS,
    Haste,
    Reported,
    Reporter,
)
from grove.kube.client import Client, Written
from grove.meta import Key, Manifest, ObjectMeta, Resource
from grove.plan.changes import Create
from grove.runtime.outcome import After
from grove.testing import make
from grove.testing.virtual_time import run_virtual, virtual_clock

CLIQUE = make.clique("train-0-worker", 2)
WAITING = make.pod()
PLACED = make.pod(node="node-0")
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
        self.applier = Applier(cast(Client, self.server))
        self.flow = Flow(virtual_clock())
        self.reporter = Reporter(self.applier, virtual_clock(), self.flow)

    async def report(self, haste: Haste = Haste.WHEN_QUIET) -> Reported:
        return await self.reporter.report(kinds.CLIQUES, CLIQUE, STATUS, barrier=self.loop, haste=haste)

    def pods_are_placed(self) -> None:
        for _ in range(FLOW_STEPS):
            self.flow.saw(WAITING, PLACED)


def held(seconds: float) -> Reported:
    return Reported(False, After(seconds, "the status settles"))


def test_a_status_that_somebody_waits_for_is_written_at_once() -> None:
    async def story() -> None:
        stage = Stage()
        assert (await stage.report(Haste.AT_ONCE)).written
        assert stage.server.statuses == [STATUS]

    run_virtual(story)


def test_a_status_that_nobody_waits_for_settles_first() -> None:
    async def story() -> None:
        stage = Stage()
        assert await stage.report() == held(HOLD_SECONDS)
        await asyncio.sleep(HOLD_SECONDS)
        assert (await stage.report()).written

    run_virtual(story)


def test_what_was_held_back_for_more_important_work_is_called_when_it_is_quiet() -> None:
    async def story() -> None:
        stage = Stage()
        stage.applier.pending = BUSY
        assert await stage.report() == held(HOLD_WHILE_BUSY_SECONDS)
        stage.applier.pending = BUSY - 1
        work = Create(kinds.PODS, make.pod_manifest())
        await stage.applier.apply([work], barrier=stage.loop, key=CLIQUE.key)
        assert stage.loop.called == []
        await asyncio.sleep(QUIET_SECONDS)
        assert stage.loop.called == [CLIQUE.key]
        assert (await stage.report()).written

    run_virtual(story)


def test_why_something_does_not_go_on_is_told_soon_however_busy_it_is() -> None:
    async def story() -> None:
        stage = Stage()
        stage.applier.pending = BUSY
        stage.pods_are_placed()
        assert await stage.report(Haste.SOON) == held(HOLD_SECONDS)
        await asyncio.sleep(HOLD_SECONDS)
        assert (await stage.report(Haste.SOON)).written

    run_virtual(story)


def test_what_is_on_its_way_is_told_when_pods_are_no_longer_being_placed() -> None:
    async def story() -> None:
        stage = Stage()
        stage.pods_are_placed()
        assert await stage.report(Haste.WHEN_STILL) == held(HOLD_WHILE_MOVING_SECONDS)
        await asyncio.sleep(FLOW_SECONDS)
        stage.pods_are_placed()
        await asyncio.sleep(FLOW_SECONDS)
        assert stage.loop.called == []
        await asyncio.sleep(2 * QUIET_SECONDS)
        assert stage.loop.called == [CLIQUE.key]
        assert (await stage.report(Haste.WHEN_STILL)).written

    run_virtual(story)


def test_what_is_on_its_way_is_told_as_ever_when_nothing_else_is() -> None:
    async def story() -> None:
        assert await Stage().report(Haste.WHEN_STILL) == held(HOLD_SECONDS)

    run_virtual(story)


def test_what_was_on_its_way_settles_once_it_has_arrived() -> None:
    async def story() -> None:
        stage = Stage()
        stage.pods_are_placed()
        await stage.report(Haste.WHEN_STILL)
        await asyncio.sleep(HOLD_SECONDS)
        assert await stage.report() == held(HOLD_SECONDS)
        await asyncio.sleep(HOLD_SECONDS)
        assert (await stage.report()).written
        await asyncio.sleep(10 * QUIET_SECONDS)
        assert stage.loop.called == []

    run_virtual(story)
