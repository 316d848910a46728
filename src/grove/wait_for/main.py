"""The program: arguments in, exit code out. 0 when all is ready; 1 when called wrongly or told to stop."""

import random
import signal
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from grove.wait_for.arguments import TERMINATION_MESSAGE, Arguments, BadArgument, parse
from grove.wait_for.connection import Server, run
from grove.wait_for.program import Program
from grove.wait_for.reporting import Reporter


class Stopped(Exception):
    """Somebody ended the pod."""


def main(arguments: Sequence[str]) -> int:
    """Wait for the parents that the arguments name."""
    reporter = Reporter(Path(TERMINATION_MESSAGE))
    try:
        found = parse(arguments)
        reporter = Reporter(found.termination_message, format=found.log_format)
        # Without this the first process of a container would ignore the signal.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _stop)
        _wait(found, reporter)
    except BadArgument as problem:
        reporter.tell(str(problem), level="error")
        return 1
    except Stopped:
        # The termination message keeps saying what was waited for.
        return 1
    return 0


def _wait(found: Arguments, reporter: Reporter) -> None:
    program = Program(
        found.parents,
        namespace=found.pod_fact("namespace"),
        gang=found.pod_fact("podgangname"),
        chance=random.random,
    )
    run(program, Server(found.server, found.token, found.authority), tell=reporter.tell)
    reporter.tell(program.sentence)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise Stopped
