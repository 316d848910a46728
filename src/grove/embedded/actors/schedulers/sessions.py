"""How the simulated schedulers run: something wakes one, it gathers for a period, then it decides and writes.

Three steps, each for those who need no more: `SessionScheduler` keeps the loop, what is active, what is
parked, and the timers; `DecidingScheduler` adds a cycle in which each unit is decided on its own and written;
`PodGroupScheduler` adds pods that name their PodGroup. What a unit is, and every rule of a scheduler, is the
subclasses' business.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from grove.embedded.actors.mirror import Mirrors
from grove.embedded.actors.objects import (
    CRDS,
    PRIORITY_CLASSES,
    Key,
    Resource,
    condition,
    is_deleting,
    is_terminal,
    key_of,
    node_of,
)
from grove.embedded.actors.schedulers.desk import Desk, run_all
from grove.embedded.actors.schedulers.native_rules import in_order
from grove.embedded.clock import Clock
from grove.embedded.errors import Manifest
from grove.embedded.local import ActorClient

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
BATCH = 64

Unit = TypeVar("Unit", bound=Hashable)
Decision = TypeVar("Decision")


@dataclass(frozen=True, slots=True)
class SessionOptions:
    tell_bound: bool = True
    """Write a `Scheduled` event for each bound pod."""
    period_seconds: float = 0.0
    """Like the real ones' sessions: what happens within one period is decided together; 0 decides at once."""


def established(mirrors: Mirrors, *kinds: Resource) -> bool:
    """All of these custom kinds are served by now."""
    for kind in kinds:
        crd = mirrors.of(CRDS).get(("", f"{kind.plural}.{kind.group}"))
        if crd is None or condition(crd, "Established").get("status") != "True":
            return False
    return True


def is_member(pod: Manifest) -> bool:
    """The pod counts for its gang; one that is being deleted only while it still holds a node."""
    return not is_terminal(pod) and (bool(node_of(pod)) or not is_deleting(pod))


class SessionScheduler(ABC, Generic[Unit]):
    """Runs until cancelled; a unit is what its scheduler decides on as one."""

    name: ClassVar[str]
    refused: ClassVar[str] = "FailedScheduling"
    """The reason of the events about pods that were refused."""
    kinds: ClassVar[tuple[Resource, ...]] = ()
    """Custom kinds without which it idles."""

    def __init__(
        self, client: ActorClient, clock: Clock, *, mirrors: Mirrors | None, options: SessionOptions
    ) -> None:
        self._client = client
        self._clock = clock
        self._period = options.period_seconds
        self._own_mirrors = None if mirrors else Mirrors(client)
        self._mirrors = mirrors or self._own_mirrors or Mirrors(client)
        self._desk = Desk(
            client,
            clock,
            name=self.name,
            mirrors=self._mirrors,
            tell_bound=options.tell_bound,
            refused=self.refused,
        )
        self._active: dict[Unit, None] = {}
        self._parked: dict[Unit, float] = {}
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}
        self._installed = False
        self._wake = asyncio.Event()

    async def run(self) -> None:
        self._desk.on_pod = self._pod_changed
        self._desk.on_room = self._room
        try:
            await self._open()
            while True:
                await self._wake.wait()
                if self._period:
                    await asyncio.sleep(self._period)
                self._wake.clear()
                if self._is_installed():
                    await self._mirrors.synced(*self.kinds)
                    await self._cycle()
        finally:
            for timer in self._timers.values():
                timer.cancel()
            if self._own_mirrors:
                await self._own_mirrors.close()

    # What differs

    async def _open(self) -> None:
        """Follow nodes and pods; what must be known before the first pod is followed before."""
        if self.kinds:
            self._mirrors.of(CRDS).subscribe(lambda old, new: self._wake.set())
        await self._desk.open()

    def _follow(self) -> None:
        """Follow the objects of its own kinds, which are served from now on."""
        return

    @abstractmethod
    def _pod_changed(self, old: Manifest | None, new: Manifest | None) -> None: ...

    @abstractmethod
    async def _cycle(self) -> None:
        """Decide until nothing is active."""

    # What wakes whom

    def _is_installed(self) -> bool:
        if not self._installed and established(self._mirrors, *self.kinds):
            self._installed = True
            self._follow()
        return self._installed

    def _activate(self, unit: Unit) -> None:
        self._parked.pop(unit, None)
        self._active[unit] = None
        self._wake.set()

    def _park(self, unit: Unit) -> None:
        """Leave it until there is room, and remember since when."""
        self._parked[unit] = asyncio.get_running_loop().time()

    def _room(self) -> None:
        """A node came or grew, or a pod went: whoever waited may fit now."""
        for unit in list(self._parked):
            self._activate(unit)

    def _later(self, key: Hashable, seconds: float, then: Callable[[], None]) -> None:
        """Call it after a while, unless a call under this key is already on its way."""
        if key not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[key] = loop.call_later(seconds, self._ring, key, then)

    def _ring(self, key: Hashable, then: Callable[[], None]) -> None:
        self._timers.pop(key, None)
        then()

    def _never(self, key: Hashable) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def _retry(self, unit: Unit, seconds: float = RETRY_SECONDS) -> None:
        self._later(unit, seconds, functools.partial(self._activate, unit))


