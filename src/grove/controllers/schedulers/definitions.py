"""Notices that a CustomResourceDefinition was installed, changed or removed, as soon as it happens.

Keeps nothing of the definitions but their metadata. Where they may not be watched, nobody is told: whoever
depends on it also looks from time to time.
"""

import random
from collections.abc import Callable

from grove.controllers.schedulers.scheduling import CRDS
from grove.meta import Object
from grove.runtime.clock import Clock
from grove.runtime.informer import Informer
from grove.runtime.ports import Reader


class Definitions:
    """The watch on what kinds a cluster serves beyond its own."""

    def __init__(
        self, client: Reader, clock: Clock, rng: random.Random, *, changed: Callable[[], None]
    ) -> None:
        self._changed = changed
        self._informer: Informer[Object] = Informer(client, CRDS, Object, clock=clock, rng=rng)
        self._informer.subscribe(self._saw)

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._informer.run()

    def _saw(self, old: Object | None, new: Object | None) -> None:
        if not self._informer.synced.is_set():
            # What is there at the start has been discovered.
            return
        if old is None or new is None or old.metadata.generation != new.metadata.generation:
            self._changed()
