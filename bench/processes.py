"""The other processes: the cluster, which answers questions on a pipe, the players, and the operator.

Each is a session of its own, so that Ctrl-C reaches only the driver; each ends when its standard input does,
so that none survives a driver that was killed.
"""

import asyncio
import contextlib
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.observer import BenchFailed
from bench.usage import Usage, usage_of
from grove.real.binaries import ASSETS

ROOT: Final = Path(__file__).resolve().parent.parent
_END_SECONDS: Final = 20.0
_ANSWER_SECONDS: Final = 60.0
_LAST_WORDS: Final = 2000


class ChildProcess:
    """A started process; what it says on standard error is kept for the message of a failure."""

    def __init__(self, name: str, process: Process, said: Path) -> None:
        self.name = name
        self._process = process
        self._said = said

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def over(self) -> bool:
        return self._process.returncode is not None

    def usage(self) -> Usage:
        return usage_of(self.pid)

    async def ended(self) -> None:
        """Return only when it is over although nobody asked it to be."""
        await self._process.wait()

    def last_words(self) -> str:
        with contextlib.suppress(OSError):
            return self._said.read_text(errors="replace")[-_LAST_WORDS:].strip()
        return ""

    def failed(self) -> BenchFailed:
        code = self._process.returncode
        return BenchFailed(f"the {self.name} ended by itself with code {code}: {self.last_words()}")

    async def ask(self, question: str) -> Mapping[str, int]:
        """A question on its standard input, the answer from its standard output."""
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError):
            self._process.stdin.write(f"{question}\n".encode())
            await self._process.stdin.drain()
        return await self.answer()

    async def answer(self) -> Mapping[str, int]:
        """The next line of its standard output."""
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise BenchFailed(f"the {self.name} did not answer within {_ANSWER_SECONDS:.0f} s") from None
        if not line:
            await self._process.wait()
            raise self.failed()
        answer: Mapping[str, int] = json.loads(line)
        return answer

    async def stop(self) -> None:
        """Ask it to end, and see to it that it does."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            try:
                async with asyncio.timeout(_END_SECONDS):
                    await self._process.wait()
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
                await self._process.wait()


@dataclass(frozen=True, slots=True)
class Launch:
    """What a child is started with."""

    name: str
    module: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    #: Whether it writes answers to its standard output.
    answers: bool = False


@asynccontextmanager
async def started(launch: Launch, folder: Path) -> AsyncIterator[ChildProcess]:
    """A running child, over at the latest with the block."""
    said = folder / f"{launch.name}.err"
    environment = {
        name: value for name, value in os.environ.items() if name == ASSETS or not name.startswith("KUBE")
    }
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    with said.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            launch.module,
            *launch.arguments,
            stdin=PIPE,
            stdout=PIPE if launch.answers else DEVNULL,
            stderr=errors,
            start_new_session=True,
            env={**environment, **launch.environment},
        )
    child = ChildProcess(launch.name, process, said)
    try:
        yield child
    finally:
        await child.stop()
