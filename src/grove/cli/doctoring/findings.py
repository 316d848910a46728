"""What a check found out: a state, a sentence, what to do about it and where that is explained."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from grove.cli.links import linked
from grove.meta import Manifest


class State(StrEnum):
    """How a check came out."""

    OK = "ok"
    #: It works, but somebody should know.
    WARNING = "warning"
    FAILED = "failed"
    #: It could not be looked at, most often for lack of a permission.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    check: str
    state: State
    message: str
    fix: str = ""
    #: The page of the documentation, with its heading.
    link: str = ""
    #: Whether the manifests of this version mend it, as they do in an upgrade.
    comes_with_upgrade: bool = False

    def as_manifest(self) -> Manifest:
        told = {"check": self.check, "state": str(self.state), "message": self.message}
        return told | {name: value for name, value in (("fix", self.fix), ("link", self.link)) if value}


def fine(check: str, message: str) -> Finding:
    """Nothing to do."""
    return Finding(check, State.OK, message)


def warning(check: str, message: str, *, fix: str, link: str) -> Finding:
    """It works, but somebody should know."""
    return Finding(check, State.WARNING, message, fix, link)


def failed(check: str, message: str, *, fix: str, link: str) -> Finding:
    """It does not work."""
    return Finding(check, State.FAILED, message, fix, link)


def unseen(check: str, message: str, *, fix: str = "", link: str = "") -> Finding:
    """Nobody can say."""
    return Finding(check, State.UNKNOWN, message, fix, link)


def with_links(found: Sequence[Finding], base: str) -> list[Finding]:
    """The same with links that lead somewhere from where they are read."""
    return [replace(each, link=linked(base, each.link)) for each in found]
