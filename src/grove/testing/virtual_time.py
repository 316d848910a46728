"""An event loop whose time jumps to the next timer when nothing is left to do.

Four hours of waiting take milliseconds, and a run with the same seed is the same run: callbacks stay first
in, first out, and chance comes from `loop.rng` alone. Uses no sockets and no files; a wait for something
real is refused with a sentence, since no timer would ever end it. A run that can never continue is reported
as a deadlock with the tasks that wait, and an exception that nobody looked at fails the run.
"""

import asyncio
import contextvars
import random
from asyncio.base_events import BaseEventLoop
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from datetime import UTC, datetime
from typing import Final, NoReturn, TypeVar

from grove.runtime.clock import LoopClock

T = TypeVar("T")

EPOCH: Final = datetime(2030, 1, 1, tzinfo=UTC)
#: Rounds of the loop without any passing of time, after which we call it a loop that spins.
SPIN_LIMIT: Final = 2_000_000
#: A run that is still busy after so many virtual seconds will most likely never end.
TIME_LIMIT: Final = 30 * 24 * 3600.0


class VirtualTimeError(AssertionError):
    """The run broke a rule of virtual time."""


class Deadlock(VirtualTimeError):
    """Nothing is ready and no timer is set: the tasks that wait will wait for ever."""


class Livelock(VirtualTimeError):
    """The loop spins without letting time pass, or goes on far beyond its time limit."""


class Leaked(VirtualTimeError):
    """A task failed and nobody looked at its exception."""


