"""The real Helm, and the life of a release from its installation to its end, on any cluster."""

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from tests.cli.processes import Process, kubectl, started

from grove.real import Locator
from grove.real.versions import helm_tool

ROOT: Final = Path(__file__).resolve().parents[2]
CHART: Final = ROOT / "deploy" / "helm" / "grove"
NAMESPACE: Final = "grove-system"
RELEASE: Final = "grove"
SECONDS: Final = 120
#: Where a definition says something that an older chart said otherwise.
GANGS: Final = "templates/crds/scheduler.grove.io_podgangs.yaml"
FOUND: Final = Locator().find(helm_tool())
MISSING: Final = f"Helm {helm_tool().version} is not installed; `make helm` installs it"


def helm(*arguments: str, kubeconfig: Path | None = None, refused: bool = False) -> str:
    """What Helm prints; with `refused`, what it complains about."""
    assert FOUND is not None
    where = ["--kubeconfig", str(kubeconfig), "-n", NAMESPACE] if kubeconfig else []
    home = {"HOME": "/nonexistent", "HELM_CACHE_HOME": "/nonexistent", "HELM_CONFIG_HOME": "/nonexistent"}
    ran = subprocess.run(
        [FOUND.path, *arguments, *where],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env={"PATH": "/usr/bin:/bin", **home},
    )
    assert (ran.returncode != 0) == refused, f"helm {' '.join(arguments)}: {ran.stderr}{ran.stdout}"
    return ran.stderr if refused else ran.stdout


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def get(kubeconfig: Path, *arguments: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(kubectl(kubeconfig, "get", *arguments, "-o", "json"))["items"]
    return items


@dataclass(frozen=True, slots=True)
class Example:
    """A set in `examples`, and the first of its gangs."""

    file: str
    name: str

    @property
    def gang(self) -> str:
        return f"{self.name}-0"

    @property
    def path(self) -> Path:
        return ROOT / "examples" / self.file


#: By the name of the backend.
EXAMPLES: Final = {
    "default": Example("disaggregated.yaml", "disaggregated"),
    "kai": Example("leader-workers-kai.yaml", "leader-workers"),
    "koordinator": Example("leader-workers-koordinator.yaml", "on-koordinator"),
    "volcano": Example("leader-workers-volcano.yaml", "on-volcano"),
    "yunikorn": Example("leader-workers-yunikorn.yaml", "on-yunikorn"),
}


class Installed:
    """A release in a cluster, with an operator that runs as a process in place of its Deployment's pods.

    It has the token of the release's account and the configuration of the release's ConfigMap: what it may
    do and how it works is what the chart says. No webhooks: an API server outside of the cluster's network
    reaches no Service.
    """

    #: The backends whose schedulers run in this cluster.
    backends: Sequence[str] = ("default",)
    #: What those schedulers know of a gang, as kubectl calls it.
    kinds_of_schedulers: Sequence[str] = ()

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self.kubeconfig = kubeconfig
        self._folder = folder
        self._ports = {
            "server": {
                "webhooks": {"enabled": False},
                "healthProbes": {"port": free_port(), "bindAddress": "127.0.0.1"},
                "metrics": {"port": free_port(), "bindAddress": "127.0.0.1"},
            }
        }
        self.values = folder / "values.yaml"
        self.values.write_text(yaml.safe_dump({"config": self._ports}))

    def helm(self, *arguments: str) -> str:
        return helm(*arguments, kubeconfig=self.kubeconfig)

    def install(self, chart: Path, *arguments: str) -> None:
        self.helm("install", RELEASE, str(chart), "--create-namespace", "-f", str(self.values), *arguments)

    def upgrade(self, *arguments: str) -> None:
        self.helm("upgrade", RELEASE, str(CHART), "-f", str(self.values), *arguments)

    @contextmanager
    def operator(self) -> Iterator[Process]:
        """`grove run` with nothing but what the release gives; ended in order."""
        (config,) = [
            each
            for each in get(self.kubeconfig, "configmaps", "-n", NAMESPACE)
            if each["metadata"]["name"].startswith("grove-operator-cm-")
        ]
        file = self._folder / "config.yaml"
        file.write_text(self.configuration(config["data"]["config.yaml"]))
        arguments = ("--config", str(file), "-n", NAMESPACE, "--kubeconfig", str(self._account()))
        with started("run", *arguments, folder=self._folder) as process:
            process.wait_until_said("controllers started")
            yield process
            assert process.ask_to_stop() == 0

    def configuration(self, text: str) -> str:
        """What the operator reads, of what the release's ConfigMap says."""
        return text

    def _account(self) -> Path:
        """A kubeconfig with a token of the account that the release made."""
        token = kubectl(self.kubeconfig, "create", "token", "grove-operator", "-n", NAMESPACE).strip()
        found = yaml.safe_load(self.kubeconfig.read_text())
        (user,) = found["users"]
        user["user"] = {"token": token}
        file = self._folder / "account"
        file.write_text(yaml.safe_dump(found))
        return file

    def gang_names(self) -> list[str]:
        """The short names that gangs have by their definition."""
        name = "podgangs.scheduler.grove.io"
        text = kubectl(self.kubeconfig, "get", "crd", name, "-o", "jsonpath={.spec.names.shortNames}")
        names: list[str] = json.loads(text)
        return names

    def pods(self) -> set[str]:
        """The pods of the workload, by their UIDs."""
        return {each["metadata"]["uid"] for each in get(self.kubeconfig, "pods", "-n", "default")}

    def run_sets(self) -> None:
        """A set with each scheduler that runs here."""
        available = "--for=jsonpath={.status.availableReplicas}=1"
        for example in (EXAMPLES[each] for each in self.backends):
            kubectl(self.kubeconfig, "apply", "-f", str(example.path))
            kubectl(self.kubeconfig, "wait", f"podcliqueset/{example.name}", available, "--timeout=50s")

    def left(self) -> list[str]:
        """Everything that is there because Grove was installed, and that its users made with it."""
        ours = [
            *get(self.kubeconfig, "crd"),
            *get(self.kubeconfig, "clusterroles,clusterrolebindings,priorityclasses"),
            *get(self.kubeconfig, "flowschemas,prioritylevelconfigurations"),
            *get(self.kubeconfig, "mutatingwebhookconfigurations,validatingwebhookconfigurations"),
        ]
        kinds = "deployments,services,configmaps,secrets,serviceaccounts,leases,roles,rolebindings,"
        kinds += "poddisruptionbudgets,networkpolicies"
        inside = get(self.kubeconfig, kinds, "-n", NAMESPACE)
        of_sets = "pods,services,roles,rolebindings,serviceaccounts,configmaps,secrets,controllerrevisions"
        used = get(self.kubeconfig, ",".join((of_sets, *self.kinds_of_schedulers)), "-n", "default")
        found = [*(each for each in ours if "grove" in each["metadata"]["name"]), *inside, *used]
        names = [f"{each['kind']} {each['metadata']['name']}" for each in found]
        of_the_cluster = ("ServiceAccount default", "ConfigMap kube-root-ca.crt", "Service kubernetes")
        return [each for each in names if each not in of_the_cluster]

    def until_nothing_is_left(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := self.left()) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert left == []


def older(folder: Path) -> Path:
    """The chart as an older version of it was: gangs had another short name."""
    shutil.copytree(CHART, folder / CHART.name)
    definition = folder / CHART.name / GANGS
    text = definition.read_text()
    assert "    - pg\n" in text
    definition.write_text(text.replace("    - pg\n", "    - formerpg\n"))
    return folder / CHART.name


def live_a_whole_life(release: Installed, folder: Path) -> None:
    """Install, run sets, upgrade, roll back, leave the workloads, come back, uninstall."""
    release.install(older(folder))
    assert release.gang_names() == ["formerpg"]
    with release.operator():
        release.run_sets()
        running = release.pods()
        assert running
        release.upgrade("--set", "podAnnotations.upgraded=yes")
        assert release.gang_names() == ["pg"]
        release.helm("rollback", RELEASE, "1")
        assert release.gang_names() == ["formerpg"]
        release.upgrade("--set", "keepWorkloads=true")
        assert release.pods() == running
    come_back_and_go(release)


def come_back_and_go(release: Installed) -> None:
    """What an uninstallation left running goes on with the next one, which takes everything with it."""
    running = release.pods()
    release.helm("uninstall", RELEASE)
    assert release.pods() == running
    kept = [each for each in release.left() if not each.startswith(("CustomResourceDefinition ", "Pod "))]
    assert [each for each in kept if not any(set_.name in each for set_ in EXAMPLES.values())] == []
    release.install(CHART, "--take-ownership")
    with release.operator() as process:
        for backend in release.backends:
            gang = f"podgang/{EXAMPLES[backend].gang}"
            kubectl(release.kubeconfig, "wait", gang, "--for=condition=Ready", "--timeout=30s")
        assert release.pods() == running, process.said
        # Sets first: a garbage collector that loses their definitions before it saw them go may leave pods.
        kubectl(
            release.kubeconfig, "delete", "podcliqueset", "--all", "--cascade=foreground", "--timeout=50s"
        )
    release.helm("uninstall", RELEASE, "--cascade", "foreground", "--wait")
