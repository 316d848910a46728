"""Completion as shells ask for it, `kubectl grove`, `--version` and the examples of the help."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import typer
from tests.cli.processes import KUBECTL
from typer.testing import CliRunner

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
    "a scheduler backend": (["render", "--backend", "k"], ["kai", "koordinator"], False),
    "all scheduler backends": (["render", "--backend", "a"], ["all"], False),
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


def commands(command: object, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """A command by its words; a group, `grove` itself among them, before all that is below it."""
    yield words
    if isinstance(command, typer.core.TyperGroup):
        for name, below in command.commands.items():
            yield from commands(below, (*words, name))


EVERY_COMMAND: Final = tuple(commands(typer.main.get_command(app)))


def help_of(words: tuple[str, ...]) -> str:
    """What a command says of itself before its examples; empty where there is no such command."""
    result = CliRunner().invoke(app, [*words, "--help"], prog_name="grove", env={"COLUMNS": "80"})
    return result.output if result.exit_code == 0 else ""


def called_in(example: str) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """The commands of ours that an example calls, each with its options."""
    for call in re.findall(r"\bgrove ([^|()>]+)", example):
        words = call.split()
        length = max(n for n in range(3) if tuple(words[:n]) in EVERY_COMMAND)
        yield tuple(words[:length]), {word.partition("=")[0] for word in words if re.match("--?[a-z]", word)}


@pytest.mark.parametrize("words", EVERY_COMMAND, ids=lambda words: " ".join(words) or "grove itself")
def test_every_help_text_has_examples_of_commands_that_exist(words: tuple[str, ...]) -> None:
    text, _, shown = help_of(words).partition("Examples:\n")
    assert text
    called = [each for line in shown.strip().splitlines() for each in called_in(line)]
    assert called, text
    for command, options in called:
        # A group shows commands that are below it.
        assert command[: len(words)] == words
        known = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", help_of(command).partition("Examples:")[0]))
        assert options <= known


@pytest.mark.parametrize("words", EVERY_COMMAND, ids=lambda words: " ".join(words) or "grove itself")
def test_help_is_readable_on_a_small_terminal(words: tuple[str, ...]) -> None:
    text = help_of(words)
    if words != ("wait-for",):
        assert max(map(len, text.splitlines())) <= 80
    if "Commands:" in text:
        assert len(text.splitlines()) <= 40


def test_every_example_belongs_to_a_command() -> None:
    assert {" ".join(words) for words in EVERY_COMMAND} - {"wait-for"} == EXAMPLES.keys()


def test_the_manifest_of_krew_says_that_there_is_no_release() -> None:
    import yaml

    text = (ROOT / "deploy" / "krew" / "grove.yaml").read_text()
    manifest = yaml.safe_load(text)
    assert (manifest["kind"], manifest["metadata"]["name"]) == ("Plugin", "grove")
    assert manifest["spec"]["version"] == f"v{__version__}"
    for platform in manifest["spec"]["platforms"]:
        assert platform["bin"] == "kubectl-grove"
        assert "placeholder" in text