class _Jump:
    """Stands where a loop has its selector: instead of waiting, it moves the clock."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[object]:
        self._loop.jump(timeout)
        return []

    def close(self) -> None:
        """Nothing was opened."""


class VirtualLoop(BaseEventLoop):
    """The loop; `rng` and `epoch` belong to the run."""

    def __init__(self, *, seed: int = 0, epoch: datetime = EPOCH, time_limit: float = TIME_LIMIT) -> None:
        super().__init__()
        self.rng = random.Random(seed)
        self.epoch = epoch
        self.time_limit = time_limit
        self.failures: list[asyncio.Future[object]] = []
        self.complaints: list[str] = []
        self._selector = _Jump(self)
        self._scheduled: list[asyncio.TimerHandle]  # filled by call_at() of the base class
        self._now = 0.0
        self._spins = 0
        self.set_task_factory(self._make_task)
        self.set_exception_handler(self._complain)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now

    def jump(self, timeout: float | None) -> None:
        """Let the time pass that the loop would have slept."""
        if timeout is None:
            raise Deadlock(
                f"deadlock at {self._now:.3f} s: nothing is ready and no timer is set.\n" + self._waiting()
            )
        if timeout <= 0:
            self._spins += 1
            if self._spins > SPIN_LIMIT:
                raise Livelock(
                    f"time stands still at {self._now:.3f} s after {SPIN_LIMIT} rounds of the loop.\n"
                    + self._waiting()
                )
            return
        self._spins = 0
        # Exactly the timer's time where we can, so that sums of floats do not drift from what was asked for.
        due = self._scheduled[0].when() if self._scheduled else self._now + timeout
        self._now = max(self._now, min(due, self._now + timeout + 1e-9))
        if self._now > self.time_limit:
            raise Livelock(
                f"still busy after {self._now:.0f} virtual seconds, the limit of this run.\n"
                + self._waiting()
            )

    def relax(self) -> None:
        """Count from zero again, and forget the time limit."""
        self._spins = 0
        self.time_limit = float("inf")

    def close(self) -> None:
        if not self.is_closed():
            super().close()

    def run_in_executor(
        self, executor: Executor | None, func: Callable[..., T], *args: object
    ) -> "asyncio.Future[T]":
        """Run the function here and now: a thread would end at a moment that no seed reproduces."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def _waiting(self) -> str:
        tasks = [task for task in asyncio.all_tasks(self) if not task.done()]
        lines = []
        for task in sorted(tasks, key=lambda task: task.get_name()):
            frames = task.get_stack(limit=8)
            frame = frames[-1] if frames else None
            where = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "unknown place"
            lines.append(f"  {task.get_name()} waits in {where}")
        return "Tasks that wait:\n" + "\n".join(lines)

    def _make_task(
        self,
        loop: asyncio.AbstractEventLoop,
        coro: Coroutine[object, object, T] | Generator[object, None, T],
        context: contextvars.Context | None = None,
        **kwargs: str | None,
    ) -> "asyncio.Task[T]":
        name = kwargs.get("name")
        task: asyncio.Task[T] = asyncio.Task(coro, loop=loop, context=context, name=name)  # type: ignore[arg-type]
        task.add_done_callback(self._remember_failure)
        return task

    def _remember_failure(self, task: "asyncio.Task[T]") -> None:
        # Not task.exception(): asking would count as somebody having looked.
        if task._exception is not None:
            self.failures.append(task)  # type: ignore[arg-type]

    def _complain(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        self.complaints.append(
            f"{context.get('message')}: {error!r}" if error else str(context.get("message"))
        )

    def leaked(self) -> list[str]:
        """What went wrong without anybody looking, one line each."""
        unseen = [future for future in self.failures if future._log_traceback]
        lines = [f"{future!r}: {future.exception()!r}" for future in unseen]
        self.failures.clear()
        return lines + self.complaints

    # What BaseEventLoop leaves to the loops that have a real selector.

    def _process_events(self, events: list[object]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """There is nobody asleep to be woken."""

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise VirtualTimeError(
            "a real socket, pipe, signal or process was used under virtual time; it would never become ready."
            " Use an in-process transport, or run this test on a normal event loop"
        )

    add_reader = remove_reader = add_writer = remove_writer = _refuse
    add_signal_handler = remove_signal_handler = _refuse
    create_connection = create_server = create_datagram_endpoint = _refuse
    create_unix_connection = create_unix_server = _refuse
    connect_accepted_socket = getaddrinfo = getnameinfo = _refuse
    sock_recv = sock_recv_into = sock_sendall = sock_connect = sock_accept = _refuse
    connect_read_pipe = connect_write_pipe = _refuse
    subprocess_exec = subprocess_shell = _refuse


def virtual_loop() -> VirtualLoop:
    """The running loop, which must be a virtual one."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        raise VirtualTimeError("this needs virtual time: call it below run_virtual()")
    return loop


def virtual_clock() -> LoopClock:
    """The clock of the running virtual loop."""
    return LoopClock(virtual_loop().epoch)


def run_virtual(
    main: Callable[[], Coroutine[object, object, T]],
    *,
    seed: int = 0,
    epoch: datetime = EPOCH,
    time_limit: float = TIME_LIMIT,
) -> T:
    """Run `main()` to its end on a virtual loop.

    Cancel what it left behind; fail if an exception was ignored.
    """
    loop = VirtualLoop(seed=seed, epoch=epoch, time_limit=time_limit)
    asyncio.set_event_loop(loop)
    try:
        result = loop.run_until_complete(main())
        _cancel_leftovers(loop)
        leaked = loop.leaked()
        if leaked:
            raise Leaked("exceptions that nobody looked at:\n  " + "\n  ".join(leaked))
        return result
    finally:
        try:
            _cancel_leftovers(loop)
        finally:
            asyncio.set_event_loop(None)
            loop.close()


def _cancel_leftovers(loop: VirtualLoop) -> None:
    # What broke a rule has been reported; its limits must not keep us from cleaning up.
    loop.relax()
    leftovers = asyncio.all_tasks(loop)
    for task in leftovers:
        task.cancel()
    if leftovers:
        loop.run_until_complete(asyncio.wait(leftovers))
    loop.run_until_complete(loop.shutdown_asyncgens())
