"""Writes an object's status at most once a reconcile, and not while it is about to change again.

A pod's way from created to ready changes its clique's and its gang's status several times within moments.
What nobody waits for is held back briefly, and longer while the operator is busy making pods run: progress
first, reports when it is quiet. What somebody waits for (`urgent`) is written at once.
"""

import asyncio
from dataclasses import dataclass

import msgspec

from grove.controllers.apply import BUSY, Applied, Applier, Remembers
from grove.meta import Key, Manifest, Object, Resource
from grove.plan.changes import Patch, difference
from grove.runtime.clock import Clock
from grove.runtime.outcome import DONE, After, Outcome

HOLD_SECONDS = 0.5
#: While many are held back, all wait longer: what changes for one gang of hundreds will change again.
HOLD_SECONDS_EACH = 0.004
HOLD_SECONDS_MOST = 2.0
HOLD_WHILE_BUSY_SECONDS = 30.0
#: So long it must be quiet before everybody who was held back is called.
QUIET_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Reported:
    """What a report led to: whether the status was written, and when to look again."""

    written: bool
    outcome: Outcome
    resource_version: str = ""


class Reporter:
    """Compares statuses, holds them back for as long as they settle, and writes them."""

    def __init__(self, applier: Applier, clock: Clock) -> None:
        self._applier = applier
        self._clock = clock
        self._since: dict[tuple[Resource, Key], float] = {}
        #: Who was held back because there was more important work, and how to call them.
        self._waiting: dict[tuple[Resource, Key], Remembers] = {}
        self._timer: asyncio.Handle | None = None
        applier.on_quiet = self._quiet_soon

    async def report(
        self,
        resource: Resource,
        about: Object,
        status: Manifest,
        *,
        barrier: Remembers,
        urgent: bool = False,
        resource_version: str = "",
    ) -> Reported:
        """Write what differs of a status, now or soon; a version makes the write conditional on it."""
        held = (resource, about.key)
        # The status alone: the spec of a large gang names a thousand pods.
        observed = msgspec.to_builtins(getattr(about, "status", None)) or {}
        changed = difference(status, observed)
        if not changed:
            self.forget(*held)
            return Reported(False, DONE)
        wait = 0.0 if urgent else self._wait(held, barrier)
        if wait > 0:
            return Reported(False, After(wait, "the status settles"))
        self.forget(*held)
        change = Patch(
            resource, about.key, {"status": changed}, subresource="status", resource_version=resource_version
        )
        applied = await self._applier.apply([change], barrier=barrier, key=about.key)
        applied.raise_failure()
        return Reported(True, DONE, _version(applied, resource, about.key))

    def forget(self, resource: Resource, key: Key) -> None:
        """Nothing more will be said about this object."""
        self._since.pop((resource, key), None)
        self._waiting.pop((resource, key), None)

    def _wait(self, held: tuple[Resource, Key], barrier: Remembers) -> float:
        now = self._clock.monotonic()
        since = self._since.setdefault(held, now)
        if self._applier.pending >= BUSY:
            # Called when it is quiet; looking from time to time whether it is would itself be much to do.
            self._waiting[held] = barrier
            wait = since + HOLD_WHILE_BUSY_SECONDS - now
        else:
            crowd = min(HOLD_SECONDS_MOST, HOLD_SECONDS_EACH * len(self._since))
            wait = since + max(HOLD_SECONDS, crowd) - now
        # What is left of a wait by the inaccuracy of floats alone is no wait.
        return wait if wait > 0.001 else 0.0

    def _quiet_soon(self) -> None:
        if self._timer is None and self._waiting:
            self._timer = asyncio.get_running_loop().call_later(QUIET_SECONDS, self._call)

    def _call(self) -> None:
        """If it is still quiet, call everybody who was held back."""
        self._timer = None
        if self._applier.pending >= BUSY:
            return
        waiting, self._waiting = self._waiting, {}
        for (_, key), barrier in waiting.items():
            barrier.wake(key)


def _version(applied: Applied, resource: Resource, key: Key) -> str:
    return applied.versions.get((resource, key), "")
