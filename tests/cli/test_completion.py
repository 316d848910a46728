"""Completion as shells ask for it, `kubectl grove`, `--version` and the examples of the help."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from tests.cli.processes import KUBECTL

from grove import __version__
from grove.cli.completing import answer
from grove.cli.main import app
from grove.cli.usage import EXAMPLES

from .conftest import ROOT, Grove
from .processes import kubectl, started

BIN = Path(sys.executable).parent

ASKED = {
    "a command by its beginning": (["con"], ["config"], False),
    "a command below another": (["config", ""], ["check", "defaults", "explain"], False),
    "an option": (["render", "--out"], ["--output"], False),
    "the value of an option": (["tree", "-o", ""], ["name", "wide", "yaml", "json"], False),
    "the value of an option by its beginning": (["up", "--control-plane", "r"], ["real"], False),
    "an argument that is a choice": (["completion", "z"], ["zsh"], False),
    "a file": (["render", "--file", ""], [], True),
    "a file for an argument": (["config", "check", ""], [], True),
    "a field of the configuration": (
        ["config", "explain", "server.metrics."],
        ["server.metrics.bindAddress", "server.metrics.port"],
        False,
    ),
    "an option that was given its value before": (["tree", "-o=wide", "--wat"], ["--watch"], False),
    "nothing where nothing may stand": (["demo", ""], [], False),
    "nothing behind nonsense": (["nonsense", "--x", "y"], [], False),
}


@pytest.mark.parametrize(("words", "want", "files"), ASKED.values(), ids=ASKED)
def test_what_may_stand_at_the_cursor(words: list[str], want: list[str], files: bool) -> None:
    found = answer(words)
    assert [value for value, _ in found.candidates] == want
    assert found.files == files


def in_bash(folder: Path, line: str, environment: dict[str, str]) -> list[str]:
    """What bash offers for a line, with the script sourced as a user does."""
    words = shlex.split(line) + ([""] if line.endswith(" ") else [])
    script = (
        "source <(grove completion bash)\n"
        f"COMP_WORDS=({' '.join(map(shlex.quote, words))}); COMP_CWORD={len(words) - 1}\n"
        '_grove; printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    ran = subprocess.run(
        ["bash", "--norc", "-c", script],
        capture_output=True,
        text=True,
        env={**environment, "PATH": f"{BIN}:{os.environ['PATH']}"},
        cwd=folder,
        check=True,
    )
    assert ran.stderr == ""
    return ran.stdout.split()


def test_bash_completes_commands_options_and_names_from_the_cluster(tmp_path: Path, examples: Path) -> None:
    assert in_bash(tmp_path, "grove comp", {}) == ["completion"]
    assert in_bash(tmp_path, "grove rollout st", {}) == ["status"]
    assert "--watch" in in_bash(tmp_path, "grove tree --w", {})
    kubeconfig = tmp_path / "kubeconfig"
    with started("up", "--no-operator", "--write-kubeconfig", str(kubeconfig), folder=tmp_path) as process:
        process.output.readline()
        kubectl(kubeconfig, "apply", "-f", str(examples / "prefill-decode.yaml"))
        environment = {"KUBECONFIG": str(kubeconfig)}
        assert in_bash(tmp_path, "grove tree ", environment) == ["llm"]
        assert in_bash(tmp_path, "grove tree -n kube-n", environment) == ["kube-node-lease"]
        process.ask_to_stop()
    assert in_bash(tmp_path, "grove tree ", environment) == []


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_reads_the_script(tmp_path: Path) -> None:
    path = f"{BIN}:{os.environ['PATH']}"
    script = "autoload -U compinit && compinit -u -D; source <(grove completion zsh); whence -w _grove"
    ran = subprocess.run(
        ["zsh", "-f", "-c", script], capture_output=True, text=True, env={"PATH": path, "HOME": str(tmp_path)}
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "_grove: function\n", "")


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_commands_with_their_descriptions(tmp_path: Path) -> None:
    path = f"{BIN}:{os.environ['PATH']}"
    script = "grove completion fish | source; complete -C 'grove comp'"
    ran = subprocess.run(
        ["fish", "-N", "-c", script],
        capture_output=True,
        text=True,
        env={"PATH": path, "HOME": str(tmp_path)},
    )
    assert ran.stdout.startswith("completion\tPrint the completion script"), ran


def test_kubectl_finds_the_plugin_and_what_completes_it() -> None:
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}

    def run(*words: str) -> str:
        return subprocess.run(words, capture_output=True, text=True, env=environment, check=True).stdout

    assert run(str(KUBECTL), "grove", "version") == f"grove {__version__}\n"
    assert run(str(KUBECTL), "grove", "tree", "--help").lstrip().startswith("Usage: kubectl grove tree")
    assert "config\t" in run(str(KUBECTL), "__complete", "grove", "conf")


def test_the_version_is_an_option_too(grove: Grove) -> None:
    assert grove("--version").out == f"grove {__version__}\n"


def commands(group: typer.core.TyperGroup, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        if isinstance(command, typer.core.TyperGroup):
            yield from commands(command, (*before, name))
        elif name != "wait-for":
            yield (*before, name)


def every_command() -> list[tuple[str, ...]]:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    return list(commands(group))


@pytest.mark.parametrize("words", every_command(), ids=" ".join)
def test_every_help_text_has_examples_of_commands_that_exist(grove: Grove, words: tuple[str, ...]) -> None:
    text = grove(*words, "--help").out
    assert "Examples:" in text
    shown = text.split("Examples:")[1]
    assert f"grove {' '.join(words)}" in shown
    for option in set(re.findall(r"(?<![\w-])--[a-z-]+", shown.replace("kubectl apply --server-side", ""))):
        assert option in text.split("Examples:")[0]


def test_every_example_belongs_to_a_command() -> None:
    assert {" ".join(words) for words in every_command()} >= EXAMPLES.keys()


def test_the_manifest_of_krew_says_that_there_is_no_release() -> None:
    import yaml

    text = (ROOT / "deploy" / "krew" / "grove.yaml").read_text()
    manifest = yaml.safe_load(text)
    assert (manifest["kind"], manifest["metadata"]["name"]) == ("Plugin", "grove")
    assert manifest["spec"]["version"] == f"v{__version__}"
    for platform in manifest["spec"]["platforms"]:
        assert platform["bin"] == "kubectl-grove"
        assert "placeholder" in text
