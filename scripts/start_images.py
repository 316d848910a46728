"""Start what is in the images as a cluster would: their user, files that are read-only, the first process.

Part of `make images`. Says in a line each what holds; raises Failed, with what a program said, where it does
not.
"""

import base64
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from scripts import sbom

from grove import __version__

ROOT: Final = Path(__file__).resolve().parent.parent
VENV: Final = Path(sys.executable).parent
EXAMPLE: Final = ROOT / "examples" / "disaggregated.yaml"
SET: Final = "podcliqueset/disaggregated"
GANG: Final = "disaggregated-0"
PARENT: Final = "disaggregated-0-prefill"
GROVE: Final = "/opt/grove/venv/bin/grove"
PYTHON: Final = "/opt/grove/venv/bin/python"
#: A folder that every base has; what a program is given lies there.
GIVEN: Final = "/mnt"
SECONDS: Final = 60.0
#: As in the Deployment: nothing but /tmp can be written.
_AS_IN_A_POD: Final = f"""
set -e
mount --bind "$1" "$1"
mount -o remount,bind,ro "$1"
mount -t proc proc "$1/proc"
mount --bind /dev "$1/dev"
mount -t tmpfs -o size=16m tmpfs "$1/tmp"
mount --bind "$2" "$1{GIVEN}"
mount -o remount,bind,ro "$1{GIVEN}"
root=$1 user=$3
shift 3
cd /
exec chroot --userspec="$user" --groups= "$root" "$@"
"""
_WHO: Final = """
import os
try:
    open("/opt/grove/probe", "w")
    print("wrote")
except OSError as error:
    print(os.getuid(), os.getgid(), os.getpid(), error.strerror)
"""
_INSTALLED: Final = """
import importlib.metadata, json
print(json.dumps({each.metadata["Name"]: each.version for each in importlib.metadata.distributions()}))
"""


class Failed(Exception):
    """Something is missing, is not built or does not start; the message has what a program said."""


@contextlib.contextmanager
def timed(what: str) -> Iterator[None]:
    """Says that something holds, and how long it took."""
    started = time.monotonic()
    yield
    print(f"ok  {what}: {time.monotonic() - started:.2f} s", flush=True)


def run(*words: str, environment: Mapping[str, str] | None = None) -> str:
    """What a program prints on its standard output; raises Failed with the end of everything that it said."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    except OSError as error:
        raise Failed(f"{words[0]} cannot be called: {error.strerror}") from error
    if done.returncode != 0:
        raise Failed(_told(words, f"exit code {done.returncode}", done.stdout + done.stderr))
    return done.stdout


def _told(words: tuple[str, ...], how: str, said: str) -> str:
    last = "\n".join(said.splitlines()[-30:])
    return f"{how} of {' '.join(words)}\n{last}"


def signal_inside(process: "subprocess.Popen[bytes]", number: int) -> None:
    """Signal what runs in the namespaces that a program keeps, or the program where it keeps none."""
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    for each in [int(word) for word in listed.split()] or [process.pid]:
        os.kill(each, number)


@dataclass(frozen=True, slots=True)
class Running:
    """A program that was started, and the file with what it says."""

    words: tuple[str, ...]
    process: "subprocess.Popen[bytes]"
    log: Path

    @property
    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait while the program runs; raises Failed when it ends or takes too long."""
        ends = time.monotonic() + SECONDS
        while not holds():
            if self.process.poll() is not None:
                raise Failed(
                    _told(self.words, f"exit code {self.process.returncode}, not {what},", self.said)
                )
            if time.monotonic() > ends:
                raise Failed(_told(self.words, f"not {what} within {SECONDS:.0f} s: the output", self.said))
            time.sleep(0.02)

    def ended(self, code: int = 0) -> str:
        """What it said until its end; raises Failed for another exit code, and for a traceback."""
        try:
            found = self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed(_told(self.words, f"no end within {SECONDS:.0f} s", self.said)) from None
        if found != code or "Traceback" in self.said:
            raise Failed(_told(self.words, f"exit code {found}, where {code} is right,", self.said))
        return self.said

    def stop(self) -> None:
        """Tell it to stop, as a kubelet does: the program itself, and not what keeps its namespaces."""
        signal_inside(self.process, signal.SIGTERM)


