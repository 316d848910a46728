"""Virtual time: jumps, determinism, and the sentences of its refusals."""

import asyncio
import time
from datetime import timedelta

import pytest

from grove.testing.virtual_time import (
    EPOCH,
    Deadlock,
    Leaked,
    Livelock,
    VirtualTimeError,
    run_virtual,
    virtual_clock,
    virtual_loop,
)


async def wait(seconds: float) -> None:
    await asyncio.sleep(seconds)


def test_four_hours_take_no_time() -> None:
    async def main() -> float:
        await wait(4 * 3600)
        return virtual_loop().time()

    started = time.monotonic()
    assert run_virtual(main) == 4 * 3600
    assert time.monotonic() - started < 2


def test_the_clock_is_the_epoch_plus_the_loops_time() -> None:
    async def main() -> timedelta:
        await wait(90)
        return virtual_clock().now() - EPOCH

    assert run_virtual(main) == timedelta(seconds=90)


def test_timers_fire_in_the_order_of_their_times_and_equal_ones_in_the_order_of_their_making() -> None:
    async def main() -> list[str]:
        seen: list[str] = []

        async def note(name: str, seconds: float) -> None:
            await wait(seconds)
            seen.append(f"{name}@{virtual_loop().time():g}")

        await asyncio.gather(note("c", 3), note("a", 1), note("b", 1), note("d", 3.5))
        return seen

    assert run_virtual(main) == ["a@1", "b@1", "c@3", "d@3.5"]


def test_timeouts_are_virtual_too() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 30)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(12):
                await asyncio.Event().wait()
        return virtual_loop().time()

    assert run_virtual(main) == 42


def test_the_same_seed_gives_the_same_chances() -> None:
    async def main() -> list[float]:
        return [virtual_loop().rng.random() for _ in range(3)]

    assert run_virtual(main, seed=7) == run_virtual(main, seed=7) != run_virtual(main, seed=8)


def test_a_deadlock_is_reported_with_the_tasks_that_wait() -> None:
    async def main() -> None:
        task = asyncio.create_task(asyncio.Event().wait(), name="the one that waits")
        await task

    with pytest.raises(Deadlock, match=r"no timer is set(.|\n)*the one that waits waits in .*\.py:\d+"):
        run_virtual(main)


def test_a_loop_that_spins_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grove.testing.virtual_time.SPIN_LIMIT", 100)

    async def main() -> None:
        for _ in range(1000):
            await asyncio.sleep(0)

    with pytest.raises(Livelock, match="time stands still"):
        run_virtual(main)


def test_a_run_that_never_ends_meets_its_time_limit() -> None:
    async def main() -> None:
        while True:
            await wait(10)

    with pytest.raises(Livelock, match="still busy after 110"):
        run_virtual(main, time_limit=100)


def test_sockets_are_refused_with_a_sentence() -> None:
    async def main() -> None:
        await asyncio.open_connection("127.0.0.1", 1)

    with pytest.raises(VirtualTimeError, match="a real socket"):
        run_virtual(main)


def test_leftover_tasks_are_cancelled_at_the_end() -> None:
    cancelled: list[bool] = []

    async def forever() -> None:
        try:
            await wait(1e6)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def main() -> None:
        task = asyncio.create_task(forever())
        await asyncio.sleep(0)
        assert not task.done()

    run_virtual(main)
    assert cancelled == [True]


def test_an_exception_that_nobody_looked_at_fails_the_run() -> None:
    async def broken() -> None:
        raise ValueError("lost")

    async def main() -> None:
        task = asyncio.create_task(broken())
        await wait(1)
        assert task.done()

    with pytest.raises(Leaked, match="ValueError\\('lost'\\)"):
        run_virtual(main)


def test_a_leftover_that_fails_on_its_way_out_fails_the_run() -> None:
    async def stubborn() -> None:
        try:
            await wait(1e6)
        finally:
            raise ValueError("on the way out")

    async def main() -> None:
        task = asyncio.create_task(stubborn())
        await wait(1)
        assert not task.done()

    with pytest.raises(Leaked, match="on the way out"):
        run_virtual(main)


def test_work_for_threads_is_done_at_once() -> None:
    async def main() -> tuple[int, float]:
        return await asyncio.to_thread(lambda: 42), virtual_loop().time()

    assert run_virtual(main) == (42, 0)
