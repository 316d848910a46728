"""The program itself, as a process, against the embedded API server over HTTPS on the loopback."""

import asyncio
import base64
import json
import os
import re
import resource
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from grove.embedded.cluster import ClusterOptions, EmbeddedCluster
from grove.embedded.errors import Manifest
from grove.embedded.faults import Fault
from grove.embedded.local import LocalClient
from grove.wait_for.connection import Server, run
from grove.wait_for.program import Program

PODS: Final = "/api/v1/namespaces/inf/pods"
ACCOUNTS: Final = "/api/v1/namespaces/inf/serviceaccounts"
ROLES: Final = "/apis/rbac.authorization.k8s.io/v1/namespaces/inf"
STRATEGIC: Final = "application/strategic-merge-patch+json"
SOURCE: Final = Path(__file__).resolve().parents[2] / "src"
SECONDS: Final = 30.0


@dataclass
class Place:
    """A namespace with a service account, and what a pod there would have in its volumes."""

    cluster: EmbeddedCluster
    folder: Path
    client: LocalClient = field(init=False)

    def __post_init__(self) -> None:
        self.client = self.cluster.client()

    async def furnish(self, *, allowed: bool = True) -> None:
        await self.client.create("/api/v1/namespaces", {"metadata": {"name": "inf"}})
        authority = self.cluster.kubeconfig()["clusters"][0]["cluster"]["certificate-authority-data"]
        (self.folder / "ca.crt").write_bytes(base64.b64decode(authority))
        (self.folder / "namespace").write_text("inf")
        (self.folder / "podgangname").write_text("llm-0")
        (self.folder / "message").write_text("")
        await self.new_token()
        if allowed:
            await self.allow()

    async def new_token(self) -> None:
        issued = await self.client.create(f"{ACCOUNTS}/default/token", {"spec": {"expirationSeconds": 3600}})
        (self.folder / "token").write_text(issued["status"]["token"])

    async def allow(self) -> None:
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
        await self.client.create(f"{ROLES}/roles", {"metadata": {"name": "watcher"}, "rules": rules})
        binding = {
            "metadata": {"name": "watcher"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "watcher"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "inf"}],
        }
        await self.client.create(f"{ROLES}/rolebindings", binding)

    async def pod(self, name: str, clique: str, *, ready: bool = True, gang: str = "llm-0") -> None:
        labels = {"grove.io/podgang": gang, "grove.io/podclique": clique}
        spec = {"containers": [{"name": "main", "image": "busybox"}]}
        await self.client.create(PODS, {"metadata": {"name": name, "labels": labels}, "spec": spec})
        if ready:
            await self.ready(name)

    async def ready(self, name: str, status: str = "True") -> None:
        conditions = [{"type": "Ready", "status": status}]
        patch: Manifest = {"status": {"conditions": conditions}}
        await self.client.patch(f"{PODS}/{name}/status", patch, content_type=STRATEGIC)

    @property
    def arguments(self) -> list[str]:
        return [
            f"--server={self.cluster.url}",
            f"--pod-info={self.folder}",
            f"--credentials={self.folder}",
            f"--termination-message={self.folder / 'message'}",
        ]

    @property
    def message(self) -> str:
        """What the kubelet would find."""
        return (self.folder / "message").read_text()

    def requests(self, verb: str) -> int:
        """How often the program asked for pods so."""
        user = "system:serviceaccount:inf:default"
        return sum(entry.verb == verb and entry.user == user for entry in self.cluster.requests)


