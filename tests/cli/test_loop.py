"""The loop of a command: timers that know when they are due, and an orderly end on request."""

import asyncio
import os
import signal

import pytest

from grove.cli.loop import Interrupted, run_loop, stop_on_signals, unless_stopped


@pytest.mark.parametrize("delay", [0.0, 0.0001, 5.0])
def test_every_timer_knows_when_it_is_due(delay: float) -> None:
    async def ask() -> float:
        loop = asyncio.get_running_loop()
        timer = loop.call_later(delay, lambda: None)
        due = timer.when() - loop.time()
        timer.cancel()
        return due

    assert run_loop(ask()) == pytest.approx(delay, abs=0.05)


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
