"""`grove up`: a cluster that kubectl can use, the operator at work in it, and nothing left afterwards."""

import json
import signal
import socket
from pathlib import Path

import pytest

from .conftest import Grove
from .processes import kubectl, listening_elsewhere, started


def test_a_set_applied_with_kubectl_runs_and_everything_is_gone_after_sigterm(
    tmp_path: Path, examples: Path, grove: Grove
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with started("up", "--write-kubeconfig", str(kubeconfig), folder=tmp_path) as process:
        assert process.output.readline() == f"export KUBECONFIG={kubeconfig}\n", process.said
        assert kubeconfig.stat().st_mode & 0o777 == 0o600
        kubectl(kubeconfig, "apply", "-f", str(examples))
        for name in ("disaggregated", "leader-workers", "packed"):
            ready = "--for=jsonpath={.status.availableReplicas}=1"
            kubectl(kubeconfig, "wait", f"podcliqueset/{name}", ready, "--timeout=30s")
        drawing = grove("tree", "--kubeconfig", str(kubeconfig)).out
        assert "PodGang disaggregated-0  replica 0  Running  5 of 5 pods placed" in drawing
        assert "PodGang leader-workers-0  replica 0  Running  4 of 4 pods placed" in drawing
        kubectl(kubeconfig, "wait", "podgang/too-big-0", "--for=condition=Scheduled=False", "--timeout=30s")
        (stuck,) = json.loads(grove("tree", "too-big", "-o", "json", "--kubeconfig", str(kubeconfig)).out)[
            "items"
        ]
        (gang,) = stuck["children"]
        assert gang["placed"] == 0
        assert gang["why"]
        absent = grove("tree", "nonsense", "--kubeconfig", str(kubeconfig))
        assert (absent.code, absent.out) == (1, "")
        assert absent.err == (
            "grove: there is no PodCliqueSet 'nonsense' in namespace 'default'; "
            "a NAME is that of a set, not of a gang or clique\n"
        )
        assert process.ask_to_stop(signal.SIGTERM) == 0
        assert not process.anything_left()
    assert not kubeconfig.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_ctrl_c_and_a_closed_terminal_end_it_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with started("up", "--no-operator", "--nodes", "1", folder=tmp_path) as process:
        exported = process.output.readline()
        kubeconfig = Path(exported.removeprefix("export KUBECONFIG=").strip())
        assert kubeconfig.exists(), process.said
        assert process.ask_to_stop(number) == 0
        assert not process.anything_left()
    assert not kubeconfig.parent.exists()


def test_objects_survive_in_the_data_directory(tmp_path: Path) -> None:
    arguments = ["--no-operator", "--data-dir", str(tmp_path / "data")]
    kubeconfig = tmp_path / "kubeconfig"
    arguments += ["--write-kubeconfig", str(kubeconfig)]
    with started("up", *arguments, folder=tmp_path) as first:
        first.output.readline()
        assert "with 4 nodes of 8 GPUs;" in first.said
        kubectl(kubeconfig, "create", "configmap", "kept", "--from-literal=a=b")
        kubectl(kubeconfig, "delete", "node", "node-3")
        assert first.ask_to_stop() == 0
    with started("up", *arguments, folder=tmp_path) as second:
        second.output.readline()
        # Nodes are made once, and what is there counts.
        assert "with the 3 nodes that its data directory has;" in second.said
        assert kubectl(kubeconfig, "get", "configmap", "kept", "-o", "jsonpath={.data.a}") == "b"
        assert second.ask_to_stop() == 0


def test_a_port_in_use_is_one_sentence(grove: Grove) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ran = grove("up", "--no-operator", "--port", str(port))
    assert (ran.code, ran.out) == (1, "")
    assert len(ran.err.splitlines()) == 1
    assert f"127.0.0.1:{port}" in ran.err


@pytest.mark.parametrize("command", ["up", "demo"])
def test_inside_a_pod_it_starts_only_when_forced(
    grove: Grove, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    ran = grove(command)
    assert (ran.code, ran.out) == (1, "")
    assert "KUBERNETES_SERVICE_HOST is set" in ran.err
    assert "--force" in ran.err


def test_a_kubeconfig_of_another_cluster_is_left_alone(grove: Grove, tmp_path: Path) -> None:
    precious = tmp_path / "config"
    precious.write_text("apiVersion: v1\nkind: Config\nclusters: [{name: production, cluster: {}}]\n")
    before = precious.read_text()
    ran = grove("up", "--no-operator", "--write-kubeconfig", str(precious))
    assert (ran.code, ran.out) == (1, "")
    assert "already describes another cluster" in ran.err
    assert precious.read_text() == before


def test_data_that_is_no_database_is_one_sentence(grove: Grove, tmp_path: Path) -> None:
    (tmp_path / "cluster.db").write_text("this is not a database, only text that is long enough" * 20)
    ran = grove("up", "--no-operator", "--data-dir", str(tmp_path))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"grove: the data in {tmp_path} cannot be used: ")


@pytest.mark.parametrize("option", [["--nodes", "-1"], ["--port", "70000"], ["--kubernetes", "1.2"]])
def test_values_out_of_range_are_wrong_usage(grove: Grove, option: list[str]) -> None:
    ran = grove("up", *option)
    assert (ran.code, ran.out) == (2, "")
    assert option[0] in ran.err


def test_a_configuration_without_an_address_listens_on_the_loopback_only(tmp_path: Path) -> None:
    file = tmp_path / "operator.yaml"
    header = "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n"
    file.write_text(f"{header}server: {{healthProbes: {{port: 0}}, metrics: {{port: 0}}}}\n")
    with started("up", "--config", str(file), folder=tmp_path) as process:
        assert process.output.readline(), process.said
        process.wait_until_said("health server listens")
        assert listening_elsewhere([process.group]) == []
        assert process.ask_to_stop() == 0
