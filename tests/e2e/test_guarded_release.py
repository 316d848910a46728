"""A release of the chart with its webhooks, on a real control plane: its whole life, and another authority.

Nobody plays the pods of the operator's Deployment or kube-proxy. The addresses of Services are of the loopback
here, so that the operator, as a process, listens at the address of the release's Service itself: the API
server asks `grove-operator.grove-system.svc` and verifies it by the caBundle that the operator wrote.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tests.cli.processes import KUBECTL, Process, kubectl, started
from tests.deploy.helm import CHART, FOUND, MISSING, NAMESPACE, RELEASE, Installed, get, live_a_whole_life
from tests.e2e.conftest import asked
from tests.e2e.scene import role, train
from tests.e2e.test_install import POLICY, refused

from grove.api import kinds
from grove.errors import ApiError, Invalid
from grove.kube import config
from grove.kube.client import Client
from grove.kube.limiter import Limiter
from grove.kube.transport import HttpTransport
from grove.meta import Key, Manifest
from grove.real import Options, RealControlPlane
from grove.real.versions import APISERVER
from grove.webhook.certificates.inspection import certificates_in, fingerprint
from grove.webhook.certificates.material import SECRETS, Material, desired_secret, material_of
from grove.webhook.certificates.plan import Situation, plan_material
from grove.webhook.certificates.provision import server_names

pytestmark = [pytest.mark.real, pytest.mark.skipif(FOUND is None, reason=MISSING)]

SERVICES: Final = "127.52.0.0/16"
SECRET: Final = Key(NAMESPACE, "grove-webhook-server-cert")
SENTENCE: Final = "'soon' is not a duration"


def bad_set() -> Manifest:
    found = train(role("worker", 1), name="bad", terminationDelay="soon")
    return {**found, "metadata": {"name": "bad", "namespace": "default"}}


class Guarded(Installed):
    """A release whose webhooks the API server asks at the address of its Service."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        super().__init__(kubeconfig, folder)
        self.sentences = 0
        values = yaml.safe_load(self.values.read_text())
        # The default port: nobody else listens at the address of this Service.
        values["config"]["server"].pop("webhooks")
        self.values.write_text(yaml.safe_dump(values))

    @property
    def address(self) -> tuple[str, int]:
        """Where the Service is: its address and the port of its webhooks."""
        (service,) = get(self.kubeconfig, "services", "-n", NAMESPACE)
        (port,) = [each["port"] for each in service["spec"]["ports"] if each["name"] == "webhooks"]
        return service["spec"]["clusterIP"], port

    def configuration(self, text: str) -> str:
        """That of the release, but for the address: in a pod it would be every one."""
        found = yaml.safe_load(text)
        found["server"]["webhooks"]["bindAddress"] = self.address[0]
        self.probes = found["server"]["healthProbes"]["port"]
        return str(yaml.safe_dump(found))

    @contextmanager
    def operator(self) -> Iterator[Process]:
        assert self.refusal().endswith("connection refused"), "nothing is stored that nobody looked at"
        with super().operator() as process:
            until(self._ready, "the operator says that it is ready", process)
            until(lambda: SENTENCE in self.refusal(), "a bad set is refused with the sentence", process)
            self.sentences += 1
            yield process
            assert SENTENCE in self.refusal(), process.said

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.probes}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def refusal(self) -> str:
        """What kubectl says to a bad set."""
        ran = subprocess.run(
            [str(KUBECTL), "--kubeconfig", str(self.kubeconfig), "create", "--dry-run=server", "-f", "-"],
            input=json.dumps(bad_set()),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert ran.returncode != 0, "a bad set was admitted"
        return ran.stderr.strip()

    def trusted(self) -> list[set[str]]:
        """The authorities in each caBundle, by their fingerprints."""
        found = get(self.kubeconfig, "mutatingwebhookconfigurations,validatingwebhookconfigurations")
        bundles = [hook["clientConfig"].get("caBundle", "") for each in found for hook in each["webhooks"]]
        assert bundles
        return [fingerprints(material_of({"data": {"ca.crt": each}})) for each in bundles]

    def served(self) -> str:
        """The certificate that the operator serves."""
        return ssl.get_server_certificate(self.address, timeout=10)


def fingerprints(material: Material) -> set[str]:
    return {fingerprint(each) for each in certificates_in(material.ca)}


def until(holds: Callable[[], bool], what: str, process: Process, seconds: float = 40) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}\n{process.said}"
        time.sleep(0.1)


