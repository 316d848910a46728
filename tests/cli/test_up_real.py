"""`grove up --control-plane real`: Kubernetes' own programs, started, watched and ended with the command."""

import json
import os
import signal
import socket
from pathlib import Path

import pytest

from grove.backends.registry import BUILT_INS
from grove.real import Locator, NotInstalled
from grove.real.third_party import THIRD_PARTIES, third_party
from grove.real.versions import tools
from grove.testing import make

from .conftest import Grove
from .processes import Process, kubectl, listening_elsewhere, started

PROGRAMS = {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}
REAL = ("up", "--control-plane", "real", "--kubernetes", "1.36")


@pytest.fixture
def _installed() -> None:
    try:
        Locator().all_of("1.36")
    except NotInstalled as missing:
        pytest.skip(str(missing))


def programs_of(process: Process) -> dict[str, int]:
    """The processes that a process started, by the name of their program."""
    found = {}
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes().split(b"\0")[0].decode()
        except OSError:
            continue
        if int(words[1]) == process.group:
            found[Path(command).name] = int(folder.name)
    return found


def still_there(pids: dict[str, int]) -> list[str]:
    return [name for name, pid in pids.items() if Path(f"/proc/{pid}").exists()]


@pytest.mark.real
@pytest.mark.usefixtures("_installed")
def test_a_set_runs_on_kubernetes_own_programs_and_all_of_them_end_with_sigterm(
    tmp_path: Path, examples: Path, grove: Grove
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with started(*REAL, "--nodes", "6", "--write-kubeconfig", str(kubeconfig), folder=tmp_path) as process:
        assert process.output.readline() == f"export KUBECONFIG={kubeconfig}\n", process.said
        assert kubeconfig.stat().st_mode & 0o777 == 0o600
        assert "Kubernetes 1.36.4 (real) is up at https://127.0.0.1:" in process.said
        assert len(kubectl(kubeconfig, "get", "nodes", "--no-headers").splitlines()) == 6
        kubectl(kubeconfig, "wait", "nodes", "--all", "--for=condition=Ready", "--timeout=30s")
        kubectl(kubeconfig, "apply", "-f", str(examples))
        for name in ("disaggregated", "leader-workers", "packed"):
            ready = "--for=jsonpath={.status.availableReplicas}=1"
            kubectl(kubeconfig, "wait", f"podcliqueset/{name}", ready, "--timeout=60s")
        gangs = kubectl(kubeconfig, "get", "podgangs", "-o", "name").split()
        assert "podgang.scheduler.grove.io/disaggregated-0" in gangs
        drawing = grove("tree", "disaggregated", "--kubeconfig", str(kubeconfig)).out
        assert "PodGang disaggregated-0  replica 0  Running  5 of 5 pods placed" in drawing
        pids = programs_of(process)
        assert set(pids) == PROGRAMS
        assert process.ask_to_stop(signal.SIGTERM) == 0, process.said
        assert not process.anything_left()
        assert not still_there(pids)
    assert not kubeconfig.exists()
    logs = Path(process.said.partition("logs are in ")[2].partition(" ")[0])
    assert logs.name == "log"
    assert not logs.parent.exists()


@pytest.mark.real
@pytest.mark.parametrize("name", [each for each in THIRD_PARTIES if each in BUILT_INS])
def test_a_set_runs_on_the_scheduler_of_others_and_all_of_it_ends_with_sigterm(
    tmp_path: Path, name: str
) -> None:
    scheduler = third_party(name)
    try:
        Locator().all_of(scheduler.minor)
        Locator().third_party(scheduler)
    except NotInstalled as missing:
        pytest.skip(str(missing))
    kubeconfig, manifest = tmp_path / "kubeconfig", tmp_path / "set.json"
    manifest.write_text(json.dumps(make.cliqueset_manifest("pair", {"leader": 1, "worker": 2})))
    real = ("up", "--control-plane", "real", "--scheduler", name)
    with started(*real, "--write-kubeconfig", str(kubeconfig), folder=tmp_path) as process:
        assert process.output.readline() == f"export KUBECONFIG={kubeconfig}\n", process.said
        assert f" (real) with {scheduler.label} is up at " in process.said
        pids = programs_of(process)
        assert set(pids) == PROGRAMS - {"kube-scheduler"} | {tool.name for tool in scheduler.programs}
        assert listening_elsewhere(pids.values()) == []
        kubectl(kubeconfig, "apply", "--validate=false", "-f", str(manifest))
        ready = "--for=jsonpath={.status.availableReplicas}=1"
        kubectl(kubeconfig, "wait", "podcliqueset/pair", ready, "--timeout=60s")
        backend = kubectl(kubeconfig, "get", "podgang", "pair-0", "-o", "jsonpath={.metadata.labels}")
        assert f'"grove.io/scheduler-backend":"{name}"' in backend
        assert process.ask_to_stop(signal.SIGTERM) == 0, process.said
        assert not process.anything_left()
        assert not still_there(pids)


def test_a_scheduler_that_is_not_installed_is_named_with_what_installs_it(
    grove: Grove, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    for tool in tools("1.36"):
        program = tmp_path / tool.name
        program.write_text(f"#!/bin/sh\necho v{tool.version}\n")
        program.chmod(0o755)
    ran = grove("up", "--control-plane", "real", "--scheduler", "kai")
    assert (ran.code, ran.out) == (1, "")
    assert len(ran.err.splitlines()) == 1
    assert "kai-scheduler-0.12.0, kai-binder-0.12.0" in ran.err
    assert "make real SCHEDULERS=kai" in ran.err


def test_a_scheduler_on_a_minor_that_it_is_not_run_on_is_refused(grove: Grove) -> None:
    ran = grove("up", "--control-plane", "real", "--scheduler", "yunikorn", "--kubernetes", "1.37")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "grove: YuniKorn 1.8.0 is not run on Kubernetes 1.37 here; choose 1.35.\n"


def test_schedulers_that_nobody_plays_are_named(
    grove: Grove, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n"
        "scheduler: {profiles: [{name: kai-scheduler}, {name: volcano}, {name: yunikorn}]}\n"
    )
    said = grove(*REAL, "--config", str(config)).err
    assert "grove: no scheduler serves volcano here; start one with --scheduler volcano\n" in said
    assert "no scheduler serves kai" not in said
    said = grove("up", "--control-plane", "real", "--scheduler", "volcano", "--config", str(config)).err
    assert "no scheduler serves volcano" not in said
    assert "grove: only volcano runs here, but sets that name no scheduler go to default;" in said
    assert "no scheduler serves" not in grove(*REAL).err


def test_another_scheduler_goes_with_a_real_control_plane_only(grove: Grove) -> None:
    ran = grove("up", "--scheduler", "kai")
    assert (ran.code, ran.out) == (2, "")
    assert "--scheduler goes with --control-plane real only" in ran.err


@pytest.mark.real
@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize("victim", ["kube-scheduler", "kube-apiserver"])
def test_the_end_of_one_program_ends_all_with_the_sentence_and_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, victim: str
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    kubeconfig = tmp_path / "kubeconfig"
    with started(*REAL, "--write-kubeconfig", str(kubeconfig), folder=tmp_path) as process:
        assert process.output.readline(), process.said
        pids = programs_of(process)
        os.kill(pids[victim], signal.SIGKILL)
        assert process.end() == 1
        assert not process.anything_left()
        assert not still_there(pids)
    sentence = process.said.partition(f"grove: {victim} was ended by SIGKILL; its log ")[2]
    assert sentence, process.said
    log = Path(sentence.partition(" says:")[0])
    assert log.is_relative_to(tmp_path)
    assert log.name == f"{victim}.log"
    assert log.stat().st_size > 0
    assert "Traceback" not in process.said
    assert not kubeconfig.exists()


@pytest.mark.real
@pytest.mark.usefixtures("_installed")
def test_objects_survive_in_the_data_directory_and_a_closed_terminal_ends_it_in_order(tmp_path: Path) -> None:
    data, kubeconfig = tmp_path / "data", tmp_path / "kubeconfig"
    arguments = [*REAL, "--no-operator", "--data-dir", str(data), "--write-kubeconfig", str(kubeconfig)]
    with started(*arguments, folder=tmp_path) as first:
        assert first.output.readline(), first.said
        kubectl(kubeconfig, "create", "configmap", "kept", "--from-literal=a=b")
        assert first.ask_to_stop(signal.SIGHUP) == 0, first.said
        assert not first.anything_left()
    assert (data / "log" / "kube-apiserver.log").exists()
    with started(*arguments, folder=tmp_path) as second:
        assert second.output.readline(), second.said
        assert kubectl(kubeconfig, "get", "configmap", "kept", "-o", "jsonpath={.data.a}") == "b"
        assert second.ask_to_stop(signal.SIGINT) == 0, second.said


@pytest.mark.real
@pytest.mark.usefixtures("_installed")
def test_a_port_in_use_is_one_sentence(grove: Grove) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ran = grove(*REAL, "--no-operator", "--port", str(port))
    assert (ran.code, ran.out) == (1, "")
    assert len(ran.err.splitlines()) == 1
    assert f"127.0.0.1:{port}" in ran.err


def test_programs_that_are_missing_are_named_with_what_installs_them(
    grove: Grove, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    ran = grove(*REAL)
    assert (ran.code, ran.out) == (1, "")
    assert len(ran.err.splitlines()) == 1
    for name in PROGRAMS:
        assert name in ran.err
    assert "make real MINORS=1.36" in ran.err


def test_inside_a_pod_it_starts_only_when_forced(grove: Grove, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    ran = grove(*REAL)
    assert (ran.code, ran.out) == (1, "")
    assert "KUBERNETES_SERVICE_HOST is set" in ran.err
    assert "--force" in ran.err


@pytest.mark.real
@pytest.mark.usefixtures("_installed")
def test_the_demonstration_ends_well_within_a_minute(tmp_path: Path) -> None:
    with started("demo", "--control-plane", "real", "--kubernetes", "1.36", folder=tmp_path) as process:
        told = process.output.read()
        assert process.end() == 0, process.said
        assert not process.anything_left()
    assert "Kubernetes v1.36.4 at https://127.0.0.1:" in told
    for gang in ("llm-0", "leader-workers-0", "packed-0", "too-big-0"):
        assert f"PodGang {gang}  replica 0  Running" in told
    assert told.index("why not    too-big-0") < told.index("big-node joined")
