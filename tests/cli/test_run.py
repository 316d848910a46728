"""`grove run`: the operator against a cluster, and one sentence for everything that keeps it from working."""

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from grove.api import kinds
from grove.cli.permissions import Need, sentence

from .conftest import Grove
from .processes import kubectl, listening_elsewhere, started

CONFIGURATION = """
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
logFormat: text
server: {healthProbes: {bindAddress: 127.0.0.1, port: %d}, metrics: {port: 0}}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a cluster with Grove's kinds and no operator."""
    folder = tmp_path_factory.mktemp("cluster")
    kubeconfig = folder / "kubeconfig"
    with started("up", "--no-operator", "--write-kubeconfig", str(kubeconfig), folder=folder) as process:
        assert process.output.readline(), process.said
        yield kubeconfig
        assert process.ask_to_stop() == 0


def configuration(folder: Path, port: int = 0) -> Path:
    file = folder / "operator.yaml"
    file.write_text(CONFIGURATION % port)
    return file


def test_a_set_runs_while_the_operator_does_and_sigterm_ends_it_in_order(
    cluster: Path, tmp_path: Path, examples: Path
) -> None:
    arguments = ["--kubeconfig", str(cluster), "--config", str(configuration(tmp_path))]
    with started("run", *arguments, folder=tmp_path) as process:
        kubectl(cluster, "apply", "-f", str(examples / "disaggregated.yaml"))
        ready = "--for=jsonpath={.status.availableReplicas}=1"
        kubectl(cluster, "wait", "podcliqueset/disaggregated", ready, "--timeout=30s")
        assert process.ask_to_stop(signal.SIGTERM) == 0
        assert "stopped" in process.said
        assert not process.anything_left()


@pytest.mark.parametrize(
    ("server", "address", "everywhere"),
    [
        ("healthProbes", {}, False),
        ("healthProbes", {"bindAddress": "0.0.0.0"}, True),
        ("webhooks", {"enabled": True}, False),
        ("webhooks", {"enabled": True, "bindAddress": "0.0.0.0"}, True),
    ],
)
def test_only_an_explicit_address_lets_it_listen_beyond_the_loopback(
    cluster: Path, tmp_path: Path, server: str, address: dict[str, object], everywhere: bool
) -> None:
    file = configuration(tmp_path)
    document = yaml.safe_load(file.read_text())
    servers = {"healthProbes": {"port": 0}, "metrics": {"port": 0}, server: {"port": 0, **address}}
    file.write_text(yaml.safe_dump({**document, "server": servers}))
    said = "webhooks are served" if server == "webhooks" else "health server listens"
    with started("run", "--kubeconfig", str(cluster), "--config", str(file), folder=tmp_path) as process:
        # The name of the event alone: certificates are "served" earlier than the webhooks are.
        process.wait_until_said(f"{said}  host=")
        assert bool(listening_elsewhere([process.group])) == everywhere
        assert process.ask_to_stop() == 0


def test_a_health_port_in_use_names_port_and_field(cluster: Path, tmp_path: Path, grove: Grove) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        file = configuration(tmp_path, port)
        ran = grove("run", "--kubeconfig", str(cluster), "--config", str(file))
    assert ran.code == 1
    assert ran.err.splitlines()[-1] == (
        f"grove: port {port} is already in use; "
        "choose another with server.healthProbes.port in the operator's configuration"
    )


def test_a_scheduler_that_does_not_exist_is_named(cluster: Path, tmp_path: Path, grove: Grove) -> None:
    file = configuration(tmp_path)
    file.write_text(file.read_text() + "scheduler: {profiles: [{name: slurm}]}\n")
    ran = grove("run", "--kubeconfig", str(cluster), "--config", str(file))
    assert ran.code == 1
    assert "scheduler.profiles[0].name: 'slurm' is not a scheduler backend" in ran.err


def test_missing_crds_are_named_with_the_way_to_install_them(tmp_path: Path, grove: Grove) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    file = configuration(tmp_path)
    with started("up", "--no-operator", "--write-kubeconfig", str(kubeconfig), folder=tmp_path) as process:
        assert process.output.readline(), process.said
        kubectl(kubeconfig, "delete", "crd", "podgangs.scheduler.grove.io")
        ran = grove("run", "--kubeconfig", str(kubeconfig), "--config", str(file))
        kubectl(kubeconfig, "delete", "crd", "podcliquesets.grove.io")
        tree = grove("tree", "--kubeconfig", str(kubeconfig))
        assert process.ask_to_stop() == 0
    assert ran.code == 1
    assert ran.err.splitlines()[-1] == (
        "grove: the cluster does not serve podgangs.scheduler.grove.io; "
        "install Grove's CRDs first: grove crds | kubectl apply --server-side -f -"
    )
    assert (tree.code, tree.out) == (1, "")
    assert "the cluster does not serve podcliquesets.grove.io" in tree.err


def test_the_sentence_names_subresources_and_namespaces() -> None:
    denied = [
        Need("patch", kinds.GANGS, "status"),
        Need("list", kinds.PODS),
        Need("watch", kinds.PODS, "", "a"),
    ]
    assert sentence(denied) == (
        "podgangs.scheduler.grove.io/status (patch), pods (list), pods in namespace a (watch)"
    )
