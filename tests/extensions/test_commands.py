"""`grove backend list`, `check` and `new`, as somebody meets them who adds a scheduler."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from tests.cli.processes import started
from tests.extensions.packages import backend_source, install

from grove.backends.registry import BUILT_INS
from grove.cli.main import main

KIT = """
from grove.testing.kits.kai import Conformance as Kai

from {module} import Backend


class Conformance(Kai):
    backend = Backend()
"""


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


Grove = Callable[..., Ran]


@pytest.fixture
def grove(capsys: pytest.CaptureFixture[str]) -> Grove:
    def run(*arguments: str) -> Ran:
        code = main(arguments)
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    return run


def install_with_kit(site: Path, body: str = "") -> None:
    """A package with a backend and its kit; `body` may spoil the backend."""
    (site / "acme_kit.py").write_text(KIT.format(module="acme_grove"))
    install(
        site,
        "acme-grove",
        backend_source("acme", body=body),
        points={"acme": "acme_grove:Backend"},
        conformance={"acme": "acme_kit:Conformance"},
    )


# list -----------------------------------------------------------------------------------------------


def test_the_list_has_every_built_in_and_third_party_with_where_it_is_from(site: Path, grove: Grove) -> None:
    install_with_kit(site)
    ran = grove("backend", "list", "-o", "json")
    rows = {each["name"]: each for each in json.loads(ran.out)}
    assert list(rows) == [*BUILT_INS, "acme"]
    assert rows["acme"] == {
        "name": "acme",
        "schedulerName": "acme-scheduler",
        "gate": "acme.example.com/gang",
        "from": "acme-grove 1.0",
        "capabilities": rows["kai"]["capabilities"],
    }
    assert "subgroups" in rows["kai"]["capabilities"]
    assert yaml.safe_load(grove("backend", "list", "-o", "yaml").out) == list(rows.values())


def test_the_table_lines_up_and_a_broken_package_is_named_beside_it(site: Path, grove: Grove) -> None:
    install(site, "acme-grove", "raise ValueError('no')", points={"acme": "acme_grove:Backend"})
    ran = grove("backend", "list")
    assert ran.code == 0
    header, *rows = ran.out.splitlines()
    assert header.split() == ["NAME", "SCHEDULER", "GATE", "FROM", "CAPABILITIES"]
    assert [row.split()[0] for row in rows] == list(BUILT_INS)
    assert {row.index("built-in") for row in rows} == {header.index("FROM")}
    assert ran.err.startswith("grove: not usable: acme-grove 1.0: the entry point 'acme' of grove.backends")


# check ----------------------------------------------------------------------------------------------


def test_every_built_in_passes(grove: Grove) -> None:
    ran = grove("backend", "check")
    assert ran.code == 0, ran.out
    assert [line.split()[:2] for line in ran.out.splitlines()[1:]] == [[name, "ok"] for name in BUILT_INS]


def test_a_backend_that_keeps_every_rule_passes_rule_by_rule(site: Path, grove: Grove) -> None:
    install_with_kit(site)
    ran = grove("backend", "check", "acme")
    assert ran.code == 0
    assert "acme     ok      two gangs share no object" in ran.out.splitlines()


def test_a_backend_that_breaks_a_rule_fails_with_the_rule_and_the_reason(site: Path, grove: Grove) -> None:
    install_with_kit(site, body="def prepare_pod(self, pod, gang, context): return {**pod}")
    ran = grove("backend", "check", "acme")
    assert ran.code == 1
    failed = [line for line in ran.out.splitlines() if "FAILED" in line]
    assert any(
        "a pod gets the gate and the scheduler and keeps the gates of others: " in line for line in failed
    )
    assert ran.err == "grove: failed: acme\n"
    told = json.loads(grove("backend", "check", "acme", "-o", "json").out)
    assert [each["passed"] for each in told] == [False]


def test_without_a_kit_it_says_what_cannot_be_checked_and_how_to_change_that(
    site: Path, grove: Grove
) -> None:
    install(site, "acme-grove", backend_source("acme"), points={"acme": "acme_grove:Backend"})
    ran = grove("backend", "check", "acme")
    assert ran.code == 1
    (line,) = [each for each in ran.out.splitlines() if "objects demand what the gang demands" in each]
    assert "FAILED" in line
    assert "with minimum_of as the entry point 'acme' of grove.conformance" in line
    (line,) = [each for each in ran.out.splitlines() if "the queue of the gang makes a difference" in each]
    assert "with queue_annotation as the entry point 'acme' of grove.conformance" in line


def test_a_backend_that_does_not_tell_what_it_declares_fails_with_the_property_and_the_level(
    site: Path, grove: Grove
) -> None:
    body = """
    def translate(self, gang, context):
        translation = super().translate(gang, context)
        for manifest in translation.manifests:
            manifest["spec"].pop("topologyConstraint", None)
        return translation
    """
    install_with_kit(site, body=body)
    ran = grove("backend", "check", "acme")
    assert ran.code == 1
    broken = [line for line in ran.out.splitlines() if "FAILED" in line and "difference" in line]
    assert len(broken) == 2
    assert "topology-required at the level of the gang: a gang with no constraint and one with" in ran.out
    assert "topology-preferred at the level of the gang: a gang with no constraint and one with" in ran.out


def test_a_kit_that_is_none_is_named(site: Path, grove: Grove) -> None:
    install(
        site,
        "acme-grove",
        backend_source("acme"),
        points={"acme": "acme_grove:Backend"},
        conformance={"acme": "acme_grove:Backend"},
    )
    ran = grove("backend", "check", "acme")
    assert ran.code == 1
    assert "the entry point 'acme' of grove.conformance is no subclass of BackendConformance" in ran.out


def test_a_broken_package_fails_the_check_and_an_unknown_name_is_refused(site: Path, grove: Grove) -> None:
    install(site, "acme-grove", "raise ValueError('no')", points={"acme": "acme_grove:Backend"})
    ran = grove("backend", "check", "acme")
    assert ran.code == 1
    assert "cannot be imported: ValueError: no" in ran.out
    unknown = grove("backend", "check", "slurm")
    assert (unknown.code, unknown.out) == (1, "")
    assert unknown.err.startswith("grove: 'slurm' is not a scheduler backend; known backends: default, kai")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a cluster in which no scheduler but the default one is installed."""
    folder = tmp_path_factory.mktemp("cluster")
    kubeconfig = folder / "kubeconfig"
    with started("up", "--no-operator", "--write-kubeconfig", str(kubeconfig), folder=folder) as process:
        assert process.output.readline(), process.said
        yield kubeconfig
        assert process.ask_to_stop() == 0


