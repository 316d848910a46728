"""Leader election on a Lease: at most one process works at a time.

Why there are never two leaders, without trusting anybody's wall clock:
- A leader counts its leadership from the moment it *sent* the last successful renewal, and stops working
  `duration - renew_deadline` before anybody else may take over.
- A candidate counts from the moment it *saw* the record change last, on its own monotonic clock, and waits
  for the whole duration that the holder wrote into it. It saw the record after the holder had sent it.
- Every write names the resourceVersion that it replaces: of two candidates one gets a conflict, and a write
  that was given up but arrives late meets a record that has moved on.
- The work is cancelled and joined before the lease is released, and renewed for as long as it needs to end.
- What the work writes passes a fence that is open only while the lease is held: a leader that was stopped for
  longer than that, or whose event loop was, sends nothing when it goes on.

Never starts work without the lease and never renews for somebody else.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from grove.errors import AlreadyExists, Conflict, Forbidden, GroveError, NotFound
from grove.kube.fence import Fence
from grove.meta import Key, Manifest, resource
from grove.runtime.clock import Clock, rfc3339_micro
from grove.runtime.metrics import Metrics
from grove.runtime.ports import LeaseClient

log = logging.getLogger(__name__)

LEASES: Final = resource("coordination.k8s.io", "v1", "Lease")


class LeadershipLost(GroveError):
    """Another process may lead now; this one must not write any more and should exit."""

    code = "ERR_LEADERSHIP_LOST"


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long a lease holds, when its holder gives up, and how often it is renewed; in seconds."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > self.retry_period * 1.2 > 0:
            raise ValueError(
                "leader election needs leaseDuration > renewDeadline > 1.2 × retryPeriod > 0, but got"
                f" {self.duration:g} s, {self.renew_deadline:g} s and {self.retry_period:g} s"
            )


class LeaderElector:
    """Takes the lease, keeps it while the work runs, and gives it back."""

    def __init__(
        self,
        client: LeaseClient,
        key: Key,
        identity: str,
        *,
        clock: Clock,
        rng: random.Random | None = None,
        times: LeaseTimes | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self.identity = identity
        #: Who holds the lease as far as we know; empty when nobody does.
        self.holder = ""
        #: Why the lease cannot be taken or kept, as a sentence; None while all is well.
        self.problem: str | None = None
        self._client = client
        self._key = key
        self._clock = clock
        self._rng = rng or random.Random()
        self._times = times or LeaseTimes()
        self._leads = (metrics or Metrics()).leading.labels(key.name)
        #: The record as we last saw it, and when we saw it change.
        self._record: Manifest | None = None
        self._observed_at = 0.0
        #: Open while we lead; whoever writes for the leader does it through this.
        self.fence = Fence(clock.monotonic)
        self._claiming = False

    @property
    def leading(self) -> bool:
        """Whether this process leads at this moment."""
        return self.fence.open

    async def run(
        self, work: Callable[[], Awaitable[None]], *, on_lost: Callable[[], None] = lambda: None
    ) -> None:
        """Wait for the lease, then do the work while renewing it; ends with it or with `LeadershipLost`.

        When cancelled, the work is cancelled and awaited, still under the lease, and then the lease is
        released. `on_lost` is called before the work is cancelled because the lease is lost: there is no
        time for grace.
        """
        try:
            await self._acquire()
        except asyncio.CancelledError:
            if self._claiming:
                # The claim may have been written all the same; do not make the others wait for it to expire.
                await self._release()
            raise
        self._leads.set(1)
        log.info("leading", extra={"lease": str(self._key), "identity": self.identity})
        working = asyncio.create_task(_call(work), name="leading work")
        renewing = asyncio.create_task(self._renew_until_lost(), name="lease renewal")
        try:
            await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._end(working, renewing, on_lost)
        if renewing.done() and not renewing.cancelled():
            raise LeadershipLost(
                f"lost the lease {self._key}: {self.problem or f'it is held by {self.holder!r}'}"
            )
        await working

    async def _end(
        self, working: "asyncio.Task[None]", renewing: "asyncio.Task[None]", on_lost: Callable[[], None]
    ) -> None:
        """Stop the work, under the lease for as long as it takes; then release."""
        told = False
        if not renewing.done():
            working.cancel()
        while not working.done():
            lost = renewing.done()
            if lost and not told:
                told = True
                on_lost()
                working.cancel()
            watched = {working} if lost else {working, renewing}
            try:
                await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                # Asked to stop again: whoever asks twice is in a hurry, but the work must still be joined.
                on_lost()
                working.cancel()
        if not working.cancelled():
            # Looked at here, so that it does not count as forgotten when we end by cancellation.
            working.exception()
        lost = renewing.done()
        renewing.cancel()
        await asyncio.wait({renewing})
        self.fence.shut()
        self._leads.set(0)
        if not lost:
            await self._release()

    async def _acquire(self) -> None:
        """Try, at jittered intervals, until the lease is ours."""
        while True:
            started = self._clock.monotonic()
            if await self._attempt(self._try_acquire, deadline=started + self._times.renew_deadline / 2):
                # Counted from before the request: the server may have written at any moment since.
                self.fence.extend(started + self._times.renew_deadline)
                if self.leading:
                    return
            await asyncio.sleep(self._pause())

    async def _renew_until_lost(self) -> None:
        """Renew until it cannot be done in time; returns when leadership is lost."""
        started = self._clock.monotonic()
        while True:
            # The period runs from request to request: a slow answer must not eat the time for the next one.
            taken = self._clock.monotonic() - started
            pause = max(self._times.retry_period / 4, self._pause() - taken)
            await asyncio.sleep(min(pause, max(0.0, self.fence.until - self._clock.monotonic())))
            started = self._clock.monotonic()
            if not self.leading:
                break
            # Give up on one request early enough that a second one has a chance before the deadline.
            limit = min(self.fence.until, started + self._times.renew_deadline / 2)
            if await self._attempt(self._try_renew, deadline=limit):
                self.fence.extend(started + self._times.renew_deadline)
            elif self.holder != self.identity:
                break
        self.fence.shut()

    async def _attempt(self, action: Callable[[], Awaitable[bool]], *, deadline: float) -> bool:
        """One bounded try; what goes wrong is kept in `problem` and said once."""
        problem = None
        try:
            async with asyncio.timeout(max(0.0, deadline - self._clock.monotonic())):
                if await action():
                    self._report(None)
                    return True
        except TimeoutError:
            problem = "the API server did not answer in time"
        except (Conflict, AlreadyExists):
            # Somebody wrote in between; what we remember is stale either way.
            self._record = None
        except Forbidden as error:
            problem = (
                f"not allowed to use leases in namespace {self._key.namespace!r}: grant the verb 'create',"
                f" and 'get' and 'update' on the name {self._key.name!r}, of resource 'leases' of API group"
                " 'coordination.k8s.io'"
                f" (the server said: {error})"
            )
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        self._report(problem)
        return False

    async def _try_acquire(self) -> bool:
        try:
            record: Manifest = await self._client.get(LEASES, self._key, type=dict)
        except NotFound:
            self._claiming = True
            self._observe(await self._client.create(LEASES, self._new_manifest(), type=dict))
            return True
        self._observe(record)
        if not self._may_take(record):
            return False
        self._claiming = True
        self._observe(await self._client.replace(LEASES, self._claimed(record), type=dict))
        return True

    async def _try_renew(self) -> bool:
        # Forgotten until the answer is here: after a conflict, or no answer at all, we look before we write
        # again.
        record, self._record = self._record, None
        if record is not None:
            try:
                self._observe(await self._client.replace(LEASES, self._claimed(record), type=dict))
                return True
            except Conflict:
                log.debug(
                    "lease was changed by another process, reading it again", extra={"lease": str(self._key)}
                )
        fresh: Manifest = await self._client.get(LEASES, self._key, type=dict)
        self._observe(fresh)
        if self.holder != self.identity:
            return False
        self._record = None
        self._observe(await self._client.replace(LEASES, self._claimed(fresh), type=dict))
        return True

    def _may_take(self, record: Manifest) -> bool:
        if self.holder in ("", self.identity):
            return True
        held_for = record.get("spec", {}).get("leaseDurationSeconds") or self._times.duration
        return self._clock.monotonic() >= self._observed_at + float(held_for)

    def _observe(self, record: Manifest) -> None:
        """Remember the record; its age counts from now if it differs in any way from the last one seen."""
        seen = (self._record or {}).get("metadata", {}).get("resourceVersion")
        if self._record is None or record["metadata"].get("resourceVersion") != seen:
            self._observed_at = self._clock.monotonic()
        holder = record.get("spec", {}).get("holderIdentity") or ""
        if holder not in ("", self.holder, self.identity):
            log.info("standing by", extra={"lease": str(self._key), "leader": holder})
        self._record = record
        self.holder = holder

    def _new_manifest(self) -> Manifest:
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._key.name, "namespace": self._key.namespace},
            "spec": self._spec({}),
        }

    def _claimed(self, record: Manifest) -> Manifest:
        """The record with us as its holder; its resourceVersion stays, and makes the write conditional."""
        return {**record, "spec": {**record.get("spec", {}), **self._spec(record.get("spec", {}))}}

    def _spec(self, before: Manifest) -> Manifest:
        now = rfc3339_micro(self._clock.now())
        ours = before.get("holderIdentity") == self.identity
        transitions = before.get("leaseTransitions") or 0
        return {
            "holderIdentity": self.identity,
            # Whole seconds on the wire; rounded up, since a longer lease is only a slower takeover.
            "leaseDurationSeconds": int(-(-self._times.duration // 1)),
            "acquireTime": before.get("acquireTime") or now if ours else now,
            "renewTime": now,
            "leaseTransitions": transitions if ours or not before else transitions + 1,
        }

    async def _release(self) -> None:
        """Give the lease back, so that the next leader need not wait; best effort, bounded."""
        self._claiming = False
        for _ in range(2):
            deadline = self._clock.monotonic() + self._times.retry_period
            if await self._attempt(self._try_release, deadline=deadline):
                log.info("lease released", extra={"lease": str(self._key)})
                return

    async def _try_release(self) -> bool:
        known, self._record = self._record, None
        record: Manifest
        record = known if known is not None else await self._client.get(LEASES, self._key, type=dict)
        self._observe(record)
        self._record = None
        if self.holder != self.identity:
            return True
        now = rfc3339_micro(self._clock.now())
        spec = {**record["spec"], "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now}
        self._observe(await self._client.replace(LEASES, {**record, "spec": spec}, type=dict))
        return True

    def _pause(self) -> float:
        return self._times.retry_period * self._rng.uniform(0.8, 1.2)

    def _report(self, problem: str | None) -> None:
        if problem is not None and problem != self.problem:
            log.warning("lease cannot be used", extra={"lease": str(self._key), "problem": problem})
        self.problem = problem


async def _call(work: Callable[[], Awaitable[None]]) -> None:
    await work()
