"""The fields of the operator's configuration as text: path, type, default and meaning. Reads no file."""

from collections.abc import Iterator
from difflib import get_close_matches

from grove.api.reference import ConfigurationField, configuration_fields
from grove.cli.talk import Failed


def names() -> list[str]:
    """Every path."""
    return [each.path for each in configuration_fields()]


def described(path: str) -> str:
    """What there is to know about a field and those below it; raises Failed for one that does not exist."""
    wanted = path.strip().removeprefix(".")
    found = [each for each in configuration_fields() if _belongs(each.path, wanted)]
    if not found:
        near = get_close_matches(wanted, names(), n=1)
        hint = f"; did you mean {near[0]}?" if near else "; `grove config explain` lists all of them"
        raise Failed(f"the operator's configuration has no field {wanted!r}{hint}")
    return "\n".join(line for each in found for line in _lines(each))


def _belongs(path: str, wanted: str) -> bool:
    # `profiles.name` is as good as `profiles[].name`: nobody remembers which of them are lists.
    plain, asked = path.replace("[]", ""), wanted.replace("[]", "")
    return not asked or plain == asked or plain.startswith(f"{asked}.")


def _lines(field: ConfigurationField) -> Iterator[str]:
    default = f", default {field.default}" if field.default else ""
    yield f"{field.path}  ({field.type}{default})"
    if field.meaning:
        yield f"    {field.meaning}"
