"""What simulated schedulers write at once: in order, a few at a time, and stopped without a trace."""

from __future__ import annotations

import asyncio
import gc
import warnings
from functools import partial

from grove.embedded.actors.schedulers.desk import run_all
from grove.testing.virtual_time import run_virtual


def test_steps_begin_in_order_and_so_many_at_a_time() -> None:
    begun: list[int] = []

    async def step(number: int, go_on: asyncio.Event) -> None:
        begun.append(number)
        await go_on.wait()

    async def main() -> None:
        go_on = asyncio.Event()
        running = asyncio.create_task(run_all([partial(step, number, go_on) for number in range(5)], limit=2))
        await asyncio.sleep(1)
        assert begun == [0, 1]
        go_on.set()
        await running
        assert begun == [0, 1, 2, 3, 4]

    run_virtual(main)


def test_whoever_is_stopped_leaves_no_step_behind_that_nobody_awaits() -> None:
    begun: list[int] = []

    async def step(number: int) -> None:
        begun.append(number)
        await asyncio.Event().wait()

    async def main() -> None:
        running = asyncio.create_task(run_all([partial(step, number) for number in range(5)], limit=2))
        await asyncio.sleep(1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    gc.collect()  # what earlier tests left is not of this one
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run_virtual(main)
        gc.collect()
    assert begun == [0, 1]
    # A step that is never awaited is a RuntimeWarning; a ResourceWarning can belong to any test before this one.
    assert [str(each.message) for each in told if each.category is RuntimeWarning] == []
