"""One running program of the control plane: started, watched, asked to end, ended.

Its output goes to its log, and it dies with us (see `child`). Nothing here knows what the program is for.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path

from grove.real.child import dies_with_parent, signal_group
from grove.real.failure import ComponentFailed

PROBE_SECONDS = 0.05
#: How much of a log is read to find out what went wrong, and how much of that is told.
READ_BYTES = 32 << 10
TOLD_LINES = 4
TOLD_CHARACTERS = 400
_IN_CLUSTER = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
_TROUBLE = ("error:", "panic:", '"level":"fatal"', '"level":"error"', "fatal error", "unknown flag")


class Component:
    """One program; it can be started again after it ended."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.command = tuple(command)
        self.log = log
        #: What it gets beside the environment of this process.
        self.environment = dict(environment or {})
        #: Set as long as its end would be news.
        self._should_run = False
        self._gave_trouble = False
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self.running else None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        if self.running:
            return
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
                cwd=self.log.parent,
                env=_surroundings() | self.environment,
                start_new_session=True,
                preexec_fn=dies_with_parent(),
            )
        self._should_run = True

    async def ready(self, probe: Callable[[], Awaitable[bool]], *, within: float) -> None:
        """Returns once the probe says yes; raises when the program ends before that or takes too long."""
        loop = asyncio.get_running_loop()
        end = loop.time() + within
        while not await probe():
            if await self._ended_within(PROBE_SECONDS):
                raise self.failure()
            if loop.time() > end:
                raise self._failed(f"did not become ready within {within:.0f} s")

    async def unexpected_end(self) -> ComponentFailed:
        """Returns when the program ends although nobody asked it to."""
        while True:
            if self._process is not None:
                await self._process.wait()
                if self._should_run:
                    return self.failure()
            await asyncio.sleep(PROBE_SECONDS)

    @property
    def gave_trouble(self) -> bool:
        """Whether its log is worth keeping: it ended although nobody asked it to, or was late."""
        return self._gave_trouble or (self._should_run and not self.running)

    async def stop(self, *, grace: float) -> None:
        """Asks the program to end and ends it if it does not."""
        self._should_run = False
        if self._process is None or not self.running:
            return
        signal_group(self._process.pid, signal.SIGTERM)
        if not await self._ended_within(grace):
            await self.kill()

    async def kill(self) -> None:
        """Ends the program at once."""
        self._should_run = False
        if self._process is None or not self.running:
            return
        signal_group(self._process.pid, signal.SIGKILL)
        await self._process.wait()

    def failure(self) -> ComponentFailed:
        """What to say about a program that ended."""
        code = self._process.returncode if self._process is not None else None
        if code is not None and code < 0:
            return self._failed(f"was ended by {signal.Signals(-code).name}")
        return self._failed(f"ended by itself with code {code}")

    def _failed(self, what: str) -> ComponentFailed:
        self._gave_trouble = True
        return ComponentFailed(self.name, what, log=self.log, lines=telling_lines(self.log))

    async def _ended_within(self, seconds: float) -> bool:
        if self._process is None:
            return True
        try:
            await asyncio.wait_for(self._process.wait(), seconds)
        except TimeoutError:
            return False
        return True


def _surroundings() -> dict[str, str]:
    """Our environment, less what would send a program to the cluster of the pod that we may be in."""
    return {name: value for name, value in os.environ.items() if name not in _IN_CLUSTER}


async def first_unexpected_end(components: Iterable[Component]) -> ComponentFailed:
    """Returns when one of several components ends although nobody asked it to."""
    tasks = [asyncio.ensure_future(each.unexpected_end()) for each in components]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()
    finally:
        for task in tasks:
            task.cancel()


def telling_lines(log: Path) -> tuple[str, ...]:
    """The last lines of a log that speak of trouble, or else its last lines."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - READ_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ()
    lines = [line.strip()[:TOLD_CHARACTERS] for line in text.splitlines() if line.strip()]
    trouble = [line for line in lines if any(word in line.lower() for word in _TROUBLE)]
    return tuple((trouble or lines)[-TOLD_LINES:])
