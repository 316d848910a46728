"""Measures how late the event loop runs what is due: whatever blocks it blocks leases, watches and probes."""

import asyncio
from typing import Final

from grove.runtime.metrics import Metrics

_EVERY_SECONDS: Final = 1.0


async def measure_loop_delay(metrics: Metrics) -> None:
    """Look every second, until cancelled."""
    seconds = metrics.histogram("grove_loop_delay_seconds")
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _EVERY_SECONDS
        await asyncio.sleep(_EVERY_SECONDS)
        seconds.observe(max(0.0, loop.time() - due))
