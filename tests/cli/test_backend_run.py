"""`grove backend run`: a backend as a deployment of its own, beside an operator that leaves it its gangs."""

from pathlib import Path

import pytest

from .conftest import Grove
from .processes import kubectl, started

CONFIGURATION = """
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
logFormat: text
server: {healthProbes: {bindAddress: 127.0.0.1, port: 0}, metrics: {bindAddress: 127.0.0.1, port: 0}}
leaderElection: {enabled: true}
scheduler:
  profiles: [{name: default-scheduler}, {name: kai-scheduler, external: %s}]
"""

REFUSED = {
    "the operator acts for it itself": (
        "kai",
        "false",
        "scheduler.profiles[1].external: must be true for a process that acts for kai alone; "
        "as it is, the operator acts on the gangs of kai",
    ),
    "it is not enabled": (
        "volcano",
        "true",
        "scheduler.profiles: 'volcano' is not among the enabled backends: default, kai",
    ),
}


@pytest.mark.parametrize(("name", "external", "why"), REFUSED.values(), ids=REFUSED)
def test_it_does_not_start_where_it_would_be_a_second_writer(
    grove: Grove, tmp_path: Path, name: str, external: str, why: str
) -> None:
    file = tmp_path / "operator.yaml"
    file.write_text(CONFIGURATION % external)
    ran = grove("backend", "run", name, "--config", str(file))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"grove: {why}\n"


def test_a_gang_runs_with_two_processes_that_have_a_lease_each(tmp_path: Path, examples: Path) -> None:
    file, kubeconfig = tmp_path / "operator.yaml", tmp_path / "kubeconfig"
    file.write_text(CONFIGURATION % "true")
    options = ["--kubeconfig", str(kubeconfig), "--config", str(file)]
    up = ["up", "--no-operator", "--config", str(file), "--write-kubeconfig", str(kubeconfig)]
    with started(*up, folder=tmp_path) as cluster:
        assert cluster.output.readline(), cluster.said
        with started("run", *options, folder=tmp_path) as operator:
            kubectl(kubeconfig, "apply", "-f", str(examples / "leader-workers-kai.yaml"))
            waits = "--for=condition=Accepted"
            kubectl(kubeconfig, "wait", "podcliqueset/leader-workers", waits, "--timeout=30s")
            gang = ["podgang/leader-workers-0", "-o", "jsonpath={.metadata.annotations}"]
            assert "grove.io/external-backend" in kubectl(kubeconfig, "get", *gang)
            with started("backend", "run", "kai", *options, folder=tmp_path) as backend:
                ready = "--for=jsonpath={.status.availableReplicas}=1"
                kubectl(kubeconfig, "wait", "podcliqueset/leader-workers", ready, "--timeout=30s")
                leases = kubectl(kubeconfig, "get", "leases", "-A", "-o", "name")
                assert "grove-operator-leader-election-kai" in leases
                assert backend.ask_to_stop() == 0
            assert operator.ask_to_stop() == 0
        assert cluster.ask_to_stop() == 0
