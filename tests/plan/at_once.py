"""Work that pauses, done without its pauses."""

from typing import TypeVar

from grove.plan.slices import Work

T = TypeVar("T")


def at_once(work: Work[T]) -> T:
    """The result of some work, without a pause."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
