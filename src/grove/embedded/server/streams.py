"""Watch responses: a stream of JSON frames from a watcher.

Frames are built once per event and shared by all watchers that want plain objects in the stored version;
tables, metadata and other versions are built per watcher. Ends by timeout, by the client, or when the
watcher is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass

from grove.embedded.errors import ApiError, Manifest
from grove.embedded.faults import Fault
from grove.embedded.machinery import conversion
from grove.embedded.machinery.options import WatchOptions
from grove.embedded.resource_type import ResourceType
from grove.embedded.server.negotiation import Form
from grove.embedded.server.tables import Printer, partial_metadata
from grove.embedded.storage.store import Entry, Event, Watcher, encode
from grove.embedded.verbs.api import API

BOOKMARK_SECONDS = 60.0
INITIAL_END = {"k8s.io/initial-events-end": "true"}


@dataclass(slots=True)
class WatchStream:
    """One watch request that is being answered."""

    api: API
    resource: ResourceType
    options: WatchOptions
    form: Form = Form.OBJECT
    printer: Callable[[ResourceType], Printer] | None = None
    include: str = "Metadata"
    fault: Fault | None = None
    bookmark_seconds: float = BOOKMARK_SECONDS
    _headed: bool = False

    async def frames(self, watcher: Watcher, initial: list[Entry] | None) -> AsyncGenerator[bytes, None]:
        """The bytes to send; what was pending at once goes in one piece."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.options.timeout
        sent = 0
        try:
            if initial is not None:
                first = self._initial(initial)
                if first:
                    yield first
            while True:
                left = deadline - loop.time()
                if left <= 0:
                    break
                pending = await self._pending(watcher, min(left, self.bookmark_seconds), sent)
                if pending is None:
                    return
                if pending:
                    sent += len(pending)
                    yield b"".join([self._frame(kind, event) for kind, event in pending])
                elif watcher.closed:
                    break
                elif self.options.bookmarks and loop.time() < deadline:
                    yield self._bookmark()
            if watcher.error is not None:
                yield error_frame(watcher.error)
            elif self.options.bookmarks and not watcher.closed:
                yield self._bookmark()
        finally:
            self.api.store.unwatch(self.resource.key, watcher)

    async def _pending(self, watcher: Watcher, seconds: float, sent: int) -> list[tuple[str, Event]] | None:
        """What to send next, possibly nothing; None when a fault ends the watch."""
        fault = self.fault
        if fault is not None and fault.action == "stall" and sent >= fault.events:
            # Silence: the client must notice by itself that nothing comes any more.
            await asyncio.sleep(fault.seconds or self.options.timeout)
            return None
        if fault is not None and fault.action == "drop" and sent >= fault.events:
            return None
        await watcher.wait(seconds)
        if fault is not None and fault.action == "delay" and watcher.buffer:
            await asyncio.sleep(fault.seconds)
        count = len(watcher.buffer)
        if fault is not None and fault.action in ("drop", "stall"):
            count = min(count, fault.events - sent)
        return [watcher.buffer.popleft() for _ in range(count)]

    def _initial(self, entries: list[Entry]) -> bytes:
        """The state at the start as ADDED events, closed by a bookmark when the client asked for one."""
        frames = [self._frame("ADDED", Event("ADDED", ("", ""), entry, None)) for entry in entries]
        if self.options.initial_events:
            frames.append(self._bookmark(INITIAL_END))
        return b"".join(frames)

    def _frame(self, kind: str, event: Event) -> bytes:
        if self.form is Form.OBJECT and not self.resource.stored_as:
            return event.frame(kind)
        obj = conversion.to_served(self.resource, event.object_for(kind))
        return encode({"type": kind, "object": self._shown(obj)}) + b"\n"

    def _shown(self, obj: Manifest) -> Manifest:
        if self.form is Form.METADATA:
            return partial_metadata(obj)
        if self.form is Form.TABLE and self.printer is not None:
            meta = {"resourceVersion": obj["metadata"]["resourceVersion"]}
            header, self._headed = not self._headed, True
            return self.printer(self.resource).table(
                [obj], now=self.api.clock.now(), metadata=meta, include=self.include, header=header
            )
        return obj

    def _bookmark(self, annotations: dict[str, str] | None = None) -> bytes:
        """Tells the client how far it is; only sent when nothing is pending, so nothing before it is
        missing."""
        meta: Manifest = {"resourceVersion": str(self.api.store.revision), "creationTimestamp": None}
        if annotations:
            meta["annotations"] = annotations
        if self.form is Form.TABLE and self.printer is not None:
            header, self._headed = not self._headed, True
            row = {"kind": self.resource.kind, "apiVersion": self.resource.api_version, "metadata": meta}
            obj = self.printer(self.resource).table(
                [], now=self.api.clock.now(), metadata=meta, header=header
            )
            obj["rows"] = [{"cells": [], "object": row}] if annotations else []
            obj["metadata"] = {"resourceVersion": meta["resourceVersion"]}
        elif self.form is Form.METADATA:
            obj = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
        else:
            obj = {"kind": self.resource.kind, "apiVersion": self.resource.api_version, "metadata": meta}
        return encode({"type": "BOOKMARK", "object": obj}) + b"\n"


def error_frame(error: ApiError) -> bytes:
    return encode({"type": "ERROR", "object": error.to_status()}) + b"\n"


async def only(frame: bytes) -> AsyncGenerator[bytes, None]:
    """A stream of one frame."""
    yield frame
