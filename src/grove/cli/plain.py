"""Reads the options of a command that runs for long without what reads those of the others.

typer reads arguments with pydantic: 7 MB that the operator would hold for its whole life, and a fifth of a
second of its start. What it is started with is `--name value` all through; whatever is not, such as `--help`
or a mistake, is left to typer, which also has the words for it. The options are those that the command
declares: nothing is listed twice.
"""

import inspect
import types
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from typer.models import OptionInfo


def plainly(command: Callable[..., None], words: Sequence[str]) -> dict[str, Any] | None:
    """The arguments of the command that these words give; None where only typer can tell."""
    known = _options(command)
    given: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        flag, equals, value = word.partition("=")
        if flag not in known or (equals and not flag.startswith("--")):
            return None
        name, choices = known[flag]
        if not equals:
            value = next(rest, "")
        # An empty value and one that looks like an option are rarely meant; a second value is one too many.
        if not value or value.startswith("-") or name in given:
            return None
        if choices is None:
            given[name] = value
        elif value in list(choices):
            given[name] = choices(value)
        else:
            return None
    return given


def _options(command: Callable[..., None]) -> dict[str, tuple[str, type[StrEnum] | None]]:
    """The parameter behind each flag, and the choices that it has; those of one text each, no others."""
    hints = get_type_hints(command, include_extras=True)
    found: dict[str, tuple[str, type[StrEnum] | None]] = {}
    for name in inspect.signature(command).parameters:
        if get_origin(hints[name]) is not Annotated:
            continue
        kind, *declared = get_args(hints[name])
        option = next((each for each in declared if isinstance(each, OptionInfo)), None)
        one = _one_text(kind)
        if option is None or one is None:
            continue
        # Where a parameter has a default of its own, typer keeps the first of its flags as the option's.
        first = (option.default,) if isinstance(option.default, str) else ()
        flags = (*first, *(option.param_decls or ())) or (f"--{name.replace('_', '-')}",)
        found |= dict.fromkeys(flags, (name, one if issubclass(one, StrEnum) else None))
    return found


def _one_text(kind: Any) -> type[str] | None:
    """The type of a parameter that is one text or none."""
    if get_origin(kind) in (Union, types.UnionType):
        members = [each for each in get_args(kind) if each is not types.NoneType]
        kind = members[0] if len(members) == 1 else None
    return kind if isinstance(kind, type) and issubclass(kind, str) else None
