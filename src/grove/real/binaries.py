"""Which programs a control plane of one minor would use: those the user names, then the cache, then PATH.

A program from elsewhere is used only if it says that it is of the right minor. Nothing here builds or
starts anything.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from grove.real.cache import Cache, default_root
from grove.real.failure import NotInstalled
from grove.real.third_party import ThirdParty
from grove.real.versions import ETCD, ETCD_MINIMUM, Tool, tools

ASSETS = "KUBEBUILDER_ASSETS"
_NUMBERS = re.compile(r"\bv?(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class Found:
    """A program and where it came from."""

    path: Path
    origin: str


@dataclass(frozen=True, slots=True)
class Locator:
    """Looks for programs; `environ` is the environment of this process unless a test gives another."""

    cache: Cache = field(default_factory=lambda: Cache(default_root()))
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def find(self, tool: Tool) -> Found | None:
        """The program to use, or None if it has to be built first."""
        if tool.source:
            # Elsewhere nobody could tell which version it is.
            kept = self.cache.find(tool)
            return Found(kept, "cache") if kept is not None else None
        assets = self.environ.get(ASSETS)
        if assets:
            # Absolute: a component runs in the folder of its log.
            path = Path(assets).absolute() / tool.name
            if suits(tool, path):
                return Found(path, f"${ASSETS}")
        kept = self.cache.find(tool)
        if kept is not None:
            return Found(kept, "cache")
        on_path = shutil.which(tool.name, path=self.environ.get("PATH", ""))
        if on_path is not None and suits(tool, Path(on_path)):
            return Found(Path(on_path).absolute(), "PATH")
        return None

    def all_of(self, minor: str, *, without: frozenset[str] = frozenset()) -> dict[str, Path]:
        """Every program of a minor by its name; says what is missing and what installs it."""
        wanted = [tool for tool in tools(minor) if tool.name not in without]
        found = {tool.name: self.find(tool) for tool in wanted}
        missing = [tool.label for tool in wanted if found[tool.name] is None]
        if missing:
            raise NotInstalled(
                f"A control plane of Kubernetes {minor} needs {', '.join(missing)}: "
                f"neither in {self.cache.root} nor in ${ASSETS} nor on PATH; `make real MINORS={minor}` "
                f"(or `python -m grove.real install --minors {minor}`) installs it."
            )
        return {name: place.path for name, place in found.items() if place is not None}

    def third_party(self, scheduler: ThirdParty) -> dict[str, Path]:
        """Every program of a scheduler by its name; says what is missing and what installs it."""
        found = {tool.name: self.find(tool) for tool in scheduler.programs}
        missing = [tool.label for tool in scheduler.programs if found[tool.name] is None]
        if missing:
            raise NotInstalled(
                f"{scheduler.label} needs {', '.join(missing)}: not in {self.cache.root}; "
                f"`make real SCHEDULERS={scheduler.name}` (or `python -m grove.real install --schedulers "
                f"{scheduler.name}`) installs it."
            )
        return {name: place.path for name, place in found.items() if place is not None}

    def definitions(self, scheduler: ThirdParty) -> list[Path]:
        """The CustomResourceDefinitions of exactly the version that is installed."""
        return [file for tool in scheduler.programs for file in self.cache.beside(tool)]


def suits(tool: Tool, path: Path) -> bool:
    """Whether a program says that it is what we need: the same minor, or an etcd that is new enough."""
    version = reported_version(path)
    if version is None:
        return False
    if tool.name == ETCD:
        return version >= ETCD_MINIMUM
    return ".".join(map(str, version[:2])) == tool.minor


def reported_version(path: Path) -> tuple[int, int, int] | None:
    """What `--version` answers; None if there is no such program or it does not say."""
    if not os.access(path, os.X_OK):
        return None
    try:
        said = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=20, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _NUMBERS.search(said)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None