def test_a_cluster_is_asked_for_what_a_backend_needs(site: Path, cluster: Path, grove: Grove) -> None:
    body = """
    def preconditions(self, context):
        from grove.backends.base import Precondition

        licensed = not context.cluster.version
        return (Precondition("licence", "" if licensed else "the cluster has no licence; buy one"),)
    """
    install_with_kit(site, body=body)
    fine = grove("backend", "check", "default", "--kubeconfig", str(cluster))
    assert fine.code == 0, fine.out
    ran = grove("backend", "check", "acme", "--kubeconfig", str(cluster))
    assert ran.code == 1
    failed = [line for line in ran.out.splitlines() if "FAILED" in line]
    assert any("on the cluster: licence: the cluster has no licence; buy one" in line for line in failed)
    (told,) = json.loads(grove("backend", "check", "acme", "--kubeconfig", str(cluster), "-o", "json").out)
    assert [each["passed"] for each in told["cluster"]] == [False]
    assert all(each["passed"] for each in told["rules"] if "empty cluster" not in each["what"])


def test_a_configuration_without_a_cluster_is_refused(grove: Grove) -> None:
    ran = grove("backend", "check", "--config", "nowhere.yaml")
    assert ran.code == 2
    assert "--config is about a cluster" in ran.err


# new ------------------------------------------------------------------------------------------------


def tool(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MYPY_CACHE_DIR": str(folder.parent / "mypy"), "RUFF_NO_CACHE": "true"}
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


@pytest.mark.parametrize("name", ["x", "acme-gpu", "a123456789-123456789-123456789-123456789"])
def test_what_it_writes_passes_its_own_test_and_the_linters_as_it_is(
    tmp_path: Path, grove: Grove, name: str
) -> None:
    folder = tmp_path / "package"
    ran = grove("backend", "new", name, "--directory", str(folder))
    assert ran.code == 0, ran.err
    assert str(folder / "pyproject.toml") in ran.out.splitlines()
    for command in (
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["pytest", "-q", "-p", "no:cacheprovider"],
    ):
        done = tool(folder, *command)
        assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_what_it_writes_is_typed_strictly(tmp_path: Path, grove: Grove) -> None:
    folder = tmp_path / "package"
    grove("backend", "new", "acme", "--directory", str(folder))
    done = tool(folder, "mypy", "--strict")
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_it_writes_is_found_and_checked_once_it_is_installed(
    site: Path, tmp_path: Path, grove: Grove, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "package"
    grove("backend", "new", "acme", "--directory", str(folder))
    monkeypatch.syspath_prepend(folder / "src")
    import tomllib

    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]
    install(
        site,
        project["name"],
        points=points["grove.backends"],
        conformance=points["grove.conformance"],
        version=project["version"],
    )
    ran = grove("backend", "check", "acme")
    assert ran.code == 0, ran.out
    assert "grove-acme 0.1.0" in grove("backend", "list").out


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Acme", "lower-case letters"),
        ("1acme", "begins with a letter"),
        ("acme-", "does not end with a hyphen"),
        ("a" * 41, "at most 40"),
        ("../up", "lower-case letters"),
        ("kai", "ships with Grove"),
        ("class", "a Python keyword"),
    ],
)
def test_a_bad_name_is_refused_and_nothing_is_written(
    tmp_path: Path, grove: Grove, name: str, why: str
) -> None:
    folder = tmp_path / "package"
    ran = grove("backend", "new", name, "--directory", str(folder))
    assert ran.code == 1
    assert ran.err.startswith(f"grove: {name!r}: ")
    assert why in ran.err
    assert not folder.exists()


def test_an_existing_folder_is_left_alone(tmp_path: Path, grove: Grove) -> None:
    ran = grove("backend", "new", "acme", "--directory", str(tmp_path))
    assert ran.code == 1
    assert ran.err == f"grove: {tmp_path}: exists already; choose another with --directory\n"
    assert list(tmp_path.iterdir()) == []
