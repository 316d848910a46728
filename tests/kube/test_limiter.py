"""The limiter lets bursts pass, then serves in the order of arrival."""

import asyncio

import pytest

from grove.kube.limiter import Limiter
from grove.testing.virtual_time import run_virtual


async def test_a_burst_passes_at_once_and_the_rest_in_order() -> None:
    limiter = Limiter(rate=500, burst=3)
    order: list[int] = []

    async def take(number: int) -> None:
        await limiter.acquire()
        order.append(number)

    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.gather(*(take(number) for number in range(8)))
    assert order == list(range(8))
    assert loop.time() - began >= 5 / 500 * 0.9


async def test_whoever_gives_up_leaves_the_token_to_others() -> None:
    limiter = Limiter(rate=20, burst=1)
    await limiter.acquire()
    waiting = [asyncio.create_task(limiter.acquire()) for _ in range(200)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    async with asyncio.timeout(5):  # behind the two hundred it would be ten seconds
        await limiter.acquire()
    assert sum(task.cancelled() for task in waiting) > 150  # a slow machine serves some of them first


async def test_a_limiter_that_is_off_never_waits() -> None:
    limiter = Limiter.off()
    loop = asyncio.get_running_loop()
    began = loop.time()
    for _ in range(10_000):
        await limiter.acquire()
    assert loop.time() - began < 1


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="rate"):
        Limiter(rate=-1)


async def _seconds_for(limiter: Limiter, requests: int) -> float:
    start = asyncio.get_running_loop().time()
    for _ in range(requests):
        await limiter.acquire()
    return asyncio.get_running_loop().time() - start


def test_another_rate_holds_from_the_next_request_on() -> None:
    async def story() -> tuple[float, float, float]:
        limiter = Limiter(rate=100, burst=10)
        fast = await _seconds_for(limiter, 5)
        limiter.change(10, 1)
        slow = await _seconds_for(limiter, 3)
        limiter.change(0, 1)
        return fast, slow, await _seconds_for(limiter, 100)

    fast, slow, unlimited = run_virtual(story)
    assert (fast, unlimited) == (0, 0)
    assert slow == pytest.approx(0.2)
