"""Structured logs: a constant message, its fields, and the controller and key that were being reconciled.

The loop binds controller, key and reconcile id in context variables; every record made below it carries
them. One record is one line, as JSON for machines or as text for people. Never logs the content of a
Secret: nothing here looks into objects.
"""

import contextlib
import contextvars
import json
import logging
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, Literal, TextIO

Format = Literal["json", "text"]

_BOUND: Final[contextvars.ContextVar[Mapping[str, str]]] = contextvars.ContextVar("grove_log_fields")
#: What every record has by itself; all else came in through `extra`.
_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


@contextlib.contextmanager
def bound(**fields: str) -> Iterator[None]:
    """Add these fields to every record made within, in this task and the tasks that it starts."""
    token = _BOUND.set({**bound_fields(), **fields})
    try:
        yield
    finally:
        _BOUND.reset(token)


def bound_fields() -> Mapping[str, str]:
    """The fields that are bound here and now."""
    return _BOUND.get({})


def _fields(record: logging.LogRecord) -> dict[str, object]:
    extra = {name: value for name, value in vars(record).items() if name not in _OWN}
    return {**bound_fields(), **extra}


def _plain(value: object) -> object:
    """A value that JSON can hold; what it cannot hold is told as text. A Key is text too, not a pair."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if type(value) in (list, tuple, set, frozenset):
        return [_plain(item) for item in value]  # type: ignore[attr-defined]
    return str(value)


class JsonFormatter(logging.Formatter):
    """One JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in _fields(record).items():
            line[name if name not in line else f"{name}_"] = _plain(value)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """A line for people: time, level, message, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        fields = "".join(f"  {name}={_quoted(value)}" for name, value in _fields(record).items())
        line = f"{time} {record.levelname.lower():7} {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _quoted(value: object) -> str:
    plain = _plain(value)
    text = ", ".join(map(str, plain)) if isinstance(plain, list) else str(plain)
    return json.dumps(text, ensure_ascii=False) if not text or any(c in text for c in ' "\n=') else text


def configure(*, level: str = "info", format: Format = "json", stream: TextIO | None = None) -> None:
    """Send all of Grove's records at or above `level` to the stream (standard error unless given).

    Once each.
    """
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"unknown log level {level!r}: use debug, info, warning or error")
    target = logging.StreamHandler(stream or sys.stderr)
    target.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger("grove")
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(target)
    root.setLevel(number)
    root.propagate = False
