"""A release of the chart with its webhooks on a real control plane, and what the API server wrote down of it.

Nobody plays the pods of the operator's Deployment or kube-proxy. The addresses of Services are of the loopback
here, so that the operator, as a process, listens at the address of the release's Service itself: the API
server asks `grove-operator.grove-system.svc` and verifies it by the caBundle that the operator wrote.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml
from tests.cli.processes import KUBECTL, Process, kubectl, started
from tests.deploy.helm import EXAMPLES, NAMESPACE, RELEASE, Installed, get
from tests.e2e.judges import Judge
from tests.e2e.plane import OPERATOR, STRICT
from tests.e2e.scene import role, train

from grove.backends.registry import BUILT_INS
from grove.meta import Manifest
from grove.real import Options, RealControlPlane
from grove.real.keys import ADMIN_GROUP
from grove.real.versions import APISERVER
from grove.webhook.certificates.inspection import certificates_in, fingerprint
from grove.webhook.certificates.material import Material, material_of

SERVICES: Final = "127.52.0.0/16"
SENTENCE: Final = "'soon' is not a duration"
#: Every request of everybody; what they say is not needed.
POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "Metadata"}],
}
#: As whom the operator's program comes, whoever runs it.
PROGRAM: Final = "grove-operator/"
#: What every account may do in every cluster: find out what is served, and what it may do.
EVERYBODYS: Final = frozenset({"system:basic-user", "system:discovery", "system:public-info-viewer"})
#: Answers that are no refusal: what is not there, what somebody else changed or made before, what is too old,
#: and what comes while the API server takes up a kind whose definition has just changed.
ORDINARY: Final = (404, 409, 410, 429)
NODES: Final = 8
#: As whom nodes and kubelets are played, by another process of the same program.
PLAYER: Final = "grove:nodes"


def bad_set() -> Manifest:
    found = train(role("worker", 1), name="bad", terminationDelay="soon")
    return {**found, "metadata": {"name": "bad", "namespace": "default"}}


class Guarded(Installed):
    """A release for all schedulers, whose webhooks the API server asks at the address of its Service."""

    def __init__(self, kubeconfig: Path, folder: Path, judges: Sequence[Judge]) -> None:
        super().__init__(kubeconfig, folder)
        self.backends = [each.backend for each in judges]
        self.kinds_of_schedulers = [str(kind) for each in judges for kind in each.objects]
        self.operators = 0
        values = yaml.safe_load(self.values.read_text())
        # The default port: nobody else listens at the address of this Service.
        values["config"]["server"].pop("webhooks")
        values["config"]["scheduler"] = {"profiles": [{"name": each} for each in BUILT_INS]}
        self.values.write_text(yaml.safe_dump(values))

    @property
    def absent(self) -> list[str]:
        """The backends whose schedulers do not run here."""
        return [each for each in EXAMPLES if each not in self.backends]

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
            self.operators += 1
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
        return self.refused(bad_set(), "create", "--dry-run=server")

    def refused(self, manifest: Manifest, *command: str) -> str:
        """All that kubectl says to a manifest that must not be stored."""
        ran = subprocess.run(
            [str(KUBECTL), "--kubeconfig", str(self.kubeconfig), *command, "-f", "-"],
            input=json.dumps(manifest),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert (ran.returncode, ran.stdout) == (1, ""), f"admitted: {manifest}"
        return ran.stderr.strip()

    def apply(self, file: Path) -> str:
        """What kubectl says of its own accord when it applies a file."""
        ran = subprocess.run(
            [str(KUBECTL), "--kubeconfig", str(self.kubeconfig), "apply", "-f", str(file)],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stderr.strip()

    def says(self, gang: str) -> str:
        """Why a gang is not scheduled, as `kubectl get podgang` shows it."""
        path = '{.status.conditions[?(@.type=="Scheduled")].message}'
        return kubectl(
            self.kubeconfig, "get", "podgang", gang, "--ignore-not-found", "-o", f"jsonpath={path}"
        )

    def schedulers(self) -> set[str]:
        """Which schedulers the pods that run were placed by."""
        pods = get(self.kubeconfig, "pods", "-n", "default")
        return {each["spec"]["schedulerName"] for each in pods if each["status"].get("phase") == "Running"}

    def bindings(self) -> set[str]:
        """What the release binds its operator's account to, by name."""
        rendered = list(yaml.safe_load_all(self.helm("get", "manifest", RELEASE)))
        found = [each for each in rendered if each and each["kind"] in ("ClusterRoleBinding", "RoleBinding")]
        assert found
        return {each["metadata"]["name"] for each in found}

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