@contextlib.contextmanager
def running(
    *words: str, shown: tuple[str, ...] = (), env: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """A program for as long as the block takes."""
    with tempfile.NamedTemporaryFile(prefix="grove-said-") as log:
        process = subprocess.Popen(words, env=env, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield Running(shown or words, process, Path(log.name))
        finally:
            process.kill()
            process.wait()


@dataclass(frozen=True, slots=True)
class Image:
    """The files of an image, and what it says about its start."""

    name: str
    root: Path
    user: str
    entry: tuple[str, ...]
    environment: tuple[str, ...]

    def start(self, given: Path, *words: str) -> contextlib.AbstractContextManager[Running]:
        """A program of the image, which finds a folder of ours at GIVEN."""
        alone = (shutil.which("unshare") or "unshare", "--mount", "--pid", "--fork", "--kill-child")
        inside = ("sh", "-c", _AS_IN_A_POD, "sh", str(self.root), str(given), self.user, *words)
        env = dict(each.split("=", 1) for each in self.environment)
        return running(*alone, *inside, shown=(f"{self.name}:", *words), env=env)

    def say(self, given: Path, *words: str, code: int = 0) -> str:
        """What a program of the image says until it ends with the code; raises Failed."""
        with self.start(given, *words) as program:
            return program.ended(code).strip()


def weight(root: Path) -> int:
    """How many bytes the files below a folder have."""
    return sum((Path(folder) / name).lstat().st_size for folder, _, names in os.walk(root) for name in names)


def check(operator: Image, waiting: Image, folder: Path) -> None:
    """Everything that must hold of the two images; raises Failed."""
    given = folder / "given"
    given.mkdir()
    for image in (operator, waiting):
        _is_compiled(image)
    _holds_the_bill(operator, given)
    _starts(operator, given)
    _waits(waiting, given)
    _brings_a_set_up(operator, waiting, given)


def _is_compiled(image: Image) -> None:
    """Byte code of one Python for every module, used without a look at the time of its source."""
    modules = [each for each in (image.root / "opt/grove").rglob("*.py") if each.parent.name != "scripts"]
    codes = list((image.root / "opt/grove").rglob("*.pyc"))
    # Bytes 4 to 8 of byte code say how it is held to its source; 1 is a hash that is not compared.
    compared = [each for each in codes if each.read_bytes()[4:8] != b"\x01\0\0\0"]
    pythons = {each.suffixes[-2] for each in codes}
    if compared or len(pythons) != 1 or len(codes) != len(modules):
        found = (
            f"{len(modules)} modules, {len(codes)} compiled by {sorted(pythons)}, {len(compared)} with times"
        )
        raise Failed(f"byte code of {image.name}: {found}")
    print(f"ok  {image.name} has byte code of all its {len(modules)} modules", flush=True)


def _holds_the_bill(operator: Image, given: Path) -> None:
    """The packages of the bill of materials, no other and no pip."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    bill = sbom.bill(sbom.OPERATOR, lock, dockerfile, __version__)
    wanted = {each["name"].lower(): each["version"] for each in bill["components"]}
    found = json.loads(operator.say(given, PYTHON, "-c", _INSTALLED))
    found = {name.lower().replace("_", "-"): version for name, version in found.items()}
    wanted["grove-operator"] = __version__
    # A base before Python 3.12 puts it into every virtual environment.
    found.pop("setuptools", None)
    if found != wanted:
        wrong = sorted(set(found.items()) ^ set(wanted.items()))
        raise Failed(f"{operator.name} does not hold what its bill of materials says: {wrong}")
    gone = ", ".join(sorted(sbom.removed(dockerfile)))
    print(f"ok  {operator.name} has the {len(wanted)} packages of its bill, without {gone}", flush=True)


def _starts(operator: Image, given: Path) -> None:
    """The program starts as nobody known, and fails in a sentence where there is no cluster."""
    number, _, group = operator.user.partition(":")
    said = operator.say(given, PYTHON, "-c", _WHO)
    if said != f"{number} {group} 1 Read-only file system":
        raise Failed(f"{operator.name} is not started as user {operator.user} on read-only files: {said}")
    with timed(f"{operator.name}, as user {operator.user} on read-only files: grove version"):
        said = operator.say(given, GROVE, "version")
    if said != f"grove {__version__}":
        raise Failed(f"{operator.name} has another version: {said}")
    with timed(f"{operator.name}: grove run --help"):
        operator.say(given, *operator.entry, "--help")
    with timed(f"{operator.name}: grove doctor says that there is no cluster"):
        said = operator.say(given, GROVE, "doctor", code=1)
    if "no cluster is configured" not in said:
        raise Failed(f"grove doctor without a cluster: {said}")


def _waits(waiting: Image, given: Path) -> None:
    """The init container's program starts."""
    times = []
    for _ in range(5):
        started = time.monotonic()
        said = waiting.say(given, *waiting.entry, "--version")
        times.append(time.monotonic() - started)
    if said != f"grove-initc {__version__}":
        raise Failed(f"{waiting.name} has another version: {said}")
    print(f"ok  {waiting.name}: --version: {min(times):.2f} s", flush=True)


def _brings_a_set_up(operator: Image, waiting: Image, given: Path) -> None:
    """Both programs work against a cluster, and the operator ends in order."""
    kubeconfig = given / "kubeconfig"
    up = (str(VENV / "grove"), "up", "--no-operator", "--write-kubeconfig", str(kubeconfig))
    with contextlib.ExitStack() as programs:
        cluster = programs.enter_context(running(*up))
        cluster.until(lambda: "export KUBECONFIG" in cluster.said, "up")
        server, port = _give(given, kubeconfig), _free_port()
        (given / "config.yaml").write_text(_configuration(port), encoding="utf-8")
        options = ("--config", f"{GIVEN}/config.yaml", "--kubeconfig", f"{GIVEN}/kubeconfig")
        with timed(f"{operator.name}: grove run is ready"):
            work = programs.enter_context(operator.start(given, *operator.entry, *options))
            work.until(lambda: _answers(f"http://127.0.0.1:{port}/readyz"), "ready")
        places = ("--server", server, "--credentials", GIVEN, "--pod-info", GIVEN)
        init = programs.enter_context(waiting.start(given, *waiting.entry, "-p", f"{PARENT}:2", *places))
        init.until(lambda: PARENT in init.said, "waiting")
        kept = ("--kubeconfig", str(kubeconfig), "--cache-dir", str(given / "cache"))
        kubectl = (str(VENV / "kubectl"), *kept)
        with timed(f"{operator.name}: {SET} is ready"):
            run(*kubectl, "apply", "-f", str(EXAMPLE))
            run(*kubectl, "wait", "--for=condition=Ready", SET, f"--timeout={SECONDS:.0f}s")
        with timed(f"{waiting.name}: waited for the pods of {PARENT}, and ended"):
            init.ended()
        with timed(f"{operator.name}: told to stop, it ends in order"):
            work.stop()
            work.ended()
        cluster.stop()
        cluster.ended()


def _give(given: Path, kubeconfig: Path) -> str:
    """Write what a pod would find about itself and its account; returns the address of the API server."""
    stanzas = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    cluster, user = stanzas["clusters"][0]["cluster"], stanzas["users"][0]["user"]
    (given / "ca.crt").write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    (given / "token").write_text(user["token"], encoding="utf-8")
    (given / "namespace").write_text("default", encoding="utf-8")
    (given / "podgangname").write_text(GANG, encoding="utf-8")
    # The user of the image must read it; the folder around it is root's alone.
    kubeconfig.chmod(0o644)
    return str(cluster["server"])


def _configuration(port: int) -> str:
    """The defaults, with ports that nothing else on this machine has."""
    server = {"healthProbes": {"port": port}, "metrics": {"port": _free_port()}}
    kind = {"apiVersion": "operator.config.grove.io/v1alpha1", "kind": "OperatorConfiguration"}
    return json.dumps({**kind, "server": server})


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
