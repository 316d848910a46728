"""Regular expressions in Go's syntax, as CRDs, rules and queries have them, with Go's meaning.

In Go `$` is the end of the text, in Python also a newline before it; and Go's classes are those of ASCII.
Promises this for the syntax that is found in schemas; never more lenient than Go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

_CLASSES = {
    "[:alnum:]": "0-9A-Za-z",
    "[:alpha:]": "A-Za-z",
    "[:digit:]": "0-9",
    "[:lower:]": "a-z",
    "[:space:]": r"\t\n\v\f\r ",
    "[:upper:]": "A-Z",
    "[:word:]": "0-9A-Za-z_",
    "[:xdigit:]": "0-9A-Fa-f",
}
# An escaped character; a class, which may begin with the bracket that would end it; any other character.
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|.", re.DOTALL)
_LINES = re.compile(r"\(\?[a-zA-Z]*m")


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern as Go would read it; `re.error` for what is none."""
    return re.compile("".join(_tokens(pattern)), re.ASCII)


def _tokens(pattern: str) -> Iterator[str]:
    by_line = _LINES.search(pattern) is not None
    for token in _TOKEN.findall(pattern):
        if token == r"\z" or (token == "$" and not by_line):
            yield r"\Z"
        elif token.startswith("[") and len(token) > 1:
            for name, characters in _CLASSES.items():
                token = token.replace(name, characters)
            yield token
        else:
            yield token
