"""The terminals of a reader: one for a cluster, one for the operator, one for everything else."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest
from tests.cli.processes import KUBECTL, SECONDS

from .transcripts import ROOT, Step, agrees, difference

#: Commands that go on until they are stopped; each has a terminal of its own.
SERVERS: Final = ("grove up", "grove run")
#: The end of what `grove up` prints, where a page does not show it.
READY: Final = "[...]\nexport KUBECONFIG=...\n"
#: Commands that change nothing. A reader gives them again while a change is still under way.
LOOKS: Final = ("kubectl get", "grove tree", "grove upgrade", "grove rollout status", "grove rollout history")


class Server:
    """A command that goes on; what it prints, on standard output and error, is kept in a file."""

    def __init__(self, command: str, printed: Path, folder: Path, environment: Mapping[str, str]) -> None:
        self._printed = printed
        with printed.open("w") as file:
            self._process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=folder,
                env=environment,
            )

    def started(self, step: Step) -> str:
        """What it printed up to the last line that the page shows, once that is there; it goes on to print."""
        last = step.shown.splitlines()[-1]
        deadline = time.monotonic() + SECONDS
        while True:
            lines = self._printed.read_text().splitlines(keepends=True)
            end = next((at for at, line in enumerate(lines, 1) if agrees(last, line)), None)
            if end is not None:
                break
            running = self._process.poll() is None and time.monotonic() < deadline
            assert running, difference(step, "".join(lines))
            time.sleep(0.02)
        printed = "".join(lines[:end])
        assert agrees(step.shown, printed), difference(step, printed)
        return printed

    def stop(self) -> None:
        """Ctrl-C; it ends in order, and no process of it is left."""
        self._process.send_signal(signal.SIGINT)
        try:
            assert self._process.wait(timeout=SECONDS) == 0, self._printed.read_text()
            with pytest.raises(ProcessLookupError):
                os.killpg(self._process.pid, 0)
        finally:
            self.kill()

    def kill(self) -> None:
        _kill(self._process)


class Terminals:
    """Carries out the steps of pages in a folder that looks like a checkout after `make setup-dev`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._servers: dict[str, Server] = {}
        for name in ("examples", "deploy"):
            (folder / name).symlink_to(ROOT / name)
        (folder / ".venv").symlink_to(sys.prefix)
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("KUBE")},
            "HOME": str(folder),
            "PATH": f"{KUBECTL.parent}{os.pathsep}{os.environ['PATH']}",
        }

    def follow(self, step: Step) -> None:
        """Carry out a step; fails when something else happens than the page says."""
        command = step.command.removeprefix(".venv/bin/")
        if " ".join(command.split()[:2]) in SERVERS and not _refused(step):
            self._serve(step, command)
        elif command.startswith(LOOKS) and step.shown:
            self._look(step)
        else:
            code, printed = self._run(step.command)
            assert (code != 0) == _refused(step), f"{step.where}: $ {step.command}\n{printed}"
            assert not step.shown or agrees(step.shown, printed), difference(step, printed)

    def _serve(self, step: Step, command: str) -> None:
        """Start a server in place of the one that its terminal had."""
        terminal = " ".join(command.split()[:2])
        if terminal in self._servers:
            self._servers.pop(terminal).stop()
        server = Server(step.command, self.folder / f"{terminal}.log", self.folder, self._environment)
        self._servers[terminal] = server
        printed = server.started(replace(step, shown=step.shown or READY))
        if terminal == "grove up":
            self._point_at(printed.splitlines()[-1].removeprefix("export KUBECONFIG="))

    def _point_at(self, kubeconfig: str) -> None:
        self._environment["KUBECONFIG"] = kubeconfig
        usual = self.folder / ".kube" / "config"
        usual.parent.mkdir(exist_ok=True)
        usual.unlink(missing_ok=True)
        usual.symlink_to(kubeconfig)

    def _look(self, step: Step) -> None:
        """Look until the page is right, as a reader does who was too quick."""
        deadline = time.monotonic() + SECONDS
        while True:
            code, printed = self._run(step.command)
            assert code == 0, printed
            if agrees(step.shown, printed):
                return
            assert time.monotonic() < deadline, difference(step, printed)

    def _run(self, command: str) -> tuple[int, str]:
        """The exit code of a command and what it printed, on standard output and error."""
        started = subprocess.Popen(
            ["bash", "-o", "pipefail", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
            cwd=self.folder,
            env=self._environment,
        )
        try:
            printed, _ = started.communicate(timeout=SECONDS)
        finally:
            _kill(started)
        return started.returncode, printed

    def stop(self) -> None:
        """Stop every server, the last one first."""
        for terminal in reversed(list(self._servers)):
            self._servers.pop(terminal).stop()

    def kill(self) -> None:
        for server in self._servers.values():
            server.kill()


def _kill(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """End a process with everything that it started: a shell that is killed leaves its commands running."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _refused(step: Step) -> bool:
    """Whether the page shows that a command fails."""
    sentence = step.shown.rstrip("\n").rpartition("\n")[2]
    return sentence.startswith("grove: ") and (
        sentence == step.shown.rstrip("\n") or "would refuse" in sentence
    )


@contextmanager
def terminals(folder: Path, files: Mapping[str, str] = MappingProxyType({})) -> Iterator[Terminals]:
    """Terminals in a folder with these files; with the block everything in them ends."""
    for name, text in files.items():
        (folder / name).write_text(text)
    opened = Terminals(folder)
    try:
        yield opened
        opened.stop()
    finally:
        opened.kill()
