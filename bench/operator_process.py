"""The operator's process: `grove run`, nothing else; profiled when BENCH_PROFILE names a file.

    python -m bench.operator_process --kubeconfig FILE --config FILE

Asks itself to stop when its standard input ends, so that it does not outlive the driver.
"""

import cProfile
import os
import signal
import sys
import threading
from typing import Final

from grove.cli.main import main

PROFILE: Final = "BENCH_PROFILE"


def _end_with_driver() -> None:
    # Not sys.stdin: its lock would be held while the interpreter shuts down.
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def run() -> int:
    """Run the operator until it is told to stop; its exit code."""
    threading.Thread(target=_end_with_driver, daemon=True).start()
    sys.argv = ["grove", "run", *sys.argv[1:]]
    file = os.environ.get(PROFILE)
    if not file:
        return main()
    profile = cProfile.Profile()
    try:
        return profile.runcall(main)
    finally:
        profile.dump_stats(file)


if __name__ == "__main__":
    sys.exit(run())
