"""`grove tree --watch` on a terminal: drawn again when something changes; `-o wide` and `-o name`."""

import os
import pty
import select
import signal
import subprocess
import time
from pathlib import Path

from .conftest import Grove
from .processes import LAUNCH, SECONDS, kubectl, started

CLEARED = "\x1b[H\x1b[2J\x1b[3J"


class Screen:
    """What a program has drawn on a terminal of ours."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.text = ""

    def wait_for(self, words: str) -> str:
        """Until the last drawing shows something; that drawing."""
        deadline = time.monotonic() + SECONDS
        while words not in self.last:
            assert time.monotonic() < deadline, f"{words!r} was never drawn: {self.text}"
            ready, _, _ = select.select([self._descriptor], [], [], 1)
            if ready:
                self.text += os.read(self._descriptor, 65536).decode()
        return self.last

    @property
    def last(self) -> str:
        return self.text.rpartition(CLEARED)[2]

    @property
    def drawings(self) -> int:
        return self.text.count(CLEARED)


def test_the_tree_is_drawn_again_when_something_changes(tmp_path: Path, examples: Path, grove: Grove) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with started("up", "--write-kubeconfig", str(kubeconfig), folder=tmp_path) as cluster:
        cluster.output.readline()
        ours, theirs = pty.openpty()
        watching = subprocess.Popen(
            [*LAUNCH, "tree", "--watch", "--kubeconfig", str(kubeconfig)],
            stdout=theirs,
            stderr=subprocess.PIPE,
            env={**os.environ, "LINES": "50", "COLUMNS": "200", "PYTHONIOENCODING": "utf-8"},
        )
        os.close(theirs)
        try:
            screen = Screen(ours)
            screen.wait_for("(no PodCliqueSets and no PodGangs)")
            kubectl(kubeconfig, "apply", "-f", str(examples / "leader-workers-kai.yaml"))
            screen.wait_for("PodGang leader-workers-0  replica 0  Running  4 of 4 pods placed  4 ready")
            drawn = screen.drawings
            kubectl(kubeconfig, "delete", "pcs", "leader-workers")
            screen.wait_for("(no PodCliqueSets and no PodGangs)")
            assert screen.drawings > drawn
            watching.send_signal(signal.SIGINT)
            assert watching.wait(timeout=SECONDS) == 0
            assert watching.stderr is not None
            assert watching.stderr.read() == b""
        finally:
            watching.kill()
            watching.wait()
            if watching.stderr is not None:
                watching.stderr.close()
            os.close(ours)
        kubectl(kubeconfig, "apply", "-f", str(examples / "leader-workers-kai.yaml"))
        kubectl(kubeconfig, "wait", "podgang/leader-workers-0", "--for=condition=Ready", "--timeout=30s")
        wide = grove("tree", "leader-workers", "-o", "wide", "--kubeconfig", str(kubeconfig)).out
        names = grove("tree", "leader-workers", "-o", "name", "--kubeconfig", str(kubeconfig)).out.split()
        listed = kubectl(kubeconfig, "get", *names, "-o", "name").split()
        cluster.ask_to_stop()
    assert listed == names
    (pod,) = [
        line for line in wide.splitlines() if "Pod leader-workers-0-leader-" in line and "PodC" not in line
    ]
    assert "  zone zone-0  rack rack-" in pod
    assert "  host leader-workers-0-leader-0  age " in pod


def test_a_drawing_and_data_exclude_each_other(grove: Grove) -> None:
    ran = grove("tree", "--watch", "-o", "json")
    assert (ran.code, ran.out) == (2, "")
    assert "--watch draws" in ran.err
