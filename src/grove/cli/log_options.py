"""How the operator logs, where the command line has a say in it before the configuration."""

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from grove.api.config import OperatorConfiguration


class LogLevel(StrEnum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    ERROR = "error"


class LogFormat(StrEnum):
    """How it is logged."""

    JSON = "json"
    TEXT = "text"


LogLevelOption = Annotated[
    LogLevel | None,
    typer.Option("--log-level", help="How much is logged; as configured if omitted.", show_default=False),
]
LogFormatOption = Annotated[
    LogFormat | None,
    typer.Option("--log-format", help="How it is logged; as configured if omitted.", show_default=False),
]


def log_as(level: LogLevel | None, form: LogFormat | None) -> "Callable[[OperatorConfiguration], None]":
    """What makes the logs as a configuration says, or as the command line said."""
    from grove.runtime import logs

    def configure(configuration: "OperatorConfiguration") -> None:
        chosen = form or configuration.log_format
        logs.configure(
            level=level or configuration.log_level, format="json" if chosen == LogFormat.JSON else "text"
        )

    return configure
