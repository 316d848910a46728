"""Tunes Python's garbage collector, so that its pauses stay short.

A synced cache is a few hundred thousand objects that live as long as the process; walking them all again
and again is a pause that everyone feels. After the sync they are frozen, and the collector runs rarely.
Pauses are measured. Everything is put back as it was when the context ends.
"""

import contextlib
import gc
import time
from collections.abc import Iterator
from typing import Final, Literal

from grove.runtime.metrics import Metrics

#: Allocations before the young generation is looked at, and how rarely the older ones are.
THRESHOLD: Final = (50_000, 20, 50)


@contextlib.contextmanager
def tuned(metrics: Metrics) -> Iterator[None]:
    """Collect rarely, and measure each pause of the oldest generation."""
    before = gc.get_threshold()
    started = 0.0

    def watch(phase: Literal["start", "stop"], details: dict[str, int]) -> None:
        nonlocal started
        if details["generation"] != 2:
            return
        if phase == "start":
            started = time.perf_counter()
        else:
            metrics.gc_pause.labels("2").observe(time.perf_counter() - started)

    gc.set_threshold(*THRESHOLD)
    gc.callbacks.append(watch)
    try:
        yield
    finally:
        gc.callbacks.remove(watch)
        gc.set_threshold(*before)
        gc.unfreeze()


def freeze() -> None:
    """What lives now will live long: collect what does not, and do not look at the rest again."""
    gc.collect()
    gc.freeze()
