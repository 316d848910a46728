"""Writes core/v1 Events about objects, combined and rate-limited.

Sending never waits and never fails: events are news, not state. The same news again bumps the count of the
first event; different news of one kind about one object are combined when they become too many; each object
has an allowance; the queue is bounded. What was not told is counted in a metric.
"""

import asyncio
import hashlib
import logging
from collections import OrderedDict, deque
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from grove.errors import NotFound
from grove.meta import Key, Manifest, Resource, resource
from grove.runtime.clock import Clock, rfc3339
from grove.runtime.metrics import Metrics
from grove.runtime.ports import EventClient

log = logging.getLogger(__name__)

EVENTS: Final = resource("", "v1", "Event")

#: Writes that one object may cause at once, and how fast the allowance grows again (per second).
BURST: Final = 25
REFILL: Final = 1 / 30
#: So many different messages with one reason about one object within the window; then they are combined.
SIMILAR: Final = 10
WINDOW_SECONDS: Final = 600.0
QUEUE_LIMIT: Final = 1000
REMEMBERED: Final = 4096
MESSAGE_LIMIT: Final = 1024
FLUSH_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class EventTarget:
    """The object that an event is about."""

    resource: Resource
    key: Key
    uid: str


@dataclass(frozen=True, slots=True)
class Event:
    """One piece of news."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    about: EventTarget


@dataclass(slots=True)
class _Story:
    """An event as it is told: how often, since when, and how much of that is written down."""

    event: Event
    first: datetime
    last: datetime
    name: str
    count: int = 0
    written: int = 0
    queued: bool = False


@dataclass(slots=True)
class _Allowance:
    """A token bucket."""

    tokens: float
    at: float

    def take(self, now: float) -> bool:
        self.tokens = min(float(BURST), self.tokens + (now - self.at) * REFILL)
        self.at = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


class Recorder:
    """Takes events in at once and writes them in the background."""

    def __init__(
        self,
        client: EventClient,
        clock: Clock,
        component: str,
        *,
        instance: str = "",
        metrics: Metrics | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._component = component
        self._instance = instance or component
        self._metrics = metrics or Metrics()
        self._stories: OrderedDict[Event, _Story] = OrderedDict()
        self._similar: OrderedDict[tuple[EventTarget, str, str], tuple[float, set[str]]] = OrderedDict()
        self._allowances: OrderedDict[EventTarget, _Allowance] = OrderedDict()
        self._queue: deque[_Story] = deque()
        self._work = asyncio.Event()

    def send(self, event: Event) -> None:
        """Tell this, soon; never waits and never raises."""
        try:
            self._take(event)
        except Exception:
            log.exception("event was dropped", extra={"reason": event.reason, "about": str(event.about.key)})

    async def run(self) -> None:
        """Write what was sent until cancelled; then write what is left, for a few seconds at most."""
        try:
            while True:
                await self._work.wait()
                await self._write_all()
        finally:
            await self.flush()

    async def flush(self, timeout: float = FLUSH_SECONDS) -> None:
        """Write what waits, or as much of it as the time allows."""
        try:
            async with asyncio.timeout(timeout):
                await self._write_all()
        except TimeoutError:
            self._metrics.events.labels("dropped").inc(len(self._queue))
            self._queue.clear()

    def _take(self, event: Event) -> None:
        now = self._clock.now()
        event = self._combined(event)
        story = self._stories.get(event)
        if story is None:
            story = self._stories[event] = _Story(event, now, now, self._name(event, now))
            while len(self._stories) > REMEMBERED:
                self._stories.popitem(last=False)
        self._stories.move_to_end(event)
        story.count += 1
        story.last = now
        if story.queued:
            return
        if len(self._queue) >= QUEUE_LIMIT or not self._allowed(event.about):
            # A story that was told before keeps its count, which goes out with its next allowed write.
            self._metrics.events.labels("deferred" if story.written else "dropped").inc()
            if not story.written:
                del self._stories[event]
            return
        story.queued = True
        self._queue.append(story)
        self._work.set()

    def _combined(self, event: Event) -> Event:
        """The event itself, or the one that stands for all its like when there are too many of them."""
        now = self._clock.monotonic()
        kind = (event.about, event.type, event.reason)
        since, messages = self._similar.get(kind, (now, set()))
        if now - since > WINDOW_SECONDS:
            since, messages = now, set()
        if len(messages) <= SIMILAR:
            messages.add(event.message)
        self._similar[kind] = (since, messages)
        self._similar.move_to_end(kind)
        while len(self._similar) > REMEMBERED:
            self._similar.popitem(last=False)
        message = event.message
        if len(messages) > SIMILAR and event not in self._stories:
            message = f"more than {SIMILAR} different messages with this reason; see the status of the object"
        if len(message) > MESSAGE_LIMIT:
            message = message[: MESSAGE_LIMIT - 1] + "…"
        return Event(event.type, event.reason, message, event.about)

    def _allowed(self, target: EventTarget) -> bool:
        now = self._clock.monotonic()
        allowance = self._allowances.setdefault(target, _Allowance(float(BURST), now))
        self._allowances.move_to_end(target)
        while len(self._allowances) > REMEMBERED:
            self._allowances.popitem(last=False)
        return allowance.take(now)

    async def _write_all(self) -> None:
        while self._queue:
            story = self._queue.popleft()
            story.queued = False
            try:
                await self._write(story)
                self._metrics.events.labels("written").inc()
            except Exception as error:
                self._failed(story, error)
        self._work.clear()

    async def _write(self, story: _Story) -> None:
        count, last = story.count, rfc3339(story.last)
        key = Key(story.event.about.key.namespace or "default", story.name)
        if story.written:
            try:
                await self._client.merge_patch(EVENTS, key, {"count": count, "lastTimestamp": last})
                story.written = count
                return
            except NotFound:
                # The server keeps events for an hour; this one begins again.
                story.first, story.count = story.last, count - story.written
                story.name = self._name(story.event, story.last)
        manifest = self._manifest(story)
        written = story.count
        await self._client.create(EVENTS, manifest)
        story.written = written

    def _failed(self, story: _Story, error: Exception) -> None:
        self._metrics.events.labels("failed").inc()
        log.debug(
            "event was not written",
            extra={"reason": story.event.reason, "about": str(story.event.about.key), "error": str(error)},
        )
        if not story.written:
            self._stories.pop(story.event, None)

    def _manifest(self, story: _Story) -> Manifest:
        event, about = story.event, story.event.about
        namespace = about.key.namespace or "default"
        involved: Manifest = {
            "apiVersion": about.resource.api_version,
            "kind": about.resource.kind,
            "name": about.key.name,
            "uid": about.uid,
        }
        if about.key.namespace:
            involved["namespace"] = about.key.namespace
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": story.name, "namespace": namespace},
            "involvedObject": involved,
            "type": event.type,
            "reason": event.reason,
            "message": event.message,
            "count": story.count,
            "firstTimestamp": rfc3339(story.first),
            "lastTimestamp": rfc3339(story.last),
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
        }

    def _name(self, event: Event, now: datetime) -> str:
        text = "\n".join(
            (self._instance, event.about.uid, event.type, event.reason, event.message, now.isoformat())
        )
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return f"{event.about.key.name[:236].rstrip('.-')}.{digest}"
