"""core/v1 Events of the actors: the same sentence about the same object counts up instead of piling up.

Best effort by contract: an event that the server refuses is dropped, and nobody waits for one.
"""

from __future__ import annotations

import hashlib

from grove.embedded.actors.objects import EVENTS
from grove.embedded.clock import Clock, rfc3339
from grove.embedded.errors import ApiError, Manifest
from grove.embedded.local import ActorClient

REMEMBERED = 20_000


class EventWriter:
    """Writes events in the name of one component."""

    def __init__(self, client: ActorClient, clock: Clock, component: str) -> None:
        self._client = client
        self._clock = clock
        self._component = component
        self._counts: dict[str, int] = {}

    async def write(self, about: Manifest, reason: str, message: str, *, kind: str = "Normal") -> None:
        meta = about["metadata"]
        namespace = meta.get("namespace") or "default"
        name = self._name(about, reason, message)
        count = self._counts.get(name, 0) + 1
        self._remember(name, count)
        now = rfc3339(self._clock.now())
        try:
            if count > 1:
                patch = {"count": count, "lastTimestamp": now}
                await self._client.patch(EVENTS.path((namespace, name)), patch)
                return
            await self._client.create(
                EVENTS.collection(namespace), self._event(about, name, reason, message, kind, now)
            )
        except (ApiError, OSError, TimeoutError):
            self._counts.pop(name, None)

    async def write_series(self, about: Manifest, reason: str, message: str) -> None:
        """As components do that write through `events.k8s.io`: while the object does not change, what has
        the same reason is one event with the first text; the second time is marked, later ones are not.
        """
        meta = about["metadata"]
        namespace = meta.get("namespace") or "default"
        name = self._name(about, reason, meta.get("resourceVersion") or "")
        count = self._counts.get(name, 0) + 1
        self._remember(name, count)
        now = rfc3339(self._clock.now())
        try:
            if count == 1:
                event = self._event(about, name, reason, message, "Normal", now)
                await self._client.create(
                    EVENTS.collection(namespace), {**event, "eventTime": now, "action": reason}
                )
            elif count == 2:
                series = {"count": count, "lastObservedTime": now}
                await self._client.patch(EVENTS.path((namespace, name)), {"series": series})
        except (ApiError, OSError, TimeoutError):
            self._counts.pop(name, None)

    def _event(self, about: Manifest, name: str, reason: str, message: str, kind: str, now: str) -> Manifest:
        meta = about["metadata"]
        target = {
            "apiVersion": about.get("apiVersion"),
            "kind": about.get("kind"),
            "namespace": meta.get("namespace"),
            "name": meta["name"],
            "uid": meta.get("uid"),
            "resourceVersion": meta.get("resourceVersion"),
        }
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": meta.get("namespace") or "default"},
            "involvedObject": {field: value for field, value in target.items() if value},
            "reason": reason,
            "message": message,
            "type": kind,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._component,
        }

    def _name(self, about: Manifest, reason: str, message: str) -> str:
        meta = about["metadata"]
        identity = "\n".join((self._component, meta.get("uid") or "", reason, message))
        return f"{meta['name'][:230]}.{hashlib.sha1(identity.encode()).hexdigest()[:16]}"

    def _remember(self, name: str, count: int) -> None:
        self._counts.pop(name, None)
        self._counts[name] = count
        if len(self._counts) > REMEMBERED:
            del self._counts[next(iter(self._counts))]
