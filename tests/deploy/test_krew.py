"""What krew installs: an archive that is the same every time and runs, and the manifest that names it."""

import hashlib
import os
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
import yaml
from deploy.krew import launcher
from scripts import krew
from tests.cli.processes import KUBECTL

from grove import __version__

ROOT: Final = Path(__file__).resolve().parents[2]
URI: Final = "https://example.com/grove/v0.1.0/kubectl-grove.tar.gz"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the script has written into."""
    folder = tmp_path_factory.mktemp("krew") / "dist"
    command = [sys.executable, str(ROOT / "scripts" / "krew.py"), URI, "--out", str(folder)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [str(folder / krew.ARCHIVE), str(folder / krew.MANIFEST)]
    return folder


@pytest.fixture
def unpacked(built: Path, tmp_path: Path) -> Path:
    """The archive as krew unpacks it: in a folder of its version, with a link to the program."""
    store = tmp_path / "store"
    store.mkdir()
    subprocess.run(["tar", "-xzf", built / krew.ARCHIVE, "-C", store], check=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl-grove").symlink_to(store / "kubectl-grove")
    return store


def run(program: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        cwd=program.parent,
    )


def path_of(*folders: Path) -> str:
    return ":".join([*map(str, folders), "/usr/bin", "/bin"])


def test_two_builds_are_the_same_to_the_byte(built: Path, tmp_path: Path) -> None:
    krew.build(ROOT, URI, tmp_path)
    for name in (krew.ARCHIVE, krew.MANIFEST):
        assert (tmp_path / name).read_bytes() == (built / name).read_bytes()


def test_neither_the_machine_nor_the_hour_shows_in_the_archive(built: Path) -> None:
    with tarfile.open(built / krew.ARCHIVE) as tar:
        found = tar.getmembers()
    assert [each.name for each in found] == sorted(each.name for each in found)
    assert {(each.uid, each.gid, each.uname, each.gname, each.mtime) for each in found} == {
        (0, 0, "", "", krew.TIME)
    }
    assert {each.name for each in found if each.mode != 0o644} == {"kubectl-grove"}
    assert not any("__pycache__" in each.name for each in found)


def test_the_manifest_names_this_archive_and_nothing_is_a_placeholder_of_it(built: Path) -> None:
    found = yaml.safe_load((built / krew.MANIFEST).read_text())
    template = yaml.safe_load((ROOT / "deploy" / "krew" / "grove.yaml").read_text())
    (platform,) = found["spec"]["platforms"]
    assert platform["sha256"] == hashlib.sha256((built / krew.ARCHIVE).read_bytes()).hexdigest()
    assert platform["uri"] == URI
    assert found["spec"]["version"] == f"v{__version__}"
    (before,) = template["spec"]["platforms"]
    platform |= {"uri": before["uri"], "sha256": before["sha256"]}
    assert found == template


def test_the_program_runs_from_its_folder_with_the_code_of_the_archive(unpacked: Path) -> None:
    package = unpacked / "lib" / "grove" / "__init__.py"
    assert f'"{__version__}"' in package.read_text()
    package.write_text(package.read_text().replace(__version__, "9.9.9"))
    ran = subprocess.run(
        [sys.executable, unpacked / "kubectl-grove", "--version"], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "grove 9.9.9\n", "")


def test_kubectl_finds_it_by_the_link_that_krew_makes(unpacked: Path) -> None:
    path = path_of(unpacked.parent / "bin", Path(sys.executable).parent)
    ran = run(KUBECTL, "grove", "crds", "-o", "name", PATH=path, HOME=str(unpacked))
    assert ran.returncode == 0, ran.stderr
    assert "customresourcedefinition.apiextensions.k8s.io/podcliquesets.grove.io" in ran.stdout.splitlines()


@pytest.fixture
def bare(tmp_path: Path) -> Mapping[str, str]:
    """An environment whose Python has no packages."""
    folder = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return {"PATH": path_of(folder / "bin"), "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}


def test_a_python_without_the_packages_is_told_with_the_commands(
    unpacked: Path, bare: Mapping[str, str]
) -> None:
    ran = run(unpacked / "kubectl-grove", "--version", **bare)
    environment = f"{bare['XDG_DATA_HOME']}/kubectl-grove/{__version__}"
    assert (ran.returncode, ran.stdout) == (1, "")
    first, *commands = ran.stderr.splitlines()
    assert "lacks the packages aiohttp, cryptography, msgspec" in first
    assert [each.strip() for each in commands] == [
        f"python3 -m venv {environment}",
        f"{environment}/bin/pip install --require-hashes -r {unpacked}/requirements.lock",
    ]
    assert (unpacked / "requirements.lock").exists()


def test_the_packages_of_its_environment_are_used_and_tried_once(
    unpacked: Path, bare: Mapping[str, str]
) -> None:
    folder = Path(bare["XDG_DATA_HOME"]) / "kubectl-grove" / __version__ / "bin"
    folder.mkdir(parents=True)
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    ran = run(unpacked / "kubectl-grove", "--version", **bare)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"grove {__version__}\n", "")
    empty = next(each for each in bare["PATH"].split(":") if each.endswith("bare/bin"))
    python.write_text(f'#!/bin/sh\nexec {empty}/python3 "$@"\n')
    assert run(unpacked / "kubectl-grove", "--version", **bare).returncode == 1


def test_the_program_asks_for_what_the_package_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {each.partition(">=")[0].replace("-", "_") for each in project["dependencies"]}
    assert set(launcher.NEEDED) == names - {"pyyaml"} | {"yaml"}
    assert project["requires-python"] == f">={launcher.OLDEST[0]}.{launcher.OLDEST[1]}"


@pytest.mark.parametrize("uri", ["http://example.com/a.tar.gz", "https://example.com/a.zip", "nonsense"])
def test_an_address_that_krew_would_not_download_is_refused(uri: str, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "krew.py"), uri, "--out", str(tmp_path / "dist")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert ran.returncode == 2
    assert "must be https://... and end in .tar.gz" in ran.stderr
    assert not (tmp_path / "dist").exists()
