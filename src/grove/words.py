"""Plain words for numbers, values and the failures of a file system or of a YAML parser.

Imports nothing of ours, so that every sentence can use it.
"""

import errno
from typing import Final, NamedTuple

_FILE_PROBLEMS: Final = {
    errno.EEXIST: "exists already",
    errno.ENOTDIR: "is below something that is no folder",
    errno.EISDIR: "is a folder",
    errno.ENOENT: "does not exist",
    errno.EACCES: "permission denied",
    errno.EROFS: "is on a read-only file system",
    errno.ENOSPC: "there is no space left",
}


def counted(number: int, one: str, many: str = "") -> str:
    """`1 pod`, `2 pods`; with `many` for whatever else changes with the number: `2 pods are`."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def duration_in_words(seconds: float) -> str:
    """`3 h 12 m`, `40 s`: the two largest units that count."""
    left = max(0, round(seconds))
    days, left = divmod(left, 86400)
    hours, left = divmod(left, 3600)
    minutes, left = divmod(left, 60)
    units = ((days, "d"), (hours, "h"), (minutes, "m"), (left, "s"))
    first = next((place for place, (number, _) in enumerate(units) if number), len(units) - 1)
    return " ".join(f"{number} {unit}" for number, unit in units[first : first + 2] if number) or "0 s"


def value_in_words(value: object) -> str:
    """What somebody wrote where something else was wanted: `the text 'many'`, `a list`."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the text {value!r}" if len(value) <= 40 else "a text"
        case list() | tuple():
            return "a list"
        case dict():
            return "an object"
    return "nothing" if value is None else type(value).__name__


def file_problem(error: OSError) -> str:
    """Why a file or folder cannot be used, with its path and without a number."""
    words = _FILE_PROBLEMS.get(error.errno or 0) or (error.strerror or str(error)).lower()
    return f"{error.filename}: {words}" if error.filename else words if error.strerror else str(error)


class YamlProblem(NamedTuple):
    """Where a text is no YAML, counted from one, and why."""

    line: int
    column: int
    why: str

    def at(self, name: str) -> str:
        """One line about the file of this name, as compilers write it."""
        return f"{name}:{self.line}:{self.column}: is not valid YAML: {self.why}"


def yaml_problem(error: Exception) -> YamlProblem:
    """What a YAML parser complains about."""
    mark = getattr(error, "problem_mark", None)
    why = getattr(error, "problem", None) or str(error).splitlines()[0]
    return YamlProblem(mark.line + 1, mark.column + 1, why) if mark is not None else YamlProblem(1, 1, why)
