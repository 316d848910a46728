"""The questions of the driver on a process's standard input, and the answers on its standard output."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import Any

from grove.cli.loop import Interrupted, stop_on_signals, unless_stopped


async def questions() -> AsyncIterator[str]:
    """A line at a time, until standard input ends: then the driver is gone."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield line.decode().strip()


def answer(numbers: Mapping[str, int]) -> None:
    """One line of JSON."""
    print(json.dumps(numbers), flush=True)


async def until_told(work: Coroutine[Any, Any, None]) -> None:
    """Work until a signal asks for an orderly end."""
    with stop_on_signals() as stop:
        try:
            await unless_stopped(work, stop)
        except Interrupted:
            return