class DecidingScheduler(SessionScheduler[Unit], Generic[Unit, Decision]):
    """Decides on each unit on its own, the most important first, and writes what it decided."""

    @abstractmethod
    def _rank(self, unit: Unit) -> tuple[int, str, Unit]:
        """Those with lower ranks are served first."""

    @abstractmethod
    def _decide(self, unit: Unit) -> Decision | None:
        """What is to be written about a unit; None if nothing. Books what it places."""

    @abstractmethod
    async def _write(self, unit: Unit, decision: Decision) -> None: ...

    async def _cycle(self) -> None:
        while self._active:
            await self._pass()

    async def _pass(self) -> None:
        """Look once at each unit that is active now."""
        order = sorted(self._active, key=self._rank)
        for start in range(0, len(order), BATCH):
            writes = []
            for unit in order[start : start + BATCH]:
                self._active.pop(unit, None)
                decision = self._consider(unit)
                if decision is not None:
                    writes.append(functools.partial(self._write, unit, decision))
            await run_all(writes)

    def _consider(self, unit: Unit) -> Decision | None:
        try:
            return self._decide(unit)
        except Exception:
            # One gang that we cannot read must not stop the others.
            log.exception("cannot decide", extra={"scheduler": self.name, "unit": unit})
            return None


class PodGroupScheduler(DecidingScheduler[Unit, Decision]):
    """Serves pods that name the PodGroup they belong to, and no others."""

    def __init__(
        self, client: ActorClient, clock: Clock, *, mirrors: Mirrors | None, options: SessionOptions
    ) -> None:
        super().__init__(client, clock, mirrors=mirrors, options=options)
        self._members: dict[Unit, dict[Key, None]] = {}

    @abstractmethod
    def _home(self, pod: Manifest) -> Unit | None:
        """The PodGroup that a pod of this scheduler names."""

    async def _open(self) -> None:
        await super()._open()
        self._classes = self._mirrors.of(PRIORITY_CLASSES)

    def _pod_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        home = None
        for pod in (old, new):
            home = None if pod is None or pod["spec"].get("schedulerName") != self.name else self._home(pod)
            if pod is not None and home is not None:
                self._count(home, pod, present=pod is new)
        if new is not None and home is not None and _is_news(old, new):
            self._activate(home)

    def _count(self, home: Unit, pod: Manifest, *, present: bool) -> None:
        members = self._members.setdefault(home, {})
        if present and is_member(pod):
            members[key_of(pod)] = None
            return
        members.pop(key_of(pod), None)
        if not members:
            del self._members[home]

    def _pods(self, unit: Unit) -> list[Manifest]:
        """The members in order, as they will be once the binds in flight have arrived."""
        found = (self._desk.pods.get(key) for key in self._members.get(unit, ()))
        return [self._desk.as_bound(pod) for pod in in_order(pod for pod in found if pod is not None)]

    def _starved_first(self, unit: Unit, group: Manifest) -> str:
        """The order among groups of one priority: those below their minimum first, then the older ones."""
        least = int((group.get("spec") or {}).get("minMember") or 0)
        starved = sum(bool(node_of(pod)) for pod in self._pods(unit)) < least
        return f"{'0' if starved else '1'} {group['metadata'].get('creationTimestamp') or ''}"


def _is_news(old: Manifest | None, new: Manifest) -> bool:
    """Whether a pod asks for something else; our own status writes come back as changes too."""
    if node_of(new):
        return False
    if old is None or old["spec"] != new["spec"]:
        return True
    meta, before = new["metadata"], old["metadata"]
    return any(meta.get(part) != before.get(part) for part in ("labels", "annotations"))
