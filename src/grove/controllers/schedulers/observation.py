"""Watches the objects that backends depend on but do not write: queues, topologies, a scheduler's settings.

Each is watched by itself and never waited for: one that we may not read stays unknown, and a backend does not
complain about what it does not know. Changes are gathered for a moment; only those that change what a backend
may conclude are told, because a scheduler writes counters into its queues all the time.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from grove.backends.base import ObservedResource
from grove.controllers.schedulers.watches import Watches
from grove.meta import Manifest, Resource, UntypedObject
from grove.runtime.clock import Clock
from grove.runtime.informer import Informer
from grove.runtime.ports import Reader

GATHER_SECONDS: Final = 0.5

Sight = Mapping[Resource, tuple[Manifest, ...]]
#: What a backend concludes from what it sees, in a form that can be compared.
Conclude = Callable[[str], object]

_NOTHING: Final[Sight] = {}


class Observation:
    """The watches behind `Context.observed`."""

    def __init__(self, client: Reader, clock: Clock, rng: random.Random) -> None:
        #: Called with a backend's name when what it sees means something else than before.
        self.changed: list[Callable[[str], None]] = []
        self._client = client
        self._clock = clock
        self._rng = rng
        self._watches: Watches[ObservedResource, UntypedObject] = Watches("observing", self._informer)
        self._wanted: dict[str, tuple[ObservedResource, ...]] = {}
        self._sights: dict[str, Sight] = {}
        self._known: dict[str, object] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._conclude: Conclude = lambda name: None

    def concluding(self, conclude: Conclude) -> None:
        """Who says what a backend makes of what it sees."""
        self._conclude = conclude

    def want(self, wanted: Mapping[str, Sequence[ObservedResource]]) -> None:
        """From now on these are watched, by the names of the backends that want them, and no others."""
        self._wanted = {name: tuple(each) for name, each in wanted.items() if each}
        self._sights.clear()
        self._watches.want({each for some in self._wanted.values() for each in some})

    def of(self, backend: str) -> Sight:
        """What a backend sees: only kinds that were listed to the end."""
        if backend not in self._wanted:
            return _NOTHING
        sight = self._sights.get(backend)
        if sight is None:
            sight = self._sights[backend] = self._look(backend)
        return sight

    async def run(self) -> None:
        """Keep watching until cancelled."""
        try:
            await self._watches.run()
        finally:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    def _look(self, backend: str) -> Sight:
        seen: dict[Resource, tuple[Manifest, ...]] = {}
        for each in self._wanted[backend]:
            informer = self._watches[each]
            if informer.synced.is_set():
                found = tuple(item.manifest for item in sorted(informer.store, key=lambda item: item.key))
                seen[each.resource] = seen.get(each.resource, ()) + found
        return seen

    def _informer(self, each: ObservedResource) -> Informer[UntypedObject]:
        informer: Informer[UntypedObject] = Informer(
            self._client,
            each.resource,
            UntypedObject,
            namespace=each.namespace,
            fields=f"metadata.name={each.name}" if each.name else "",
            clock=self._clock,
            rng=random.Random(self._rng.getrandbits(64)),
        )
        # Also told when the first list is empty: that there is none is news.
        informer.on_progress(lambda _: self._stir(each))
        return informer

    def _stir(self, each: ObservedResource) -> None:
        for backend, wanted in self._wanted.items():
            if each in wanted:
                self._sights.pop(backend, None)
                if backend not in self._timers:
                    loop = asyncio.get_running_loop()
                    self._timers[backend] = loop.call_later(GATHER_SECONDS, self._settle, backend)

    def _settle(self, backend: str) -> None:
        self._timers.pop(backend, None)
        meaning = (self._conclude(backend), _substance(self.of(backend)))
        if self._known.get(backend) != meaning:
            self._known[backend] = meaning
            for tell in self.changed:
                tell(backend)


def _substance(sight: Sight) -> object:
    """What people wrote into the objects; what a scheduler counts in their status is left to the backend."""
    return {
        resource: [
            (
                {key: value for key, value in each.items() if key not in ("metadata", "status")},
                *((each.get("metadata") or {}).get(key) for key in ("name", "labels", "annotations")),
            )
            for each in manifests
        ]
        for resource, manifests in sight.items()
    }
