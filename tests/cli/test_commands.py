"""The command as a whole: help, version, CRDs, exit codes, and sentences instead of tracebacks."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from grove import __version__

from .conftest import Grove

HEAVY = ("grove.assembly", "grove.plan", "grove.embedded", "aiohttp", "grove.controllers")

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here, user: me}}]
clusters: [{name: here, cluster: {server: "%s"}}]
users: [{name: me, user: {token: secret}}]
"""

CONFIGURATION = "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n"


def test_help_lists_every_command(grove: Grove) -> None:
    ran = grove("--help")
    assert ran.code == 0
    for command in ("render", "crds", "tree", "rollout", "run", "up", "demo", "backend", "version"):
        assert f"  {command} " in ran.out


@pytest.mark.parametrize("group", ["", "rollout", "backend", "config", "upgrade"])
def test_a_list_of_commands_cuts_no_sentence_off(
    grove: Grove, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = grove(*group.split(), "--help").out
    listed = text.split("Commands:\n")[1].split("\n\n")[0].splitlines()
    assert len(listed) >= 1
    assert [line for line in listed if not line.endswith(".") or line.endswith("...")] == []


def test_no_argument_at_all_shows_the_help(grove: Grove) -> None:
    ran = grove()
    assert "Commands:" in ran.out + ran.err
    assert ran.code == 2


@pytest.mark.parametrize(
    "command", ["render", "crds", "tree", "rollout", "run", "up", "demo", "backend", "version"]
)
def test_every_command_explains_itself(grove: Grove, command: str) -> None:
    ran = grove(command, "--help")
    assert ran.code == 0
    assert len(ran.out.splitlines()) > 4


def test_help_loads_nothing_of_the_operator() -> None:
    script = (
        "import sys; from grove.cli.main import main; main(['--help']);"
        f"heavy = [name for name in {HEAVY!r} if name in sys.modules];"
        "print('heavy:', heavy, file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stderr.strip() == "heavy: []"


def test_an_operator_without_webhooks_loads_no_cryptography() -> None:
    script = "import sys, grove.cli.operating; print('cryptography' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


#: Runs a command as a production image does, which has no engine for CEL.
IMAGE = """
import sys
sys.modules["cel_expr_python"] = None
from grove.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def in_an_image(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", IMAGE, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_set_is_rendered_in_a_production_image(examples: Path) -> None:
    ran = in_an_image("render", "-f", str(examples / "disaggregated.yaml"), "-o", "name")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "podgang.scheduler.grove.io/disaggregated-0" in ran.stdout


@pytest.mark.parametrize("command", ["up", "demo"])
def test_a_production_image_says_what_the_embedded_cluster_lacks_there(command: str) -> None:
    ran = in_an_image(command)
    assert ran.returncode == 1
    assert ran.stderr == (
        "grove: the embedded cluster needs cel-expr-python, which is not installed: "
        "pip install 'grove-operator[embedded]'\n"
    )


def test_the_version_is_a_line_or_data(grove: Grove) -> None:
    assert grove("version").out == f"grove {__version__}\n"
    assert json.loads(grove("version", "-o", "json").out)["grove"] == __version__
    assert yaml.safe_load(grove("version", "-o", "yaml").out)["grove"] == __version__


def test_crds_are_complete_documents_in_both_forms(grove: Grove) -> None:
    documents = list(yaml.safe_load_all(grove("crds").out))
    assert {each["metadata"]["name"] for each in documents} == {
        "podcliquesets.grove.io",
        "podcliques.grove.io",
        "podcliquescalinggroups.grove.io",
        "clustertopologybindings.grove.io",
        "podgangs.scheduler.grove.io",
    }
    for each in documents:
        assert (each["apiVersion"], each["kind"]) == ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    listed = json.loads(grove("crds", "-o", "json").out)
    assert listed["kind"] == "List"
    assert listed["items"] == documents


def test_output_that_nobody_reads_to_the_end_is_no_error(examples: Path) -> None:
    script = "import sys; from grove.cli.main import main; sys.exit(main(['crds']))"
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    complaints = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=30) == 0
    assert complaints == ""


@pytest.mark.parametrize("command", [["run"], ["tree"]])
def test_an_unreachable_server_is_one_sentence(grove: Grove, tmp_path: Path, command: list[str]) -> None:
    file = tmp_path / "config"
    file.write_text(KUBECONFIG % "https://127.0.0.1:1")
    ran = grove(*command, "--kubeconfig", str(file))
    assert (ran.code, ran.out) == (1, "")
    sentences = [line for line in ran.err.splitlines() if line.startswith("grove: ")]
    assert len(sentences) == 1
    assert "https://127.0.0.1:1" in sentences[0]
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("command", [["run"], ["tree"]])
def test_a_broken_kubeconfig_names_file_and_field(grove: Grove, tmp_path: Path, command: list[str]) -> None:
    file = tmp_path / "config"
    file.write_text(KUBECONFIG % "nowhere")
    ran = grove(*command, "--kubeconfig", str(file))
    assert ran.code == 1
    assert str(file) in ran.err
    assert "cluster.server" in ran.err


CONFIGURATIONS = {
    "a level nobody knows": ("logLevel: loud\n", "logLevel: must be one of"),
    "a port that is none": ("server: {healthProbes: {port: 99999}}\n", "server.healthProbes.port: "),
    "times that do not fit": (
        "leaderElection: {enabled: true, retryPeriod: 9s}\n",
        "leaderElection: leader election needs",
    ),
    "broken YAML": ("a: b: c\n", ":3:5: is not valid YAML: mapping values are not allowed here"),
}


@pytest.mark.parametrize(("text", "want"), CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_a_wrong_configuration_names_file_and_field(
    grove: Grove, tmp_path: Path, text: str, want: str
) -> None:
    file = tmp_path / "operator.yaml"
    file.write_text(CONFIGURATION + text)
    ran = grove("run", "--config", str(file))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"grove: {file}:")
    assert want in ran.err


def test_a_missing_configuration_is_named(grove: Grove, tmp_path: Path) -> None:
    ran = grove("run", "--config", str(tmp_path / "absent.yaml"))
    assert ran.code == 1
    assert ran.err == f"grove: {tmp_path / 'absent.yaml'}: cannot be read: No such file or directory\n"


def test_a_name_and_all_namespaces_exclude_each_other(grove: Grove) -> None:
    ran = grove("tree", "train", "-A")
    assert (ran.code, ran.out) == (2, "")
    assert "exclude each other" in ran.err
