"""Several operator processes on one cluster, each of which can be stopped as SIGSTOP does, on virtual time.

A process is a context: whatever is begun in it, tasks, timers and callbacks, belongs to it. While a process is
stopped none of that runs, and everything that fell due meanwhile runs at once when it goes on. The server is a
process of its own: it answers requests of a stopped client, who does not notice before it goes on.
"""

import asyncio
import contextvars
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

from grove.assembly import Identity, Operator, assemble
from grove.embedded.identity import MASTERS, User
from grove.embedded.requests import Logged
from grove.embedded.server.app import Response as Answer
from grove.kube.client import Client
from grove.kube.limiter import Limiter
from grove.kube.retry import RetryPolicy
from grove.testing.memory import MemoryTransport
from grove.testing.virtual_time import virtual_clock, virtual_loop
from grove.testing.world import World

_PROCESS: contextvars.ContextVar[str] = contextvars.ContextVar("process", default="")


class Moment(Enum):
    """Where in a write its process is stopped."""

    #: Everything is ready, and the last look at the lease is about to happen.
    BEFORE_IT_IS_SENT = "before it is sent"
    #: The last look has happened; the bytes reach the server when the process goes on.
    ON_ITS_WAY = "on its way"


class _Ready(deque[asyncio.Handle]):
    """The callbacks that are due; those of stopped processes are set aside."""

    def __init__(self, due: deque[asyncio.Handle]) -> None:
        super().__init__(due)
        self.aside: dict[str, list[asyncio.Handle]] = {}
        self._nothing = asyncio.Handle(lambda: None, (), virtual_loop())
        self._nothing.cancel()

    def popleft(self) -> asyncio.Handle:
        handle = super().popleft()
        context: contextvars.Context = handle._context  # type: ignore[attr-defined]
        aside = self.aside.get(context.get(_PROCESS, ""))
        if aside is None:
            return handle
        aside.append(handle)
        return self._nothing


def _ready() -> _Ready:
    loop: Any = virtual_loop()
    if not isinstance(loop._ready, _Ready):
        loop._ready = _Ready(loop._ready)
    ready: _Ready = loop._ready
    return ready


class Replica:
    """One operator process among several, with leader election as the world's configuration has it."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.user = User(f"system:serviceaccount:grove-system:{name}", (MASTERS,))
        self.operator: Operator | None = None
        #: Set while the process is stopped.
        self.stopped = asyncio.Event()
        self._world = world
        self._context = contextvars.copy_context()
        self._context.run(_PROCESS.set, name)
        self._transport = _Transport(world, self)
        self._task: asyncio.Task[None] | None = None
        self._seen = 0

    async def start(self) -> None:
        """Start it; returns when it is wired and stands by, or leads."""
        wired = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(
            self._live(wired), name=self.name, context=self._context
        )
        await wired.wait()

    async def _live(self, wired: asyncio.Event) -> None:
        rng = random.Random(self.name)
        client = Client(self._transport, limiter=Limiter.off(), retries=RetryPolicy(rng=rng))
        self.operator = await assemble(
            client,
            self._world.options.configuration,
            clock=virtual_clock(),
            rng=rng,
            identity=Identity(self.name),
            health=False,
        )
        wired.set()
        await self.operator.manager.run()

    async def leads(self) -> None:
        """Wait until its controllers work."""
        assert self.operator is not None
        await self.operator.manager.working.wait()

    def stop_at(self, number: int, moment: Moment) -> None:
        """Stop the process at its n-th write from now on, leases aside."""
        self._transport.stop_at(number, moment)

    def stop(self) -> None:
        _ready().aside.setdefault(self.name, [])
        self.stopped.set()

    def go_on(self) -> None:
        """Let it go on; from now on `late` counts."""
        self._seen = len(self._world.cluster.requests)
        self.stopped.clear()
        ready = _ready()
        ready.extend(ready.aside.pop(self.name, ()))

    def late(self) -> list[Logged]:
        """The writes, leases aside, that arrived since it went on and were not refused."""
        entries = list(self._world.cluster.requests)[self._seen :]
        return [
            each
            for each in entries
            if each.user == self.user.name
            and each.is_write
            and each.status < 400
            and not each.resource.startswith("leases")
        ]

    async def end(self) -> BaseException | None:
        """Wait until it ends by itself; what it ended with."""
        assert self._task is not None
        await asyncio.wait({self._task})
        return self._task.exception()

    async def kill(self) -> None:
        """End it as SIGKILL does."""
        await self._transport.close()
        if self._task is None:
            return
        self.go_on()
        if self.operator is not None:
            for controller in self.operator.controllers.values():
                controller.hurry()
        self._task.cancel()
        await asyncio.wait({self._task})
        if not self._task.cancelled():
            self._task.exception()


class _Transport(MemoryTransport):
    """A process's way to the server."""

    def __init__(self, world: World, replica: Replica) -> None:
        super().__init__(world.cluster.app, replica.user)
        self._replica = replica
        self._server = contextvars.copy_context()
        self._left = 0
        self._moment = Moment.BEFORE_IT_IS_SENT

    def stop_at(self, number: int, moment: Moment) -> None:
        self._left, self._moment = number, moment

    async def _handle(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]],
        headers: Mapping[str, str] | None,
        body: bytes | None,
        guard: Callable[[], None] | None = None,
    ) -> Answer:
        stops = self._stops(method, path, query)
        if stops and self._moment is Moment.BEFORE_IT_IS_SENT:
            await self._stop()
        if guard is not None:
            guard()
        if stops and self._moment is Moment.ON_ITS_WAY:
            await self._stop()
        served = super()._handle(method, path, query, headers, body)
        loop = asyncio.get_running_loop()
        return await loop.create_task(served, context=self._server, name=f"{method} {path}")

    def _stops(self, method: str, path: str, query: Sequence[tuple[str, str]]) -> bool:
        if method == "GET" or "/leases" in path or "dryRun" in dict(query) or not self._left:
            return False
        self._left -= 1
        return not self._left

    async def _stop(self) -> None:
        self._replica.stop()
        await asyncio.sleep(0)