class Waiting:
    """The running process, and what it has said so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said: list[str] = []

    async def until_said(self, words: str) -> None:
        async with asyncio.timeout(SECONDS):
            while not any(words in line for line in self.said):
                await self._line(words)

    async def _line(self, words: str) -> None:
        assert self.process.stderr is not None
        line = await self.process.stderr.readline()
        assert line, f"it ended without saying {words!r}: {self.said}"
        self.said.append(json.loads(line)["msg"])

    async def ends(self) -> int:
        assert self.process.stderr is not None
        async with asyncio.timeout(SECONDS):
            rest = (await self.process.stderr.read()).decode()
            code = await self.process.wait()
        self.said += [json.loads(line)["msg"] for line in rest.splitlines()]
        return code


@asynccontextmanager
async def waiting(place: Place, *parents: str) -> AsyncIterator[Waiting]:
    flags = [f"--podcliques={parent}" for parent in parents]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "grove.wait_for", *flags, *place.arguments),
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    try:
        yield Waiting(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def in_place(
    folder: Path,
    story: Callable[[Place], Awaitable[None]],
    *,
    allowed: bool = True,
    faults: tuple[Fault, ...] = (),
) -> None:
    async def main() -> None:
        async with EmbeddedCluster(ClusterOptions(actors=False, nodes=1)) as cluster:
            place = Place(cluster, folder)
            await place.furnish(allowed=allowed)
            for fault in faults:
                cluster.faults.add(fault)
            await story(place)

    asyncio.run(main())


def test_it_ends_when_every_parent_has_its_ready_pods_and_says_so_in_the_pod(tmp_path: Path) -> None:
    async def story(place: Place) -> None:
        await place.pod("a", "llm-0-fe")
        await place.pod("b", "llm-0-fe", ready=False)
        await place.pod("lookalike", "llm-0-fe-x")
        await place.pod("other", "llm-0-fe", gang="llm-1")
        async with waiting(place, "llm-0-fe:2", "llm-0-lead:1") as program:
            await program.until_said("waiting for llm-0-fe: 1 of 2 ready, llm-0-lead: 0 of 1 ready")
            assert place.message == "waiting for llm-0-fe: 1 of 2 ready, llm-0-lead: 0 of 1 ready"
            await place.pod("leader", "llm-0-lead")
            await program.until_said("waiting for llm-0-fe: 1 of 2 ready")
            await place.ready("b")
            assert await program.ends() == 0
        assert (
            place.message == "nothing to wait for any more: llm-0-fe: 2 of 2 ready, llm-0-lead: 1 of 1 ready"
        )
        assert place.requests("list") == place.requests("watch") == 1

    in_place(tmp_path, story)


def test_a_pod_that_stops_being_ready_counts_no_more(tmp_path: Path) -> None:
    async def story(place: Place) -> None:
        await place.pod("a", "fe")
        async with waiting(place, "fe:2") as program:
            await program.until_said("waiting for fe: 1 of 2 ready")
            await place.ready("a", "False")
            await program.until_said("waiting for fe: 0 of 2 ready")
            await place.pod("b", "fe")
            await place.client.delete(f"{PODS}/b", {"gracePeriodSeconds": 0})
            await place.pod("c", "fe")
            await place.ready("a")
            assert await program.ends() == 0

    in_place(tmp_path, story)


@pytest.mark.parametrize("trick", ["drop_watches", "compact"])
def test_it_goes_on_after_its_watch_has_ended(tmp_path: Path, trick: str) -> None:
    async def story(place: Place) -> None:
        await place.pod("a", "fe", ready=False)
        async with waiting(place, "fe:1") as program:
            await program.until_said("waiting for fe: 0 of 1 ready")
            for _ in range(3):
                before = place.requests("watch")
                async with asyncio.timeout(SECONDS):
                    while place.requests("watch") == before:
                        # It may be between two watches: the next one is ended again.
                        getattr(place.cluster, trick)()
                        await asyncio.sleep(0.05)
            await place.ready("a")
            assert await program.ends() == 0
        # Only a forgotten place needs the list again.
        assert (place.requests("list") > 1) == (trick == "compact")

    in_place(tmp_path, story)


def test_connections_that_break_off_and_errors_are_survived(tmp_path: Path) -> None:
    async def story(place: Place) -> None:
        async with waiting(place, "fe:1") as program:
            await program.until_said("no answer from the API server")
            await program.until_said(": 500 Internal error occurred: a fault was injected")
            await program.until_said("waiting for fe: 0 of 1 ready")
            await place.pod("a", "fe")
            assert await program.ends() == 0

    faults = (
        Fault("lose", verb="list", resource="pods", times=2),
        Fault("error", verb="list", resource="pods", times=1),
        Fault("drop", resource="pods", times=2),
    )
    in_place(tmp_path, story, faults=faults)


def test_late_events_are_waited_for(tmp_path: Path) -> None:
    async def story(place: Place) -> None:
        async with waiting(place, "fe:1") as program:
            await program.until_said("waiting for fe: 0 of 1 ready")
            await place.pod("a", "fe")
            assert await program.ends() == 0

    in_place(tmp_path, story, faults=(Fault("delay", resource="pods", seconds=0.3),))


def test_a_role_that_comes_later_is_enough(tmp_path: Path) -> None:
    async def story(place: Place) -> None:
        await place.pod("a", "fe")
        async with waiting(place, "fe:1") as program:
            await program.until_said("may not list pods in namespace inf (yet): 403 pods is forbidden")
            assert "403 pods is forbidden" in place.message
            await place.allow()
            assert await program.ends() == 0

    in_place(tmp_path, story, allowed=False)


def test_a_token_that_is_missing_or_wrong_at_first_is_read_again(tmp_path: Path) -> None:
    async def story(place: Place) -> None:
        await place.pod("a", "fe")
        token = place.folder / "token"
        good = token.read_text()
        token.unlink()
        async with waiting(place, "fe:1") as program:
            await program.until_said(f"No such file or directory: '{token}'")
            token.write_text("not a token")
            await program.until_said("does not accept the token: 401 Unauthorized")
            token.write_text(good)
            assert await program.ends() == 0

    in_place(tmp_path, story)


def test_a_token_that_is_replaced_while_it_waits_is_used_from_then_on(tmp_path: Path) -> None:
    async def story(place: Place) -> None:
        async with waiting(place, "fe:1") as program:
            await program.until_said("waiting for fe: 0 of 1 ready")
            # Another account of the same name: the first token is worth nothing any more.
            await place.client.delete(f"{ACCOUNTS}/default")
            if not (await place.client.list(ACCOUNTS))["items"]:
                await place.client.create(ACCOUNTS, {"metadata": {"name": "default"}})
            place.cluster.drop_watches()
            await program.until_said("does not accept the token")
            await place.new_token()
            await place.pod("a", "fe")
            assert await program.ends() == 0

    in_place(tmp_path, story)


def test_a_watch_that_falls_silent_is_given_up_and_resumed(tmp_path: Path) -> None:
    async def story(place: Place) -> None:
        said: list[str] = []
        silent, loop = asyncio.Event(), asyncio.get_running_loop()

        def tell(sentence: str) -> None:
            said.append(sentence)
            if "it was silent for too long" in sentence:
                loop.call_soon_threadsafe(silent.set)

        program = Program({"fe": 1}, namespace="inf", gang="llm-0", chance=lambda: 0.0)
        server = Server(place.cluster.url, place.folder / "token", place.folder / "ca.crt", silence=0.2)
        running = asyncio.create_task(asyncio.to_thread(run, program, server, tell=tell))
        async with asyncio.timeout(SECONDS):
            await silent.wait()
            await place.pod("a", "fe")
            await running
        assert said[-1] == "nothing to wait for any more: fe: 1 of 1 ready"
        assert place.requests("list") == 1

    in_place(tmp_path, story, faults=(Fault("stall", resource="pods", seconds=60, times=1),))


def test_an_authority_without_key_identifiers_is_trusted_as_kubectl_trusts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grove.embedded.access.tls.identified", lambda builder, signer: builder)
    lenient = ssl.create_default_context

    def strict(*, cafile: str) -> ssl.SSLContext:
        """As of Python 3.13, whichever runs the test."""
        context = lenient(cafile=cafile)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    async def story(place: Place) -> None:
        monkeypatch.setattr("grove.wait_for.connection.ssl.create_default_context", strict)
        await place.pod("a", "fe")
        said: list[str] = []
        program = Program({"fe": 1}, namespace="inf", gang="llm-0", chance=lambda: 0.0)
        server = Server(place.cluster.url, place.folder / "token", place.folder / "ca.crt")

        def given_up(seconds: float) -> None:
            raise AssertionError(said)

        async with asyncio.timeout(SECONDS):
            await asyncio.to_thread(run, program, server, tell=said.append, sleep=given_up)
        assert said[-1] == "nothing to wait for any more: fe: 1 of 1 ready"

    in_place(tmp_path, story)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_at_once_when_told_to_and_leaves_word_of_what_it_waited_for(
    tmp_path: Path, number: signal.Signals
) -> None:
    async def story(place: Place) -> None:
        async with waiting(place, "fe:1") as program:
            await program.until_said("waiting for fe: 0 of 1 ready")
            begun = time.monotonic()
            program.process.send_signal(number)
            assert await program.ends() == 1
            assert time.monotonic() - begun < 5
        assert place.message == "waiting for fe: 0 of 1 ready"

    in_place(tmp_path, story)


def test_it_never_creates_the_file_for_its_last_words(tmp_path: Path) -> None:
    async def story(place: Place) -> None:
        (place.folder / "message").unlink()
        await place.pod("a", "fe")
        async with waiting(place, "fe:1") as program:
            assert await program.ends() == 0
        assert not (place.folder / "message").exists()

    in_place(tmp_path, story)


# How it starts ------------------------------------------------------------------------------------


def alone(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run it as its image does: Python, the package's own folder, and nothing that was installed."""
    (folder / "grove").mkdir()
    (folder / "grove" / "__init__.py").symlink_to(SOURCE / "grove" / "__init__.py")
    (folder / "grove" / "wait_for").symlink_to(SOURCE / "grove" / "wait_for")
    return subprocess.run(
        [sys.executable, "-S", *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
    )


def test_its_own_folder_and_the_standard_library_are_all_it_needs(tmp_path: Path) -> None:
    code = "import sys, grove.wait_for.main; print(*sorted(n for n in sys.modules if n.startswith('grove')))"
    ran = alone(tmp_path, "-c", code)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == [
        "grove",
        "grove.wait_for",
        *(
            f"grove.wait_for.{name}"
            for name in ("arguments", "connection", "main", "program", "reporting", "tally")
        ),
    ]


def test_starting_it_costs_a_fraction_of_a_second(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert alone(tmp_path, "-m", "grove.wait_for", "--version").returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # What the processor does for it; how long that takes depends on who else uses the machine.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.5


def test_bad_arguments_end_it_with_one_and_the_words_of_the_go_operator(tmp_path: Path) -> None:
    ran = alone(tmp_path, "-m", "grove.wait_for", "--podcliques=a")
    assert ran.returncode == 1
    assert json.loads(ran.stderr)["msg"] == "expected two values per podclique, found 1"


def test_a_pod_without_its_files_ends_it_with_one(tmp_path: Path) -> None:
    ran = alone(
        tmp_path,
        "-m",
        "grove.wait_for",
        "-p",
        "a:1",
        "--server=https://127.0.0.1:1",
        f"--pod-info={tmp_path}/none",
    )
    assert ran.returncode == 1
    assert re.search(r"failed to read .*/none/namespace", json.loads(ran.stderr)["msg"])
