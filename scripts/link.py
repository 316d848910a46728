"""Put the checkout, or the package in a folder, on the virtual environment's path, with what it offers.

An editable install would fetch a build backend; a path file, a six-line script and the entry points that a
pyproject.toml declares do the same offline. Without an argument the checkout and its `grove` command are
linked, with one the package of that folder: `python scripts/link.py examples/backend-coscheduling`.
"""

import shutil
import stat
import sys
import sysconfig
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

LAUNCHER = """#!{python}
import sys

from {module} import main

sys.exit(main())
"""

#: The commands of pyproject.toml; kubectl finds its plugins by their names.
COMMANDS = {
    "grove": "grove.cli.main",
    "kubectl-grove": "grove.cli.main",
    "kubectl_complete-grove": "grove.cli.completing",
}


def link() -> None:
    """Write the path file and the launcher into the running interpreter's environment."""
    site = Path(sysconfig.get_path("purelib"))
    (site / "grove.pth").write_text(f"{ROOT / 'src'}\n")
    for old in site.glob("grove_operator-*.dist-info"):
        shutil.rmtree(old)
    _tell(site, "grove-operator", _version(), {})
    for name, module in COMMANDS.items():
        launcher = Path(sysconfig.get_path("scripts")) / name
        launcher.write_text(LAUNCHER.format(python=sys.executable, module=module))
        launcher.chmod(launcher.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


def link_package(folder: Path) -> None:
    """Make the package of a folder importable, and its entry points known."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name, version = project["name"], project["version"]
    site = Path(sysconfig.get_path("purelib"))
    (site / f"{name}.pth").write_text(f"{folder.resolve() / 'src'}\n")
    _tell(site, name, version, project.get("entry-points", {}))


def _tell(site: Path, name: str, version: str, groups: dict[str, dict[str, str]]) -> None:
    """Let pip and Python know that a distribution is installed, so that others may depend on it."""
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "INSTALLER").write_text("scripts/link.py\n")
    lines = []
    for group, points in groups.items():
        lines += [f"[{group}]", *(f"{point} = {value}" for point, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


def _version() -> str:
    sys.path.insert(0, str(ROOT / "src"))
    from grove import __version__

    return __version__


if __name__ == "__main__":
    if len(sys.argv) > 1:
        link_package(Path(sys.argv[1]))
    else:
        link()
