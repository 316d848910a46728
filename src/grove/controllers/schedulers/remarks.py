"""Events that schedulers write about pods, for backends whose scheduler reports causes nowhere else.

One watch for each source of events, narrowed by the API server to one component, one reason and pods. Only
the newest text about a pod is kept, only while the pod has no node, and of pods that the cache does not know
(yet) only some: others than us use the same scheduler. What an event said is kept when the event expires: as
long as the pod waits, it is the last that was said.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from grove.api.event import EVENTS, PodEvent
from grove.api.pod import Pod
from grove.backends.base import EventSource, Remark
from grove.controllers.schedulers.watches import Watches
from grove.meta import Key, Object
from grove.runtime.cache import Cache
from grove.runtime.clock import Clock
from grove.runtime.informer import Informer
from grove.runtime.ports import Reader
from grove.runtime.store import version_number

#: Of so many pods that are not in the cache the remarks are kept: an event may be faster than its pod.
MOST_UNKNOWN: Final = 1000


@dataclass(frozen=True, slots=True)
class _Kept:
    remark: Remark
    #: The newer of two events about a pod has the greater one; a repeated event is as old as its text.
    age: tuple[str, int]


class Remarks:
    """The watches behind `Context.remarks`."""

    def __init__(self, client: Reader, cache: Cache, clock: Clock, rng: random.Random) -> None:
        #: Called with a pod about which something else is said than before.
        self.changed: list[Callable[[Pod], None]] = []
        #: Called with a backend's name when its events have been listed for the first time.
        self.listed: list[Callable[[str], None]] = []
        self._client = client
        self._cache = cache
        self._clock = clock
        self._rng = rng
        self._wanted: dict[str, EventSource] = {}
        self._watches: Watches[EventSource, PodEvent] = Watches("remarks", self._informer)
        self._kept: dict[str, _Kept] = {}
        self._unknown: dict[str, _Kept] = {}

    def want(self, wanted: Mapping[str, EventSource]) -> None:
        """From now on these are watched, by the names of the backends that want them, and no others."""
        self._wanted = dict(wanted)
        self._watches.want(frozenset(self._wanted.values()))
        if not self._wanted:
            self._kept.clear()
            self._unknown.clear()

    def of(self, backend: str, pods: Iterable[Pod]) -> Mapping[str, Remark] | None:
        """What was said about pods, by their UIDs; None while that is not known."""
        source = self._wanted.get(backend)
        if source is None or not self._watches[source].synced.is_set():
            return None
        found = ((pod.uid, self._kept.get(pod.uid)) for pod in pods)
        return {uid: kept.remark for uid, kept in found if kept is not None}

    async def run(self) -> None:
        """Keep watching until cancelled."""
        await self._watches.run()

    def saw(self, old: Object | None, new: Object | None) -> None:
        """A pod changed: what was said about it is needed only as long as it has no node."""
        if old is not None and (new is None or new.uid != old.uid):
            self._kept.pop(old.uid, None)
        if not isinstance(new, Pod):
            return
        if new.bound:
            self._kept.pop(new.uid, None)
        elif (early := self._unknown.pop(new.uid, None)) is not None:
            # Nobody is told: who sees the pod for the first time looks at its gang anyway.
            self._kept[new.uid] = early

    def _informer(self, source: EventSource) -> Informer[PodEvent]:
        fields = {
            "involvedObject.kind": "Pod",
            "reportingComponent": source.component,
            "reason": source.reason,
        }
        informer = Informer(
            self._client,
            EVENTS,
            PodEvent,
            fields=",".join(f"{name}={value}" for name, value in fields.items() if value),
            keeps=False,
            clock=self._clock,
            rng=random.Random(self._rng.getrandbits(64)),
        )
        informer.subscribe(self._heard)
        listed = False

        def progress(key: Key | None) -> None:
            nonlocal listed
            if not listed and informer.synced.is_set():
                listed = True
                for backend, wanted in self._wanted.items():
                    if wanted == source:
                        for tell in self.listed:
                            tell(backend)

        informer.on_progress(progress)
        return informer

    def _heard(self, old: PodEvent | None, new: PodEvent | None) -> None:
        if new is None or not new.message:
            return
        about = new.involved_object
        age = (
            new.event_time or new.metadata.creation_timestamp,
            version_number(new.metadata.resource_version),
        )
        kept = _Kept(Remark(new.message, repeated=new.series is not None), age)
        pod = self._cache.store(Pod).get(Key(about.namespace, about.name))
        if pod is None or pod.uid != about.uid:
            self._unknown.pop(about.uid, None)
            self._unknown[about.uid] = kept
            if len(self._unknown) > MOST_UNKNOWN:
                del self._unknown[next(iter(self._unknown))]
            return
        known = self._kept.get(about.uid)
        if pod.bound or (known is not None and known.age > age):
            return
        self._kept[about.uid] = kept
        if known is None or known.remark != kept.remark:
            for tell in self.changed:
                tell(pod)
