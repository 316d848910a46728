"""The example of a third party's backend, installed and tested as a third party would, without an index."""

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "examples" / "backend-coscheduling"

Tool = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Tool:
    """Run a module in an environment of its own, in which Grove and the package are installed."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    scratch = {
        "MYPY_CACHE_DIR": str(folder / "mypy"),
        "RUFF_NO_CACHE": "true",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    environment = {**os.environ, **scratch}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(python), *arguments],
            cwd=PACKAGE,
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )

    (site,) = (folder / "lib").glob("python*/site-packages")
    # What the tests themselves run with: Grove's dependencies and the tools.
    outer = sysconfig.get_path("purelib")
    (site / "outer.pth").write_text(f"{outer}\n{ROOT / 'src'}\n")
    linked = run(str(ROOT / "scripts" / "link.py"), str(PACKAGE))
    assert linked.returncode == 0, linked.stderr
    return run


def test_grove_finds_it_and_it_keeps_every_rule(tool: Tool) -> None:
    ran = tool("-m", "grove.cli.main", "backend", "check", "coscheduling")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    listed = tool("-m", "grove.cli.main", "backend", "list")
    assert "grove-coscheduling 0.1.0" in listed.stdout


def test_its_own_tests_pass_a_gang_on_the_embedded_cluster_included(tool: Tool) -> None:
    ran = tool("-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("command", [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]])
def test_it_passes_the_linters(tool: Tool, command: list[str]) -> None:
    ran = tool("-m", *command)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_environment_of_the_tests_is_left_alone() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "grove.cli.main", "backend", "list"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "coscheduling" not in ran.stdout