@dataclass(frozen=True, slots=True)
class Log:
    """What an API server wrote down of every request."""

    path: Path

    def refused(self) -> list[str]:
        """What the operator was not allowed, or asked for in vain; dry runs ask whether a template is right."""
        return [
            f"{_code(each)} {each['verb']} {each['requestURI']}"
            for each in self._of_operator()
            if _decision(each) != "allow"
            or (_code(each) >= 400 and _code(each) not in ORDINARY and "dryRun=All" not in each["requestURI"])
        ]

    def beyond(self, bindings: set[str]) -> list[str]:
        """What the operator did by another permission than those of its release, by the API server's reason."""
        return [
            f"{each['verb']} {each['requestURI']}: {_reason(each)}"
            for each in self._of_operator()
            if _binding(_reason(each)) not in bindings | EVERYBODYS
        ]

    def accounts(self) -> set[str]:
        """Under whose names the operator's program came, but for the one that plays nodes."""
        found = {each["user"]["username"] for each in self._all() if _agent(each).startswith(PROGRAM)}
        return found - {PLAYER}

    def hindered(self) -> list[str]:
        """What a part of the cluster wanted of Grove's objects and was refused."""
        return [
            f"{_code(each)} {each['user']['username']} {each['verb']} {each['requestURI']}"
            for each in self._all()
            if (each.get("objectRef") or {}).get("apiGroup") in ("grove.io", "scheduler.grove.io")
            and each["user"]["username"].startswith("system:")
            and each["user"]["username"] != OPERATOR
            and _code(each) >= 400
            and _code(each) not in ORDINARY
        ]

    def _of_operator(self) -> list[Manifest]:
        found = [each for each in self._all() if each["user"]["username"] == OPERATOR]
        assert found
        return found

    def _all(self) -> Iterator[Manifest]:
        # The server may be in the middle of a line while we read: only what a newline ends is there.
        *lines, _ = self.path.read_text(encoding="utf-8").split("\n")
        yield from map(json.loads, lines)


def _code(entry: Manifest) -> int:
    return int((entry.get("responseStatus") or {}).get("code", 0))


def _agent(entry: Manifest) -> str:
    return str(entry.get("userAgent", ""))


def _decision(entry: Manifest) -> str:
    return str((entry.get("annotations") or {}).get("authorization.k8s.io/decision", ""))


def _reason(entry: Manifest) -> str:
    return str((entry.get("annotations") or {}).get("authorization.k8s.io/reason", ""))


def _binding(reason: str) -> str:
    """The binding by which a request was allowed."""
    found = re.match(r'RBAC: allowed by (?:ClusterRole|Role)Binding "([^"/]+)', reason)
    return found[1] if found else ""


@contextmanager
def guarded(folder: Path, judges: Sequence[Judge]) -> Iterator[tuple[Guarded, asyncio.Runner, Log]]:
    """A real control plane with these schedulers and nodes, a release that is not installed yet, and the log."""
    policy, log, kubeconfig = (folder / name for name in ("policy.json", "audit.log", "kubeconfig"))
    policy.write_text(json.dumps(POLICY))
    arguments = (
        STRICT,
        f"--audit-policy-file={policy}",
        f"--audit-log-path={log}",
        "--audit-log-mode=blocking",
        f"--service-cluster-ip-range={SERVICES}",
    )
    beside = [each.third_party for each in judges if each.third_party]
    options = Options(
        minor=judges[0].minor, beside=beside, arguments={APISERVER: arguments}, say=lambda _: None
    )
    plane = RealControlPlane(options)
    with asyncio.Runner() as runner:
        runner.run(plane.start())
        try:
            plane.kubeconfig(kubeconfig)
            player = plane.kubeconfig_for(PLAYER, (ADMIN_GROUP,), path=folder / "player")
            guest = ("--control-plane", "kubeconfig", "--kubeconfig", str(player), "--no-operator")
            with started("up", *guest, "--play-nodes", "--nodes", str(NODES), folder=folder) as nodes:
                nodes.wait_until_said("grove:")
                kubectl(kubeconfig, "create", "namespace", NAMESPACE)
                yield Guarded(kubeconfig, folder, judges), runner, Log(log)
        finally:
            runner.run(plane.stop())
