"""The part of JSONPath that printer columns use: fields, quoted fields, indexes, `*`, and equality filters.

Pure: a path and a value in, the found values out. A path that cannot be read finds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

Step = Callable[[object], list[object]]

_TOKEN = re.compile(
    r"\.(?P<field>(?:[^.\[\]\\{}]|\\.)+)"
    r"|\[(?P<index>-?\d+|\*)\]"
    r"|\[['\"](?P<quoted>[^'\"]+)['\"]\]"
    r"|\[\?\(\s*@\.(?P<key>[^=!<>\s]+)\s*(?P<op>==|!=)\s*(?P<value>\"[^\"]*\"|'[^']*'|[^)\s]+)\s*\)\]"
)


def evaluate(path: str, value: object) -> list[object]:
    """Every value that the path finds, in order."""
    found = [value]
    for step in _steps(path):
        found = [item for parent in found for item in step(parent)]
    return found


@lru_cache(1024)
def _steps(path: str) -> tuple[Step, ...]:
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    steps = []
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            return (lambda _: [],)
        steps.append(_step(token))
        position = token.end()
    return tuple(steps)


def _step(token: re.Match[str]) -> Step:
    if token["index"] is not None:
        return _all_items if token["index"] == "*" else _item(int(token["index"]))
    if token["key"] is not None:
        return _filter(token["key"].split("."), token["value"].strip("\"'"), equal=token["op"] == "==")
    if token["field"] == "*":
        return _all_items
    return _field(token["quoted"] or token["field"].replace("\\", ""))


def _field(name: str) -> Step:
    def step(value: object) -> list[object]:
        return [value[name]] if isinstance(value, dict) and value.get(name) is not None else []

    return step


def _item(index: int) -> Step:
    def step(value: object) -> list[object]:
        return [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else []

    return step


def _all_items(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list) else []


def _filter(keys: list[str], wanted: str, *, equal: bool) -> Step:
    def holds(item: object) -> bool:
        for key in keys:
            if not isinstance(item, dict):
                return False
            item = item.get(key)
        text = ("true" if item else "false") if isinstance(item, bool) else str(item)
        return (text == wanted) is equal

    def step(value: object) -> list[object]:
        return [item for item in value if holds(item)] if isinstance(value, list) else []

    return step
