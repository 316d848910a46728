"""What the program is called with: as in the Go operator `--podcliques=<clique>:<pods>` for each clique.

Everything else has the place that a pod gives it and is an option for tests.
"""

import argparse
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from grove import __version__

POD_INFO: Final = "/var/grove/pod-info"
CREDENTIALS: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
TERMINATION_MESSAGE: Final = "/dev/termination-log"

_NUMBER: Final = re.compile(r"[+-]?[0-9]+")


class BadArgument(Exception):
    """The program was called wrongly, or finds in its pod not what it needs; the message says what."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """What to wait for, and where the pod keeps what the program needs."""

    #: How many ready pods each clique must have, by its full name.
    parents: Mapping[str, int]
    server: str
    pod_info: Path
    credentials: Path
    termination_message: Path
    log_format: str = "json"

    @property
    def token(self) -> Path:
        return self.credentials / "token"

    @property
    def authority(self) -> Path:
        return self.credentials / "ca.crt"

    def pod_fact(self, name: str) -> str:
        """What a file of the downward API says about the pod."""
        path = self.pod_info / name
        try:
            fact = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BadArgument(f"failed to read {path}: {error}") from None
        if not fact:
            raise BadArgument(f"{path} is empty")
        return fact


class _Parser(argparse.ArgumentParser):
    """Bad usage is exit code 1, as in the Go operator."""

    def error(self, message: str) -> NoReturn:
        raise BadArgument(message)


def parse(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Arguments:
    """The arguments of the command line; raises BadArgument."""
    found = _parser().parse_args(arguments)
    return Arguments(
        parents=parents_of(found.podcliques),
        server=found.server or server_of(environment),
        pod_info=Path(found.pod_info),
        credentials=Path(found.credentials),
        termination_message=Path(found.termination_message),
        log_format=found.log_format,
    )


def parents_of(entries: Iterable[str]) -> dict[str, int]:
    """The cliques by name with the pods that each needs; of a name that comes twice the last one counts."""
    parents: dict[str, int] = {}
    for entry in map(str.strip, entries):
        if not entry:
            continue
        values = entry.split(":")
        if len(values) != 2:
            raise BadArgument(f"expected two values per podclique, found {len(values)}")
        name, count = map(str.strip, values)
        if not _NUMBER.fullmatch(count):
            raise BadArgument(f"failed to convert replicas to int: {count!r} is not a number")
        if int(count) <= 0:
            raise BadArgument(f"replica count must be positive, got {int(count)}")
        if not name:
            raise BadArgument("podclique name cannot be empty")
        parents[name] = int(count)
    return parents


def server_of(environment: Mapping[str, str]) -> str:
    """The API server, as every container learns it from its kubelet."""
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT") or "443"
    if not host:
        raise BadArgument(
            "KUBERNETES_SERVICE_HOST is not set: this program runs as an init container of a pod"
        )
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


_DESCRIPTION: Final = """\
Wait until the pods of other cliques of the same gang are ready. Grove adds it to pods that start in
order, as the init container grove-initc; exits with 0 when all of them are."""
_EXAMPLES: Final = """\
Examples:
  grove wait-for -p llm-0-leader:1 -p llm-0-cache:2
  grove wait-for --podcliques llm-0-leader:1 --log-format text"""


def _formatter(prog: str) -> argparse.HelpFormatter:
    """The same width everywhere: this help is part of the documentation."""
    return argparse.RawDescriptionHelpFormatter(prog, width=100, max_help_position=32)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="grove wait-for",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=_formatter,
        allow_abbrev=False,
    )
    option = parser.add_argument
    option(
        "-p",
        "--podcliques",
        metavar="CLIQUE:PODS",
        action="append",
        default=[],
        help="a clique by its full name, and how many of its pods must be ready; for each clique once",
    )
    option(
        "--server", metavar="URL", default="", help="the API server (default: from KUBERNETES_SERVICE_HOST)"
    )
    option(
        "--pod-info", metavar="FOLDER", default=POD_INFO, help="holds namespace, podgangname (%(default)s)"
    )
    option(
        "--credentials", metavar="FOLDER", default=CREDENTIALS, help="holds token and ca.crt (%(default)s)"
    )
    option(
        "--termination-message",
        metavar="FILE",
        default=TERMINATION_MESSAGE,
        help="gets what was waited for last, if it exists (%(default)s)",
    )
    option("--log-format", choices=("json", "text"), default="json", help="how to log (%(default)s)")
    option("--version", action="version", version=f"grove-initc {__version__}")
    if sys.version_info >= (3, 14):
        # Colours would depend on the terminal.
        parser.color = False
    return parser
