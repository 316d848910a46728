"""Answer a shell that completes a command line: candidates, each with a description, and a directive.

The protocol is that of kubectl and its plugins: a line for each candidate, `:4` at last, or `:0` where the
shell may offer files. Whatever goes wrong offers nothing; a shell is no place for complaints.
"""

import asyncio
import contextlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, get_args

FILES: Final = ":0"
NO_FILES: Final = ":4"
#: Seconds that a cluster has for an answer: nobody waits longer for a key.
_SECONDS: Final = 2.0
#: Options whose values are files, whoever has them.
_PATHS: Final = frozenset(
    {"--file", "--config", "--kubeconfig", "--data-dir", "--write-kubeconfig", "--directory"}
)
_SET_NAMES: Final = frozenset({"tree", "status", "history", "pause", "resume", "undo", "restart", "plan"})


@dataclass(frozen=True, slots=True)
class Answer:
    """What may stand at the cursor."""

    candidates: tuple[tuple[str, str], ...] = ()
    files: bool = False

    def lines(self) -> list[str]:
        found = [f"{value}\t{words}" if words else value for value, words in self.candidates]
        return [*found, FILES if self.files else NO_FILES]


def main() -> int:
    """The program that kubectl asks for completions of `kubectl grove`."""
    print("\n".join(answer(sys.argv[1:]).lines()))
    return 0


def answer(words: Sequence[str]) -> Answer:
    """What may stand in place of the last word, given those before it."""
    import typer

    from grove.cli.main import app

    command: Any = typer.main.get_command(app)
    *before, last = words or [""]
    given: dict[str, str] = {}
    pending: Any = None
    positional = 0
    for word in before:
        if pending is not None:
            given[pending.opts[0]] = word
            pending = None
        elif word.startswith("-") and word != "-":
            option = _option(command, word.partition("=")[0])
            pending = option if option is not None and not option.is_flag and "=" not in word else None
        elif word in getattr(command, "commands", {}):
            command, positional = command.commands[word], 0
        else:
            positional += 1
    if pending is not None:
        return _values(pending, last, given)
    if last.startswith("-"):
        return Answer(_matching(_options(command), last))
    if commands := getattr(command, "commands", None):
        shown = [(name, each.get_short_help_str(70)) for name, each in commands.items() if not each.hidden]
        return Answer(_matching(shown, last))
    return _argument(command, positional, last, given)


def _option(command: Any, word: str) -> Any:
    return next((each for each in command.params if word in (*each.opts, *each.secondary_opts)), None)


def _options(command: Any) -> Iterable[tuple[str, str]]:
    for each in command.params:
        if each.param_type_name != "option" or getattr(each, "hidden", False):
            continue
        words = (getattr(each, "help", "") or "").partition(";")[0].partition(". ")[0].rstrip(".")
        yield from ((name, words) for name in (*each.opts, *each.secondary_opts) if name.startswith("--"))
    yield "--help", "Show the help"


def _values(option: Any, last: str, given: dict[str, str]) -> Answer:
    """What an option may be given."""
    if choices := _choices(option):
        return Answer(_matching(choices, last))
    name = next(each for each in option.opts if each.startswith("--"))
    if name == "--backend":
        return Answer(_matching(_backends(), last))
    if name == "--namespace":
        return Answer(_matching([(each, "") for each in _asked("namespaces", given)], last))
    return Answer(files=name in _PATHS)


def _argument(command: Any, position: int, last: str, given: dict[str, str]) -> Answer:
    """What an argument may be."""
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    if position >= len(arguments):
        return Answer()
    argument = arguments[position]
    if choices := _choices(argument):
        return Answer(_matching(choices, last))
    if command.name == "explain":
        from grove.cli.config_fields import names

        return Answer(_matching([(each, "") for each in names()], last))
    if command.name in _SET_NAMES:
        return Answer(_matching([(each, "") for each in _asked("sets", given)], last))
    return Answer(files=argument.name in ("file", "path", "directory"))


def _choices(parameter: Any) -> list[tuple[str, str]]:
    """The values of a parameter that is a choice; older releases of typer keep them in another place."""
    annotation = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    for each in (annotation, *get_args(annotation)):
        if isinstance(each, type) and issubclass(each, Enum):
            return [(str(member.value), "") for member in each]
    older = getattr(getattr(parameter, "type", None), "choices", None) or ()
    return [(str(getattr(each, "value", each)), "") for each in older]


def _backends() -> list[tuple[str, str]]:
    """The scheduler backends that are installed, and all of them at once."""
    from grove.cli.given import Given
    from grove.cli.render import ALL

    return [*((each.name, "") for each in Given().registry().enabled), (ALL, "compare them")]


def _matching(found: Iterable[tuple[str, str]], last: str) -> tuple[tuple[str, str], ...]:
    return tuple(each for each in found if each[0].startswith(last))


def _asked(what: str, given: dict[str, str]) -> list[str]:
    """Names from the cluster; none if it does not answer at once."""
    from grove.cli.loop import run_loop
    from grove.errors import GroveError

    with contextlib.suppress(GroveError, TimeoutError, OSError):
        return run_loop(_names(what, given))
    return []


async def _names(what: str, given: dict[str, str]) -> list[str]:
    from grove.api import kinds
    from grove.cli.connect import connected
    from grove.meta import Object, resource

    options = {name.lstrip("-"): value for name, value in given.items()}
    async with (
        asyncio.timeout(_SECONDS),
        connected(options.get("kubeconfig"), options.get("context")) as reached,
    ):
        if what == "namespaces":
            page = await reached.client.list(resource("", "v1", "Namespace", namespaced=False), type=Object)
        else:
            where = options.get("namespace") or options.get("n") or reached.connection.namespace
            page = await reached.client.list(kinds.CLIQUESETS, type=Object, namespace=where)
        return [each.name for each in page.items]
