"""Runs a process's main function under the profiler, when BENCH_PROFILE names a file for it."""

import cProfile
import os
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

PROFILE: Final = "BENCH_PROFILE"


def perhaps_profiled(main: Callable[[], T]) -> T:
    """The result of `main`; its profile is in the named file afterwards."""
    file = os.environ.get(PROFILE)
    if not file:
        return main()
    profile = cProfile.Profile()
    try:
        return profile.runcall(main)
    finally:
        profile.dump_stats(file)
