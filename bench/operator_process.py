"""The operator's process: `grove run`, nothing else; profiled when BENCH_PROFILE names a file.

    python -m bench.operator_process --kubeconfig FILE --config FILE

Asks itself to stop when its standard input ends, so that it does not outlive the driver.
"""

import os
import signal
import sys
import threading

from bench.profiling import perhaps_profiled
from grove.cli.main import main


def _end_with_driver() -> None:
    # Not sys.stdin: its lock would be held while the interpreter shuts down.
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def run() -> int:
    """Run the operator until it is told to stop; its exit code."""
    threading.Thread(target=_end_with_driver, daemon=True).start()
    sys.argv = ["grove", "run", *sys.argv[1:]]
    return perhaps_profiled(main)


if __name__ == "__main__":
    sys.exit(run())
