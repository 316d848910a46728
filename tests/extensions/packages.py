"""Packages of third parties, installed the way pip leaves them: modules and metadata in a folder of the path."""

from pathlib import Path
from textwrap import dedent, indent

BACKEND = """
from typing import ClassVar

from grove.backends.kai import KaiBackend


class {kind}(KaiBackend):
    name: ClassVar[str] = "{name}"
    scheduler_name: ClassVar[str] = "{scheduler}"
    scheduling_gate: ClassVar[str] = "{name}.example.com/gang"

    def matches(self, scheduler_name: str) -> bool:
        return scheduler_name == self.scheduler_name
"""


def backend_source(name: str, *, scheduler: str = "", kind: str = "Backend", body: str = "") -> str:
    """A module with a backend that works, unless `body` (members of the class) spoils it."""
    text = BACKEND.format(name=name, scheduler=scheduler or f"{name}-scheduler", kind=kind)
    return text + (indent(dedent(body), "    ") if body else "")


def install(
    folder: Path,
    distribution: str,
    source: str = "",
    *,
    points: dict[str, str] | None = None,
    conformance: dict[str, str] | None = None,
    version: str = "1.0",
) -> None:
    """Put a distribution into a folder: its module (named like it) and its entry points."""
    module = distribution.replace("-", "_")
    if source:
        (folder / f"{module}.py").write_text(source)
    info = folder / f"{module}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    lines = []
    for group, entries in (("grove.backends", points), ("grove.conformance", conformance)):
        if entries:
            lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
