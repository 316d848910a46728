"""Events do not stay for ever: one that nobody wrote for an hour is removed, as on a real API server.

Kubernetes keeps them under a lease of etcd, which every write of the event renews. Watches see the removal as
a deletion. One timer for the oldest event; nothing runs while there are none.
"""

from __future__ import annotations

import asyncio

from grove.embedded.errors import NotStored
from grove.embedded.storage.store import Event, ObjectKey, Store, TableKey

EVENTS: TableKey = ("", "events")
LIFETIME_SECONDS = 3600.0
RETRY_SECONDS = 10.0


class EventExpiry:
    """Removes the Events of one store when their time is over."""

    def __init__(self, store: Store, *, lifetime: float = LIFETIME_SECONDS) -> None:
        self._store = store
        self._lifetime = lifetime
        self._deadlines: dict[ObjectKey, float] = {}
        """Oldest first, because every event has the same lifetime from its last write on."""
        self._running = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Follows the store from now on; events that are already there live as long as new ones."""
        self._running = True
        self._store.listeners.append(self._changed)
        self.look_again()

    def look_again(self) -> None:
        """Begins again with the events that are there, because the state was replaced."""
        if self._running:
            self._deadlines.clear()
            for key in self._store.table(EVENTS).entries:
                self._renew(key)

    def stop(self) -> None:
        if self._running:
            self._running = False
            self._store.listeners.remove(self._changed)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._deadlines.clear()

    def _changed(self, table: TableKey, event: Event) -> None:
        if table != EVENTS:
            return
        if event.type == "DELETED":
            self._deadlines.pop(event.key, None)
        else:
            self._renew(event.key)

    def _renew(self, key: ObjectKey) -> None:
        loop = asyncio.get_running_loop()
        self._deadlines.pop(key, None)
        self._deadlines[key] = loop.time() + self._lifetime
        if self._timer is None:
            self._timer = loop.call_later(self._lifetime, self._expire)

    def _expire(self) -> None:
        """Removes what is due and comes back for the next; later, when the disk does not take it."""
        loop = asyncio.get_running_loop()
        self._timer = None
        pause = 0.0
        for key, deadline in list(self._deadlines.items()):
            if deadline > loop.time():
                break
            try:
                self._remove(key)
            except NotStored:
                pause = RETRY_SECONDS
                break
        if self._deadlines:
            due = next(iter(self._deadlines.values()))
            self._timer = loop.call_at(max(due, loop.time() + pause), self._expire)

    def _remove(self, key: ObjectKey) -> None:
        if self._store.find(EVENTS, *key) is not None:
            self._store.remove(EVENTS, *key)
        self._deadlines.pop(key, None)
