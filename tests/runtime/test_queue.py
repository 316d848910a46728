"""The work queue: each key once, the earliest time, and a backoff of its own."""

import asyncio
import random

from tests.runtime.fakes import pass_time

from grove.runtime.queue import Queue
from grove.testing.virtual_time import run_virtual, virtual_loop


def make() -> Queue[str]:
    return Queue(random.Random(1))


async def due(queue: Queue[str]) -> tuple[str, float]:
    key = await queue.get()
    queue.done(key)
    return key, round(virtual_loop().time(), 6)


def test_a_key_added_often_is_given_once() -> None:
    async def main() -> tuple[list[str], int]:
        queue = make()
        for key in ("a", "b", "a", "a"):
            queue.add(key)
        return [await queue.get(), await queue.get()], len(queue)

    assert run_virtual(main) == (["a", "b"], 0)


def test_a_key_added_while_it_is_worked_on_is_given_again_only_afterwards() -> None:
    async def main() -> None:
        queue = make()
        queue.add("a")
        key = await queue.get()
        queue.add("a")
        queue.add("b")
        assert await queue.get() == "b"
        taker = asyncio.create_task(queue.get())
        await pass_time(100)
        assert not taker.done()
        queue.done(key)
        assert await taker == "a"

    run_virtual(main)


def test_how_long_a_key_was_due_is_told_when_it_is_taken() -> None:
    async def main() -> list[float]:
        waited: list[float] = []
        queue: Queue[str] = Queue(random.Random(1), now=virtual_loop().time, waited=waited.append)
        queue.add("a")
        queue.add_after("b", 2)
        await pass_time(3)
        queue.add("a")
        assert queue.oldest == 3, "a key that is added again has been due since it first was"
        assert [await queue.get(), await queue.get()] == ["a", "b"]
        assert queue.oldest == 0
        queue.add("a")
        await pass_time(4)
        assert queue.oldest == 4, "also one that waits for its own reconcile to end"
        return waited

    assert run_virtual(main) == [3, 1]


def test_the_earliest_wish_holds_whatever_the_order() -> None:
    async def main() -> list[tuple[str, float]]:
        queue = make()
        queue.add_after("a", 10)
        queue.add_after("a", 3)
        queue.add_after("a", 7)
        queue.add_after("b", 5)
        assert queue.delayed == 2
        return [await due(queue), await due(queue)]

    assert run_virtual(main) == [("a", 3.0), ("b", 5.0)]


def test_adding_now_makes_the_timer_moot() -> None:
    async def main() -> None:
        queue = make()
        queue.add_after("a", 3)
        queue.add("a")
        queue.add_after("a", 1)
        assert await due(queue) == ("a", 0.0)
        taker = asyncio.create_task(queue.get())
        await pass_time(100)
        assert not taker.done()
        assert queue.delayed == 0

    run_virtual(main)


def test_failures_back_off_from_milliseconds_to_a_minute_and_start_over_after_success() -> None:
    async def main() -> None:
        queue = make()
        waits = [queue.retry("a")]
        for _ in range(24):
            assert (await due(queue))[0] == "a"
            waits.append(queue.retry("a"))
        assert 0.0025 <= waits[0] <= 0.005
        assert all(0 < wait <= 60 for wait in waits)
        assert all(wait >= 30 for wait in waits[-5:])
        assert len(set(waits[-5:])) == 5, "jitter"
        queue.forget("a")
        await due(queue)
        assert queue.retry("a") <= 0.005
        assert queue.retry("b") <= 0.005

    run_virtual(main)


def test_the_wait_that_the_server_asks_for_is_kept() -> None:
    async def main() -> None:
        queue = make()
        assert queue.retry("a", at_least=5) == 5
        assert await due(queue) == ("a", 5.0)

    run_virtual(main)


def test_the_same_seed_gives_the_same_waits() -> None:
    async def main() -> list[float]:
        queue = make()
        return [queue.retry("a") for _ in range(10)]

    assert run_virtual(main) == run_virtual(main)


def test_a_closed_queue_keeps_no_timers_and_takes_nothing_in() -> None:
    async def main() -> None:
        queue = make()
        queue.add_after("a", 5)
        queue.close()
        queue.add("b")
        assert (queue.delayed, len(queue)) == (0, 0)

    run_virtual(main)


def test_a_taker_that_is_cancelled_loses_no_key() -> None:
    async def main() -> None:
        queue = make()
        taker = asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        queue.add("a")
        taker.cancel()
        await asyncio.wait({taker})
        assert taker.cancelled()
        assert await queue.get() == "a"

    run_virtual(main)


def test_groups_take_turns_so_that_many_keys_of_one_delay_another_by_one_look() -> None:
    async def main() -> list[str]:
        queue: Queue[str] = Queue(random.Random(1), group=lambda key: key[0])
        for number in range(20_000):
            queue.add(f"a{number}")
        for key in ("b0", "c0", "b1"):
            queue.add(key)
        return [await queue.get() for _ in range(7)]

    assert run_virtual(main) == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]


def test_a_group_that_comes_back_waits_for_its_turn() -> None:
    async def main() -> list[str]:
        queue: Queue[str] = Queue(random.Random(1), group=lambda key: key[0])
        for key in ("a0", "a1", "a2"):
            queue.add(key)
        given = [await queue.get()]
        queue.add("b0")
        queue.add("a0")
        queue.done("a0")
        given += [await queue.get() for _ in range(4)]
        assert len(queue) == 0
        return given

    assert run_virtual(main) == ["a0", "a1", "b0", "a2", "a0"]
