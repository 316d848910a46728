"""Long computations as generators that pause: tens of thousands of objects must not block the event loop.

A long computation is written as a generator that yields where it may be interrupted; whoever runs it decides
whether others get their turn there (the operator) or not (a preview, a test). How much lies between two
pauses is counted in steps, not in seconds: the core knows no clock.
"""

from collections.abc import Generator, Iterator
from typing import Final, TypeVar

T = TypeVar("T")

#: A computation that pauses now and then and ends with a result.
Work = Generator[None, None, T]
#: A lazy sequence that pauses: None is a pause and no item.
Stream = Iterator[T | None]

#: A step that looks something up; and one that builds or compares a whole object.
LOOKUP: Final = 1
OBJECT: Final = 200
#: So many steps fit between two pauses: a few milliseconds.
_SLICE: Final = 6000


class Pace:
    """Counts steps and says when to pause."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _SLICE

    def spent(self, steps: int) -> bool:
        """Whether to pause now, after so many more steps."""
        self._left -= steps
        if self._left > 0:
            return False
        self._left = _SLICE
        return True


def first(stream: Stream[T], most: int) -> Work[tuple[list[T], bool]]:
    """The first items of a stream, at most so many, and whether there are more; the rest is not computed."""
    items: list[T] = []
    for item in stream:
        if item is None:
            yield
        elif len(items) == most:
            return items, True
        else:
            items.append(item)
    return items, False
