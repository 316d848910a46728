"""What can go wrong with a real control plane, in words that say what to do.

GroveError
├── Terminal
│   └── NotInstalled      a program is not there, or nothing here can build it; names the command that helps
└── RealFailure           something was tried and did not work; trying again may help
    ├── BuildFailed       Go could not download or build a program
    └── ComponentFailed   a component ended, or did not become ready; carries the last lines of its log
"""

from pathlib import Path

from grove.errors import GroveError, Terminal


class NotInstalled(Terminal):
    """A program is not there, or it cannot be built here; the message says what helps."""

    code = "ERR_NOT_INSTALLED"


class RealFailure(GroveError):
    """Something was tried on this machine and did not work."""

    code = "ERR_REAL"


class BuildFailed(RealFailure):
    """Go could not download or build a program; what is finished is kept."""

    code = "ERR_BUILD_FAILED"


class ComponentFailed(RealFailure):
    """A component ended by itself or did not become ready; the message ends with what its log says last."""

    code = "ERR_COMPONENT_FAILED"

    def __init__(self, name: str, what: str, *, log: Path, lines: tuple[str, ...] = ()) -> None:
        self.name = name
        self.log = log
        self.lines = lines
        said = "".join(f"\n    {line}" for line in lines) if lines else " (nothing)"
        super().__init__(f"{name} {what}; its log {log} says:{said}")

    @property
    def port_taken(self) -> bool:
        """Whether somebody else took its port between our looking and its listening."""
        return any("address already in use" in line for line in self.lines)
