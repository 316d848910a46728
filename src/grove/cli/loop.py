"""How a command runs its event loop, and how it is asked to stop.

SIGTERM, SIGINT and a closed terminal (SIGHUP) ask for an orderly end; a second signal does not wait for it.
"""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final, TypeVar

T = TypeVar("T")

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Interrupted(Exception):
    """The command was asked to stop before it got anywhere."""


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine, on uvloop where it is installed."""
    with asyncio.Runner(loop_factory=_fast_loop()) as runner:
        return runner.run(main)


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


@contextlib.contextmanager
def stop_on_signals() -> Iterator[asyncio.Event]:
    """An event that is set when the command is asked to stop."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def ask(number: signal.Signals) -> None:
        stop.set()
        # The next one of its kind ends the process as it would any other.
        loop.remove_signal_handler(number)

    for number in SIGNALS:
        loop.add_signal_handler(number, ask, number)
    try:
        yield stop
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


async def unless_stopped(work: Coroutine[Any, Any, T], stop: asyncio.Event) -> T:
    """The result of the work; cancels it and raises Interrupted when asked to stop first."""
    task = asyncio.ensure_future(work)
    asked = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, asked}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Interrupted
        return task.result()
    finally:
        for each in (task, asked):
            each.cancel()
        await asyncio.gather(task, asked, return_exceptions=True)
