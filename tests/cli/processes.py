"""Run `grove` and kubectl as processes of their own, in a session that can be looked for afterwards."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

LAUNCH = [sys.executable, "-c", "import sys; from grove.cli.main import main; sys.exit(main())"]
KUBECTL = Path(sys.executable).parent / "kubectl"
SECONDS = 60


class Process:
    """A running `grove`; what it says on standard error is kept in a file."""

    def __init__(self, arguments: list[str], said: Path) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KUBE")}
        self._said = said
        with said.open("w") as errors:
            self._process = subprocess.Popen(
                [*LAUNCH, *arguments],
                stdout=subprocess.PIPE,
                stderr=errors,
                stdin=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
                env=environment,
            )
        self.group = self._process.pid

    @property
    def output(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def said(self) -> str:
        return self._said.read_text()

    def wait_until_said(self, words: str) -> None:
        """Until it has said something on standard error, where nobody can wait for a line."""
        deadline = time.monotonic() + SECONDS
        while words not in self.said:
            assert self._process.poll() is None, self.said
            assert time.monotonic() < deadline, f"it never said {words!r}: {self.said}"
            time.sleep(0.02)

    def ask_to_stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; its exit code."""
        self._process.send_signal(number)
        return self.end()

    def end(self) -> int:
        try:
            return self._process.wait(timeout=SECONDS)
        finally:
            self.kill()

    def kill(self) -> None:
        """Nothing of a test may outlive it."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self.output.close()

    def anything_left(self) -> bool:
        """Whether any process of its session is still there."""
        try:
            os.killpg(self.group, 0)
        except ProcessLookupError:
            return False
        return True


@contextmanager
def started(*arguments: str, folder: Path) -> Iterator[Process]:
    """A `grove` process, ended at the latest with the block."""
    process = Process(list(arguments), folder / f"{arguments[0]}.err")
    try:
        yield process
    finally:
        process.kill()


def kubectl(kubeconfig: Path, *arguments: str) -> str:
    """What kubectl prints; fails with what it complains about."""
    ran = subprocess.run(
        [KUBECTL, "--kubeconfig", kubeconfig, *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ran.returncode == 0, f"kubectl {' '.join(arguments)}: {ran.stderr}"
    return ran.stdout


def listening_elsewhere(pids: Iterable[int]) -> list[str]:
    """The addresses other than the loopback's on which processes listen, as the kernel tells them."""
    links = [link for pid in pids for link in Path(f"/proc/{pid}/fd").iterdir()]
    sockets = {str(link.readlink()) for link in links}
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            # 0A is LISTEN; 0100007F is 127.0.0.1 as this machine writes it down.
            if words[3] == "0A" and f"socket:[{words[9]}]" in sockets and words[1][:8] != "0100007F":
                found.append(words[1])
    return found
