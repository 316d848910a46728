"""The loop of a command: the shortest timers work on it, and it ends in order on request."""

import asyncio
import os
import random
import signal

import pytest

from grove.cli.loop import Interrupted, run_loop, stop_on_signals, unless_stopped
from grove.runtime.queue import Queue


def test_the_work_queue_takes_the_shortest_delays_on_this_loop() -> None:
    async def ask() -> str:
        queue: Queue[str] = Queue(random.Random(0))
        queue.add_after("soon", 5.0)
        for delay in (0.0004, 0.0001, 0.00001):
            queue.add_after("soon", delay)
        return await queue.get()

    assert run_loop(ask()) == "soon"


def test_a_signal_interrupts_the_work_and_lets_it_clean_up() -> None:
    steps: list[str] = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append("cleaned up")

    async def main() -> None:
        with stop_on_signals() as stop:
            await unless_stopped(work(), stop)

    with pytest.raises(Interrupted):
        run_loop(main())
    assert steps == ["cleaned up"]


def test_work_that_ends_by_itself_gives_its_result_or_its_failure() -> None:
    async def answer() -> int:
        return 42

    async def fail() -> int:
        raise LookupError("lost")

    async def main() -> int:
        with stop_on_signals() as stop:
            with pytest.raises(LookupError, match="lost"):
                await unless_stopped(fail(), stop)
            return await unless_stopped(answer(), stop)

    assert run_loop(main()) == 42
