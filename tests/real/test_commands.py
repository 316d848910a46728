"""The command lines of the components, per minor and option."""

from __future__ import annotations

from pathlib import Path

import pytest

from grove.real.commands import Commands, Files, Ports
from grove.real.options import Options
from grove.real.versions import MINORS, release

PORTS = Ports(etcd=1, etcd_peer=2, apiserver=3, controller_manager=4, scheduler=5)
PROGRAMS = {
    name: Path("/bin") / name
    for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
}


def commands(options: Options) -> Commands:
    return Commands(release(options.minor), options, Files(Path("/cp")), PORTS, PROGRAMS)


def flag(line: list[str], name: str) -> str | None:
    """The value that counts: the last one given."""
    values = [part.partition("=")[2] for part in line if part.partition("=")[0] == f"--{name}"]
    return values[-1] if values else None


GATES = {
    "1.35": "GenericWorkload=true,GangScheduling=true",
    "1.36": "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true,WorkloadAwarePreemption=true",
    "1.37": "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true",
}
SERVED = {
    "1.35": "scheduling.k8s.io/v1alpha1=true",
    "1.36": "scheduling.k8s.io/v1alpha2=true",
    "1.37": "scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true",
}


@pytest.mark.parametrize("minor", MINORS)
def test_gang_scheduling_is_on_in_every_component(minor: str) -> None:
    built = commands(Options(minor=minor))
    assert flag(built.apiserver(), "feature-gates") == GATES[minor]
    assert flag(built.controller_manager(), "feature-gates") == GATES[minor]
    assert flag(built.apiserver(), "runtime-config") == SERVED[minor]
    extra = ",SchedulerPopFromBackoffQ=false" if minor == "1.36" else ""
    assert flag(built.scheduler(), "feature-gates") == GATES[minor] + extra


@pytest.mark.parametrize("minor", MINORS)
def test_everything_listens_on_the_loopback_only(minor: str) -> None:
    built = commands(Options(minor=minor))
    for line in (built.apiserver(), built.controller_manager(), built.scheduler()):
        assert flag(line, "bind-address") == "127.0.0.1"
    etcd = built.etcd()
    listening = [flag(etcd, "listen-client-urls"), flag(etcd, "listen-peer-urls")]
    assert listening == ["https://127.0.0.1:1", "https://127.0.0.1:2"]
    assert "--client-cert-auth" in etcd


@pytest.mark.parametrize(("minor", "want"), [("1.35", False), ("1.36", True), ("1.37", True)])
def test_pod_groups_lose_their_finalizer_where_there_are_pod_groups(minor: str, want: bool) -> None:
    controllers = flag(commands(Options(minor=minor)).controller_manager(), "controllers") or ""
    assert ("podgroup-protection-controller" in controllers.split(",")) is want


def test_without_a_controller_manager_nothing_waits_for_it() -> None:
    plugins = flag(commands(Options(controller_manager=False)).apiserver(), "disable-admission-plugins")
    assert plugins is not None
    assert {"ServiceAccount", "PodGroupProtection"} <= set(plugins.split(","))


def test_nodes_are_tainted_only_when_somebody_watches_their_leases() -> None:
    without, with_leases = commands(Options()), commands(Options(node_lifecycle=True))
    assert "TaintNodesByCondition" in (flag(without.apiserver(), "disable-admission-plugins") or "")
    assert "TaintNodesByCondition" not in (flag(with_leases.apiserver(), "disable-admission-plugins") or "")
    assert "node-lifecycle-controller" in (flag(with_leases.controller_manager(), "controllers") or "")


def test_a_cluster_without_gang_scheduling_can_be_asked_for() -> None:
    built = commands(Options(minor="1.37", gates={}))
    assert flag(built.apiserver(), "feature-gates") is None
    assert flag(built.apiserver(), "runtime-config") is None
    assert flag(built.scheduler(), "feature-gates") is None
    assert "podgroup-protection-controller" not in (flag(built.controller_manager(), "controllers") or "")


def test_gates_that_are_asked_for_replace_the_usual_ones_but_keep_1_36_from_spinning() -> None:
    built = commands(Options(minor="1.36", gates={"GenericWorkload": True, "GangScheduling": True}))
    want = "GenericWorkload=true,GangScheduling=true"
    assert flag(built.apiserver(), "feature-gates") == want
    assert flag(built.apiserver(), "runtime-config") == SERVED["1.36"]
    assert flag(built.scheduler(), "feature-gates") == f"{want},SchedulerPopFromBackoffQ=false"
    spinning = commands(Options(minor="1.36", gates={"SchedulerPopFromBackoffQ": True}))
    assert flag(spinning.scheduler(), "feature-gates") == "SchedulerPopFromBackoffQ=true"


def test_the_longest_rest_of_a_pod_can_be_chosen() -> None:
    assert commands(Options()).scheduler_config()["podMaxBackoffSeconds"] == 1
    chosen = commands(Options(pod_max_backoff_seconds=10)).scheduler_config()
    assert chosen["podMaxBackoffSeconds"] == 10
    assert chosen["leaderElection"] == {"leaderElect": False}


def test_further_arguments_come_last() -> None:
    built = commands(Options(arguments={"kube-scheduler": ["--v=5"]}))
    assert flag(built.scheduler(), "v") == "5"
    assert flag(built.apiserver(), "v") is None
