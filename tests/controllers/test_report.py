"""When a status is written: at once if somebody waits for it, after it settled, or as soon as it is quiet."""

import asyncio
from typing import cast

from grove.api import kinds
from grove.controllers.apply import BUSY, Applier
from grove.controllers.report import HOLD_SECONDS, HOLD_WHILE_BUSY_SECONDS, QUIET_SECONDS, Reporter
from grove.kube.client import Client, Written
from grove.meta import Key, Manifest, ObjectMeta, Resource
from grove.plan.changes import Create
from grove.runtime.outcome import After
from grove.testing import make
from grove.testing.virtual_time import run_virtual, virtual_clock

CLIQUE = make.clique("train-0-worker", 2)
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


def test_an_urgent_status_is_written_at_once() -> None:
    async def story() -> None:
        server, loop = Server(), Loop()
        reporter = Reporter(Applier(cast(Client, server)), virtual_clock())
        reported = await reporter.report(kinds.CLIQUES, CLIQUE, STATUS, barrier=loop, urgent=True)
        assert reported.written
        assert server.statuses == [STATUS]

    run_virtual(story)


def test_a_status_that_nobody_waits_for_settles_first() -> None:
    async def story() -> None:
        server, loop = Server(), Loop()
        reporter = Reporter(Applier(cast(Client, server)), virtual_clock())
        first = await reporter.report(kinds.CLIQUES, CLIQUE, STATUS, barrier=loop)
        assert first.outcome == After(HOLD_SECONDS, "the status settles")
        await asyncio.sleep(HOLD_SECONDS)
        assert (await reporter.report(kinds.CLIQUES, CLIQUE, STATUS, barrier=loop)).written

    run_virtual(story)


def test_what_was_held_back_for_more_important_work_is_called_when_it_is_quiet() -> None:
    async def story() -> None:
        server, loop = Server(), Loop()
        applier = Applier(cast(Client, server))
        reporter = Reporter(applier, virtual_clock())
        applier.pending = BUSY
        held = await reporter.report(kinds.CLIQUES, CLIQUE, STATUS, barrier=loop)
        assert held.outcome == After(HOLD_WHILE_BUSY_SECONDS, "the status settles")
        applier.pending = BUSY - 1
        work = Create(kinds.PODS, make.pod_manifest())
        await applier.apply([work], barrier=loop, key=CLIQUE.key)
        assert loop.called == []
        await asyncio.sleep(QUIET_SECONDS)
        assert loop.called == [CLIQUE.key]
        assert (await reporter.report(kinds.CLIQUES, CLIQUE, STATUS, barrier=loop)).written

    run_virtual(story)
