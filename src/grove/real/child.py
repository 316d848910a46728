"""What every process that we start has in common: it is the head of its own session and dies with us.

The kernel ends it when the thread that started it goes away for whatever reason, so nothing is left behind
even after a SIGKILL. Other systems than Linux do not have this: there, only an orderly end takes it along.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def dies_with_parent() -> Callable[[], None] | None:
    """What the new process does before it becomes the program."""
    if sys.platform != "linux":
        return None
    # Loaded before the fork: the child may not take locks.
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def before_exec() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        # The parent may have gone before the line above took effect.
        if os.getppid() != parent:
            os._exit(1)

    return before_exec


def signal_group(pid: int, what: signal.Signals) -> None:
    """Signals a process and whatever it started; it does not matter if they are gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, what)