@contextmanager
def guarded(folder: Path) -> Iterator[tuple[Guarded, asyncio.Runner, Path]]:
    """A real control plane with nodes, a release that is not installed yet, and the audit log."""
    policy, log, kubeconfig = (folder / name for name in ("policy.json", "audit.log", "kubeconfig"))
    policy.write_text(json.dumps(POLICY))
    arguments = (
        f"--audit-policy-file={policy}",
        f"--audit-log-path={log}",
        "--audit-log-mode=blocking",
        f"--service-cluster-ip-range={SERVICES}",
    )
    minor = asked("1.36").minor
    plane = RealControlPlane(Options(minor=minor, arguments={APISERVER: arguments}, say=lambda _: None))
    with asyncio.Runner() as runner:
        runner.run(plane.start())
        try:
            plane.kubeconfig(kubeconfig)
            guest = ("--control-plane", "kubeconfig", "--kubeconfig", str(kubeconfig), "--no-operator")
            with started("up", *guest, "--play-nodes", "--nodes", "4", folder=folder) as nodes:
                nodes.wait_until_said("grove:")
                kubectl(kubeconfig, "create", "namespace", NAMESPACE)
                yield Guarded(kubeconfig, folder), runner, log
        finally:
            runner.run(plane.stop())


def test_a_release_with_webhooks_lives_on_a_real_control_plane_and_leaves_nothing(tmp_path: Path) -> None:
    with guarded(tmp_path) as (release, _, log):
        live_a_whole_life(release, tmp_path / "older")
        # The garbage collector learns of definitions, and of their end, every half minute.
        deadline = time.monotonic() + 150
        while (left := release.left()) and time.monotonic() < deadline:
            time.sleep(0.5)
        assert left == []
        assert release.sentences == 2
        assert refused(log) == []


@dataclass
class Load:
    """Sets that are written all the time, as dry runs: good ones, and ones that must be refused."""

    client: Client
    admitted: int = 0
    refused: int = 0
    failed: list[str] = field(default_factory=list)

    async def run(self) -> None:
        good = train(role("worker", 1), name="good")
        good = {**good, "metadata": {"name": "good", "namespace": "default"}}
        while True:
            try:
                await self.client.create(kinds.CLIQUESETS, good, dry_run=True)
                self.admitted += 1
            except ApiError as error:
                self.failed.append(str(error))
            try:
                await self.client.create(kinds.CLIQUESETS, bad_set(), dry_run=True)
                self.failed.append("a bad set was admitted")
            except Invalid:
                self.refused += 1
            except ApiError as error:
                self.failed.append(str(error))
            await asyncio.sleep(0.05)


async def _under_load(kubeconfig: Path, story: Callable[[Client], Any]) -> Load:
    """Play a story in a thread while sets are written; what the load met."""
    client = Client(HttpTransport(config.load(str(kubeconfig))), limiter=Limiter.off())
    load = Load(client)
    running = asyncio.create_task(load.run())
    try:
        await story(client)
    finally:
        running.cancel()
        await asyncio.wait({running})
        await client.close()
    return load


def test_the_authority_of_a_release_is_exchanged_under_load_while_it_is_upgraded(tmp_path: Path) -> None:
    with guarded(tmp_path) as (release, runner, log):
        release.install(CHART)
        with release.operator() as process:

            async def exchange(client: Client) -> None:
                await _exchanged(release, client, process)

            load = runner.run(_under_load(release.kubeconfig, exchange))
        assert load.failed == []
        assert min(load.admitted, load.refused) > 20
        release.helm("uninstall", RELEASE, "--cascade", "foreground", "--wait")
        assert refused(log) == []


async def _exchanged(release: Guarded, client: Client, process: Process) -> None:
    """Delete the Secret, as the guide says; what takes a day is written as a replica would that waited so long."""

    async def soon(holds: Callable[[], bool], what: str) -> None:
        await asyncio.to_thread(until, holds, what, process)

    old: Manifest = await client.get(SECRETS, SECRET, type=dict)
    first, served = fingerprints(material_of(old)), await asyncio.to_thread(release.served)
    assert len(first) == 1
    await client.delete(SECRETS, SECRET)
    await soon(lambda: all(len(each) == 2 and first < each for each in release.trusted()), "both are trusted")
    both = (await asyncio.to_thread(release.trusted))[0]
    assert await asyncio.to_thread(release.served) == served
    await asyncio.to_thread(release.upgrade, "--set", "podAnnotations.upgraded=yes")
    await soon(lambda: all(each == both for each in release.trusted()), "an upgrade leaves them trusted")
    await _written(client, datetime.now(UTC), both)
    await soon(lambda: release.served() != served, "the new one has signed what is served")
    await _written(client, datetime.now(UTC) + timedelta(days=2), both)
    await soon(lambda: all(each == both - first for each in release.trusted()), "the old one is dropped")
    await asyncio.to_thread(release.helm, "rollback", RELEASE, "1")
    await soon(
        lambda: all(each == both - first for each in release.trusted()), "a rollback leaves it trusted"
    )
    await soon(lambda: SENTENCE in release.refusal(), "a bad set is refused with the sentence")


async def _written(client: Client, now: datetime, trusted: set[str]) -> None:
    found: Manifest = await client.get(SECRETS, SECRET, type=dict)
    names, known = server_names(NAMESPACE), frozenset(trusted)
    seen = Situation(now, names, material_of(found), present=known, trusted=known)
    await client.replace(SECRETS, desired_secret(SECRET, plan_material(seen).material, found))
