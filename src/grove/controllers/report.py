"""Writes an object's status at most once a reconcile, and not while it is about to change again.

A pod's way from created to ready changes its clique's and its gang's status several times within moments.
How soon a status is written depends on who waits for it (`Haste`): progress comes first, reports when it is
quiet, and why something cannot go on comes soon however busy it is.
"""

import asyncio
from dataclasses import dataclass
from enum import Enum, auto

import msgspec

from grove.controllers.apply import BUSY, Applied, Applier, Remembers
from grove.controllers.flow import Flow
from grove.meta import Key, Manifest, Object, Resource
from grove.plan.changes import Patch, difference
from grove.runtime.clock import Clock
from grove.runtime.outcome import DONE, After, Outcome

HOLD_SECONDS = 0.5
#: While many are held back, all wait longer: what changes for one gang of hundreds will change again.
HOLD_SECONDS_EACH = 0.004
HOLD_SECONDS_MOST = 2.0
HOLD_WHILE_BUSY_SECONDS = 30.0
#: What is on its way, while pods are being placed in numbers; seconds after that ends it is told.
HOLD_WHILE_MOVING_SECONDS = 120.0
#: So long it must be quiet before everybody who was held back is called.
QUIET_SECONDS = 1.0


class Haste(Enum):
    """Who waits for a status."""

    #: Somebody cannot go on before it is written.
    AT_ONCE = auto()
    #: A person wants to know why something does not go on; it may yet be over in a moment.
    SOON = auto()
    #: Nobody in particular: once it has settled and there is nothing more important to do.
    WHEN_QUIET = auto()
    #: It only says that something is on its way: not while things are on their way everywhere.
    WHEN_STILL = auto()


@dataclass(frozen=True, slots=True)
class Reported:
    """What a report led to: whether the status was written, and when to look again."""

    written: bool
    outcome: Outcome
    resource_version: str = ""


_Held = tuple[Resource, Key]


class Reporter:
    """Compares statuses, holds them back for as long as they settle, and writes them."""

    def __init__(self, applier: Applier, clock: Clock, flow: Flow) -> None:
        self._applier = applier
        self._clock = clock
        self._flow = flow
        self._since: dict[_Held, float] = {}
        #: Who was held back because there was more important work, and how to call them; and who until
        #: pods are no longer being placed.
        self._waiting: dict[_Held, Remembers] = {}
        self._moving: dict[_Held, Remembers] = {}
        self._timer: asyncio.Handle | None = None
        applier.on_quiet = self._quiet_soon

    async def report(
        self,
        resource: Resource,
        about: Object,
        status: Manifest,
        *,
        barrier: Remembers,
        haste: Haste = Haste.WHEN_QUIET,
    ) -> Reported:
        """Write what differs of a status, now or soon; only if the object is still as it was observed."""
        held = (resource, about.key)
        # The status alone: the spec of a large gang names a thousand pods.
        observed = msgspec.to_builtins(getattr(about, "status", None)) or {}
        changed = difference(status, observed)
        if not changed:
            self.forget(*held)
            return Reported(False, DONE)
        wait = self._wait(held, barrier, haste)
        if wait > 0:
            return Reported(False, After(wait, "the status settles"))
        self.forget(*held)
        version = about.metadata.resource_version
        change = Patch(
            resource, about.key, {"status": changed}, subresource="status", resource_version=version
        )
        applied = await self._applier.apply([change], barrier=barrier, key=about.key)
        applied.raise_failure()
        # Nothing was written of an object that is gone by now.
        version = _version(applied, resource, about.key)
        return Reported(bool(version), DONE, version)

    def forget(self, resource: Resource, key: Key) -> None:
        """Nothing more will be said about this object."""
        self._since.pop((resource, key), None)
        self._waiting.pop((resource, key), None)
        self._moving.pop((resource, key), None)

    def _wait(self, held: _Held, barrier: Remembers, haste: Haste) -> float:
        """For how many seconds still this status is held back."""
        now, busy = self._clock.monotonic(), self._applier.pending >= BUSY
        if self._moving.pop(held, None) is not None and haste is not Haste.WHEN_STILL:
            # Only now there is something to tell, and perhaps not yet all of it.
            self._since[held] = now
        since = self._since.setdefault(held, now)
        if haste is Haste.AT_ONCE:
            return 0.0
        if haste is Haste.SOON:
            limit = HOLD_SECONDS
        elif haste is Haste.WHEN_STILL and (busy or self._flow.moves):
            self._moving[held] = barrier
            self._quiet_soon()
            limit = HOLD_WHILE_MOVING_SECONDS
        elif busy:
            # Called when it is quiet; looking from time to time whether it is would itself be much to do.
            self._waiting[held] = barrier
            limit = HOLD_WHILE_BUSY_SECONDS
        else:
            limit = max(HOLD_SECONDS, min(HOLD_SECONDS_MOST, HOLD_SECONDS_EACH * len(self._since)))
        wait = since + limit - now
        # What is left of a wait by the inaccuracy of floats alone is no wait.
        return wait if wait > 0.001 else 0.0

    def _quiet_soon(self) -> None:
        if self._timer is None and (self._waiting or self._moving):
            self._timer = asyncio.get_running_loop().call_later(QUIET_SECONDS, self._call)

    def _call(self) -> None:
        """Call everybody who was held back, as far as it is still quiet."""
        self._timer = None
        if self._applier.pending >= BUSY:
            # The applier tells when that is over.
            return
        called, self._waiting = self._waiting, {}
        if not self._flow.moves:
            called, self._moving = {**called, **self._moving}, {}
        for (_, key), barrier in called.items():
            barrier.wake(key)
        self._quiet_soon()


def _version(applied: Applied, resource: Resource, key: Key) -> str:
    return applied.versions.get((resource, key), "")
