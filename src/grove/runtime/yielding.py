"""Runs the pausing computations of `plan.slices` and yields to the event loop at each pause."""

import asyncio
from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


async def giving_way(work: Generator[None, None, T]) -> T:
    """The result of some work; the event loop goes round at each of its pauses."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)
